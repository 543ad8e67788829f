"""The status document and its page: what is known, in words, and nothing that an id could break."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from exporter import catalogue
from exporter.cluster import ClusterIdentity
from exporter.core.runner import GroupState
from exporter.core.source_state import SourceState
from exporter.core.thresholds import Owners
from exporter.groups.facts import Blocked, BlockedGroup, BlockedGroups, GroupsHeld
from exporter.lso.facts import Blocker, Completion, Stall, Stalls, StallWatch
from exporter.model import Clock, Fact, Facts, Fault, IgnoredSubject, IgnoredSubjects, Reason, Sample, TopicPartition
from exporter.posture.check import CheckResult, PostureCheck
from exporter.posture.evidence import Posture
from exporter.status.html import CONTENT_SECURITY_POLICY
from exporter.status.json_lines import json_lines
from exporter.status.verdict import verdict
from exporter.telemetry.facts import ClientPlace, PushedProducers
from exporter.transactions.counting.last_hour import LastHour
from exporter.transactions.facts import (
    CoordinatorTime,
    OpenTransaction,
    OpenTransactions,
    UncleanEnds,
    UncleanId,
)
from exporter.views.stalls import Links
from exporter.views.status import ClusterSettings, document
from exporter.words import BlockerKind, MarkerWait, Outcome, TransactionState
from tests.helpers.pages import page
from tests.helpers.proofs import proven
from tests.helpers.schemas import conform
from tests.helpers.transactions import unclean_end

NOW = 1_795_255_200.0
EVIL = "</pre><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"

UP = SourceState("lso", "prod", "prod", up=True, last_success=NOW - 3, duration=0.25)
DOWN = SourceState(
    "txnlog", "prod", "prod", up=False, duration=5.0, faults=(Fault(Reason.AUTHORIZATION, "READ on a topic"),)
)
IDENTITY = ClusterIdentity("cluster-1", "b1:9092", 2, 3)
OPEN = OpenTransaction(
    "pay-3", "pay", 4711, 5, TransactionState.ONGOING, NOW - 200, 900.0, None, frozenset({TopicPartition("orders", 7)})
)
PREPARED = OpenTransaction(
    "pay-4", "pay", 4712, 5, TransactionState.PREPARE_COMMIT, None, 900.0, NOW - 5, frozenset({TopicPartition("x", 1)})
)
STALL = Stall(
    TopicPartition("orders", 7), NOW - 190, 100, 142, 2, Blocker("pay-3", "pay", 4711, 5, 100, BlockerKind.OPEN)
)
END = unclean_end("pay-9", "pay", 4713, 6, "fenced", NOW - 30, NOW - 90)


def facts(*given: Fact) -> Facts:
    return Facts({type(fact): fact for fact in given}, given)


NO_OWNERS, NO_LINKS = Owners(), Links()


def status(
    *given: Fact,
    sources: tuple[SourceState, ...] = (UP,),
    ready: bool = True,
    owners: Owners = NO_OWNERS,
    links: Links = NO_LINKS,
) -> dict[str, Any]:
    settings = {"prod": ClusterSettings("prod", "b1:9092", owners, links)}
    state = GroupState("prod", facts(*given), sources)
    made = document([state], settings, now=NOW, ready=ready, version="1.2.3")
    return conform("status", json.loads(json_lines(made, 4)))


def cluster(*given: Fact) -> dict[str, Any]:
    found: dict[str, Any] = status(*given)["clusters"][0]
    return found


ENDS = UncleanEnds((END,), (UncleanId(END, 1, END.ended),))
FINE = (IDENTITY, Stalls(()), OpenTransactions("txnlog", (), complete=True), UncleanEnds(()))


def test_the_document_survives_json_as_it_is() -> None:
    whole = status(
        IDENTITY,
        Stalls((STALL,)),
        OpenTransactions("txnlog", (OPEN, PREPARED), complete=True),
        ENDS,
    )
    assert json.loads(json.dumps(whole)) == whole


def test_instants_are_rfc_3339_in_utc_beside_their_unix_seconds() -> None:
    [stalled] = cluster(Stalls((STALL,)))["stalled_partitions"]
    assert stalled["since"] == "2026-11-21T09:56:50.000Z"
    assert stalled["since_timestamp"] == NOW - 190
    assert stalled["seconds"] == 190


def test_a_stall_names_the_groups_whose_offsets_its_transaction_has() -> None:
    waiting = GroupsHeld({STALL.partition: ("billing",)})
    assert [partition["waiting_groups"] for partition in cluster(Stalls((STALL,)), waiting)["stalled_partitions"]] == [
        ["billing"]
    ]
    assert [partition["waiting_groups"] for partition in cluster(Stalls((STALL,)))["stalled_partitions"]] == [[]]


def test_a_stall_of_any_kind_leads_on_to_its_runbook_its_dashboard_its_silence_and_its_card() -> None:
    bases = Links("/eos", "https://g/d", "https://am")
    [stalled] = status(Stalls((STALL,)), links=bases)["clusters"][0]["stalled_partitions"]
    assert stalled["links"] == {
        "page": "/eos/?cluster=prod&application=pay#producer-4711",
        "runbook": "/eos/runbooks/KafkaEosLsoStalled?cluster=prod&topic=orders&partition=7",
        "dashboard": "https://g/d/kafka-eos-stalls?var-kafka_cluster=prod&var-topic=orders",
        "silence": "https://am/#/silences/new?filter=%7Bkafka_cluster%3D%22prod%22%2Cproducer_id%3D%224711%22%7D",
    }
    assert '<article class="card stall" id="producer-4711">' in page(status(Stalls((STALL,)), links=bases))
    unknown = STALL._replace(blocker=Blocker("", "", None, None, 100, BlockerKind.UNKNOWN))
    [stalled] = cluster(Stalls((unknown,)))["stalled_partitions"]
    assert stalled["links"] == {
        "page": "/?cluster=prod#partition-orders-7",
        "runbook": "/runbooks/KafkaEosLsoStalled?cluster=prod&topic=orders&partition=7",
        "dashboard": None,
        "silence": None,
    }


def test_groups_that_wait_are_the_worst_first_bounded_and_unknown_where_they_were_not_read() -> None:
    [stalled] = cluster(Stalls((STALL,)))["stalled_partitions"]
    assert (stalled["blocked_groups"], stalled["blocked_group_count"]) == (None, None)
    assert "<dd>not known yet</dd>" in page(status(Stalls((STALL,))))
    few = tuple(BlockedGroup(f"g-{number:03}", number) for number in range(99, 94, -1))
    whole = status(Stalls((STALL,)), BlockedGroups({STALL.partition: Blocked(few, 100)}))
    [stalled] = whole["clusters"][0]["stalled_partitions"]
    assert (len(stalled["blocked_groups"]), stalled["blocked_group_count"]) == (5, 100)
    assert stalled["blocked_groups"][0] == {"group": "g-099", "blocked_offsets": 99, "owner": ""}
    assert "g-099 <small>99</small>, g-098 <small>98</small>" in page(whole)
    assert "and 95 more</dd>" in page(whole)
    assert "<dd>none</dd>" in page(status(Stalls((STALL,)), BlockedGroups({STALL.partition: Blocked((), 0)})))


def test_where_a_producer_runs_is_named_as_far_as_it_pushes_its_metrics() -> None:
    place = ClientPlace("client<1>", "10.0.0.7", "User:pay", "apache-kafka-java 4.3.1")
    whole = status(Stalls((STALL,)), PushedProducers({("prod", "pay-3"): (place,), ("prod", ""): (place,)}))
    [stalled] = whole["clusters"][0]["stalled_partitions"]
    assert stalled["producers"] == [place._asdict()]
    assert "10.0.0.7 <small>client.id client&lt;1&gt;, User:pay, apache-kafka-java 4.3.1</small>" in page(whole)
    assert "brokers do not say, and it pushes no metrics to this agent" in page(status(Stalls((STALL,))))
    elsewhere = status(Stalls((STALL,)), PushedProducers({("other", "pay-3"): (place,)}))
    assert elsewhere["clusters"][0]["stalled_partitions"][0]["producers"] == []


def test_a_stall_names_its_blocker_and_the_next_step() -> None:
    [stalled] = cluster(IDENTITY, Stalls((STALL,)))["stalled_partitions"]
    assert (stalled["topic"], stalled["partition"], stalled["lag_offsets"]) == ("orders", 7, 42)
    assert stalled["blocker"]["transactional_id"] == "pay-3"
    assert stalled["blocker"]["kind"] == "open"
    assert stalled["next_step"]["text"].startswith("Open: its producer has not ended it.")
    assert (stalled["next_step"]["command"], stalled["next_step"]["check"]) == (None, None)
    assert stalled["blocker"]["proof"] is None


def test_a_completing_stall_names_the_partitions_that_the_coordinator_waits_for_and_what_is_seen_of_this_one() -> None:
    seen = Completion(MarkerWait.NOT_REPLICATED, 1, (1,), (2,), 2)
    waiting = frozenset({TopicPartition("x", 1), TopicPartition("orders", 7)})
    blocker = STALL.blocker._replace(kind=BlockerKind.COMPLETING, completion=seen, unmarked=waiting)
    [stalled] = cluster(Stalls((STALL._replace(blocker=blocker),)))["stalled_partitions"]
    assert "waits for the markers of orders-7, x-1" in stalled["next_step"]["text"]
    assert stalled["blocker"]["unmarked_partitions"] == ["orders-7", "x-1"]
    assert stalled["blocker"]["completion"] == {
        "waits_for": "not_replicated",
        "leader": 1,
        "in_sync_replicas": [1],
        "missing_replicas": [2],
        "min_insync_replicas": 2,
    }


def test_open_transactions_come_oldest_first_and_those_of_unknown_age_last() -> None:
    younger = OPEN._replace(transactional_id="pay-5", started=NOW - 1)
    opened = OpenTransactions("txnlog", (PREPARED, younger, OPEN), complete=True)
    listed = cluster(opened)["open_transactions"]
    assert [row["transactional_id"] for row in listed] == ["pay-3", "pay-5", "pay-4"]
    assert listed[0]["seconds"] == 200
    assert listed[0]["times_out_timestamp"] == NOW + 700


def test_nothing_known_is_distinguished_from_nothing_there() -> None:
    lists = ("stalled_partitions", "open_transactions", "unclean_ends")
    assert [cluster()["known"][text] for text in lists] == [False, False, False]
    assert [cluster(*FINE)["known"][text] for text in lists] == [True, True, True]


def test_an_agent_that_has_just_started_does_not_say_that_nothing_is_stalled() -> None:
    new, old = StallWatch(NOW - 12, 120.0), StallWatch(NOW - 120, 120.0)
    html = Elements(page(status(*FINE, new))).text
    assert "None known: this agent has looked for 12s." in html
    assert "a stall is known after 2m" in html
    assert "All fine" not in html
    assert "None known" not in page(status(*FINE, old))
    assert verdict(status(*FINE, new)).level == "blind"
    assert verdict(status(*FINE, old)).level == "good"
    partly = OpenTransactions("transactions", (), complete=False, missing=("coordinator 3",))
    assert cluster(partly)["known"]["open_transactions"] is False
    assert cluster(partly)["missing"] == ["coordinator 3"]


def test_an_unnamed_cluster_is_called_by_what_its_sources_found_out() -> None:
    group = GroupState("", facts(), (SourceState("lso", "b1:9092", ""), SourceState("txnlog", "id-1", "id-1")))
    whole = document([group], {"": ClusterSettings("", "b1:9092")}, now=NOW, ready=False, version="1")
    assert whole["clusters"][0]["name"] == "id-1"


# --- The verdict ------------------------------------------------------------------------------------------------------


def test_all_is_fine_only_when_everything_answers_and_nothing_is_stalled() -> None:
    assert verdict(status(*FINE)).level == "good"


def test_a_stall_is_said_before_anything_else() -> None:
    found = verdict(status(*FINE[:1], Stalls((STALL, STALL)), sources=(UP, DOWN)))
    assert (found.level, found.text) == ("bad", "2 partitions stalled")
    assert found.details == ("prod: txnlog is refused: a grant or a password is missing",)


def test_a_hanging_transaction_is_named_in_the_verdict() -> None:
    hanging = STALL._replace(blocker=STALL.blocker._replace(kind=BlockerKind.HANGING))
    assert verdict(status(Stalls((hanging,)))).text == "1 partition stalled, 1 by a hanging transaction"


def test_a_source_that_does_not_answer_is_never_all_fine() -> None:
    assert verdict(status(*FINE, sources=(UP, DOWN))).level == "blind"


PLAYGROUND = IgnoredSubjects((IgnoredSubject("topic", "orders", "a playground"),))
REFUSED = replace(DOWN, ignored="READ is refused")


def test_the_document_has_what_the_settings_ignore_and_why() -> None:
    [found] = status(Stalls((STALL,)), PLAYGROUND, sources=(UP, REFUSED))["clusters"]
    assert found["ignored"] == [
        {"kind": "source", "subject": "txnlog/prod", "reason": "READ is refused"},
        {"kind": "topic", "subject": "orders", "reason": "a playground"},
    ]
    assert [partition["ignored"] for partition in found["stalled_partitions"]] == ["a playground"]
    assert [source["ignored"] for source in found["sources"]] == [None, "READ is refused"]


def test_what_is_ignored_is_on_the_page_and_not_in_its_headline() -> None:
    of_it = status(*FINE[:1], Stalls((STALL,)), *FINE[2:], PLAYGROUND, sources=(UP, REFUSED))
    found = verdict(of_it)
    assert (found.level, found.text) == ("good", "All fine")
    (said,) = found.details
    assert said.startswith("No partition is stalled but 1 partition of topics that are ignored, and every source")
    assert said.endswith("answers but those that are ignored.")
    html = page(of_it)
    assert "ignored: a playground" in html
    row = '<td data-label="what" class="id">{}</td><td data-label="why" class="id">{}</td>'
    assert row.format("orders", "a playground") in html
    assert row.format("txnlog/prod", "READ is refused") in html


def test_what_is_not_ignored_is_in_the_headline_and_first_on_the_page() -> None:
    other = STALL._replace(partition=TopicPartition("payments", 1), blocker=STALL.blocker._replace(producer_id=1))
    of_it = status(*FINE[:1], Stalls((STALL, other)), *FINE[2:], PLAYGROUND)
    assert verdict(of_it).text == "1 partition stalled"
    text = Elements(page(of_it)).text
    assert text.index("payments-1") < text.index("orders-7")
    down = replace(DOWN, source="groups")
    assert verdict(status(*FINE, sources=(UP, REFUSED, down))).details == (
        "prod: groups is refused: a grant or a password is missing",
    )


def test_a_transaction_that_holds_other_partitions_too_is_not_marked_as_ignored() -> None:
    other = STALL._replace(partition=TopicPartition("payments", 1))
    text = " ".join(Elements(page(status(IDENTITY, Stalls((STALL, other)), PLAYGROUND))).text.split())
    assert "1 partition stalled" in text
    assert "The same transaction holds 1 more: orders-7" in text
    assert "ignored: a playground" not in text


def test_a_page_without_anything_ignored_has_no_section_for_it() -> None:
    assert "Ignored by the settings" not in elements(*FINE).text


def test_not_knowing_whether_a_partition_is_stalled_is_never_all_fine() -> None:
    found = verdict(status(IDENTITY))
    assert found.level == "blind"
    assert "prod: whether a partition is stalled is not known" in found.details


def hour(*fences: Sample, **counted: dict[Outcome, int]) -> LastHour:
    found = LastHour(Clock())
    found.note({"pay": {}}, ())
    found.note(counted, fences)
    return found


def test_a_fence_storm_is_said_before_other_failures() -> None:
    storm = catalogue.RECENT_PRODUCER_FENCES(7.0, "prod", "pay", EVIL)
    found = verdict(status(*FINE, hour(storm)))
    assert (found.level, found.text) == ("bad", f"Fence storm: {EVIL}, fenced 7 times in 10 minutes")


def test_checks_that_fail_are_a_warning_and_unknown_ones_are_not() -> None:
    failed = PostureCheck("transaction_log_min_isr", "cluster", CheckResult.FAILED, "1", EVIL, EVIL)
    unknown = PostureCheck("transaction_log_min_isr", "cluster", CheckResult.UNKNOWN, "", "", "", "no answer")
    found = verdict(status(*FINE, Posture((failed, failed, unknown))))
    assert (found.level, found.text) == ("warn", "2 checks of the settings fail")
    assert verdict(status(*FINE, Posture((unknown,)))).level == "good"


def test_what_else_is_wrong_does_not_hide_that_it_is_too_early_to_know_every_stall() -> None:
    failed = PostureCheck("transaction_log_min_isr", "cluster", CheckResult.FAILED, "1", EVIL, EVIL)
    early = "No partition is known to be stalled, after 12s of looking: a stall is known after 30s."
    watch = StallWatch(NOW - 12, 30.0)
    assert verdict(status(*FINE, watch)).details == (early,)
    found = verdict(status(*FINE, watch, Posture((failed,))))
    assert (found.text, found.details) == ("1 check of the settings fails", (early,))
    assert verdict(status(*FINE, StallWatch(NOW - 30, 30.0))).level == "good"


def test_the_last_hour_is_null_until_the_log_is_read_and_then_has_every_outcome() -> None:
    assert cluster(*FINE)["last_hour"] is None
    found = cluster(*FINE, hour(pay={Outcome.FENCED: 4}))["last_hour"]
    assert found["outcomes_per_minute"] == {"committed": [0], "aborted": [0], "timed_out": [0], "fenced": [4]}
    [application] = found["applications"]
    assert application["outcomes"] == {"committed": 0, "aborted": 0, "timed_out": 0, "fenced": 4}
    assert application["stopped_minutes"] is None


def test_before_the_first_answers_the_agent_is_starting() -> None:
    found = verdict(status(sources=(SourceState("lso", "prod", "prod"),), ready=False))
    assert (found.level, found.text.split(":")[0]) == ("blind", "Starting")


# --- The page ---------------------------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """Tags and attributes of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.commands: list[str] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "pre":
            self.commands.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "pre":
            self.commands[-1] += data
        self.text += data


