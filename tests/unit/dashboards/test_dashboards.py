"""Rules for every dashboard, and that each metric is on a dashboard or in an alert."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import yaml

from exporter.catalogue import OUTCOMES, rows
from exporter.dashboards.board import AGENT, SCHEMA_VERSION, WIDTH, Dashboard
from exporter.dashboards.generate import GENERATED, boards, files
from exporter.dashboards.overview import ALERT_SUBJECTS
from exporter.dashboards.panels import KIND_COLOURS, OUTCOME_COLOURS, STATE_COLOURS
from exporter.dashboards.shared import NEXT_STEPS
from exporter.words import BlockerKind, TransactionState
from tests.unit.dashboards.test_linter_rules import RECORDED, Json, panels, queries, variable

ROOT = Path(__file__).parents[3]
NAMES = {metric.name for metric in rows()}
# Of the process and of Prometheus.
OTHERS = {"up", "ALERTS", "ALERTS_FOR_STATE", "process_cpu_seconds_total", "process_resident_memory_bytes"}
NOT_SHOWN: dict[str, str] = {
    "kafka_eos_expired_transactional_ids": "the page and `transactions recent` name the ids",
    "kafka_eos_ingest_dropped_total": "read by whoever sets ingest.memory, once",
    "kafka_eos_telemetry_client_info": "names of clients, to join on",
    "kafka_eos_telemetry_points_total": "read by whoever connects a receiver, once",
}
"""Metrics that no dashboard shows and no alert asks, each with its reason: at most five."""


def test_the_committed_files_are_what_the_code_makes() -> None:
    made = dict(files())
    assert {path: (ROOT / path).read_text() for path in made} == made
    assert {path.name for path in made} == {path.name for path in (ROOT / GENERATED).glob("*.json")}


def test_the_same_code_makes_the_same_bytes() -> None:
    assert files() == files()


def test_every_metric_asked_for_is_in_the_catalogue(dashboard: Json) -> None:
    asked = [*queries(dashboard), *(note["target"]["expr"] for note in notes_of(dashboard))]
    asked += [setting["query"] for setting in dashboard["templating"]["list"] if setting["type"] == "query"]
    asked = [re.sub(RECORDED, "", query) for query in asked]
    found = {name for query in asked for name in re.findall(r"\w+(?=\{)|kafka_eos_\w+", query)}
    assert {re.sub("_(bucket|count|sum)$", "", name) for name in found} <= NAMES | OTHERS


def test_every_recorded_series_asked_for_is_of_a_recording_rule() -> None:
    groups = yaml.safe_load((ROOT / "alerts" / "generated" / "rules.yaml").read_text())["groups"]
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    asked = {name for text in files().values() for query in queries(json.loads(text)) for name in recorded_in(query)}
    assert asked
    assert asked <= recorded


def test_every_metric_is_shown_or_alerted_on_or_left_out_for_a_reason() -> None:
    shown = "".join(files().values())
    alerts = "".join(file.read_text() for file in (ROOT / "alerts" / "generated").glob("*.yaml"))
    unseen = {name for name in NAMES if not re.search(rf"\b{name}(_bucket|_count)?\b", shown + alerts)}
    assert unseen - NOT_SHOWN.keys() == set(), "make a panel in dashboards/BOARD.py, or an entry of NOT_SHOWN"
    assert NOT_SHOWN.keys() - unseen == set(), "shown now, or gone: remove the entry of NOT_SHOWN"
    assert len(NOT_SHOWN) <= 5, "one of them needs a panel"
    assert all(NOT_SHOWN.values()), "each needs its reason"


def test_every_word_of_a_coloured_label_has_its_colour_and_every_kind_of_holder_its_next_step() -> None:
    """A word without them would be a grey band, and a row without advice."""
    assert KIND_COLOURS.keys() == set(BlockerKind.values()), "KIND_COLOURS in dashboards/panels.py"
    assert NEXT_STEPS.keys() == set(BlockerKind.values()), "NEXT_STEPS in dashboards/shared.py"
    assert OUTCOME_COLOURS.keys() == set(OUTCOMES), "OUTCOME_COLOURS in dashboards/panels.py"
    assert STATE_COLOURS.keys() == set(TransactionState.values()), "STATE_COLOURS in dashboards/panels.py"


def test_every_selected_series_is_one_truth_over_the_replicas(board: Dashboard, dashboard: Json) -> None:
    """``max by`` of labels without instance and pod around each selector, ``min by`` for the beginnings of things."""
    for query in queries(dashboard):
        for selector in re.finditer(r"([\w:]+)\{", query):
            around = re.findall(
                r"(min|max) by \(([^)]*)\) \((?:rate\(|increase\(|avg_over_time\()?$", query[: selector.start()]
            )
            assert around, f"{selector[1]} in {query}"
            operator, labels = around[0]
            first = any(part in selector[1] for part in ("_since_", "_start_", "_FOR_STATE", "kafka_eos_source_up"))
            first &= board.uid != AGENT or "source_up" not in selector[1]
            # The smallest of a budget is the worst, and of those that are left the largest is.
            assert ":" in selector[1] or operator == ("min" if first else "max"), query
            of_agents = board.uid == AGENT or "group_left (version, external_url)" in query
            if not of_agents and not selector[1].startswith("ALERTS"):
                assert not {"instance", "pod"} & set(labels.split(", ")), query


def test_stats_say_when_without_a_coordinator_and_are_not_green_then(dashboard: Json) -> None:
    for panel in panels(dashboard):
        if panel["type"] == "stat":
            defaults = panel["fieldConfig"]["defaults"]
            (mapping,) = defaults["mappings"]
            assert mapping["options"]["match"] == "null+nan"
            assert mapping["options"]["result"]["text"] == defaults["noValue"]
            assert mapping["options"]["result"]["color"] not in {"green", "blue"}
            # An instant query: the last value of a range may be an old one.
            assert [target["instant"] for target in panel["targets"]] == [True]


def test_panels_fill_the_width_and_do_not_overlap(dashboard: Json) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        assert not cells & taken, panel["title"]
        taken |= cells
    height = max(y for _, y in taken) + 1
    assert taken == set(itertools.product(range(WIDTH), range(height)))


def test_panels_are_distinguished(dashboard: Json) -> None:
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert len(set(titles)) == len(titles)


def test_columns_are_labels_or_values_of_their_queries(dashboard: Json) -> None:
    for panel in panels(dashboard):
        if panel["type"] == "table":
            names = panel["transformations"][-1]["options"]["renameByName"]
            values = {f"Value #{target['refId']}" for target in panel["targets"]} | {"Value"}
            grouped = {
                label
                for target in panel["targets"]
                for group in re.findall(r"by \(([^)]*)\)", target["expr"])
                for label in group.split(", ")
            }
            made = {
                label
                for target in panel["targets"]
                for label in re.findall(r', "(\w+)", "[^"]*", "\w*", "', target["expr"])
            }
            assert names.keys() <= grouped | values | made, panel["title"]
            assert {sort["displayName"] for sort in panel["options"]["sortBy"]} <= set(names.values())


def test_a_firing_alert_has_all_labels_by_which_alerts_of_one_name_differ() -> None:
    rules = yaml.safe_load((ROOT / "alerts" / "generated" / "rules.yaml").read_text())["groups"]
    told = {"severity", "alertname", "reason", "kafka_cluster", "application", *ALERT_SUBJECTS}
    asked = {rule["alert"]: rule["expr"] for group in rules for rule in group["rules"] if "alert" in rule}
    grouped = {
        label for expr in asked.values() for by in re.findall(r"by \(([^)]*)\)", expr) for label in by.split(", ")
    }
    assert grouped <= told


SUBJECTS = {
    *("application", "group", "topic", "connector", "server", "query", "audit", "client_id", "broker"),
    *("target", "task", "name"),
}
"""Labels that name something of one cluster: two clusters may have the same name."""


def test_a_line_or_band_that_names_something_of_a_cluster_names_the_cluster(dashboard: Json) -> None:
    for panel in panels(dashboard):
        if panel["type"] in {"timeseries", "state-timeline"}:
            for target in panel["targets"]:
                named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                assert "kafka_cluster" in named or not named & SUBJECTS, panel["title"]
                around = re.findall(r"by \(([^)]*)\)", target["expr"])
                assert "kafka_cluster" not in named or "kafka_cluster" in around[0], panel["title"]


NO_CLUSTER = {"Which versions of requests are in use?"}
"""Tables whose rows are of no cluster, or of all of them."""


def test_every_table_has_a_column_of_clusters_and_every_query_the_label(dashboard: Json) -> None:
    for panel in panels(dashboard):
        if panel["type"] == "table" and panel["title"] not in NO_CLUSTER:
            assert "kafka_cluster" in panel["transformations"][-1]["options"]["renameByName"], panel["title"]
            for target in panel["targets"]:
                (first, *_) = re.findall(r"by \(([^)]*)\)", target["expr"])
                assert "kafka_cluster" in first.split(", "), (panel["title"], target["expr"])


def test_the_worst_row_of_a_table_is_on_top() -> None:
    sorted_by = {
        panel["title"]: [(column["displayName"], column["desc"]) for column in panel["options"]["sortBy"]]
        for text in files().values()
        for panel in panels(json.loads(text))
        if panel["type"] == "table"
    }
    assert sorted_by["Which alerts fire?"][0] == ("Severity", False)
    for subject in ("applications", "topics"):
        assert sorted_by[f"Which {subject} have the least budget left?"] == [("Budget left, 30 d", False)]
    assert sorted_by["Which posture checks fail?"][0] == ("Verdict", False)
    nearest = "Which open transactions are nearest to their timeout?"
    assert sorted_by[nearest][0] == ("Of its timeout", True)


def test_the_overview_links_each_agent_to_its_page_by_a_label_that_may_be_empty() -> None:
    overview = next(json.loads(text) for name, text in files().items() if name.stem.endswith("overview"))
    [agents] = [
        panel for panel in panels(overview) if panel["title"] == "Which agents answer, and where are their pages?"
    ]
    [target] = agents["targets"]
    assert "group_left (version, external_url)" in target["expr"]
    overrides = {
        override["matcher"]["options"]: override["properties"] for override in agents["fieldConfig"]["overrides"]
    }
    [link] = [entry["value"] for entry in overrides["Page"] if entry["id"] == "links"]
    assert link == [{"title": "The agent's page", "url": "${__value.raw}", "targetBlank": True}]


def test_the_axis_of_a_value_that_may_be_negative_does_not_begin_at_0() -> None:
    clock = [
        panel["fieldConfig"]["defaults"]
        for text in files().values()
        for panel in panels(json.loads(text))
        if any("kafka_eos_clock_distance_seconds" in target["expr"] for target in panel["targets"])
    ]
    assert clock
    assert all(defaults["min"] is None for defaults in clock)


def test_marks_follow_the_chosen_application_and_a_move_is_one_instant(board: Dashboard, dashboard: Json) -> None:
    fences, timeouts, moves, happened, important = (note["target"]["expr"] for note in notes_of(dashboard))
    chosen = any(variable.name == "application" for variable in board.variables)
    assert ('application=~"$application"' in fences, 'application=~"$application"' in timeouts) == (chosen, chosen)
    assert " unless " in moves
    assert "stall_ended" in happened
    assert "hanging_proven" in important


def test_every_variable_that_is_named_is_there(dashboard: Json) -> None:
    names = {setting["name"] for setting in dashboard["templating"]["list"]}
    used = {*re.findall(r"\$\{?([a-z]\w*)", json.dumps([dashboard["panels"], dashboard["annotations"]]))}
    assert used <= names


def test_a_quantile_of_nothing_is_no_line() -> None:
    asked = [query for text in files().values() for query in queries(json.loads(text)) if "histogram_quantile" in query]
    assert asked
    assert all(") >= 0" in query for query in asked)


def test_links_lead_to_a_dashboard_with_that_variable_and_keep_the_others() -> None:
    known = {board.uid: json.loads(text) for board, text in zip(boards(), files().values(), strict=True)}
    links = [
        property_["value"][0]["url"]
        for dashboard in known.values()
        for panel in panels(dashboard)
        for override in panel["fieldConfig"]["overrides"]
        for property_ in override["properties"]
        if property_["id"] == "links" and panel["type"] == "table" and "targetBlank" not in property_["value"][0]
    ]
    assert links
    for link in links:
        match = re.fullmatch(r"/d/([\w-]+)\?(.*)&var-(\w+)=\$\{__value\.text\}", link)
        assert match, link
        assert variable(known[match[1]], match[3])
        assert match[2].startswith("${__url_time_range}&${datasource:queryparam}&${job:queryparam}")


def test_a_number_that_links_leads_to_a_dashboard_that_exists_and_keeps_the_choices() -> None:
    uids = {board.uid for board in boards()}
    urls = [
        override["properties"][0]["value"][0]["url"]
        for text in files().values()
        for panel in panels(json.loads(text))
        for override in panel["fieldConfig"]["overrides"]
        if panel["type"] == "stat"
    ]
    assert len(urls) >= 6
    for url in urls:
        uid, _, kept = url.removeprefix("/d/").partition("?")
        assert uid in uids
        assert kept.startswith("${__url_time_range}&${datasource:queryparam}&${job:queryparam}")


JUDGED = {
    "kafka_eos_lso_stalled_since_timestamp_seconds",
    "kafka_eos_oldest_open_transaction_start_timestamp_seconds",
    "kafka_eos_spark_last_progress_timestamp_seconds",
    "kafka_eos_audit_last_run_timestamp_seconds",
    "kafka_eos_connect_task_offset_commit_ratio",
}
"""The thresholds of the settings, by subject."""


def test_what_has_a_threshold_by_subject_is_coloured_by_its_share_of_it(dashboard: Json) -> None:
    for panel in panels(dashboard):
        field = panel["fieldConfig"]
        judged = [  # one query: the panel's own steps; a table: those of the column of a query
            (target["expr"], field["defaults"]["thresholds"]["steps"]) for target in panel["targets"]
        ]
        if panel["type"] == "table":
            names = panel["transformations"][-1]["options"]["renameByName"]
            steps = {
                names.get(f"Value #{target['refId']}", names.get("Value", "")): target["expr"]
                for target in panel["targets"]
            }
            judged = [
                (steps[override["matcher"]["options"]], property_["value"]["steps"])
                for override in field["overrides"]
                for property_ in override["properties"]
                if property_["id"] == "thresholds" and override["matcher"]["options"] in steps
            ]
        for expr, levels in judged:
            if any(name in expr for name in JUDGED) and len(levels) > 1:
                assert re.search(r"/ on \([^)]*\) group_left \(\) max by \([^)]*\) \(\w+_threshold_", expr), panel[
                    "title"
                ]


def test_fences_timeouts_and_coordinator_moves_can_be_marked_and_important_events_are(dashboard: Json) -> None:
    assert {note["name"]: note["enable"] for note in notes_of(dashboard)} == {
        "Fences": False,
        "Timeouts": False,
        "Coordinator moves": False,
        "What happened": False,
        "Important events": True,
    }


def test_the_address_of_the_agents_page_has_no_default(dashboard: Json) -> None:
    assert variable(dashboard, "agent_page")["query"] == ""


def test_every_number_of_the_overview_links() -> None:
    tiles = [panel for panel in panels(_overview()) if panel["type"] == "stat"]
    assert len(tiles) >= 12
    assert [panel["title"] for panel in tiles if not panel["fieldConfig"]["overrides"]] == []


def test_one_blind_replica_is_a_source_that_does_not_answer() -> None:
    (tile,) = (panel for panel in panels(_overview()) if panel["title"] == "Sources not answering")
    (target,) = tile["targets"]
    assert re.fullmatch(
        r"sum\(1 - min by \(kafka_cluster, source, target\) \(kafka_eos_source_up\{[^{}]*\}\)\)", target["expr"]
    )


def test_a_firing_alert_has_its_instant_its_runbook_and_the_agents_page() -> None:
    (table,) = (panel for panel in panels(_overview()) if panel["title"] == "Which alerts fire?")
    assert [column["displayName"] for column in table["options"]["sortBy"]] == ["Severity", "Since"]
    assert "ALERTS_FOR_STATE{" in table["targets"][1]["expr"]
    urls = {
        override["matcher"]["options"]: property_["value"][0]["url"]
        for override in table["fieldConfig"]["overrides"]
        for property_ in override["properties"]
        if property_["id"] == "links"
    }
    assert urls["Alert"].endswith("/alerts/runbooks/${__value.text}.md")
    assert urls["Cluster"].startswith("${agent_page}/?cluster=${__value.text")


def _overview() -> Json:
    made: Json = json.loads(files()[GENERATED / "kafka-eos-overview.json"])
    return made


def test_a_phone_shows_the_first_row_whole_and_grafana_migrates_nothing(dashboard: Json) -> None:
    """Below each other, at most six low numbers; a dashboard of an older schema would be migrated."""
    first, *others = dashboard["panels"]
    top = [panel for panel in others if panel["gridPos"]["y"] == 1]
    assert first["type"] == "row"
    assert {panel["type"] for panel in top} == {"stat"}
    assert sum(panel["gridPos"]["h"] for panel in top) <= 18
    assert dashboard["schemaVersion"] == SCHEMA_VERSION
    types = {"row", "stat", "timeseries", "table", "state-timeline"}
    assert {panel["type"] for panel in dashboard["panels"]} <= types


def notes_of(dashboard: Json) -> list[dict[str, Any]]:
    return [note for note in dashboard["annotations"]["list"] if "target" in note]


def recorded_in(query: str) -> list[str]:
    return re.findall(RECORDED, query)
