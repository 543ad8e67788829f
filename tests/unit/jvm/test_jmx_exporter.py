from __future__ import annotations

import pytest

from exporter.jvm import jmx_exporter
from exporter.jvm.jmx_exporter import read_page
from exporter.jvm.mbeans import MBeanQuery
from exporter.model import Reason

URL = "http://k1:9404/metrics"
ERRORS = MBeanQuery(
    "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=EndTxn,error=*", ("Count",), expected=True
)
TIME = MBeanQuery("kafka.network:type=RequestMetrics,name=TotalTimeMs,request=EndTxn", ("Count", "99thPercentile"))
COMMIT = MBeanQuery("kafka.producer:type=producer-metrics,client-id=*", ("txn-commit-time-ns-total",))
LOAD = MBeanQuery("kafka.server:type=transaction-coordinator-metrics", ("partition-load-time-max",), expected=True)


def values(query: MBeanQuery, *lines: str, profile: str = "") -> list[tuple[str, str | float]]:
    answer = read_page([query], ("\n".join(lines) + "\n").encode(), URL, profile)
    assert answer.faults == ()
    return [(reading.attribute, reading.value) for reading in answer.values]


@pytest.mark.parametrize(
    "name",
    [
        "kafka_network_requestmetrics_errors_total",  # the examples and Strimzi
        "kafka_network_RequestMetrics_Errors_total",  # without lowercaseOutputName
        "kafka_network_requestmetrics_errorspersec",  # Confluent and Grafana
        "kafka_network_requestmetrics_errorspersec_total",
        "kafka_network_RequestMetrics_ErrorsPerSec",
    ],
)
def test_a_meter_is_found_in_every_spelling(name: str) -> None:
    line = f'{name}{{error="PRODUCER_FENCED",request="EndTxn",}} 3.0'
    assert values(ERRORS, line) == [("Count", 3.0)]


def test_a_meter_is_found_without_any_rules() -> None:
    fenced = 'request="EndTxn",error="PRODUCER_FENCED"'
    lines = [
        f'kafka_network_RequestMetrics_Count{{name="ErrorsPerSec",{fenced}}} 3.0',
        f'kafka_network_RequestMetrics_Count{{name="RequestsPerSec",{fenced}}} 9.0',
    ]
    assert values(ERRORS, *lines) == [("Count", 3.0)]


@pytest.mark.parametrize("count", ["totaltimems_count", "totaltimems_count_total", "totaltimems"])
def test_a_histogram_s_count_is_distinguished_from_its_quantiles(count: str) -> None:
    lines = [
        f'kafka_network_requestmetrics_{count}{{request="EndTxn"}} 12',
        'kafka_network_requestmetrics_totaltimems{request="EndTxn",quantile="0.99"} 7',
        'kafka_network_requestmetrics_totaltimems{request="EndTxn",quantile="0.999"} 8',
        'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 500',
    ]
    assert values(TIME, *lines) == [("Count", 12.0), ("99thPercentile", 7.0)]


@pytest.mark.parametrize(
    "series",
    [
        'kafka_producer_txn_commit_time_ns_total{clientId="pay"}',
        'kafka_producer_txn_commit_time_ns_total{clientid="pay"}',
        'kafka_producer_txn_commit_time_ns{clientId="pay"}',
        'kafka_producer_producer_metrics_txn_commit_time_ns_total{client_type="producer",client_id="pay"}',
        'kafka_producer_producer_metrics_txn_commit_time_ns{client_id="pay"}',
        'kafka_producer_producer_metrics_txn_commit_time_ns{client_id="\\"pay\\""}',
    ],
)
def test_a_producer_s_client_id_is_found_in_every_spelling_of_its_label(series: str) -> None:
    answer = read_page([COMMIT], f"{series} 4.2e+07\n".encode(), URL)
    assert [(reading.mbean.properties["client-id"], reading.value) for reading in answer.values] == [("pay", 4.2e7)]


def test_a_profile_that_was_chosen_leaves_the_others_out() -> None:
    line = 'kafka_network_requestmetrics_errorspersec{error="NONE",request="EndTxn"} 3'
    assert values(ERRORS, line, profile="confluent") == [("Count", 3.0)]
    assert values(ERRORS, line, profile="jmx_exporter") == []


