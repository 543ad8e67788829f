"""Runbooks as pages: with the names of the cluster where they are known, and with nothing that a name could break."""

from __future__ import annotations

import pytest

from exporter.status.runbooks import names, runbook, runbook_page, runbooks_page

PROD = {"name": "prod", "bootstrap_servers": "b1:9092"}
TEST = {"name": "te&st", "bootstrap_servers": "t1:9092"}
STALLED = "KafkaEosLsoStalled"


def page_of(query: str = "", *clusters: dict[str, str], name: str = STALLED) -> str:
    made = runbook_page(name, query, clusters or (PROD,), "/eos")
    assert made is not None
    return made


@pytest.mark.parametrize("name", names())
def test_every_runbook_is_a_page_that_names_the_servers(name: str) -> None:
    text = page_of(name=name)
    assert f"<h1>{name}</h1>" in text
    assert "HOST:PORT" not in text
    assert ("b1:9092" in text) == ("HOST:PORT" in (runbook(name) or ""))
    assert '.md"' not in text
    assert '<a href="ten-minutes">The words</a>' in text


def test_the_commands_are_for_the_cluster_and_the_partition_of_the_query() -> None:
    text = page_of("cluster=prod&topic=orders&partition=7", PROD, TEST)
    line = "kafka-transactions.sh --bootstrap-server b1:9092 describe-producers --topic orders --partition 7"
    assert line in text
    assert "The commands are for cluster prod." in text


def test_of_several_clusters_one_is_to_be_chosen_and_another_one_is_none_of_them() -> None:
    for query in ("", "cluster=elsewhere"):
        text = page_of(query, PROD, TEST)
        assert "--bootstrap-server HOST:PORT" in text
        assert '<a href="/eos/runbooks/KafkaEosLsoStalled?cluster=te%26st">te&amp;st</a>' in text
    assert "--bootstrap-server HOST:PORT" in page_of("cluster=elsewhere")


@pytest.mark.parametrize(
    "query", ["topic=a;reboot&partition=7", "topic=%3Cscript%3E", "topic=$(x)", "topic=" + "a" * 250, "&" * 5000]
)
def test_a_query_cannot_put_anything_else_into_a_command(query: str) -> None:
    assert page_of(query) == page_of()
    assert "--partition N" in page_of(f"topic=orders&partition=7%0Areboot&{query}")


def test_servers_are_one_word_of_the_command_and_no_markup() -> None:
    text = page_of("", {"name": "<i>", "bootstrap_servers": "a:1<b>;x"})
    assert "--bootstrap-server &#39;a:1&lt;b&gt;;x&#39;" in text
    assert "cluster &lt;i&gt;." in text


def test_the_list_has_every_runbook_and_another_name_has_no_page() -> None:
    assert all(f'<a href="/eos/runbooks/{name}">{name}</a>' in runbooks_page("/eos") for name in names())
    assert runbook_page("../runbooks/KafkaEosLsoStalled", "", (PROD,)) is None


def test_the_name_of_another_alert_is_a_link_to_its_runbook() -> None:
    assert 'see <a href="KafkaEosHangingTransaction">KafkaEosHangingTransaction</a>.' in page_of()
    assert "<h1>KafkaEosLsoStalled</h1>" in page_of()


def test_the_guide_is_a_page_with_its_picture_and_links_to_the_documentation() -> None:
    text = page_of(name="ten-minutes")
    assert "<h1>Exactly-once in ten minutes</h1>" in text
    assert "<svg " in text
    assert "<img" not in text
    assert "The commands are for" not in text
    assert '/blob/main/docs/exactly-once.md"' in text
    assert "/eos/runbooks/ten-minutes" in runbooks_page("/eos")
