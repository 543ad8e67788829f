"""Which application an id belongs to by its form: the frameworks, and what names an instance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import catalogue
from exporter.applications.naming import HOST_ID, UUID_ID, form_of
from tests.helpers.strategies import names

UUID = "6f1d2c3e-0b1a-4c5d-8e9f-001122334455"
POD = st.tuples(
    st.text("456789bcdf", min_size=8, max_size=10),
    st.text("bcdfghjklmnpqrstvwxz2456789", min_size=4, max_size=4).map(lambda text: f"{text}x"),
).map("-".join)
ADDRESS = st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255)).map(
    lambda octets: "10." + ".".join(map(str, octets))
)
WORDS = st.from_regex(r"[a-z]{3,9}(-[a-z]{3,9}){0,2}", fullmatch=True).filter(lambda text: "-mm" not in text)


@pytest.mark.parametrize(
    ("transactional_id", "name", "kind"),
    [
        # Kubernetes: Deployment and ReplicaSet pods, CronJobs, StatefulSets and their domains
        ("orders-7d9f8b6c5d-x2x4z-0", "orders", "producer"),
        ("orders-7d9f8b6c5d-x2x4z", "orders", "producer"),
        ("tx-orders-7d9f8b6c5d-x2x4z-invoices", "tx-orders-invoices", "producer"),
        ("orders-5f7b9-x2x4z", "orders-5f7b9", "producer"),  # a hash has eight to ten digits; a Job has none
        ("orders-12345678-45678", "orders", "producer"),  # a pod's last part has a letter nearly always
        ("nightly-28391234-x2x4z", "nightly", "producer"),
        ("orders-0", "orders", "producer"),
        ("orders-0.orders.prod.svc.cluster.local-2", "orders", "producer"),
        # UUIDs anywhere; Streams counts its threads from 1
        (f"tx-{UUID}-0", "tx", "producer"),
        (f"{UUID}-orders", "orders", "producer"),
        (f"orders-{UUID}-out", "orders-out", "producer"),
        ("orders-6f1d2c3e0b1a4c5d8e9f001122334455-1", "orders", "producer"),
        (f"{UUID}-0", UUID_ID, "other"),
        (f"orders-{UUID}-0-17", "orders", "producer"),
        # Hosts
        ("host-10-0-3-17", "host", "producer"),
        ("orders-ip-10-0-3-17", "orders", "producer"),
        ("orders-10.0.3.17-4", "orders", "producer"),
        ("orders-10.0.3.17:9092-4", "orders", "producer"),
        ("10.0.3.17-4", HOST_ID, "other"),
        ("ip-10-0-3-17.eu-west-1.compute.internal-orders-2", "orders", "producer"),
        ("orders-fe80::1-4", "orders", "producer"),
        ("orders-2001:db8:0:0:0:0:0:1", "orders", "producer"),
        ("orders-3f2a9c1b7d4e-0", "orders", "producer"),
        ("job-8-0-3-17", "job-8-0", "producer"),  # of no private network: four numbers may be anything
        # Numbers
        ("orders0", "orders", "producer"),
        ("orders1", "orders", "producer"),
        ("zahlung-ü7", "zahlung-ü7", "producer"),
        ("pay-v2", "pay-v2", "producer"),
        ("s3", "s3", "producer"),
        ("oauth2", "oauth2", "producer"),
        ("orders2-0", "orders2", "producer"),
        # Spring
        ("tx-3", "tx", "producer"),
        ("tx-group.orders.3", "tx-group.orders", "producer"),
        # Streams, ksqlDB
        (f"totals-{UUID}-2", "totals", "streams"),
        (f"totals-{UUID}-10", "totals", "streams"),
        ("totals-0_3", "totals", "streams"),
        (f"_confluent-ksql-default_query_CSAS_A_7-{UUID}-1", "_confluent-ksql-default_query_CSAS_A_7", "streams"),
        (
            f"_confluent-ksql-default_transient_transient_A_1_17-{UUID}-1",
            "_confluent-ksql-default_transient",
            "streams",
        ),
        # Connect without a known group: Debezium's only task
        ("etl-inventory-connector-0", "etl-inventory-connector", "producer"),
        # Two numbers: Flink's KafkaSink, a pool of producers on a StatefulSet; FlinkKafkaProducer before KafkaSink
        ("flinkjob-0-1234", "flinkjob", "producer"),
        ("checkout-tx-checkout-2-0", "checkout-tx-checkout", "producer"),
        ("Sink: out-cbc357ccb763df2852fee8c4fc7d55f2-3", "Sink: out", "producer"),
        # Spark
        ("sums-application_1700000000000_0001-3", "sums", "producer"),
        ("sums-app-20261121140327-0001-3", "sums", "producer"),
        ("sums-local-1700000000000-3", "sums", "producer"),
        ("sums-spark-6f1d2c3e0b1a4c5d8e9f001122334455-3", "sums", "producer"),
        ("sums-attempt_202611211403_0001_m_000003_7", "sums", "producer"),
        # Others' marks
        ("x\0y-3", "x\0y", "producer"),
        ("-", "-", "producer"),
    ],
)
def test_an_id_is_of_the_application_that_its_form_names(transactional_id: str, name: str, kind: str) -> None:
    form = form_of(transactional_id)
    assert (form.name, form.kind) == (name, kind)
    assert form.rule


def test_a_task_of_mirror_maker_names_its_group_and_connector() -> None:
    form = form_of("a-mm2-MirrorSourceConnector-3")
    assert (form.kind, form.connect, form.connector) == ("connect_task", "a-mm2", "MirrorSourceConnector")


@given(WORDS, POD, POD, st.integers(0, 99))
def test_all_pods_of_a_deployment_are_one_application(application: str, one: str, other: str, number: int) -> None:
    assert form_of(f"{application}-{one}-{number}").name == form_of(f"{application}-{other}").name == application


@given(WORDS, ADDRESS, st.uuids(), st.sampled_from("-._:/#@"))
def test_hosts_and_uuids_at_the_end_are_no_part_of_the_name(
    application: str, address: str, uuid: object, between: str
) -> None:
    assert form_of(f"{application}{between}{address}").name == application
    assert form_of(f"{application}{between}{uuid}").name == application


@given(st.one_of(names.filter(bool), st.text("-._:/#@\0019abcdefxyz", min_size=1), st.text(min_size=1)))
def test_every_id_has_a_name_a_known_kind_and_a_rule(transactional_id: str) -> None:
    form = form_of(transactional_id)
    assert form.name
    assert form.rule
    assert form.kind in catalogue.APPLICATION_KINDS
