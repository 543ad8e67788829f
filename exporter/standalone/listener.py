"""Post the progress of your streaming queries to kafka-eos-exporter: ONE file, pyspark and the standard library only.

    from exporter.listener import EosListener  # or, with --py-files listener.py: from listener import EosListener

    spark.streams.addListener(EosListener("http://127.0.0.1:10618", token=...))

Spark calls it when a query starts, ends a batch, finds nothing to do, and ends. It records the event and returns. A
background thread posts the state of each query to ``/ingest/spark``: states, times, the last batch's numbers and its
offsets in Kafka, and the class of an exception. No record, no text of an exception and no setting leaves the driver.

Nothing here blocks or raises. Each post has all that is known of a query, so while the agent is away nothing
accumulates, and only intermediate states are lost; ``skipped`` counts those.
"""

from __future__ import annotations

import atexit
import collections
import json
import logging
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

__all__ = ["EosListener"]

log = logging.getLogger(__name__)

MOST_QUERIES = 200
"""Queries that are kept; of more, those that ended first are dropped, then the oldest."""

MOST_BYTES = 60_000
"""The agent takes 64 KB. Offsets of very many partitions are left out to stay below."""

ANSWER_SECONDS = 5.0
"""For one answer of the agent."""

RETRY_SECONDS = 5.0
"""Between two tries while the agent is away."""

SIGN_OF_LIFE_SECONDS = 30.0
"""Seconds after which the state of a query in a long batch is posted again, as a sign of life."""

MOST_ENDS = 10
_SOURCE_FIELDS = ("description", "endOffset", "numInputRows")
_EXCEPTION = re.compile(
    r"^(?:Caused by: )?([A-Za-z_][\w.$]*(?:Exception|Error))(?=:|\s|$)|KafkaError\{code=(\w+)", re.MULTILINE
)