def test_nan_is_no_reading_and_yet_the_rules_show_it() -> None:
    page = b"kafka_server_transaction_coordinator_metrics_partition_load_time_max NaN\n"
    answer = read_page([LOAD], page, URL)
    assert (answer.values, answer.missing) == ((), ())


def test_what_the_rules_drop_is_missing_with_the_line_that_shows_it() -> None:
    page = b'jmx_scrape_error 0\nkafka_network_requestmetrics_errors_total{request="Fetch",error="X"} 1\n'
    answer = read_page([LOAD, ERRORS], page, URL)
    assert [(missing.query, missing.attribute) for missing in answer.missing] == [(LOAD, "partition-load-time-max")]
    assert answer.missing[0].remedy == (
        "- {pattern: 'kafka.server<type=transaction-coordinator-metrics><>partition-load-time-max:', "
        "name: kafka_server_transaction_coordinator_metrics_partition_load_time_max, type: GAUGE}"
    )


def test_requests_that_lack_the_same_are_reported_in_one_note() -> None:
    queries = [
        MBeanQuery(f"kafka.network:type=RequestMetrics,name=TotalTimeMs,request={request}", ("Count",), expected=True)
        for request in ("EndTxn", "Produce")
    ]
    answer = read_page(queries, b'jmx_exporter_build_info{version="1.0.1"} 1\n', URL)
    assert len(answer.missing) == 2
    assert len(answer.notes) == 1
    assert 'request: "$1"' in answer.notes[0]


def test_a_page_that_is_no_jmx_exporter_s_gets_no_advice_about_rules() -> None:
    (note,) = read_page([LOAD], b"jvm_info 1\n", URL).notes
    assert note.startswith(
        "the page has no partition-load-time-max of kafka.server:type=transaction-coordinator-metrics: see what"
    )


@pytest.mark.parametrize("written", ["0.5", "0.50", "0.500", ".5", "5.0E-1"])
def test_a_quantile_is_a_number_however_it_is_written(written: str) -> None:
    query = MBeanQuery("kafka.network:type=RequestMetrics,name=TotalTimeMs,request=EndTxn", ("50thPercentile",))
    name = "kafka_network_requestmetrics_totaltimems"
    lines = [f'{name}{{request="EndTxn",quantile="{quantile}"}} {at}' for at, quantile in enumerate(("0.95", written))]
    assert values(query, *lines) == [("50thPercentile", 1.0)]


def test_names_that_look_like_numbers_are_texts() -> None:
    name = "kafka_producer_txn_commit_time_ns_total"
    query = MBeanQuery("kafka.producer:type=producer-metrics,client-id=7", ("txn-commit-time-ns-total",))
    assert values(query, f'{name}{{client_id="07"}} 1', f'{name}{{client_id="7"}} 2') == [
        ("txn-commit-time-ns-total", 2.0)
    ]


def test_a_text_of_the_metrics_reporter_is_found_in_its_label() -> None:
    query = MBeanQuery("kafka.connect:type=connector-task-metrics,connector=*,task=*", ("status",))
    line = 'kafka_connect_connector_task_metrics_status_info{connector="c",task="0",status="running"} 1.0'
    assert values(query, line) == [("status", "running")]


def test_a_string_is_found_in_the_label_that_holds_it() -> None:
    query = MBeanQuery("kafka.connect:type=connector-task-metrics,connector=*,task=*", ("status",))
    page = (
        'kafka_connect_connector_status{connector="c",task="0",status="running"} 1\n'
        'kafka_connect_connector_status{connector="c",task="1",status="failed"} 0\n'
    )
    answer = read_page([query], page.encode(), URL)
    assert [(reading.mbean.properties["task"], reading.value) for reading in answer.values] == [("0", "running")]


def test_an_mbean_of_all_connectors_is_not_mistaken_for_that_of_one() -> None:
    query = MBeanQuery("kafka.connect:type=connect-worker-metrics", ("task-startup-failure-total",))
    name = "kafka_connect_connect_worker_metrics_task_startup_failure_total"
    for own in ("", '{connector="aggregate"}'):
        assert values(query, f'{name}{{connector="one"}} 1', f"{name}{own} 7") == [("task-startup-failure-total", 7.0)]


