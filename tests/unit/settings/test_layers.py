"""Settings from KAFKA_EOS_ variables."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from exporter.config import Config, ConfigSource
from exporter.settings.layers import ConfigError

SERVERS = {"KAFKA_EOS_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": "k:1"}


def load(environ: dict[str, str]) -> Config:
    return ConfigSource(None, SERVERS | environ).load()


def problems(environ: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as raised:
        load(environ)
    return str(raised.value)


SECTIONS = {"audits", "brokers", "connect", "owners", "producers", "spark", "streams", "thresholds"}
"""Lists of sections that are empty by default: they have no variable of their own."""


def test_every_key_that_can_be_printed_can_be_set_by_its_variable() -> None:
    """Every leaf of the printed settings, turned into a variable, gives the same settings."""
    given = {"KAFKA_EOS_APPLICATIONS__0__PATTERN": "(?P<application>a)", "KAFKA_EOS_STATE__DIR": "somewhere"}
    config = load(given)
    variables: dict[str, str] = {}

    def flatten(prefix: str, value: object) -> None:
        if isinstance(value, dict):
            for key, child in value.items():
                flatten(f"{prefix}__{key.replace('.', '_')}", child)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for at, child in enumerate(value):
                flatten(f"{prefix}__{at}", child)
        elif value is not None and (value or prefix.rpartition("_")[2] not in SECTIONS):
            variables[prefix.upper()] = yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()

    for key, value in yaml.safe_load(ConfigSource(None, {**SERVERS, **given}).printed()).items():
        flatten(f"KAFKA_EOS_{key}", value)
    assert len(variables) > 20
    # A scalar is the text itself, without YAML's quotes.
    plain = {name: value.strip("'") for name, value in variables.items()}
    assert ConfigSource(None, plain).load() == config


def test_the_environment_wins_over_the_file_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("clusters: [{name: a, kafka: {bootstrap.servers: 'file:1', client.id: eos}}]")
    config = ConfigSource(file, {**SERVERS, "KAFKA_EOS_CLUSTERS__1__NAME": "b"} | {
        "KAFKA_EOS_CLUSTERS__1__KAFKA__BOOTSTRAP_SERVERS": "second:1"
    }).load()  # fmt: skip
    assert [(cluster.name, cluster.kafka.bootstrap_servers) for cluster in config.clusters] == [
        ("a", "k:1"),
        ("b", "second:1"),
    ]
    assert dict(config.clusters[0].kafka.items())["client.id"] == "eos"


@pytest.mark.parametrize(
    ("value", "addresses"),
    [
        ("127.0.0.1:1", ("127.0.0.1:1",)),
        ("[::1]:10618", ("[::1]:10618",)),
        ('["[::1]:10618", ":1"]', ("[::1]:10618", ":1")),
    ],
)
def test_a_list_is_one_text_or_a_list_in_brackets(value: str, addresses: tuple[str, ...]) -> None:
    assert load({"KAFKA_EOS_WEB__LISTEN_ADDRESS": value}).web.listen_address == addresses


def test_texts_of_the_environment_are_not_turned_into_numbers() -> None:
    assert load({"KAFKA_EOS_CLUSTERS__0__NAME": "007"}).clusters[0].name == "007"


def test_an_unknown_variable_is_a_problem_with_a_hint() -> None:
    assert problems({"KAFKA_EOS_WEB__LISTEN_ADRESS": "x"}) == (
        "KAFKA_EOS_WEB__LISTEN_ADRESS: unknown variable: no key listen_adress in web; did you mean listen_address?"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("KAFKA_EOS_CLUSTERS", "names no single key"),
        ("KAFKA_EOS_CLUSTERS__X__NAME", "a number from 0 comes next, as in KAFKA_EOS_CLUSTERS__0"),
        ("KAFKA_EOS_CLUSTERS__99999__NAME", "a number from 0 comes next"),
        ("KAFKA_EOS_LOG__LEVEL__X", "log.level has no keys below it"),
        ("KAFKA_EOS_CLUSTERS__0__KAFKA", "names no single key"),
        ("KAFKA_EOS_NOTHING", "no key nothing"),
    ],
)
def test_a_variable_that_leads_nowhere_says_where_it_went_wrong(name: str, text: str) -> None:
    assert f"{name}: " in problems({name: "x"})
    assert text in problems({name: "x"})


@pytest.mark.parametrize("service", ["KAFKA_EOS", "KAFKA_EOS_EXPORTER"])
def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_problem(service: str) -> None:
    load({
        f"{service}_SERVICE_HOST": "192.0.2.1",
        f"{service}_SERVICE_PORT": "10618",
        f"{service}_SERVICE_PORT_HTTP": "10618",
        f"{service}_PORT": "tcp://192.0.2.1:10618",
        f"{service}_PORT_10618_TCP": "tcp://192.0.2.1:10618",
        f"{service}_PORT_10618_TCP_ADDR": "192.0.2.1",
    })  # fmt: skip
    assert "unknown variable: no key web_portal" in problems({"KAFKA_EOS_WEB_PORTAL": "x"})


def test_a_gap_in_a_list_is_a_problem() -> None:
    assert "clusters[1]: must be a section" in problems({
        "KAFKA_EOS_CLUSTERS__2__NAME": "c", "KAFKA_EOS_CLUSTERS__2__KAFKA__BOOTSTRAP_SERVERS": "k:1"
    })  # fmt: skip


def test_a_problem_names_its_variable_and_not_its_secret() -> None:
    secret = "KAFKA_EOS_CLUSTERS__0__KAFKA__SASL_PASWORD"
    found = problems({secret: "hunter2", "KAFKA_EOS_LOG__FORMAT": "xml"})
    assert f"clusters[0].kafka.sasl.pasword (from {secret}): " in found
    assert "log.format (from KAFKA_EOS_LOG__FORMAT): must be one of 'text' or 'json'" in found
    assert "hunter2" not in found
