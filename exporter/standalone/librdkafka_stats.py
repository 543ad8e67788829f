"""Hand a librdkafka client's transactional state to kafka-eos-exporter: ONE file, standard library only.

Copy it into your application or import it from the installed package:

    from exporter.librdkafka_stats import EosStats

    producer = Producer({
        "transactional.id": "checkout-1",
        "statistics.interval.ms": 5000,
        "stats_cb": EosStats("http://127.0.0.1:10618", token=...),
        ...
    })

librdkafka calls ``stats_cb`` from ``poll()``, ``flush()`` and the transactional calls. It only puts the statistics
aside here; a background thread takes from them the few fields that matter (nothing of topics, records or settings) and
posts them to ``/ingest/librdkafka``. Nothing here blocks or raises: while the agent is away, the oldest are dropped.
"""

from __future__ import annotations

import collections
import json
import logging
import os
import socket
import threading
import urllib.error
import urllib.request
from typing import Any

__all__ = ["EosStats"]

log = logging.getLogger(__name__)

KEPT = 32
"""Statistics that wait at most; more push out the oldest."""

ANSWER_SECONDS = 5.0
"""For one answer of the agent."""

RETRY_SECONDS = 5.0
"""Between two tries while the agent is away."""

_FIELDS = ("name", "type", "ts", "time", "txmsgs")
_EOS_FIELDS = (
    "idemp_state",
    "idemp_stateage",
    "txn_state",
    "txn_may_enq",
    "producer_id",
    "producer_epoch",
    "epoch_cnt",
)


class EosStats:
    """A ``stats_cb``. ``url`` is the agent's address, with its route prefix if it has one.

    ``client_id`` names the client on the metrics instead of its own ``client.id``, whose default is ``rdkafka``
    everywhere; ``cluster`` is the agent's name of the Kafka cluster, needed only if it watches several. ``token`` is
    the agent's ``ingest.token``. One object may serve several clients and survives ``os.fork``.
    """

    def __init__(self, url: str, client_id: str = "", token: str = "", cluster: str = "") -> None:
        self._url = url.rstrip("/") + "/ingest/librdkafka"
        self._client_id = client_id
        self._cluster = cluster
        self._token = token
        self._start_anew()

    def __repr__(self) -> str:
        return f"EosStats({self._url!r}, client_id={self._client_id!r})"

    def __call__(self, statistics: str) -> None:
        """Take librdkafka's JSON. Returns at once and never raises."""
        try:
            if self._pid != os.getpid():
                self._start_anew()
            self._waiting.append(statistics)
            self._news.set()
        except Exception:  # an application must never fail because of its monitoring
            log.debug("statistics were dropped", exc_info=True)

    def close(self, seconds: float = 1.0) -> None:
        """Post what is waiting, within this time, and stop. Only short-lived programs need it."""
        self._stopping.set()
        self._news.set()
        self._thread.join(seconds)

    def _start_anew(self) -> None:
        """Begin with no statistics and a thread of this process: a fork has a copy of us without the thread."""
        self._waiting: collections.deque[str] = collections.deque(maxlen=KEPT)
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="kafka-eos-stats", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # No proxy and no redirect: the token goes only to the agent.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
        complained = False
        while True:
            self._news.wait()
            self._news.clear()
            while self._waiting:
                problem = self._hand_over(opener, self._waiting.popleft())
                if problem and not complained:
                    log.warning("kafka-eos-exporter does not take statistics: %s", problem)
                complained = bool(problem)
                if problem and self._stopping.wait(RETRY_SECONDS):
                    return
            if self._stopping.is_set():
                return

    def _hand_over(self, opener: urllib.request.OpenerDirector, statistics: str) -> str:
        """Post one; returns what went wrong, "" if nothing did."""
        try:
            document = self._document(json.loads(statistics))
            if document is None:
                return ""
            headers = {"Content-Type": "application/json"}
            if self._token:
                headers["Authorization"] = f"Bearer {self._token}"
            request = urllib.request.Request(self._url, json.dumps(document).encode(), headers)  # noqa: S310
            with opener.open(request, timeout=ANSWER_SECONDS) as answer:
                answer.read(1000)
        except urllib.error.HTTPError as error:
            error.close()
            return f"{error.code} {error.reason}"
        except Exception as error:  # noqa: BLE001 -- an application must never fail because of its monitoring
            return f"{type(error).__name__}"
        return ""

    def _document(self, statistics: dict[str, Any]) -> dict[str, Any] | None:
        """The fields that matter; None for a client that is not idempotent, which has none."""
        eos = statistics.get("eos")
        if not isinstance(eos, dict):
            return None
        document: dict[str, Any] = {key: statistics[key] for key in _FIELDS if key in statistics}
        document["eos"] = {key: eos[key] for key in _EOS_FIELDS if key in eos}
        document["client_id"] = self._client_id or statistics.get("client_id", "")
        document["instance"] = f"{socket.gethostname()}/{os.getpid()}"
        if self._cluster:
            document["kafka_cluster"] = self._cluster
        return document


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401
        """Never: a redirect is an error."""