def elements(*given: Fact, **options: Any) -> Elements:
    return Elements(page(status(*given), **options))


def evil_facts() -> tuple[Fact, ...]:
    blocker = Blocker(EVIL, EVIL, 1, 2, 3, BlockerKind.OPEN, missing=(EVIL,))
    stall = Stall(TopicPartition(EVIL, 0), NOW - 60, 3, 9, None, blocker)
    transaction = OPEN._replace(
        transactional_id=EVIL, application=EVIL, partitions=frozenset({TopicPartition(EVIL, 1)})
    )
    evil_end = END._replace(transactional_id=EVIL, application=EVIL)
    return (
        ClusterIdentity(EVIL, EVIL, None, 1),
        Stalls((stall,)),
        OpenTransactions("txnlog", (transaction,), complete=False, missing=(EVIL,)),
        UncleanEnds((evil_end,), (UncleanId(evil_end, 2, evil_end.ended),)),
        hour(catalogue.RECENT_PRODUCER_FENCES(9.0, EVIL, EVIL, EVIL), **{EVIL: {Outcome.FENCED: 1}}),
        Posture((PostureCheck(EVIL, EVIL, CheckResult.FAILED, EVIL, EVIL, EVIL),)),
    )


def test_no_id_can_put_markup_into_the_page() -> None:
    whole = status(
        *evil_facts(), sources=(SourceState(EVIL, EVIL, EVIL, up=False, faults=(Fault(Reason.TIMEOUT, EVIL),)),)
    )
    html = page(whole)
    found = Elements(html)
    names = [tag for tag, _ in found.tags]
    assert set(names) & {"script", "img", "iframe", "object"} == set()
    assert (names.count("form"), names.count("input")) == (1, 1), "the page's own search"
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on") or name == "style"]
    assert "49" not in re.sub(r"\d{3,}|\d\d:\d\d", "", found.text.partition("</style>")[2])
    assert found.text.count("<script>") >= 6, "shown as what it is"