def test_escapes_braces_and_timestamps_are_read() -> None:
    line = r'kafka_producer_txn_commit_time_ns{clientId="a\"b\\c}, \nd"} 5 1700000000000'
    answer = read_page([COMMIT], f"# HELP x y\n# TYPE x gauge\n{line}\n# EOF\n".encode(), URL)
    assert answer.values[0].mbean.properties["client-id"] == 'a"b\\c}, \nd'
    assert answer.values[0].value == 5.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html><body>Login</body></html>\n", "HTML"),
        (b'{"status": 200}\n', "no page of metrics"),
        (b"", "no series"),
        (b"# HELP only comments\n", "no series"),
        (b"jvm_info 1\nkafka_producer_txn_commit_time_ns_total{clientId", "cut off"),
        (b"jvm_info 1\njvm_threads 7", "cut off"),
        (b'kafka_producer_txn_commit_time_ns_total{clientId="a"}\n', "1 line(s) cannot be read"),
        (b"jvm\xff 1\n", "no page of metrics"),
    ],
)
def test_what_is_no_page_is_malformed_and_fails_every_query(body: bytes, said: str) -> None:
    answer = read_page([COMMIT], body, URL)
    assert [fault.reason for fault in answer.faults] == [Reason.MALFORMED]
    assert said in answer.faults[0].detail
    assert answer.failed == (COMMIT,)


@pytest.mark.parametrize(
    "line",
    [
        'kafka_producer_txn_commit_time_ns_total{clientId="b"} x',
        'kafka_producer_txn_commit_time_ns_total{clientId="b" 1',
        'kafka_producer_txn_commit_time_ns_total{clientId="' + "b" * 20_000 + '"} 1',
    ],
)
def test_a_line_that_cannot_be_read_costs_only_itself_and_what_it_would_have_said_is_not_known(line: str) -> None:
    page = f'kafka_producer_txn_commit_time_ns_total{{clientId="a"}} 1.0\n{line}\nkafka_server_x_total 1.0\n'
    answer = read_page([COMMIT, LOAD], page.encode(), URL)
    assert [reading.mbean.properties["client-id"] for reading in answer.values] == ["a"]
    assert [fault.reason for fault in answer.faults] == [Reason.MALFORMED]
    assert answer.failed == (COMMIT,)
    assert [missing.query for missing in answer.missing] == [LOAD], (
        "what no line could have said is still known to be absent"
    )


def test_bytes_that_are_no_utf_8_are_written_so_that_a_page_can_hold_them() -> None:
    answer = read_page([COMMIT], b'kafka_producer_txn_commit_time_ns_total{clientId="a\xff\xed\xa0\x80"} 1.0\n', URL)
    assert [reading.mbean.properties["client-id"] for reading in answer.values] == [r"a\xff\xed\xa0\x80"]


def test_a_page_of_too_many_lines_or_series_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    page = b'kafka_producer_txn_commit_time_ns_total{clientId="a"} 1.0\n' * 101
    monkeypatch.setattr(jmx_exporter, "MOST_VALUES", 100)
    assert "more than 100 series" in read_page([COMMIT], page, URL).faults[0].detail
    monkeypatch.setattr(jmx_exporter, "MOST_LINES", 100)
    answer = read_page([COMMIT], page, URL)
    assert "more than 100 lines" in answer.faults[0].detail
    assert (answer.values, answer.failed) == ((), (COMMIT,))


def test_lines_of_a_page_are_counted_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    page = b'kafka_producer_txn_commit_time_ns_total{clientId="a"} 1.0\n' * 100
    monkeypatch.setattr(jmx_exporter, "COUNTED_AT_ONCE", 64)
    monkeypatch.setattr(jmx_exporter, "MOST_LINES", 100)
    assert not read_page([COMMIT], page, URL).faults
    assert "more than 100 lines" in read_page([COMMIT], page + b"#\n", URL).faults[0].detail
