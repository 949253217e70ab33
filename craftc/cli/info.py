"""``craftc info MODEL``: what a model file holds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import cast

from craftc.cli.arguments import clean
from craftc.cli.columns import own_column_names
from craftc.cli.results import checksum_of
from craftc.cli.sources import model_file
from craftc.craft.base import CraftBase
from craftc.describe.named import NamedClusters
from craftc.describe.view import numbers_of, order_by_size
from craftc.saved.save_and_load import load_model, version_of_model
from craftc.table import Schema


def run(model: str, as_json: bool) -> None:
    content = contents(model_file(model))
    print(json.dumps(content, indent=1, default=str) if as_json else _page(content))


def contents(path: Path) -> dict[str, object]:
    """What a model file holds, as JSON-serializable values."""
    fitted = load_model(path)
    out: dict[str, object] = {
        "file": os.fspath(path),
        "estimator": type(fitted).__name__,
        "craftc": version_of_model(path),
        "bytes": path.stat().st_size,
        "sha256": checksum_of(path),
    }
    if hasattr(fitted, "n_clusters_"):
        out["n_clusters"] = int(fitted.n_clusters_)
    weight = getattr(fitted, "_weight", None)
    if weight is not None:
        out["weight"] = weight._asdict()
    sizes = getattr(fitted, "cluster_sizes_", None)
    if sizes is not None:
        out["rows"] = float(sizes.sum())
        order = fitted._fitted.by_number if isinstance(fitted, CraftBase) else order_by_size(sizes)
        numbers = numbers_of(order).tolist()
        names = getattr(fitted, "cluster_names_", [None] * len(sizes))
        clusters = [
            {"number": number, "label": k, "rows": float(size), "name": name}
            for k, (number, size, name) in enumerate(zip(numbers, sizes.tolist(), names, strict=True))
        ]
        out["clusters"] = sorted(clusters, key=lambda each: int(str(each["number"])))
    schema = getattr(fitted, "schema_", None)
    if isinstance(schema, Schema):
        names = fitted._own_names["columns"] if isinstance(fitted, NamedClusters) else {}
        out["columns"] = _columns(schema, own_column_names(names, schema))
        out["reading"] = {"missing": schema.missing, "named": schema.named, **schema.reading}
    elif hasattr(fitted, "feature_names_in_"):
        out["columns"] = [{"name": str(name), "kind": "number"} for name in fitted.feature_names_in_]
    elif hasattr(fitted, "n_features_in_"):
        out["columns"] = [{"name": f"x{d}", "kind": "number"} for d in range(int(fitted.n_features_in_))]
    shown = {name: _plain(value) for name, value in fitted.get_params(deep=False).items()}
    out["parameters"] = shown
    defaults = {name: each.default for name, each in signature(type(fitted)).parameters.items()}
    out["given"] = {name: value for name, value in shown.items() if value != _plain(defaults[name])}
    return out


def _columns(schema: Schema, own_names: Mapping[str, str]) -> list[dict[str, object]]:
    levels = dict(zip(schema.categorical_index.tolist(), schema.levels, strict=True))
    out: list[dict[str, object]] = []
    for j, name in enumerate(schema.columns):
        own: dict[str, object] = {"name": str(name)}
        if (shown := own_names.get(name, name)) != name:
            own["own_name"] = shown
        if j in levels:
            own |= {"kind": "ordered" if j in schema.ordered else "category", "n_levels": len(levels[j])}
        else:
            own["kind"] = "date" if j in schema.dates else "number"
        out.append(own)
    return out


def _plain(value: object) -> object:
    """A parameter as JSON has it: numbers, texts and truth values; others as text."""
    return value if value is None or isinstance(value, bool | int | float | str) else clean(repr(value))


def _page(content: dict[str, object]) -> str:
    lines = []
    for name in ("file", "estimator", "craftc", "bytes", "sha256", "rows", "n_clusters"):
        if name in content:
            value = content[name]
            counted = isinstance(value, int | float) and name != "n_clusters"
            text = f"{value:,.10g}" if counted else str(value)
            lines.append(f"{name:>12}: {clean(text)}")
    if weight := cast("dict[str, object]", content.get("weight", {})):
        scaled = ", scaled to the rows that they are worth" if weight["scaled"] else ""
        lines.append(f"{'weight':>12}: {clean(str(weight['column']))}; rows are sums of it{scaled}")
    clusters = content.get("clusters")
    if isinstance(clusters, list):
        lines += ["", "cluster       rows  name"]
        lines += [
            f"{each['number']:7d}  {each['rows']:9,g}  {clean(str(each['name'] or ''))}" for each in clusters
        ]
    columns = content.get("columns")
    if isinstance(columns, list):
        lines += ["", f"{len(columns)} columns:"]
        for each in columns:
            n = f", {each['n_levels']} levels" if "n_levels" in each else ""
            own = f" ({clean(str(each['own_name']))})" if "own_name" in each else ""
            lines.append(f"  {clean(str(each['name']))}{own}: {each['kind']}{n}")
    if given := cast("dict[str, object]", content["given"]):
        lines += ["", "Parameters that are not the defaults:"]
        lines += [f"  {name}: {clean(str(value))}" for name, value in given.items()]
    reading = content.get("reading")
    if isinstance(reading, dict):
        lines += ["", "How the table was read:", f"  missing cells: {reading['missing']}"]
        lines += [_said("file", reading["file"])] if reading.get("file") else []
        lines += [_said(name, said) for name, said in reading.get("columns", {}).items()]
    return "\n".join(lines)


def _said(what: str, said: Mapping[str, object]) -> str:
    """How a file or a column was read, as one line."""
    parts = []
    for name, value in said.items():
        if value not in ("", [], 0):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else repr(value)
            parts.append(f"{name.replace('_', ' ')} {shown}")
    return f"  {clean(what)}: {clean('; '.join(parts) or 'as it is')}"
