"""The runbooks of the alerts, which come with the distribution: ``runbook_url`` leads to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from markupsafe import Markup, escape

from exporter.lso.shell import quoted
from exporter.status.html import pieces

MOST_CHARACTERS = 4000
"""Of a query that is read."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic
_PARTITION = re.compile(r"\d{1,10}")
_CODE = re.compile(r"(<pre><code>)(.*?)(</code></pre>)", re.DOTALL)
_NAME = re.compile(r'(?<![\w/">])KafkaEos\w+(?![\w"<.])|(?<![\w/">])KafkaEos\w+(?=\.\s|\.</p>)')
_LINK = re.compile(r'href="(?:\.\./\.\./docs/)?([\w-]+)\.md"')
_PICTURE = re.compile(r'<img src="([\w-]+\.svg)"[^>]*>')
_SERVERS = "HOST:PORT"
_DOCS = "https://github.com/kafka-eos-exporter/kafka-eos-exporter/blob/main/docs"
GUIDE = "ten-minutes"
"""The page for a reader who knows nothing of transactions, beside the runbooks."""


def names() -> tuple[str, ...]:
    """The alerts that have one, by name."""
    folder = files("exporter.alerts").joinpath("runbooks")
    return tuple(sorted(path.name.removesuffix(".md") for path in folder.iterdir()))


def runbook(name: str) -> str | None:
    """The text (Markdown) for an alert, or of the guide; None when there is none of this name."""
    if name == GUIDE:
        return _guide(f"{GUIDE}.md")
    if name not in names():  # also keeps every path out that is not one of ours
        return None
    return files("exporter.alerts").joinpath("runbooks", f"{name}.md").read_text(encoding="utf-8")


def runbook_page(name: str, query: str, clusters: Sequence[Mapping[str, Any]], prefix: str = "") -> str | None:
    """Return the runbook as HTML; None when there is none of this name.

    ``clusters`` have ``name`` and ``bootstrap_servers``. The commands in it are for the cluster, topic and partition of
    the query; without a cluster, for the only one.
    """
    if name not in (GUIDE, *names()):
        return None
    text = _html(name)
    given = parse_qs(query[:MOST_CHARACTERS], max_num_fields=20) if query.count("&") < 20 else {}
    wanted = given.get("cluster", [""])[0]
    known = [cluster for cluster in clusters if cluster["bootstrap_servers"] and _SERVERS in text]
    chosen = next((cluster for cluster in known if cluster["name"] == wanted), None) if wanted else None
    if chosen is None and not wanted and len(known) == 1:
        chosen = known[0]
    topic, partition = given.get("topic", [""])[0], given.get("partition", [""])[0]
    return _page(
        name,
        Markup(_filled(text, chosen, topic, partition)),  # noqa: S704 -- what is filled in is escaped
        prefix,
        clusters=[cluster["name"] for cluster in known if cluster["name"]] if chosen is None else [],
        chosen=chosen,
    )


def runbooks_page(prefix: str = "") -> str:
    """Return the list of all runbooks as HTML."""
    items = Markup("").join(
        Markup('<li><a href="{0}/runbooks/{1}">{1}</a></li>').format(prefix, name) for name in names()
    )
    text = Markup('<h1>Runbooks</h1><p><a href="{}/runbooks/{}">Exactly-once in ten minutes</a></p><ul>{}</ul>')
    return _page("Runbooks", text.format(prefix, GUIDE, items), prefix)


def _page(
    name: str, text: Markup, prefix: str, *, clusters: Sequence[str] = (), chosen: Mapping[str, Any] | None = None
) -> str:
    parts = pieces("runbook.html", prefix, refresh=False, name=name, text=text, clusters=clusters, chosen=chosen)
    return b"".join(parts).decode()


@cache
def _html(name: str) -> str:
    """The HTML of a runbook or the guide, with words in capitals where names are filled in."""
    # Few agents are asked for a runbook.
    from markdown_it import MarkdownIt  # noqa: PLC0415

    html = str(MarkdownIt("commonmark", {"html": False}).enable("table").render(runbook(name) or ""))
    html = _PICTURE.sub(lambda picture: _guide(picture[1]), html)
    return _LINK.sub(lambda link: f'href="{link[1] if runbook(link[1]) else f"{_DOCS}/{link[1]}.md"}"', html)


def _guide(file: str) -> str:
    return files("exporter.status").joinpath("guide", file).read_text(encoding="utf-8")


def _filled(html: str, cluster: Mapping[str, Any] | None, topic: str, partition: str) -> str:
    html = _NAME.sub(lambda name: f'<a href="{name[0]}">{name[0]}</a>' if name[0] in names() else name[0], html)
    if cluster is not None:
        html = html.replace(_SERVERS, escape(quoted(cluster["bootstrap_servers"])))
    if not _TOPIC.fullmatch(topic):
        return html
    number = partition if _PARTITION.fullmatch(partition) else "N"

    def command(match: re.Match[str]) -> str:
        words = re.sub(r"\bTOPIC\b", topic, match[2]).replace("--partition N", f"--partition {number}")
        return f"{match[1]}{words}{match[3]}"

    return _CODE.sub(command, html)
