"""The settings of a file and of flags. The environment has test_config_environment.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from exporter.config import Config, ConfigSource, split_address
from exporter.settings.layers import ConfigError
from exporter.settings.layers import Path as SettingPath

SECRET = "hunter2"
UNIT = "write a number with its unit, such as 500ms, 30s, 5m or 1h30m"
ADDRESS = "write HOST:PORT, [IPV6]:PORT or :PORT, such as 127.0.0.1:10618"

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(
        text: str,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[SettingPath, tuple[str, object]] | None = None,
    ) -> Config:
        file = tmp_path / "config.yml"
        file.write_text(text)
        return ConfigSource(file, environ or {}, flags or {}).load()

    return load


def printed(folder: Path) -> str:
    """The file that ``load`` wrote, as ``run --print-config`` prints it."""
    return ConfigSource(folder / "config.yml", {}).printed()


def problems(load: Load, text: str, **layers: object) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(text, **layers)
    return [str(problem) for problem in raised.value.problems]


MINIMAL = "clusters: [{kafka: {bootstrap.servers: 'k1:9092'}}]\n"


def test_one_bootstrap_server_is_all_that_is_needed(load: Load) -> None:
    config = load(MINIMAL)
    [cluster] = config.clusters
    assert cluster.kafka.bootstrap_servers == "k1:9092"
    assert (cluster.name, cluster.lso.interval, cluster.lso.stall_after) == ("", 5.0, 30.0)
    assert config.web.listen_address == (":10618",)


def test_every_key_of_the_example_is_understood(load: Load) -> None:
    config = load("""
state: {dir: /var/lib/kafka-eos-exporter}
web: {listen_address: ["127.0.0.1:10618", "[::1]:10618"], route_prefix: eos/}
log: {level: WARNING, format: json}
clusters:
  - name: prod
    kafka: {bootstrap.servers: "k1:9092,k2:9092", client.id: eos}
    topics: {include: ["^orders"], exclude: ["-tmp$"]}
    lso: {interval: 2s, sweep_interval: 2m, stall_after: 1m30s}
    transactions: {interval: 10s, applications: 50, open_transactions: 5, fenced_ids: 6, unclean_ends: 7}
    groups: {interval: 1m, include: "^orders-", exclude: [], limit: 10}
applications: [{pattern: "^(?P<application>billing)-.*"}]
""")
    assert config.state.dir == Path("/var/lib/kafka-eos-exporter")
    assert config.web.route_prefix == "/eos"
    assert config.log.level == "warning"
    [cluster] = config.clusters
    assert cluster.lso.stall_after == 90
    assert cluster.groups.include == ("^orders-",)
    assert cluster.transactions.applications == 50
    assert config.applications[0].pattern == "^(?P<application>billing)-.*"


def test_all_problems_are_reported_at_once_each_with_its_path(load: Load) -> None:
    assert problems(
        load,
        """
web: {listen_address: ":99999", rout_prefix: /x}
log: {level: loud}
clusters:
  - kafka: {bootstrap.servers: "k1:9092"}
    lso: {stall_after: 30, interval: 0s}
    groups: {limit: many, interval: 300y}
  - {}