class EosListener(StreamingQueryListener):
    """A StreamingQueryListener. ``url`` is the agent's address, with its route prefix if it has one.

    ``token`` is the agent's ``ingest.token``; ``cluster`` its name of the Kafka cluster, needed only if it watches
    several; ``application`` replaces the session's ``spark.app.name`` on the metrics; ``ca_file`` is the authority of
    an agent with TLS. Raises OSError and ssl.SSLError when that cannot be read; nothing else ever raises.
    """

    def __init__(self, url: str, token: str = "", cluster: str = "", application: str = "", ca_file: str = "") -> None:
        self._url = url.rstrip("/") + "/ingest/spark"
        self._token = token
        self._cluster = cluster
        self._application = application or _application()
        self._tls = ssl.create_default_context(cafile=ca_file or None)
        self.posted = 0
        """States that the agent took."""
        self.skipped = 0
        """States that were overtaken by newer ones before they were posted, or that the agent refused."""
        self._lock = threading.Lock()  # guards the two above and the two below
        self._queries: dict[str, dict[str, Any]] = {}
        self._waiting: collections.OrderedDict[str, dict[str, Any]] = collections.OrderedDict()
        self._alive_at = time.monotonic() + SIGN_OF_LIFE_SECONDS
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-eos-listener", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # the end of a failed query is posted even if the driver ends with it

    def __repr__(self) -> str:
        return f"EosListener({self._url!r}, application={self._application!r})"

    # --- Called by Spark, one call at a time, on its own thread -------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 -- Spark's name
        """A run begins. Spark's ``start()`` waits for this: it only takes note."""
        self._note(self._started, event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A trigger ended."""
        self._note(self._progressed, event)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802, ANN401 -- there is no such event before Spark 3.5
        """A trigger found nothing to do."""
        self._note(self._idled, event)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """A run ended."""
        self._note(self._ended, event)

    def close(self, seconds: float = 2.0) -> None:
        """Post what is waiting, within this time, and stop. Called automatically when the driver ends."""
        self._stopping.set()
        self._news.set()
        self._thread.join(seconds)

    # --- Taking note --------------------------------------------------------------------------------------------------

    def _note(self, change: Any, event: Any) -> None:  # noqa: ANN401 -- four kinds of events
        try:
            with self._lock:
                state = change(event)
                self._put(state["id"], dict(state))
            self._news.set()
        except Exception:  # a query must never fail, nor log an error, because of its monitoring
            log.debug("an event was left out", exc_info=True)

    def _state_of(self, query_id: object) -> dict[str, Any]:
        key = str(query_id)
        if key not in self._queries and len(self._queries) >= MOST_QUERIES:
            ended = (query for query, state in self._queries.items() if state["state"] == "terminated")
            self._queries.pop(next(ended, None) or next(iter(self._queries)))
        return self._queries.setdefault(key, {"id": key, "state": "running", "rows": 0, "ends": []})

    def _started(self, event: QueryStartedEvent) -> dict[str, Any]:
        state = self._state_of(event.id)
        state.update(name=event.name or "", state="running", started_at=_instant(event.timestamp))
        return state

    def _progressed(self, event: QueryProgressEvent) -> dict[str, Any]:
        progress = json.loads(event.progress.json)
        state = self._state_of(progress["id"])
        durations = progress.get("durationMs") or {}
        ended = _instant(progress["timestamp"]) + durations.get("triggerExecution", 0) / 1000
        sources = progress.get("sources") or []
        rows = sum(source.get("numInputRows", 0) for source in sources)
        state.update(name=progress.get("name") or "", last_progress_at=ended, rows=state["rows"] + rows, state="idle")
        if "addBatch" in durations:  # before Spark 3.5 an idle trigger makes such an event too
            state["state"] = "running"
            state["progress"] = {
                "batchId": progress["batchId"],
                "timestamp": progress["timestamp"],
                "durationMs": durations,
                "sources": [{key: source.get(key) for key in _SOURCE_FIELDS} for source in sources],
                "sink": {"description": _sink(progress)},
            }
        return state

    def _idled(self, event: Any) -> dict[str, Any]:  # noqa: ANN401
        state = self._state_of(event.id)
        state.update(state="idle", last_progress_at=_instant(event.timestamp))
        return state

    def _ended(self, event: QueryTerminatedEvent) -> dict[str, Any]:
        state = self._state_of(event.id)
        found = (match[1] or match[2] for match in _EXCEPTION.finditer(event.exception or ""))
        end = {
            "run_id": str(event.runId),
            "at": time.time(),
            "failed": event.exception is not None,
            "error_class": getattr(event, "errorClassOnException", None) or "",  # since Spark 3.5
            "exceptions": list(dict.fromkeys(found))[:MOST_ENDS],
        }
        state.update(state="terminated", ends=[*state["ends"], end][-MOST_ENDS:])
        return state

    def _put(self, key: str, state: dict[str, Any]) -> None:
        """Have a state posted, in place of an older one of the same query. The caller holds the lock."""
        if key in self._waiting:
            self.skipped += 1
        self._waiting[key] = state

    # --- The thread that posts ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        # No proxy and no redirect: the token goes only to the agent.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=self._tls),
            _RefuseRedirects(),
        )
        complained = False
        while True:
            self._news.wait(max(0.0, self._alive_at - time.monotonic()))
            self._news.clear()
            while (state := self._next()) is not None:
                last = self._stopping.is_set()
                problem, final = self._hand_over(opener, state)
                if problem and not complained:
                    log.warning("kafka-eos-exporter does not take the progress of queries: %s", problem)
                complained = bool(problem)
                with self._lock:
                    if not problem:
                        self.posted += 1
                    elif final or state["id"] in self._waiting:
                        self.skipped += 1
                    else:
                        self._waiting[state["id"]] = state
                if problem and not final:
                    if last:
                        return
                    self._stopping.wait(RETRY_SECONDS)
            if self._stopping.is_set():
                return

    def _next(self) -> dict[str, Any] | None:
        with self._lock:
            if time.monotonic() >= self._alive_at:
                self._alive_at = time.monotonic() + SIGN_OF_LIFE_SECONDS
                for key, state in self._queries.items():
                    if state["state"] != "terminated":
                        self._waiting.setdefault(key, dict(state))
            return self._waiting.popitem(last=False)[1] if self._waiting else None

    def _hand_over(self, opener: urllib.request.OpenerDirector, state: dict[str, Any]) -> tuple[str, bool]:
        """Post one; returns what went wrong, "" if nothing did, and whether it would go wrong again."""
        try:
            headers = {"Content-Type": "application/json"}
            if self._token:
                headers["Authorization"] = f"Bearer {self._token}"
            request = urllib.request.Request(self._url, self._document(state), headers)  # noqa: S310
            with opener.open(request, timeout=ANSWER_SECONDS) as answer:
                answer.read(1000)
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.reason}: {_text_of(error)}", error.code in {400, 413}
        except Exception as error:  # noqa: BLE001 -- a query must never fail because of its monitoring
            return type(error).__name__, False
        return "", False

    def _document(self, state: dict[str, Any]) -> bytes:
        document = {**state, "application": self._application, "kafka_cluster": self._cluster}
        content = json.dumps(document).encode()
        if len(content) > MOST_BYTES and "progress" in document:
            sources = [{**source, "endOffset": None} for source in document["progress"]["sources"]]
            content = json.dumps({**document, "progress": {**document["progress"], "sources": sources}}).encode()
        return content


class _RefuseRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401
        """Never: a redirect is an error."""


def _text_of(error: urllib.error.HTTPError) -> str:
    """The text of a refusal, "" where the connection ends before it."""
    try:
        with error:
            return error.read(200).decode("utf-8", "replace").strip()
    except Exception:  # noqa: BLE001 -- the thread must go on
        return ""


def _application() -> str:
    """The application's name as the active session has it, "" without one."""
    try:
        session = SparkSession.getActiveSession()
        return str(session.conf.get("spark.app.name")) if session is not None else ""
    except Exception:  # noqa: BLE001 -- a driver must never fail because of its monitoring
        return ""


def _sink(progress: dict[str, Any]) -> str:
    """Return the kind of a query's sink, without the place that it writes to."""
    return str((progress.get("sink") or {}).get("description") or "").partition("[")[0].partition("@")[0]


def _instant(text: str) -> float:
    """Unix seconds of Spark's ``2026-11-21T14:48:59.420Z``."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))  # noqa: FURB162 -- Python before 3.11 does not read Z
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()  # noqa: UP017 -- nor UTC
