"""Tests of what a filter shows, and that it never hides trouble in silence."""

from __future__ import annotations

from exporter.bounds.patterns import BoundedPattern
from exporter.core.thresholds import Owners, Team
from exporter.groups.facts import Blocked, BlockedGroup, BlockedGroups
from exporter.lso.facts import Blocker, Stall, Stalls
from exporter.model import Clock, TopicPartition
from exporter.status.filters import MOST_NAMES, Filter, hidden
from exporter.status.page import page_pieces
from exporter.transactions.counting.last_hour import LastHour
from exporter.transactions.facts import OpenTransactions
from exporter.words import BlockerKind, Outcome
from tests.helpers.pages import page
from tests.unit.views.test_status import ENDS, FINE, NOW, OPEN, STALL, status

UNNAMED = Stall(TopicPartition("x", 1), NOW - 60, 1, 2, 1, Blocker("", "", None, None, 1, BlockerKind.UNKNOWN))


def test_a_query_is_read_back_as_it_is_written() -> None:
    shown = Filter(frozenset({"prod & test", "b"}), frozenset({"pay/1"}))
    assert Filter.parse(shown.query(refresh="off").removeprefix("?")) == shown
    assert Filter().query() == ""


def test_what_is_no_filter_is_ignored_and_what_is_too_long_is_bounded() -> None:
    assert Filter.parse("refresh=off&x=1&cluster=") == Filter()
    assert len(Filter.parse("&".join(f"cluster=c{number}" for number in range(2 * MOST_NAMES))).clusters) == MOST_NAMES
    assert Filter.parse("cluster=a&" * 1000) == Filter()


def test_a_filter_says_how_many_stalls_it_hides() -> None:
    whole = status(*FINE[:1], Stalls((STALL,)))
    shown = Filter(applications=frozenset({"billing"}))
    assert hidden(whole, shown.applied(whole)) == 1
    text = page(whole, shown=shown)
    assert "1 stalled partition of others is not shown." in " ".join(text.split())
    assert "Show all" in text
    assert "is not shown" not in page(whole, shown=Filter(applications=frozenset({"pay"})))


def test_what_a_filter_hides_is_not_said_to_be_fine() -> None:
    text = " ".join(page(status(*FINE, Stalls((STALL,))), shown=Filter(applications=frozenset({"billing"}))).split())
    assert "No partition is stalled but 1 partition that the filter hides, and every source answers." in text
    assert "No partition is stalled, and" in page(status(*FINE), shown=Filter(applications=frozenset({"billing"})))
    other = page(status(*FINE), shown=Filter(frozenset({"prdo"})))
    assert "No cluster of this name is watched" in other
    assert "All fine" not in other
    assert "All fine" in page(status(*FINE), shown=Filter(frozenset({"prod"})))


def test_a_stall_whose_holder_is_not_known_is_shown_with_every_filter() -> None:
    whole = status(*FINE[:1], Stalls((UNNAMED,)))
    assert hidden(whole, Filter(applications=frozenset({"billing"})).applied(whole)) == 0


def test_a_filter_by_owner_shows_what_concerns_the_team_and_the_page_names_it() -> None:
    def team(name: str, **patterns: str) -> Team:
        channel = f"#{name}-oncall"
        return Team(
            name, channel, {kind: (BoundedPattern(text, "owners", whole=True),) for kind, text in patterns.items()}
        )

    owners = Owners((team("payments", application="pay"), team("billing", group="bill-.*"), team("web", topic="x")))
    waiting = BlockedGroups({STALL.partition: Blocked((BlockedGroup("bill-eu", 42), BlockedGroup("<b>", 42)), 2)})
    whole = status(*FINE[:1], Stalls((STALL,)), waiting, owners=owners)

    def hidden_of(owner: str) -> int:
        return hidden(whole, Filter.parse(f"owner={owner}").applied(whole, owners))

    assert [hidden_of(name) for name in ("payments", "billing", "web", "unowned")] == [0, 0, 1, 1]
    more = BlockedGroups({STALL.partition: Blocked((BlockedGroup("bill-eu", 42),), 2)})
    unlisted = status(*FINE[:1], Stalls((STALL,)), more, owners=owners)
    shown = [Filter.parse(query).applied(unlisted, owners) for query in ("owner=billing", "owner=web", "application=x")]
    assert [hidden(unlisted, filtered) for filtered in shown] == [0, 0, 1]
    text = " ".join(b"".join(page_pieces(whole, owners=owners, shown=Filter.parse("owner=payments"))).decode().split())
    assert '<a href="/?owner=payments">payments</a> <small>#payments-oncall</small>' in text
    assert "owner payments." in text
    assert "&lt;b&gt; <small>42, unowned</small>, bill-eu <small>42, billing</small>" in text
    assert "unowned <small>by no entry" in page(status(Stalls((STALL,)), owners=Owners(owners.teams[1:2])))
    assert "<dt>owner</dt>" not in page(status(Stalls((STALL,))))


