"""Growth of time and memory with the number of rows, of columns and of clusters, for every estimator.

    python benches/growth.py [--limit 20] [--only NAME ...] [--axis rows|columns|clusters ...] [--write]

One size varies, the others stay at 2 000 rows, 8 columns and 8 clusters; clusters vary in tables of 40 000
rows and 32 columns. Every fit runs in a process of its own with one thread. Times are CPU seconds of the fit,
the table being in memory. A series ends before a fit that is predicted to take more than the limit. The slope
is the exponent of a power of the size, from least squares on logarithms of the last three sizes, without
times below 20 ms. Memory is the growth of the peak resident set during the fit. ``--write`` replaces what was
measured in growth.json, and writes the tables to growth.md, from which the performance page draws them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from suite.tools import peak_beyond

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "growth.json"
SIZES = {
    "rows": (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    "columns": (4, 16, 64, 256, 1_024, 4_096),
    "clusters": (2, 8, 32, 128, 512, 1_000),
}
BASE = {"rows": 2_000, "columns": 8, "clusters": 8}
#: The other sizes where the clusters vary: enough rows for each, and enough columns to separate them.
MANY_CLUSTERS = {"rows": 40_000, "columns": 32}
SHORT = 0.02  # seconds: shorter fits consist of overhead


def blobs(rows: int, columns: int, clusters: int) -> Any:
    """Rows of unit normals around centres of standard deviation 3."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    X += 3 * rng.normal(size=(clusters, columns))[rng.integers(0, clusters, rows)]
    return X


def mixed(rows: int, columns: int, clusters: int) -> Any:
    """The same in half of the columns; the other half holds ten levels, one with a share of .64 in a
    cluster.
    """
    from craftc import MixedTable

    rng = np.random.default_rng(0)
    z, half = rng.integers(0, clusters, rows), columns // 2
    X = np.empty((rows, columns))
    X[:, :half] = rng.normal(size=(rows, half)) + 3 * rng.normal(size=(clusters, half))[z]
    for j in range(half, columns):
        X[:, j] = np.where(
            rng.random(rows) < 0.6, rng.integers(0, 10, clusters)[z], rng.integers(0, 10, rows)
        )
    return MixedTable.from_data(X, categorical=list(range(half, columns)))


def features(rows: int, columns: int, clusters: int) -> Any:
    """Sums of `clusters` features, each with a probability of .3, and noise of .3."""
    rng = np.random.default_rng(0)
    Z = (rng.random((rows, clusters)) < 0.3).astype(float)
    return Z @ rng.normal(size=(clusters, columns)) + 0.3 * rng.normal(size=(rows, columns))


def classes(rows: int, columns: int, clusters: int) -> Any:
    """Covariates in groups of eight that favour one of the classes; similar within a group."""
    rng = np.random.default_rng(0)
    y, group = np.arange(rows) % clusters, np.arange(columns) // 8
    X = 0.5 * (group % clusters == y[:, None]) + rng.normal(size=(rows, columns))
    return X, y, 0.9 * (group[:, None] == group)


@dataclass(frozen=True)
class Case:
    """A fit: `run` takes the table and the number of clusters and returns the fitted model."""

    table: Callable[[int, int, int], Any]
    run: Callable[[Any, int], Any]
    most: dict[str, int]  # largest size of an axis
    note: str = ""


def craft(table: Any, clusters: int) -> Any:
    from craftc import CRAFT

    return CRAFT(max_clusters=1_100, random_state=0, n_threads=1).fit(table)


def craft_capped(table: Any, clusters: int) -> Any:
    from craftc import CRAFT

    return CRAFT(clusters, random_state=0, n_threads=1).fit(table)


def dpmeans(X: Any, clusters: int) -> Any:
    from craftc import DPMeans

    return DPMeans(n_threads=1).fit(X)


def dpmeans_capped(X: Any, clusters: int) -> Any:
    from craftc import DPMeans

    return DPMeans(n_clusters=clusters, n_threads=1).fit(X)


