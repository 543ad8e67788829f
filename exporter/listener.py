"""The import path that programs take for ``exporter.standalone.listener``."""

from exporter.standalone.listener import *  # noqa: F403