def test_a_loop_of_fences_is_one_row_and_what_is_not_listed_is_counted() -> None:
    loop = END._replace(transactional_id="loop-1", outcome=Outcome.FENCED)
    ids = [UncleanId(loop, 180, loop.ended - 3_500), *(UncleanId(END, 2, END.ended) for _ in range(60))]
    found = Elements(page(status(IDENTITY, UncleanEnds((loop,), tuple(ids), of_other_ids=7))))
    assert found.text.count("loop-1") == 1
    assert "180" in found.text
    assert "29 more are of other ids" in found.text.replace("\n", " "), "11 rows of 2 that are not listed, and 7"


def test_no_character_that_does_not_print_reaches_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "id\x1b[2J\u202egnp\u2066\u200b\u2028\x9b\x7f\U000e0041end"
    monkeypatch.setitem(globals(), "EVIL", hostile)
    source = SourceState(hostile, hostile, hostile, up=False, faults=(Fault(Reason.TIMEOUT, hostile),))
    html = page(status(*evil_facts(), sources=(source,)))
    allowed = {"\n", "\N{NARROW NO-BREAK SPACE}"}
    assert [text for text in html if not text.isprintable() and text not in allowed] == []
    assert html.count(r"id\x1b[2J\u202egnp\u2066\u200b\u2028\x9b\x7f\U000e0041end") >= 6


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        (80.0, "1m 20s ahead of"),
        (-80.0, "1m 20s behind"),
        (4.9, None),
        (-4.9, None),
        (None, None),
        (5.0, "5s ahead of"),
    ],
)
def test_the_page_says_from_five_seconds_on_that_our_clock_is_not_the_coordinators(
    ahead: float | None, said: str | None
) -> None:
    html = page(status(*FINE, CoordinatorTime(ahead, ahead)))
    assert ("the clock of this exporter is" in html) == (said is not None)
    assert said is None or said in html


