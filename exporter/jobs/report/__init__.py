"""HTML pages and plots of the jobs' reports."""
