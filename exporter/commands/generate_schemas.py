"""The JSON Schemas of docs/schemas, from the types of ``exporter.status`` and ``exporter.journal``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

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

DOCUMENTS: dict[str, Any] = {
    "status": status.StatusDocument,
    "events": journal.EventsDocument,
    "incident": incident.IncidentDocument,
    "transactions-open": commands.OpenTransactionsOutput,
    "transactions-stalled": commands.StalledOutput,
    "transactions-hanging": commands.HangingOutput,
    "transactions-recent": commands.RecentOutput,
    "transactions-explain": commands.ExplainOutput,
    "applications": applications.InventoryOutput,
    "check": commands.CheckOutput,
    "check-connection": commands.ConnectionOutput,
    "check-posture": commands.PostureOutput,
    "check-roll": rolls.RollOutput,
    "check-client": commands.ClientOutput,
    "audit": commands.AuditOutput,
    "audit-spec": audit_spec.AuditSpec,
    "audit-markers": commands.MarkersOutput,
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
            if text := field_texts(classes[title]).get(key) if title in classes else None:
                value["description"] = text.replace("``", "`")
        part.pop("title", None)
        if name in READ:
            part["additionalProperties"] = False
        if "description" in part:
            part["description"] = " ".join(part["description"].replace("``", "`").split())
    return {"$schema": DIALECT, "$id": f"{name}.schema.json", **found}
