"""The runbooks of the alerts, which come with the distribution: ``runbook_url`` leads to them."""

from __future__ import annotations

from importlib.resources import files


def names() -> tuple[str, ...]:
    """The alerts that have one, by name."""
    folder = files("exporter.alerts").joinpath("runbooks")
    return tuple(sorted(each.name.removesuffix(".md") for each in folder.iterdir()))


def runbook(name: str) -> str | None:
    """The text (Markdown) for an alert; None when there is none of this name."""
    if name not in names():  # also keeps every path out that is not one of ours
        return None
    return files("exporter.alerts").joinpath("runbooks", f"{name}.md").read_text(encoding="utf-8")
