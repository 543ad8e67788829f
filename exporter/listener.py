"""The import path of version 0.1 for ``exporter.standalone.listener``. It stays."""

from exporter.standalone.listener import *  # noqa: F403
