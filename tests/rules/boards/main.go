// Boards lints dashboards by the rules of dashboard-linter, as its command does with --strict.
//
//	boards CONFIG FILE...
//
// Exits 1 with a finding. The command itself cannot be built by `go install` where the proxy does not list its versions.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/dashboard-linter/lint"
)

func main() {
	worst, err := lintAll(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if worst >= lint.Warning {
		os.Exit(1)
	}
}

func lintAll(config string, paths []string) (lint.Severity, error) {
	known := lint.NewConfigurationFile()
	if err := known.Load(config); err != nil {
		return lint.Error, err
	}
	boards := []lint.Dashboard{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return lint.Error, err
		}
		board, err := lint.NewDashboard(text)
		if err != nil {
			return lint.Error, fmt.Errorf("%s: %w", path, err)
		}
		boards = append(boards, board)
	}
	rules := lint.NewRuleSet()
	results, err := rules.Lint(boards)
	if err != nil {
		return lint.Error, err
	}
	results.Configure(known)
	results.ReportByRule()
	return results.MaximumSeverity(), nil
}