def dpmeans_penalty(X: Any, clusters: int) -> Any:
    from craftc import DPMeans

    return DPMeans(5.0 * X.shape[1], n_threads=1).fit(X)


def k_prototypes(table: Any, clusters: int) -> Any:
    from craftc import KPrototypes

    return KPrototypes(clusters, update="batch", n_init=1, random_state=0, n_threads=1).fit(table)


def k_prototypes_online(table: Any, clusters: int) -> Any:
    from craftc import KPrototypes

    return KPrototypes(clusters, n_init=1, random_state=0, n_threads=1).fit(table)


def k_features(X: Any, clusters: int) -> Any:
    from craftc import KFeatures

    return KFeatures(clusters, random_state=0, n_threads=1).fit(X)


def bp_means(X: Any, clusters: int) -> Any:
    from craftc import BPMeans

    return BPMeans(0.1 * len(X) * X.shape[1] / clusters, random_state=0, n_threads=1).fit(X)


def mixture(X: Any, clusters: int) -> Any:
    from craftc import FeatureSelectionMixture

    return FeatureSelectionMixture(clusters, random_state=0, n_threads=1).fit(X)


def covariates(data: Any, clusters: int) -> Any:
    from craftc import ConvexCovariateClustering

    X, y, S = data
    return ConvexCovariateClustering(similarity=S, n_threads=1).fit(X, y)


def convex(X: Any, clusters: int) -> Any:
    from craftc import ConvexClustering

    return ConvexClustering(n_clusters=clusters, n_threads=1).fit(X)


def spectral(table: Any, clusters: int) -> Any:
    from craftc import GraphSpectralFeatures

    return GraphSpectralFeatures(min(clusters, len(table.schema.columns)), random_state=0, n_threads=1).fit(
        table
    )


CASES = {
    "CRAFT()": Case(mixed, craft, {}),
    "CRAFT(n_clusters=K)": Case(mixed, craft_capped, {}),
    "DPMeans()": Case(blobs, dpmeans, {}),
    "DPMeans(n_clusters=K)": Case(blobs, dpmeans_capped, {}),
    "DPMeans(lambda^2)": Case(blobs, dpmeans_penalty, {}),
    "KPrototypes(K)": Case(mixed, k_prototypes_online, {}),
    "KPrototypes(K, update='batch')": Case(mixed, k_prototypes, {}),
    "KFeatures(K)": Case(features, k_features, {"clusters": 32}),
    "BPMeans(lambda^2)": Case(features, bp_means, {"clusters": 32}),
    "FeatureSelectionMixture(K)": Case(blobs, mixture, {}),
    "ConvexCovariateClustering()": Case(classes, covariates, {}),
    "ConvexClustering(n_clusters=K)": Case(blobs, convex, {}),
    "GraphSpectralFeatures(K)": Case(mixed, spectral, {"clusters": 8}),
}


def child(name: str, rows: int, columns: int, clusters: int) -> None:
    """Fit once, after a fit of a small table that loads all modules; print CPU seconds, clusters and bytes of
    peak memory.
    """
    case = CASES[name]
    warnings.simplefilter("ignore")
    case.run(case.table(200, 4, 2), 2)
    table = case.table(rows, columns, clusters)
    seconds, fitted = [0.0], []

    def fit() -> None:
        start = time.process_time()
        fitted.append(case.run(table, clusters))
        seconds[0] = time.process_time() - start

    used = peak_beyond(fit)
    found = getattr(fitted[0], "n_clusters_", getattr(fitted[0], "n_features_", None))
    print(json.dumps({"seconds": seconds[0], "found": None if found is None else int(found), "bytes": used}))


