"""The generated references of docs/: metrics by source from the catalogue, settings by section from their classes."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING
from functools import cache
from typing import get_origin

from exporter.commands.settings import CLUSTER, RUN
from exporter.model import Metric
from exporter.settings.reading import Key, form_of, keys_of, section_of
from exporter.settings.root import Config

_FLAGS = {".".join(map(str, flag.path)): flag.name for flag in (*CLUSTER, *RUN)}


def metrics(rows: Iterable[Metric]) -> str:
    """Return a Markdown table for each source, in the order in which the sources first appear."""
    by_source: dict[str, list[Metric]] = {}
    for metric in rows:
        by_source.setdefault(metric.source, []).append(metric)
    return "\n".join(
        f"**Source `{source}`**\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n"
        + "".join(f"{_metric(metric)}\n" for metric in members)
        for source, members in by_source.items()
    )


def settings(model: type = Config) -> str:
    """Return a Markdown table for each section. Raises ValueError for a key without a text below it."""
    tables = []
    for path, section in _sections("", model):
        texts = field_texts(section)
        rows = [
            _setting(f"{path}.{name}".lstrip("."), name, key, texts)
            for name, key in keys_of(section).items()
            if section_of(key.annotation) is None
        ]
        if rows:
            intro = (inspect.getdoc(section) or "").replace("``", "`")
            tables.append(f"### `{path}`\n\n{intro}\n\n| key | default | meaning |\n|---|---|---|\n" + "".join(rows))
    return "\n".join(tables)


def _metric(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    buckets = f" Buckets: {', '.join(f'{bound:g}' for bound in metric.buckets)}." if metric.buckets else ""
    return f"| `{metric.name}` | {metric.kind} | {labels} | {_cell(metric.help)}{buckets} |"


def _sections(path: str, model: type) -> Iterator[tuple[str, type]]:
    yield path, model
    for name, key in keys_of(model).items():
        section = section_of(key.annotation)
        if section is not None:
            several = "[]" if get_origin(form_of(key.annotation)[0]) is tuple else ""
            yield from _sections(f"{path}.{name}{several}".lstrip("."), section)


def _setting(path: str, name: str, key: Key, texts: dict[str, str]) -> str:
    if name not in texts:
        raise ValueError(f"{path}: the setting needs a text below it, for docs/configuration.md")
    flag = _FLAGS.get(path.replace("[]", ""))
    more = f" Flag: `{flag}`." if flag else ""
    return f"| `{name}` | {_default(key)} | {_cell(texts[name])}{more} |\n"


def _default(key: Key) -> str:
    value = key.default
    if value is MISSING:
        return "required"
    if value in {None, "", ()}:
        return ""
    if isinstance(value, tuple):
        return f"`[{', '.join(map(repr, value))}]`".replace("'", '"')
    shown = form_of(key.annotation)[1].write(value)
    return f"`{str(shown).lower() if isinstance(shown, bool) else shown}`"


@cache
def field_texts(model: type) -> dict[str, str]:
    """Return the texts by field, those of the classes that it extends included; none of a class made by a call."""
    found: dict[str, str] = {}
    for base in (*getattr(model, "__orig_bases__", ()), *model.__bases__):
        if isinstance(base, type):
            found |= field_texts(base)
    try:
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError):  # no source: a class of Python itself, or one made by a call
        return found
    for key, text in itertools.pairwise(getattr(definition, "body", ())):
        match key, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = " ".join(words.split())
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