def test_the_totals_of_a_filtered_page_are_those_of_the_applications_that_it_shows() -> None:
    clock = [60.0]
    hour = LastHour(Clock(monotonic=lambda: clock[0]))
    none = dict.fromkeys(Outcome, 0)
    hour.note({"pay": none, "billing": none}, ())
    hour.note({"pay": {**none, Outcome.FENCED: 7}, "billing": {**none, Outcome.COMMITTED: 4}}, ())
    clock[0] += 180
    whole = status(*FINE, hour)
    assert "<b>7</b> fenced" in page(whole)
    mine = page(whole, shown=Filter(applications=frozenset({"billing"})))
    assert "<b>4</b> committed" in mine
    assert "<b>0</b> fenced" in mine
    others = page(whole, shown=Filter.parse("q=orders"))
    assert "No application that the filter names ended a transaction." in others
    assert "<b>0</b>" not in others
    assert '<td data-label="last commit" class="now">3 min ago</td>' in mine
    assert '<td data-label="last commit" class="now">none in 4 min</td>' in page(whole)


def test_a_search_finds_what_has_a_topic_a_group_an_id_or_an_application_of_that_name() -> None:
    waiting = BlockedGroups({STALL.partition: Blocked((BlockedGroup("bill-eu", 42),), 1)})
    whole = status(*FINE[:1], Stalls((STALL,)), OpenTransactions("txnlog", (OPEN,), complete=True), ENDS, waiting)

    def found(text: str) -> tuple[int, int, int]:
        (cluster,) = Filter.parse(f"q={text}").applied(whole)["clusters"]
        return tuple(len(cluster[key]) for key in ("stalled_partitions", "open_transactions", "unclean_ids"))  # type: ignore[return-value]

    assert found("ORDERS") == (1, 1, 0)
    assert found("bill") == (1, 0, 0)
    assert found("pay-3") == (1, 1, 0)
    assert found("pay-9") == (0, 0, 1)
    assert found("+pay+") == (1, 1, 1)
    assert found("nothing") == (0, 0, 0)
    others = BlockedGroups({STALL.partition: Blocked((BlockedGroup("bill-eu", 42),), 2)})
    more = status(*FINE[:1], Stalls((STALL,)), others)
    assert len(Filter.parse("q=some-group").applied(more)["clusters"][0]["stalled_partitions"]) == 1
    many = OPEN._replace(partitions=frozenset(TopicPartition("a", number) for number in range(21)))
    unlisted = status(*FINE[:1], OpenTransactions("txnlog", (many,), complete=True))
    assert len(Filter.parse("q=zz").applied(unlisted)["clusters"][0]["open_transactions"]) == 1


def test_the_search_is_a_form_without_script_that_keeps_the_cluster_and_escapes_what_is_searched_for() -> None:
    text = page(status(*FINE), "/eos", shown=Filter.parse("cluster=prod&q=%22%3E%3Cscript%3E"))
    assert '<form action="/eos/">' in text
    assert '<input type="hidden" name="cluster" value="prod">' in text
    assert 'value="&#34;&gt;&lt;script&gt;"' in text
    assert "<script" not in text
    assert Filter.parse("q=" + "x" * 3000).search == "x" * 250


def test_a_cluster_that_is_not_chosen_is_not_shown() -> None:
    whole = status(*FINE)
    assert Filter(frozenset({"other"})).applied(whole)["clusters"] == []
    assert len(Filter(frozenset({"prod"})).applied(whole)["clusters"]) == 1
