"""A Spark driver that takes commands, line by line: ``start NAME TOPIC KIND``, ``stop NAME``, ``await NAME``.

Run by ``testkit.spark``. Its queries read committed records only. A query of kind ``copy`` throws away what it reads,
``fail`` raises in its first batch, ``stick`` never comes back from it, and ``once`` is a copy without a name that ends
with what is there. Each command is answered by one line.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from exporter.jobs.session import kafka_connector, spark_session
from exporter.listener import EosListener
from testkit.processes import QUICK_START


def main() -> int:
    options: dict[str, Any] = json.loads(sys.argv[1])
    conf = {
        "spark.driver.memory": "768m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": options["event_log"],
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.noDataProgressEventInterval": "2000",
    }
    with spark_session(
        options["application"], master="local[2]", packages=[kafka_connector()], conf=conf, java_options=QUICK_START
    ) as spark:
        # One line and its address is all that a job needs.
        for url, cluster in options["reports"]:
            spark.streams.addListener(EosListener(url, cluster=cluster))
        queries: dict[str, StreamingQuery] = {}
        print("ready", flush=True)
        for line in sys.stdin:
            command, name, *rest = line.split()
            if command == "start":
                queries[name] = start(spark, options, name, *rest)
            elif command == "stop":
                queries[name].stop()
            else:
                queries[name].awaitTermination()  # raises what the query died of, as it does to everybody's driver
            print("done", flush=True)
    return 0


def start(spark: SparkSession, options: dict[str, Any], name: str, topic: str, kind: str) -> StreamingQuery:
    """Start a query of this kind on a topic."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options["bootstrap"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    writer = records.writeStream.queryName(name).trigger(processingTime="500 milliseconds")
    writer = writer.option("checkpointLocation", str(Path(options["checkpoints"]) / name))
    match kind:
        case "fail":
            return writer.foreachBatch(fail).start()
        case "stick":
            return writer.foreachBatch(stick).start()
        case "once":
            return records.writeStream.trigger(availableNow=True).format("noop").start()
    return writer.format("noop").start()


def fail(_: DataFrame, number: int) -> None:
    raise ValueError(f"batch {number} is not to our taste")


def stick(_: DataFrame, __: int) -> None:
    threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
