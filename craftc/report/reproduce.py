"""How to compute the clusters of a report again."""

from __future__ import annotations

import hashlib
import inspect
import numbers
import platform
import shlex

import numpy as np
import sklearn

from craftc import _about
from craftc.craft import CRAFT
from craftc.craft.base import CraftBase
from craftc.report.page import Page
from craftc.table import MixedTable
from craftc.table.dates import PARTS
from craftc.table.levels import LevelEncoding

_MOST_COLUMNS = 40  # named in a shell command
_LONGEST_SOURCE = 200  # characters of a value in Python
_IN_SHELL = {
    "n_clusters": "--clusters",
    "min_cluster_size": "--min-cluster-size",
    "max_cluster_size": "--max-cluster-size",
    "outlier_price": "--outlier-price",
    "price_factor": "--price-factor",
    "feature_sharing": "--feature-sharing",
    "missing": "--missing",
    "random_state": "--seed",
}


def reproduce(page: Page) -> dict[str, str]:
    """How to compute the clusters of a page again: texts by name."""
    return {
        "python": _python(page),
        "command": _command(page),
        "seed": _seed(page.model),
        "versions": _versions(),
        "fingerprint": _fingerprint(page.table),
    }


def _python(page: Page) -> str:
    model = page.model
    arguments = ", ".join(f"{name}={_source(value)}" for name, value in _changed(model).items())
    weights = ", sample_weight=weights" if page.weighted else ""
    if (groups := _groups(model)) is not None:
        weights += f", groups={groups!r}" if groups else ", groups=groups"
    without = "" if page.target is None else f"  # the table without its column {page.target.name!r}"
    if (keep := _refit(model)) is not None:
        option = ', keep="clusters"' if keep else ""
        lines = [
            'model = craftc.load_model("FORMER.craftc")',
            f"model.refit(table{weights}{option}){without}",
        ]
        return "\n".join(["import craftc", "", *lines, "model.summary()"])
    lines = [
        "import craftc",
        "",
        f"model = craftc.{type(model).__name__}({arguments}).fit(table{weights}){without}",
    ]
    own = model._own_names["clusters"]
    lines += [f"model.rename_clusters({own!r})"] if own and len(repr(own)) <= _LONGEST_SOURCE else []
    return "\n".join([*lines, "model.summary()"])


def _groups(model: CraftBase) -> str | None:
    """The column of the groups that stay together; "" if it has no name."""
    return model._groups if isinstance(model, CRAFT) else None


def _refit(model: CraftBase) -> bool | None:
    """Whether the latest refit of a model has kept its clusters; None after a fit."""
    if not isinstance(model, CRAFT) or not hasattr(model, "changes_"):
        return None
    return model._fixed is not None


def _command(page: Page) -> str:
    """``craftc cluster`` with the role of every column; empty where it lacks an option for a parameter."""
    if (keep := _refit(page.model)) is not None:
        option = " --keep-clusters" if keep else ""
        weighted = page.weighted or page.target is not None
        return "" if weighted else f"craftc refit FORMER TABLE.csv{option} --out FOLDER"
    parameters = _changed(page.model)
    names = [*page.table.schema.columns, *([] if page.target is None else [page.target.name])]
    odd = any(
        not name.isprintable() or "\ufffd" in name or name.startswith("-") or len(name) > 60 for name in names
    )
    seeded = isinstance(page.model.random_state, numbers.Integral)
    known = {*_IN_SHELL, "column_weights", "unusable", "n_threads", "verbose"}
    has_options = isinstance(page.model, CRAFT) and set(parameters) <= known
    groups = _groups(page.model)
    if page.weighted or groups == "" or odd or not seeded or not has_options or len(names) > _MOST_COLUMNS:
        return ""
    words = ["craftc cluster TABLE.csv"]
    if page.target is not None:
        words.append(f"--target {shlex.quote(page.target.name)}")
    if groups:
        words.append(f"--groups {shlex.quote(groups)}")
    words += [
        f"{option} {shlex.quote(_in_shell(parameters[name]))}"
        for name, option in _IN_SHELL.items()
        if parameters.get(name) is not None
    ]
    schema, encoding = page.table.schema, page.model._fitted.encoding
    weights = zip(schema.columns, page.model._fitted.column_weights, strict=True)
    if weighed := [shlex.quote(f"{name}={w:.10g}") for name, w in weights if w != 1.0]:
        words.append(" ".join(["--column-weight", *weighed]))
    periods = encoding.periods if isinstance(encoding, LevelEncoding) else {}
    days = [schema.columns[j] for j in schema.dates]
    if any(f"{day} {part}" in periods for day in days for part in PARTS):
        words.append("--dates parts")
    # the command line finds dates, their parts and times of day itself
    numbers_of_file = [name for name in schema.numeric_names if name not in (*periods, *days)]
    roles = {"--numeric": numbers_of_file, "--categorical": schema.categorical_names}
    words += [" ".join([option, *map(shlex.quote, names)]) for option, names in roles.items() if names]
    own = page.model._own_names
    words += ["--labels NAMES.csv"] if any(own.values()) else []
    return " \\\n  ".join([*words, "--out FOLDER"])


def _in_shell(value: object) -> str:
    """A parameter as an option; a range as LOW-HIGH."""
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _changed(model: CraftBase) -> dict[str, object]:
    """The parameters of a model that differ from their defaults."""
    signature, changed = inspect.signature(type(model)), dict[str, object]()
    for name, value in model.get_params(deep=False).items():
        default = signature.parameters[name].default
        if not (type(value) is type(default) and value == default):
            changed[name] = value
    return changed


def _source(value: object) -> str:
    """A parameter as Python; objects that have no short form as an ellipsis."""
    plain = (
        value is None
        or isinstance(value, str | bool | numbers.Number)
        or (isinstance(value, tuple | list | dict) and len(value) <= 8)
    )
    text = repr(value.item() if hasattr(value, "item") else value) if plain else "..."
    return text if len(text) <= _LONGEST_SOURCE and " at 0x" not in text else "..."


def _seed(model: CraftBase) -> str:
    value = model.random_state
    if value is None:
        return "none was given, so another run may give other clusters; pass random_state"
    if isinstance(value, numbers.Integral):
        return f"{int(value)}; the same seed gives the same result on any number of threads"
    return "a random state of the caller"


def _versions() -> str:
    packages = f"NumPy {np.__version__}, scikit-learn {sklearn.__version__}"
    return f"craftc {_about.version()}, Python {platform.python_version()}, {packages}"


def _fingerprint(table: MixedTable) -> str:
    """SHA-256 of the numeric block and the codes of a table."""
    digest = hashlib.sha256(table.numeric.data)
    digest.update(table.codes.data)
    return digest.hexdigest()
