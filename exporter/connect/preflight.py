"""The answer of a worker that validates a source plugin that requires exactly-once.

``PUT /connector-plugins/{plugin}/config/validate`` changes nothing. It is the one place of the REST API that shows
whether a worker enables exactly-once (DistributedHerder.validateSourceConnectorExactlyOnceSupport, KIP-618). The body
has the plugin's class and no setting of the user, so that no secret is sent and a plugin has nothing to connect to.

A standalone worker has no exactly-once, and validates without these errors (StandaloneHerder; seen on 4.3.1). So an
answer without errors proves nothing by itself: the question also asks for boundaries by the connector, which a worker
in distributed mode refuses for a plugin that has none.

The support of some plugins depends on their settings (MirrorSourceConnector: read_committed; FileStreamSource: a file).
So a class that answers without settings that it is unsupported is asked once more for each connector, with the settings
that the same worker returns for it. They pass through memory: no value, and no text of such an answer, is kept or
logged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from exporter.bounds.json_text import JsonError, parse_json
from exporter.http_client import Endpoint, HttpError, ask
from exporter.model import Deadline, Word

NAME = "kafka-eos-exporter-preflight"
KEY = "exactly.once.support"
BOUNDARY = "transaction.boundary"
MOST_BYTES = 4 * 1024 * 1024
MOST_PLUGINS = 20
"""Plugins whose support is asked for; a Connect cluster runs a handful."""

_WORKER_WITHOUT = "worker does not have exactly-once source support enabled"
_UNSUPPORTED = "connector does not support exactly-once"
_OF_DISTRIBUTED = (
    _WORKER_WITHOUT,
    _UNSUPPORTED,
    "connector does not implement the API required for preflight validation",
    "connector does not support connector-defined transaction boundaries",
    "An unexpected error occurred during validation",
)
"""Beginnings of errors that DistributedHerder alone writes for the two settings."""


_ASKED = {KEY: "required", BOUNDARY: "connector"}


class PluginSupport(Word):
    """A plugin's answer about exactly-once; unknown where it does not implement the method."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


class Preflight(NamedTuple):
    """``workers`` has by address whether exactly-once is enabled there, where the answer proves it, ``plugins`` the
    support by configured class without settings, ``connectors`` the support by connector with its settings, for classes
    that are unsupported without.

    What was not answered is absent. ``error`` is the last refusal, "" without one.
    """

    workers: Mapping[str, bool] = {}
    plugins: Mapping[str, PluginSupport] = {}
    error: str = ""
    connectors: Mapping[str, PluginSupport] = {}


class PluginAnswer(NamedTuple):
    """One answer; ``enabled`` is None where it does not show that."""

    enabled: bool | None
    support: PluginSupport


def preflight(endpoints: Sequence[Endpoint], plugins: Sequence[str], deadline: Deadline) -> Preflight:
    """Ask each worker about the plugins that none before has answered, and about one that proves something of it.

    Never raises.
    """
    asked = list(plugins[:MOST_PLUGINS])
    workers: dict[str, bool] = {}
    support: dict[str, PluginSupport] = {}
    proving: list[str] = []
    error = ""
    for number, endpoint in enumerate(endpoints):
        share = deadline.within(deadline.remaining() / (len(endpoints) - number))
        unanswered = [plugin for plugin in asked if plugin not in support]
        for plugin in [*unanswered, *proving[:1]] or asked[:1]:
            try:
                reply = ask(
                    endpoint,
                    share,
                    path=f"/connector-plugins/{quote(plugin, safe='')}/config/validate",
                    body=json.dumps({"name": NAME, "connector.class": plugin, **_ASKED}).encode(),
                    method="PUT",
                    max_bytes=MOST_BYTES,
                )
            except HttpError as refusal:
                error = refusal.fault.detail
                continue
            answer = read_answer(reply.body)
            if answer is None:
                continue
            support[plugin] = answer.support
            if answer.enabled is not None:
                workers[endpoint.address] = answer.enabled
                proving.append(plugin)
    return Preflight(workers, support, error)


def with_settings(
    endpoints: Sequence[Endpoint], connectors: Sequence[str], deadline: Deadline
) -> Mapping[str, PluginSupport]:
    """Return the support of these connectors with their settings; what is not answered is absent. Never raises."""
    found: dict[str, PluginSupport] = {}
    for number, endpoint in enumerate(endpoints):
        share = deadline.within(deadline.remaining() / (len(endpoints) - number))
        for name in [connector for connector in connectors[:MOST_PLUGINS] if connector not in found]:
            try:
                answer = _validated(endpoint, name, share)
            except (HttpError, JsonError):
                continue
            if answer is not None:
                found[name] = answer.support
    return found


def _validated(endpoint: Endpoint, connector: str, deadline: Deadline) -> PluginAnswer | None:
    """Raises HttpError, JsonError. Neither is logged: a refusal may quote settings."""
    path = f"/connectors/{quote(connector, safe='')}/config"
    config = parse_json(ask(endpoint, deadline, path=path, max_bytes=MOST_BYTES).body)
    plugin = config.get("connector.class") if isinstance(config, dict) else None
    if not isinstance(plugin, str):
        return None
    reply = ask(
        endpoint,
        deadline,
        path=f"/connector-plugins/{quote(plugin, safe='')}/config/validate",
        body=json.dumps({**config, KEY: "required"}).encode(),
        method="PUT",
        max_bytes=MOST_BYTES,
    )
    return read_answer(reply.body, distributed=True)  # only one that was found unsupported is asked again


def read_answer(body: bytes, *, distributed: bool = False) -> PluginAnswer | None:
    """Read what the answer says of ``exactly.once.support``; None for one that does not have it (before Kafka 3.3).

    ``distributed``: the worker is known to be in distributed mode; otherwise the answer itself has to show that.
    """
    try:
        document = parse_json(body)
        rows: list[Any] = document["configs"]
        values = [row["value"] for row in rows]
        named = {
            value["name"]: [str(error) for error in value["errors"]] for value in values if value["name"] in _ASKED
        }
        errors = named[KEY]
    except (JsonError, TypeError, KeyError):
        return None
    every = [error for found in named.values() for error in found]
    distributed = distributed or any(text in error for error in every for text in _OF_DISTRIBUTED)
    enabled = not any(_WORKER_WITHOUT in error for error in errors) if distributed else None
    others = [error for error in errors if _WORKER_WITHOUT not in error]
    if not others:
        return PluginAnswer(enabled, PluginSupport.SUPPORTED if distributed else PluginSupport.UNKNOWN)
    plainly = any(_UNSUPPORTED in other for other in others)
    return PluginAnswer(enabled, PluginSupport.UNSUPPORTED if plainly else PluginSupport.UNKNOWN)
