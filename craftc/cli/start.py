"""Imports of a command, in less time."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_SLOW = ("scipy.stats",)  # scikit-learn imports it when it starts, for functions that no command calls


class _Deferred(ModuleType):
    """Stands for a module until one of its attributes is read, which imports the module."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def quick_imports() -> Iterator[None]:
    """Slow modules are imported when they are used, and the garbage collector does not visit what is
    imported.

    It would do so again and again while there is more and more of it, and once more when the process ends,
    and find next to no garbage.
    """
    for name in _SLOW:
        sys.modules.setdefault(name, _Deferred(name))
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collected:
            gc.enable()
