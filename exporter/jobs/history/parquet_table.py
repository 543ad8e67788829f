"""A folder of Parquet files on a file system that driver and workers mount: ``store.py`` has its layout."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from exporter.jobs.history.merged import merge_batches
from exporter.jobs.history.store import ROWS, HistoryStore
from exporter.jobs.history.task import BatchPlan, TaskFiles, results_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from exporter.jobs.history.index import Index


class ParquetTable:
    """The history in a folder that this process holds."""

    def __init__(self, spark: SparkSession, store: HistoryStore) -> None:
        self.spark, self._store = spark, store

    @property
    def last(self) -> Index | None:
        return self._store.last

    def write(self, plan: BatchPlan) -> Index:
        """Have the tasks write files, and make them visible. Raises OSError."""
        with self._store.under_way() as made:
            output = TaskFiles(made / ROWS, made, tuple(self._store.kept_files()))
            results = results_of(plan.frame(self.spark, output))
            return self._store.commit(made, results, int(time.time() * 1000))

    def maintain(self) -> None:
        """Merge small batches into copies for reports."""
        merge_batches(self._store)