def test_a_line_that_ends_a_transaction_stands_in_the_page_right_after_the_one_that_asks_once_more() -> None:
    hanging = STALL._replace(blocker=STALL.blocker._replace(kind=BlockerKind.HANGING))
    found = elements(IDENTITY, Stalls((proven(hanging),)))
    assert found.commands == [
        "kafka-eos-exporter transactions hanging --bootstrap-server b1:9092 --topic orders --partition 7",
        "kafka-transactions.sh --bootstrap-server b1:9092 abort --topic orders --partition 7 --start-offset 100",
    ]
    assert "Go on only if it proves the same again" in found.text


@pytest.mark.parametrize("kind", BlockerKind)
def test_without_evidence_the_page_has_no_line_to_copy(kind: BlockerKind) -> None:
    unproven = STALL._replace(blocker=STALL.blocker._replace(kind=kind))
    assert elements(IDENTITY, Stalls((unproven,))).commands == []


def test_a_proof_is_in_the_document_with_what_was_seen_and_when() -> None:
    [stalled] = cluster(IDENTITY, Stalls((proven(STALL),)))["stalled_partitions"]
    proof = stalled["blocker"]["proof"]
    assert proof["second_round_timestamp"] - proof["first_round_timestamp"] >= 30
    assert (proof["log_partitions"], proof["coordinators_loaded"], proof["log_end_offsets"]) == (3, 3, 30)


