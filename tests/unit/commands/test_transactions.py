"""``transactions``: what a broker leaves out of the partitions of an open transaction is not known."""

from __future__ import annotations

from exporter.commands.transactions import _views
from exporter.config import ConfigSource
from exporter.model import Deadline, TopicPartition
from exporter.views.columns import View, terminal_columns
from exporter.views.command_documents import SeenTransactionDocument
from tests.helpers.one_broker import OneBroker

SETTINGS = ConfigSource(None, {"KAFKA_EOS_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": "k1:9092"}).load().clusters[0]
ORDERS = TopicPartition("orders", 0)


def cell(view: View, heading: str) -> str:
    """The text of a column."""
    return next(
        shown.text(view) for shown in terminal_columns(SeenTransactionDocument) if shown.column.heading == heading
    )


def test_partitions_of_topics_that_may_not_be_described_are_not_counted_as_none() -> None:
    world = OneBroker(known={"pay-1": (5, frozenset())}, topics_denied=True)
    looked = _views(world.cluster(), SETTINGS, Deadline.after(30))
    (seen,) = looked.found
    assert cell(seen, "partitions") == "?"
    (text,) = looked.not_asked
    assert "grant READ on Topic:*" in text


def test_partitions_are_counted_where_every_topic_may_be_described() -> None:
    looked = _views(OneBroker(known={"pay-1": (5, frozenset({ORDERS}))}).cluster(), SETTINGS, Deadline.after(30))
    assert [cell(seen, "partitions") for seen in looked.found] == ["orders-0"]
    assert looked.not_asked == ()
