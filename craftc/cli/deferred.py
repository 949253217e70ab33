"""Imports that wait until a module is used, so that a command starts sooner."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_SLOW = ("scipy.stats",)  # scikit-learn imports it when it starts, for functions that no command calls


class _Deferred(ModuleType):
    """Stands for a module until one of its attributes is read, which imports the module."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def defer_slow_imports() -> None:
    """Put off the import of slow modules that have not been imported yet. What they do does not change."""
    for name in _SLOW:
        sys.modules.setdefault(name, _Deferred(name))
