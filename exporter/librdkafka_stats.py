"""The import path that programs take for ``exporter.standalone.librdkafka_stats``."""

from exporter.standalone.librdkafka_stats import *  # noqa: F403
