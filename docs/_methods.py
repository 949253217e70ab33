"""Selects the methods that the page of a class describes: those of craftc.

Methods inherited from scikit-learn are only listed.
"""

from __future__ import annotations

import inspect
from typing import Any

import craftc
from craftc import craft, distributed, embed, spectral, table


def of(cls: type) -> dict[str, list[str]]:
    """The public methods and properties of a class, separated into those of craftc and inherited ones."""
    found: dict[str, list[str]] = {"own": [], "properties": [], "other": []}
    for name in sorted(name for name in dir(cls) if not name.startswith("_")):
        thing: Any = inspect.getattr_static(cls, name)
        if isinstance(thing, property):
            found["properties"].append(name)
            continue
        try:
            thing = getattr(cls, name)
        except AttributeError:  # available only for some parameters; the wrapped function has the module
            thing = getattr(thing, "fn", thing)
        if callable(thing):
            ours = str(getattr(thing, "__module__", "")).startswith("craftc")
            found["own" if ours else "other"].append(name)
    return found


def of_all() -> dict[str, dict[str, list[str]]]:
    """The same for all public classes, keyed by their name in the API reference."""
    modules = (craftc, craft, distributed, embed, spectral, table)
    named = (
        (f"{module.__name__}.{name}", getattr(module, name)) for module in modules for name in module.__all__
    )
    return {name: of(thing) for name, thing in named if inspect.isclass(thing)}
