"""The JSON Schemas of docs/schemas, from the types of ``exporter.status`` and ``exporter.journal``."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from exporter.commands import audit_spec
from exporter.journal import documents as journal
from exporter.journal import incident
from exporter.status import command_documents as commands
from exporter.status import documents as status

FOLDER = Path("docs/schemas")
MODULES = (status, commands, journal, incident, audit_spec)
"""Each after those whose classes it extends."""
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
    "transactions-inventory": commands.InventoryOutput,
    "check-connection": commands.ConnectionOutput,
    "check-posture": commands.PostureOutput,
    "check-roll": commands.RollOutput,
    "check-applications": commands.ApplicationsOutput,
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


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document. Objects are open: a minor version may add keys and words."""
    mode: Literal["serialization", "validation"] = "validation" if name in READ else "serialization"
    found: dict[str, Any] = TypeAdapter(DOCUMENTS[name]).json_schema(mode=mode)
    texts = _texts()
    for title, part in ((found["title"], found), *found.get("$defs", {}).items()):
        for key, value in part.get("properties", {}).items():
            value.pop("title", None)
            if text := texts.get(title, {}).get(key):
                value["description"] = text
        part.pop("title", None)
        if "description" in part:
            part["description"] = " ".join(part["description"].replace("``", "`").split())
    return {"$schema": DIALECT, "$id": f"{name}.schema.json", **found}


@cache
def _texts() -> dict[str, dict[str, str]]:
    """The text below each key, by class; a class has those of all classes that it extends."""
    found: dict[str, dict[str, str]] = {}
    for definition in itertools.chain(*(ast.parse(inspect.getsource(module)).body for module in MODULES)):
        if not isinstance(definition, ast.ClassDef):
            continue
        texts: dict[str, str] = {}
        for base in definition.bases:
            texts |= found.get(base.id, {}) if isinstance(base, ast.Name) else {}
        for key, text in itertools.pairwise(definition.body):
            match key, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    texts[name] = " ".join(words.replace("``", "`").split())
        found[definition.name] = texts
    return found
