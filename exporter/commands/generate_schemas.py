"""The JSON Schemas of docs/schemas, from the types of ``exporter.status`` and ``exporter.journal``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter
from typing_extensions import TypedDict, get_type_hints

from exporter.commands import audit_spec
from exporter.commands.generate_reference import field_texts
from exporter.journal import documents as journal
from exporter.journal import incident
from exporter.views import applications, rolls
from exporter.views import command_documents as commands
from exporter.views import documents as status

FOLDER = Path("docs/schemas")
MODULES = (status, applications, rolls, commands, journal, incident, audit_spec)
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _list(text: str, key: str, view: type, *, undecided: bool = False) -> Any:  # noqa: ANN401 -- a type
    """The output of a list of views, of all clusters: see ``runner.ListForm``."""
    row = _row(view)
    lists = {key: list[row], "undecided": list[row]} if undecided else {key: list[row]}  # type: ignore[valid-type]
    return _made(text, {**lists, "not_asked": list[str]})


def _sections(text: str, section: type) -> Any:  # noqa: ANN401 -- a type
    """The output of a section for each cluster: see ``runner.SectionForm``."""
    return _made(text, {"clusters": list[_row(section)]})  # type: ignore[misc]


def _row(view: type) -> Any:  # noqa: ANN401 -- a type
    """The view with the name of its cluster. Its title is that of the view."""
    return _made(view.__doc__ or "", {"kafka_cluster": str, **get_type_hints(view, include_extras=True)}, view.__name__)


def _made(text: str, keys: dict[str, Any], name: str = "Output") -> Any:  # noqa: ANN401 -- a type
    made = TypedDict(name, keys)  # type: ignore[misc]  # mypy wants the keys in place
    made.__doc__ = text
    return made


_OF_ALL = {
    "kafka_cluster": '"" where it has no name.',
    "not_asked": "Reads that failed: an empty list means none only where this is empty.",
    "undecided": "Neither was shown: that it is one, or that it is none.",
}
"""Texts of the keys that every output has."""
_CONNECTION = _sections("``check connection``.", commands.ConnectionSection)
_POSTURE = _sections("``check posture``.", commands.PosturePart)
_CHECK = "``check``; the connection and the posture are null where the settings cannot be used."
DOCUMENTS: dict[str, Any] = {
    "status": status.StatusDocument,
    "events": journal.EventsDocument,
    "incident": incident.IncidentDocument,
    "transactions-open": _list("``transactions``.", "transactions", commands.SeenTransactionDocument),
    "transactions-stalled": _list("``transactions stalled``.", "stalled_partitions", commands.WaitedForStallDocument),
    "transactions-hanging": _list("``transactions hanging``.", "hanging", status.StallDocument, undecided=True),
    "transactions-recent": _list("``transactions recent``.", "unclean_ends", status.UncleanEndDocument, undecided=True),
    "transactions-explain": _list("``transactions explain``.", "records", commands.ExplainedRecordDocument),
    "applications": applications.InventoryOutput,
    "check": _made(
        _CHECK,
        {"settings": dict[str, list[str]], "connection": _CONNECTION | None, "posture": _POSTURE | None},
    ),
    "check-connection": _CONNECTION,
    "check-posture": _POSTURE,
    "check-roll": rolls.RollOutput,
    "check-client": commands.ClientOutput,
    "audit": commands.AuditOutput,
    "audit-spec": audit_spec.AuditSpec,
    "audit-markers": _sections("``audit markers``.", commands.MarkersSection),
    "history-report": commands.HistoryOutput,
}
"""By name of the file: the page's document, what each command prints, and files that a command reads."""
READ = frozenset({"audit-spec"})


def files() -> dict[Path, str]:
    """The schemas by path, relative to the checkout."""
    return {
        FOLDER / f"{name}.schema.json": json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"
        for name in DOCUMENTS
    }


def table() -> str:
    """The documents as a Markdown table, with what their types say of each."""
    rows = ((name, schema(name).get("description") or f"`{name.replace('-', ' ')}`") for name in DOCUMENTS)
    return "| schema | document |\n|---|---|\n" + "".join(
        f"| [{name}](schemas/{name}.schema.json) | {text} |\n" for name, text in rows
    )


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document. Objects are open: a minor version may add keys and words. Files are closed."""
    mode: Literal["serialization", "validation"] = "validation" if name in READ else "serialization"
    found: dict[str, Any] = TypeAdapter(DOCUMENTS[name]).json_schema(mode=mode)
    classes = {name: found for module in MODULES for name, found in vars(module).items() if isinstance(found, type)}
    for title, part in ((found["title"], found), *found.get("$defs", {}).items()):
        for key, value in part.get("properties", {}).items():
            value.pop("title", None)
            texts = field_texts(classes[title]) if title in classes else {}
            if text := texts.get(key) or _OF_ALL.get(key):
                value["description"] = text.replace("``", "`")
        part.pop("title", None)
        if name in READ:
            part["additionalProperties"] = False
        if "description" in part:
            part["description"] = " ".join(part["description"].replace("``", "`").split())
    return {"$schema": DIALECT, "$id": f"{name}.schema.json", **found}