def measure(name: str, sizes: dict[str, int], limit: float) -> dict[str, Any] | None:
    """Result of one fit in a process of its own; None above four times the limit."""
    command = [
        sys.executable,
        __file__,
        "--child",
        name,
        *(str(sizes[axis]) for axis in ("rows", "columns", "clusters")),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=4 * limit + 60
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise RuntimeError(f"{name} {sizes}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


Series = dict[int, dict[str, Any]]  # size -> seconds, clusters found, bytes


def series(name: str, axis: str, limit: float) -> Series:
    """Results along one axis, until the next fit is predicted to exceed the limit."""
    found: Series = {}
    for size in SIZES[axis]:
        if size > CASES[name].most.get(axis, size):
            break
        if len(found) >= 2:
            (a, first), (b, second) = list(found.items())[-2:]
            exponent = max(0.5, 0.2 + np.log(second["seconds"] / first["seconds"]) / np.log(b / a))
            if second["seconds"] * (size / b) ** exponent > limit:
                break
        sizes = BASE | (MANY_CLUSTERS if axis == "clusters" else {}) | {axis: size}
        result = measure(name, sizes, limit)
        if result is None:
            break
        found[size] = result
        megabytes = result["bytes"] / 1e6
        print(
            f"{name:<32} {axis:<9} {size:>10,} {result['seconds']:9.3f} s {megabytes:9.1f} MB, found "
            f"{result['found']}",
            flush=True,
        )
    return found


def slope(found: Series) -> float:
    """Exponent of the growth of time, NaN from fewer than two sizes."""
    kept = [(size, one["seconds"]) for size, one in found.items() if one["seconds"] >= SHORT]
    if len(kept) < 2:
        return np.nan
    x, y = np.log(np.array(kept[-3:])).T
    return float(np.polyfit(x, y, 1)[0])


def machine() -> str:
    processors = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return f"{processors[0] if processors else platform.machine()}, Python {platform.python_version()}"


def markdown(results: dict[str, dict[str, Any]]) -> str:
    """The tables: seconds per size and slope for each axis, and bytes per row."""
    measured = "; ".join(sorted({found["measured"] for found in results.values()}))
    lines = [
        "# Growth of time and memory",
        "",
        f"Measured with `python benches/growth.py --write`, one thread: {measured}.",
        "",
    ]
    for axis in SIZES:
        shown = {name: found[axis] for name, found in results.items() if found.get(axis)}
        if not shown:
            continue
        lines += [
            f"### Seconds against the number of {axis}",
            "",
            _row(["fit", *(f"{size:,}" for size in SIZES[axis]), "slope"]),
        ]
        lines.append(_row(["---"] * (len(SIZES[axis]) + 2)))
        for name, found in shown.items():
            cells = [f"{found[size]['seconds']:.3g}" if size in found else "-" for size in SIZES[axis]]
            lines.append(_row([f"`{name}`", *cells, _number(slope(found))]))
        lines.append("")
    shown = {name: found["rows"] for name, found in results.items() if found.get("rows")}
    if shown:
        lines += ["### Bytes per row of peak memory during the fit, beyond the table", ""]
        lines += [
            _row(["fit", *(f"{size:,} rows" for size in SIZES["rows"][2:])]),
            _row(["---"] * (len(SIZES["rows"][2:]) + 1)),
        ]
        for name, found in shown.items():
            cells = [
                f"{found[size]['bytes'] / size:.0f}" if size in found else "-" for size in SIZES["rows"][2:]
            ]
            lines.append(_row([f"`{name}`", *cells]))
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--limit", type=float, default=20.0, help="predicted CPU seconds of a fit that ends a series"
    )
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--axis", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--write", action="store_true", help="update growth.json and growth.md")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], *map(int, arguments.child[1:]))
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in arguments.only:
        found = {"measured": f"{date.today()}, {machine()}"} | {
            axis: series(name, axis, arguments.limit) for axis in arguments.axis
        }
        if arguments.write:
            kept = read_results()
            kept[name] = kept.get(name, {}) | found
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            (HERE / "growth.md").write_text(markdown(kept), encoding="utf-8")
        else:
            print(markdown({name: found}))


def read_results() -> dict[str, dict[str, Any]]:
    """What growth.json has, in the order of the fits."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for found in kept.values():
        found.update(
            {axis: {int(size): one for size, one in found[axis].items()} for axis in SIZES if axis in found}
        )
    return {name: kept[name] for name in CASES if name in kept}


if __name__ == "__main__":
    main()
