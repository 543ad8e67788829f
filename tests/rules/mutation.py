"""Every small wrong turn that a rule that pages could have taken: each must break a case.

``python -m tests.rules.mutation [ALERT...]`` runs all of them and lists the survivors; none is expected.
"""

from __future__ import annotations

import copy
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.rules.promtool import Case, bare, run
from tests.rules.written import written_rules

Rules = dict[str, Any]

_SWAPS = {
    r"(?<![<>=!])>(?![=])": (">=", "<"),
    r">=": (">", "<"),
    r"(?<![<>=!])<(?![=])": ("<=", ">"),
    r"\bmax by\b": ("min by", "sum by"),
    r"\bmin by\b": ("max by", "sum by"),
    r"\bsum by\b": ("max by", "min by"),
    r"\bmin_over_time\b": ("max_over_time",),
    r"\bmax_over_time\b": ("min_over_time",),
    r"\bavg_over_time\b": ("max_over_time", "min_over_time"),
    r"\blast_over_time\b": ("max_over_time", "min_over_time", "sum_over_time"),
    r"\babsent_over_time\b": ("present_over_time",),
    r"\bor\b": ("and", "unless"),
    r"\band\b": ("or", "unless"),
    r"\bunless\b": ("and", "or"),
    r" \* ": (" + ",),
    r" \+ ": (" - ",),
    r" - ": (" + ",),
    r" / ": (" * ",),
    r" offset \w+": ("",),
}
_AT_ONCE = 10
"""Cases that promtool runs in one go."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"(?<![\w.\[:])(\d+(?:\.\d+)?)(?![\w.\]])")
_DECIMAL = re.compile(r" \d+\.\d")
_COMPUTED = ":ratio_rate"
_RANGE = re.compile(r"\[(\d+)([smhd])\]")
_LIST = re.compile(r"\b(by|on) \(([^)]*)\)")
_MATCHER = re.compile(r"(\w+)(=~|!~|!=|=)(\"[^\"]*\")")
_DURATION = re.compile(r"(\d+)([smhd])")
_OUTER = re.compile(r" \(\s*(\d+,\s*)?(max|min|sum|group) by")
_RAW = re.compile(r"(?<![:\w])(kafka_eos|process)_\w+")
_BOUND = re.compile(
    r"topk by \(kafka_cluster(?:, severity)?\) \(20,\n(?P<steady>.+)\n\)"
    r"|\(\n(?P<other>.+)\n\)\nand topk by \(kafka_cluster(?:, severity)?\) \(20, 0 \* \(\n(?P=other)\n\)\)",
    re.DOTALL,
)
_QUOTED = re.compile(r'"[^"]*"')


_SAME_SIGN = "a sum of counts is above 0 exactly where the largest of them is; the text has the value"
_KEPT = "while the failure itself is in the ten minutes, keep_firing_for bridges what the first condition does not"
_VALUE = "the series itself is the condition; its value is in the text, which test_evidence has"
EQUIVALENT = {
    "KafkaEosCanaryFailing coordinator(critical,coordinator): line 1 column 1: max by -> sum by": _SAME_SIGN,
    "KafkaEosTransactionLogNotMade(): line 2 column 163: max by -> sum by": _SAME_SIGN,
    "KafkaEosTransactionLogNotMade(): line 2 column 167: by (kafka_cluster) -> by (kafka_cluster, instance)": (
        "it is matched by the cluster only"
    ),
    "KafkaEosTornTransaction(critical): line 1 column 1: max by -> sum by": _SAME_SIGN,
    'KafkaEosSparkQueryTerminated(): line 7 column 51: state="failed" -> state=~".*"': "any other state that was seen"
    " after the failure has ended the page, and one before it is forgotten sooner",
    'KafkaEosSparkQueryTerminated(): line 9 column 51: state!="failed" -> state=~".*"': _KEPT,
    'KafkaEosConnectTaskFailed(): line 8 column 104: state!="failed" -> state=~".*"': _KEPT,
    "KafkaEosFlinkTransactionAtRisk(): line 2 column 3: min by -> max by": _VALUE,
    "KafkaEosFlinkTransactionAtRisk(): line 2 column 3: min by -> sum by": _VALUE,
    "KafkaEosFlinkTransactionAtRisk(): line 2 column 114:  -  ->  + ": _VALUE,
}
"""Mutants that fire where the rule fires, each with its reason. No case can kill them."""
_WHAT_TO_DO = """\
Each survivor needs a case in tests/rules/cases_SUBJECT.py that it breaks: for a threshold, a value on both sides; for
`sum by`, two agents whose values are under it each and above it together; for a window, a gap that is shorter and one
that is longer. One that fires exactly where the alert does is an entry of EQUIVALENT here, with its reason."""


@dataclass(frozen=True)
class Mutant:
    """One rule changed in one place. ``alerts`` are those whose cases must notice: of a recording rule, its readers."""

    alerts: tuple[str, ...]
    what: str
    rules: Rules


def mutants(rules: Mapping[str, Any]) -> Iterator[Mutant]:
    """All mutants of the rules that page and of the records that these read, without annotations.

    The mutants of records that only annotations read are in test_recorded. The bound of an alert, the same for all,
    has a test of its own.
    """
    plain = bare(rules)
    for rule in (rule for group in plain["groups"] for rule in group["rules"]):
        if found := _BOUND.fullmatch(rule["expr"]):
            rule["expr"] = found["steady"] or found["other"]
    for at, group in enumerate(plain["groups"]):
        for number, rule in enumerate(group["rules"]):
            name = rule.get("alert", rule.get("record"))
            noticing = _pages(rule) if "alert" in rule else _readers(plain, rule["record"])
            if not noticing:
                continue
            variant = ",".join(text for label, text in rule.get("labels", {}).items() if label != "owner")
            for what, changed in _changes(rule):
                mutated = copy.deepcopy(plain)
                mutated["groups"][at]["rules"][number] = changed
                yield Mutant(noticing, f"{name}({variant}): {what}", mutated)


def _pages(rule: Rules) -> tuple[str, ...]:
    return (rule["alert"],) if rule["labels"].get("severity", "critical") == "critical" else ()


def _readers(rules: Rules, record: str) -> tuple[str, ...]:
    """The alerts that page and read a record, or another record that reads it."""
    found: dict[str, None] = {}
    asked = [record]
    for name in asked:
        for rule in (rule for group in rules["groups"] for rule in group["rules"] if name in rule["expr"]):
            if "alert" in rule:
                found |= dict.fromkeys(_pages(rule))
            elif rule["record"] not in asked:
                asked.append(rule["record"])
    return tuple(found)


def _changes(rule: Rules) -> Iterator[tuple[str, Rules]]:
    tickets, pages = _parts(rule["expr"])
    for what, expr in expressions(pages):
        yield what, {**rule, "expr": tickets + expr}
    if "alert" not in rule:
        return
    for key in ("for", "keep_firing_for"):
        match = _DURATION.fullmatch(rule.get(key, ""))
        if match is None:
            yield f"{key} 5m added", {**rule, key: "5m" if key == "for" else "20m"}
            continue
        count, unit = int(match[1]), match[2]
        seconds = count * _SECONDS[unit]
        for hold in (seconds // 2, seconds * 2):
            yield f"{key} {rule[key]} -> {hold}s", {**rule, key: f"{hold}s"}
        yield f"no {key}", {text: value for text, value in rule.items() if text != key}
    severity = "critical" if rule["labels"].get("severity") == "warning" else "warning"
    yield "other severity", {**rule, "labels": {**rule["labels"], "severity": severity}}


def _parts(expr: str) -> tuple[str, str]:
    """The tickets of an expression that has both severities, "" elsewhere; and its pages."""
    before, ticket, after = expr.partition('\n  "severity", "warning", "", ""\n)\nor\n')
    return (before + ticket, after) if ticket else ("", expr)


def expressions(expr: str) -> Iterator[tuple[str, str]]:
    """Yield what was changed, and the changed expression. Texts in quotes are changed as matchers only."""
    quoted = [match.span() for match in _QUOTED.finditer(expr)]

    def free(place: int) -> bool:
        return not any(start <= place < end for start, end in quoted)

    def changed(match: re.Match[str], text: str) -> tuple[str, str]:
        line, column = expr.count("\n", 0, match.start()) + 1, match.start() - expr.rfind("\n", 0, match.start())
        what = f"line {line} column {column}: {match[0]} -> {text or 'nothing'}"
        return what, expr[: match.start()] + text + expr[match.end() :]

    for pattern, others in _SWAPS.items():
        for match in re.finditer(pattern, expr):
            if free(match.start()):
                for other in others:
                    # That one minus a quotient equals a decimal fraction to the last bit is no case that can be made.
                    if other not in {">=", "<="} or not (_COMPUTED in expr and _DECIMAL.match(expr, match.end())):
                        yield changed(match, other)
    for match in _NUMBER.finditer(expr):
        if free(match.start()):
            for other in _near(match[0]):
                yield changed(match, other)
    for match in _RANGE.finditer(expr):
        seconds = int(match[1]) * _SECONDS[match[2]]
        for window in (seconds // 2, seconds * 2):
            yield changed(match, f"[{window}s]")
    for match in _LIST.finditer(expr):
        labels = [label.strip() for label in match[2].split(",") if label.strip()]
        for gone in labels:
            yield changed(match, f"{match[1]} ({', '.join(label for label in labels if label != gone)})")
        # Above another aggregation, or of a recorded series, there is no such label any more.
        known = _OUTER.match(expr, match.end()) or not _RAW.search(_argument(expr, match.end()))
        if match[1] == "by" and not known and "instance" not in labels:
            yield changed(match, f"by ({', '.join([*labels, 'instance'])})")
    for match in _MATCHER.finditer(expr):
        if match[1] in {"by", "on"}:
            continue
        opposite = {"=": "!=", "!=": "=", "=~": "!~", "!~": "=~"}[match[2]]
        yield changed(match, f"{match[1]}{opposite}{match[3]}")
        yield changed(match, f'{match[1]}=~".*"')
        for part in match[3].strip('"').split("|") if "|" in match[3] else ():
            yield changed(match, f'{match[1]}{match[2]}"{part}"')


def _argument(expr: str, start: int) -> str:
    """Return what an aggregation takes, from the bracket that opens it to the one that closes it."""
    depth = 0
    for place in range(start, len(expr)):
        depth += {"(": 1, ")": -1}.get(expr[place], 0)
        if expr[place] == ")" and depth == 0:
            return expr[start:place]
    return expr[start:]


def _near(number: str) -> Iterable[str]:
    if "." in number:
        return (f"{float(number) * 1.1:g}", f"{float(number) * 0.9:g}")
    return (str(int(number) + 1), *([str(int(number) - 1)] if int(number) else ["-1"]))


def survivors(
    cases: Iterable[Case], of: Iterable[Mutant], tell: Callable[[str], object] = str
) -> tuple[Counter[str], list[str]]:
    """Run the mutants, telling of each survivor. Returns how many were killed, invalid, equivalent and survived, and
    which survived.
    """
    by_alert: dict[str, list[Case]] = {}
    for case in cases:
        by_alert.setdefault(case.alert, []).append(case)

    def verdict(mutant: Mutant) -> tuple[Mutant, str]:
        asked = [one_case for alert in mutant.alerts for one_case in by_alert.get(alert, ())]
        parts = -(-len(asked) // _AT_ONCE)
        # Most mutants break many cases: a few of each kind first, and the others only where those held.
        said = next(filter(None, (run(mutant.rules, asked[part::parts]) for part in range(parts))), "")
        invalid = "could not parse" in said or "parse error" in said
        alive = "equivalent" if mutant.what in EQUIVALENT else "survived"
        return mutant, "invalid" if invalid else "killed" if said else alive

    counts: Counter[str] = Counter()
    alive = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, found in pool.map(verdict, of):
            counts[found] += 1
            if found == "survived":
                alive.append(mutant.what)
                tell(f"SURVIVED {mutant.what}")
    return counts, alive


def main(names: list[str]) -> int:
    from tests.rules.table import CASES  # noqa: PLC0415 -- the table is built from modules that need not be run alone

    rules = written_rules()
    # A variant is its alert's name and its label: "KafkaEosAbortRatioHigh fast".
    wanted = [
        mutant
        for mutant in mutants(rules)
        if not names or any(alert in names or alert.split()[0] in names for alert in mutant.alerts)
    ]
    counts, alive = survivors(CASES, wanted, lambda line: print(line, flush=True))
    print(f"{len(wanted)} mutants: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    if alive:
        print(_WHAT_TO_DO)
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
