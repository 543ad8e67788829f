"""The import path of version 0.1 for ``exporter.standalone.librdkafka_stats``. It stays."""

from exporter.standalone.librdkafka_stats import *  # noqa: F403