def test_the_page_needs_no_script_and_no_other_host() -> None:
    found = elements(*FINE)
    assert "script" not in dict(found.tags)
    for _, attributes in found.tags:
        for name in ("href", "src", "action"):
            target = attributes.get(name)
            assert target is None or target.startswith(("/", "data:")), target


def test_the_page_reloads_itself_until_it_is_paused() -> None:
    assert ("meta", {"http-equiv": "refresh", "content": "10"}) in elements(*FINE).tags
    assert "http-equiv" not in dict(
        attribute for _, attrs in elements(*FINE, refresh=False).tags for attribute in attrs.items()
    )


def test_links_stand_under_the_route_prefix() -> None:
    targets = [attributes["href"] for tag, attributes in elements(*FINE, prefix="/eos").tags if tag == "a"]
    assert {"/eos/metrics", "/eos/api/v1/status"} <= set(targets)
    assert all(target and target.startswith("/eos/") for target in targets)


def test_the_policy_allows_exactly_the_style_of_the_page() -> None:
    import base64  # noqa: PLC0415
    import hashlib  # noqa: PLC0415

    style = re.search(r"<style>(.*?)</style>", page(status(*FINE)), re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in CONTENT_SECURITY_POLICY


def test_a_thousand_open_transactions_are_counted_and_the_oldest_listed() -> None:
    many = tuple(OPEN._replace(transactional_id=f"pay-{number}", started=NOW - number) for number in range(1000))
    html = page(status(OpenTransactions("txnlog", many, complete=True)))
    assert "pay-999<" in html
    assert "pay-3<" not in html
    assert "and 950 younger ones" in html


def test_partitions_that_one_transaction_holds_are_one_card() -> None:
    held = tuple(STALL._replace(partition=TopicPartition("orders", number)) for number in range(500))
    text = " ".join(elements(IDENTITY, Stalls(held)).text.split())
    assert "500 partitions stalled" in text
    assert text.count("Open: its producer has not ended it") == 1
    assert "The same transaction holds 499 more: orders-1, orders-2," in text
    assert "orders-12 and 487 more" in text


def test_partitions_whose_holder_is_not_known_have_each_their_own_card() -> None:
    unknown = STALL.blocker._replace(kind=BlockerKind.UNKNOWN, producer_id=None, transactional_id="")
    held = tuple(STALL._replace(partition=TopicPartition("orders", number), blocker=unknown) for number in range(3))
    assert "The same transaction" not in elements(IDENTITY, Stalls(held)).text


def test_a_thousand_stalled_partitions_are_counted_and_the_longest_shown() -> None:
    many = tuple(
        STALL._replace(partition=TopicPartition("orders", number), blocker=STALL.blocker._replace(producer_id=number))
        for number in range(1000)
    )
    found = elements(IDENTITY, Stalls(many))
    assert "1000 partitions stalled" in found.text
    assert found.text.count("Open: its producer has not ended it") == 100
    assert "and 900 more" in found.text


@pytest.mark.parametrize("ahead", [80.0, -80.0])
def test_ages_of_transactions_are_in_the_coordinators_time_and_the_distance_is_given(ahead: float) -> None:
    opened = OpenTransactions("txnlog", (OPEN._replace(started=NOW - ahead - 200),), complete=True)
    seen = cluster(CoordinatorTime(ahead, ahead), opened)
    assert seen["clock_distance_seconds"] == ahead
    assert seen["open_transactions"][0]["seconds"] == 200
    assert cluster(opened)["clock_distance_seconds"] is None


def test_a_coordinator_is_not_accused_by_our_clock() -> None:
    blocker = STALL.blocker._replace(started=NOW - 901, timeout=60.0)
    stalls = Stalls((STALL._replace(blocker=blocker),))

    def text(time: CoordinatorTime) -> str:
        step = cluster(stalls, time)["stalled_partitions"][0]["next_step"]["text"]
        assert isinstance(step, str)
        return step

    assert "should have ended it" in text(CoordinatorTime(0.1, 0.1))
    assert "should have ended it" not in text(CoordinatorTime(880.0, 880.0))
    assert "should have ended it" not in text(CoordinatorTime(None, 880.0))
