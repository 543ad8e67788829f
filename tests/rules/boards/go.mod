module boards

go 1.25

require github.com/grafana/dashboard-linter v0.0.0-20241216132922-9479ff4bfa35