applications: [{pattern: "^x"}, {pattern: "("}]
nonsense: []
""",
    ) == [
        f"web.listen_address[0]: ':99999' is no address; {ADDRESS}",
        "web.rout_prefix: unknown key; did you mean route_prefix?",
        "log.level: must be one of 'debug', 'info', 'warning' or 'error'",
        "clusters[0].lso.interval: must be longer than nothing, such as 30s",
        f"clusters[0].lso.stall_after: '30' is no duration; {UNIT}: 30s",
        "clusters[0].groups.interval: must be 100y or less",
        "clusters[0].groups.limit: must be a whole number",
        "clusters[1].kafka: is required, with at least bootstrap.servers",
        "applications[0].pattern: needs a group of this name: (?P<application>...), as in ^(?P<application>billing)-.*",
        "applications[1].pattern: is no regular expression: missing ), unterminated subpattern at position 0",
        (
            "nonsense: unknown key; known here: applications, audits, clusters, connect, ingest, journal, "
            "log, owners, producers, "
            "spark, state, streams, thresholds, web"
        ),
    ]


def test_problems_of_kafka_properties_have_their_path_too(load: Load) -> None:
    found = problems(load, "clusters: [{kafka: {security.protocl: SSL}}]")
    assert any(problem.startswith("clusters[0].kafka.security.protocl: ") for problem in found)
    assert any(problem.startswith("clusters[0].kafka.bootstrap.servers: ") for problem in found)


@pytest.mark.parametrize("text", ["", "clusters: []", "clusters:", "log: {level: info}"])
def test_a_file_without_a_cluster_says_what_to_give(load: Load, text: str) -> None:
    assert problems(load, text) == [
        "clusters: no cluster is configured: give --bootstrap-server HOST:PORT, or clusters in the file of --config"
    ]


def test_several_clusters_need_names_of_their_own(load: Load) -> None:
    kafka = "kafka: {bootstrap.servers: 'k:9092'}"
    assert problems(load, f"clusters: [{{name: a, {kafka}}}, {{{kafka}}}, {{name: a, {kafka}}}]") == [
        "clusters[1].name: is required when there are several clusters",
        "clusters[2].name: is that of clusters[0] too: give each its own",
    ]


def test_a_key_without_a_value_means_its_default(load: Load) -> None:
    [cluster] = load(MINIMAL + "web:\n").clusters
    assert load("clusters:\n- kafka: {bootstrap.servers: 'k:1'}\n  topics:\n    exclude:\n").clusters[0].topics == (
        cluster.topics
    )


def test_texts_stay_what_was_written(load: Load) -> None:
    config = load("clusters: [{name: on, kafka: {bootstrap.servers: 'k:1', client.id: 0123}}]")
    assert config.clusters[0].name == "on"
    assert dict(config.clusters[0].kafka.items())["client.id"] == "0123"


def test_a_key_that_stands_twice_is_a_problem(load: Load) -> None:
    [problem] = problems(load, "log: {level: info, level: debug}")
    assert "the key level is here twice" in problem


def test_a_file_that_is_not_there_is_one_problem() -> None:
    with pytest.raises(ConfigError) as raised:
        ConfigSource(Path("missing.yml"), {}).load()
    assert str(raised.value) == "missing.yml: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "text",
    [
        f"clusters: [{{kafka: {{bootstrap.servers: 'k:1', sasl.password: *{SECRET}}}}}]",
        f"clusters: [{{kafka: {{bootstrap.servers: 'k:1', sasl.password: !{SECRET} x}}}}]",
        f'clusters:\n- kafka:\n    sasl.password: "{SECRET}',
        f"clusters:\n- kafka:\n    sasl.password: '{SECRET}' '{SECRET}'",
        f"clusters:\n- kafka:\n    bootstrap.servers: k:1\n   sasl.password: {SECRET}",
        f"clusters: [{{kafka: {{sasl.password={SECRET}}}}}]",
        f"clusters: [{{kafka: {{sasl.pasword: {SECRET}}}}}]",
        f"clusters: [{{kafka: {{sasl.password: {SECRET}, sasl.password: {SECRET}}}}}]",
        f"clusters: [{{sasl.password: {SECRET}}}]",
        f"clusters: [{SECRET}]",
        f"clusters: {SECRET}",
        f"clusters: [{{kafka: {SECRET}}}]",
        f"sasl.password: {SECRET}",
        f"clusters: [{{kafka: {{bootstrap.servers: 'k:1', security.protocol: SASL_SSL, sasl.password: {SECRET}}}}}]",
        f"clusters: [{{kafka: {{bootstrap.servers: 'k:1', sasl.jaas.config: 'x password={SECRET}'}}}}]",
        f"{SECRET}\x00",
    ],
)
def test_no_problem_shows_a_secret(load: Load, text: str) -> None:
    assert SECRET not in "\n".join(problems(load, text))


WITH_SECRET = f"""
clusters:
- kafka:
    bootstrap.servers: k:1
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.username: eos
    sasl.password: {SECRET}
"""


def test_secrets_are_hidden_wherever_settings_are_shown(load: Load, tmp_path: Path) -> None:
    config = load(WITH_SECRET)
    for shown in (repr(config), str(config), printed(tmp_path), repr(config.clusters[0].kafka)):
        assert SECRET not in shown
        assert "eos" in shown


def test_printed_settings_read_back_to_the_same_settings(load: Load, tmp_path: Path) -> None:
    config = load(MINIMAL + "web: {listen_address: '[::1]:10618'}\napplications: [{pattern: '(?P<application>a)'}]")
    assert load(printed(tmp_path)) == config


def test_a_secret_from_a_file_is_printed_as_that_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET + "\n")
    config = load(WITH_SECRET.replace(f"sasl.password: {SECRET}", f"sasl.password.file: {tmp_path}/password"))
    assert SECRET not in printed(tmp_path)
    assert load(printed(tmp_path)) == config


def test_flags_win_over_the_file_and_mean_every_cluster(load: Load) -> None:
    text = "clusters: [{name: a, kafka: {bootstrap.servers: 'k:1'}}, {name: b, kafka: {bootstrap.servers: 'l:1'}}]"
    config = load(text, flags={("clusters", "lso", "stall_after"): ("--lso.stall-after", "3s")})
    assert [cluster.lso.stall_after for cluster in config.clusters] == [3, 3]


def test_a_flag_for_one_cluster_is_refused_where_there_are_several(load: Load) -> None:
    text = "clusters: [{name: a, kafka: {bootstrap.servers: 'k:1'}}, {name: b, kafka: {bootstrap.servers: 'l:1'}}]"
    flags = {("clusters", "kafka", "bootstrap.servers"): ("--bootstrap-server", "m:1")}
    assert problems(load, text, flags=flags) == [
        "--bootstrap-server: means one cluster, and 2 are configured: set it in the file"
    ]


def test_a_problem_names_the_flag_that_it_came_from() -> None:
    flags: dict[SettingPath, tuple[str, object]] = {
        ("clusters", "kafka", "bootstrap.servers"): ("--bootstrap-server", "k:1"),
        ("log", "level"): ("--log.level", "loud"),
    }
    with pytest.raises(ConfigError, match=r"^log\.level \(from --log\.level\): must be one of"):
        ConfigSource(None, {}, flags).load()


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("127.0.0.1:10618", "127.0.0.1", 10618),
        ("[::1]:1", "::1", 1),
        (":0", "", 0),
        ("host.example:80", "host.example", 80),
    ],
)
def test_listen_addresses_are_split(address: str, host: str, port: int) -> None:
    assert split_address(address) == (host, port)


@pytest.mark.parametrize("address", ["", "10618", "::1:10618", "host:", "host:65536", "http://host:80", "[::1]"])
def test_other_listen_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"write HOST:PORT"):
        split_address(address)
