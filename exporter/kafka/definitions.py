"""kafka-python's message definitions without its clients, which are never called here and take 12 MB."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

_OF_THE_PACKAGE = frozenset({"__all__", "__version__"})


class _WithoutClients(ModuleType):
    """The package ``kafka`` whose own module runs at the first use of a name in it, such as a client."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name not in _OF_THE_PACKAGE:
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]  # the package as it always is
        assert self.__spec__ is not None  # noqa: S101 -- of importlib
        assert self.__spec__.loader is not None  # noqa: S101 -- as above
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def without_clients() -> None:
    """Let ``import kafka.protocol`` import what it names, and not the clients in ``kafka/__init__.py``.

    Nothing is done where ``kafka`` is imported already. Everything else that uses kafka-python works as before.
    """
    if "kafka" in sys.modules or (spec := importlib.util.find_spec("kafka")) is None:
        return
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _WithoutClients
    sys.modules["kafka"] = package
