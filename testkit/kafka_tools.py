"""Kafka's own tools as commands in a folder, by the names that its download gives them."""

from __future__ import annotations

import shlex
from pathlib import Path

from testkit.processes import java

CLASSES = {
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
}
HEAP_MB = 256


def write_tools(folder: Path, library: Path) -> Path:
    """Write a script for each tool; ``library`` is the folder with the jars of Kafka. Returns the scripts' folder."""
    made = folder / "bin"
    made.mkdir(exist_ok=True)
    for name, main in CLASSES.items():
        script = made / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(java(HEAP_MB, library, main, log_level="error"))} "$@"\n')
        script.chmod(0o755)
    return made
