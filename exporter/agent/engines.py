"""The settings of engines (Connect, Spark) and of audits, by the cluster that they are on."""

from __future__ import annotations

from typing import NamedTuple

from exporter.settings.root import Config
from exporter.settings.targets import Audits, Connect, Spark


class Engines(NamedTuple):
    """The settings of the engines on one cluster."""

    connect: tuple[Connect, ...] = ()
    spark: tuple[Spark, ...] = ()
    audits: tuple[Audits, ...] = ()

    @property
    def connect_groups(self) -> tuple[str, ...]:
        """The group ids by which their tasks' transactional ids are known."""
        return tuple(connect.group_id for connect in self.connect if connect.group_id)


def engines_of(config: Config, cluster: str) -> Engines:
    """The engines on this cluster: those that name it, and those that name none, which only a single one allows."""
    return Engines(
        connect=tuple(connect for connect in config.connect if connect.cluster in {"", cluster}),
        spark=tuple(spark for spark in config.spark if spark.cluster in {"", cluster}),
        audits=config.audits,
    )
