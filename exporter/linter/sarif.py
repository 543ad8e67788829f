"""Findings as SARIF 2.1.0 (OASIS), the form that code review tools take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from exporter.linter.all_rules import RULES, ClientFinding
from exporter.linter.rule import Level

_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note"}


def sarif(version: str, found: Iterable[tuple[str, Iterable[ClientFinding]]]) -> dict[str, Any]:
    """One run. ``found`` has files' names with findings; a finding without a line is placed at line 1."""
    rules = [
        {
            "id": rule.name,
            "shortDescription": {"text": rule.why},
            "help": {"text": f"Set: {rule.fix}. Source: {rule.sources}."},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for rule in RULES
    ]
    results = [
        {
            "ruleId": finding.rule.name,
            "level": _LEVELS[finding.severity],
            "message": {"text": f"{finding.setting or finding.rule.name}: {finding.text}. Set: {finding.rule.fix}."},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(name)},
                        "region": {"startLine": max(1, finding.line)},
                    }
                }
            ],
        }
        for name, findings in found
        for finding in findings
    ]
    driver = {"name": "kafka-eos-exporter", "version": version, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
