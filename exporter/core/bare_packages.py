"""Modules of a library without what its package imports beside them, which is never called here and takes memory."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

_OF_THE_PACKAGE = frozenset({"__all__", "__version__"})


class _BarePackage(ModuleType):
    """A package whose own module runs at the first use of a name in it that is no module."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name not in _OF_THE_PACKAGE:
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]  # the package as it always is
        assert self.__spec__ is not None  # noqa: S101 -- of importlib
        assert self.__spec__.loader is not None  # noqa: S101 -- as above
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def bare(name: str) -> None:
    """Let ``import NAME.MODULE`` import the module, and not all that ``NAME/__init__.py`` names.

    Nothing is done where the package is imported already. Whoever uses the package itself finds it as it always is.
    """
    if name in sys.modules or (spec := importlib.util.find_spec(name)) is None:
        return
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _BarePackage
    sys.modules[name] = package
