"""CRAFT and other packages on real tables: agreement with the classes, number of clusters, processor seconds.

    python benches/peers/comparison.py [--data DIR] [--tables NAME ...] [--methods NAME ...] [--seeds N]
    [--limit SECONDS] [--out FILE]

Prints the tables of docs/comparison.md. No method sees the classes. Every fit runs in a process of its own,
on one thread, with a limit of its processor time, which includes what prepares the table: imputation,
scaling and encoding, and the search for the number of clusters. Packages that are not installed
(`pip install kmodes pykamila stepmix`) are named and skipped.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import multiprocessing
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

if Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    sys.path.pop(0)  # `kmodes` is the package, not the file of this folder
sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from peers.craft import read_table
from replication.automatic import Table, count
from replication.craft_runs import data_folder, short

from craftc import CRAFT

Labels = NDArray[Any]

#: Real tables, chosen before the first measurement, by the kinds of their columns and their missing cells.
TABLES = (
    "heart",
    "penguins",
    "crx",
    "autos",
    "colic",
    "hepatitis",
    "eucalyptus",
    "adult",
    "splice",
    "wine",
    "ecoli",
    "column3c",
    "vehicle",
    "segment",
)
MOST = 10  # the largest number of clusters that is tried where a method compares numbers
SAMPLE = 5000  # rows of a silhouette


# ---- what users do with such tables before a package reads them ----


def filled(table: Table) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Standardised numbers, missing ones the mean; categories, missing ones the most frequent."""
    X = table.frame[table.numeric].to_numpy(np.float64)
    deviation = np.nanstd(X, axis=0)
    X = np.nan_to_num((X - np.nanmean(X, axis=0)) / np.where(deviation > 0, deviation, 1.0))
    levels = table.frame[table.categorical]
    return X, levels.fillna(levels.mode().iloc[0]).to_numpy(object) if levels.shape[1] else levels.to_numpy(
        object
    )


def indicators(codes: NDArray[Any]) -> NDArray[np.float64]:
    """A column of 0 and 1 for every level."""
    return pd.get_dummies(pd.DataFrame(codes), dtype=float).to_numpy(np.float64)


def one_hot(table: Table) -> NDArray[np.float64]:
    X, codes = filled(table)
    return np.hstack([X, indicators(codes)]) if codes.shape[1] else X


def famd(table: Table) -> NDArray[np.float64]:
    """Row scores of a factor analysis of mixed data (Pagès 2004), of its axes of more than the mean variance,
    two to ten.

    It is PCA of numbers alone and multiple correspondence analysis of categories alone.
    """
    X, codes = filled(table)
    if codes.shape[1]:
        Z = indicators(codes)
        share = Z.mean(axis=0)
        X = np.hstack([X, (Z - share) / np.sqrt(share)])
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    variance = s[s > 1e-8 * s[0]] ** 2
    axes = min(max(int((variance > variance.mean()).sum()), 2), 10, variance.size)
    scores: NDArray[np.float64] = U[:, :axes] * s[:axes]
    return scores


# ---- the methods: labels for a number of clusters, or None for one of their own ----


def craft(table: Table, k: int | None, seed: int) -> Labels:
    labels: Labels = CRAFT(k, random_state=seed, n_threads=1).fit(table.frame).labels_
    return labels


def k_means(X: NDArray[np.float64], k: int | None, seed: int) -> Labels:
    """K of the largest silhouette."""
    if k is not None:
        return np.asarray(KMeans(k, n_init=10, random_state=seed).fit_predict(X))
    size = SAMPLE if len(X) > SAMPLE else None
    tried = [k_means(X, number, seed) for number in range(2, MOST + 1)]
    return max(tried, key=lambda labels: silhouette_score(X, labels, sample_size=size, random_state=0))


def mixture(table: Table, k: int | None, seed: int) -> Labels:
    """Of the lowest BIC: every covariance for numbers, diagonal ones for indicators, which have no others."""
    X = one_hot(table)
    kinds = ("diag",) if table.categorical else ("full", "tied", "diag", "spherical")
    models = [
        GaussianMixture(number, covariance_type=kind, random_state=seed).fit(X)
        for number in (range(1, MOST + 1) if k is None else [k])
        for kind in kinds
    ]
    return np.asarray(min(models, key=lambda model: model.bic(X)).predict(X))


def hdbscan(table: Table, k: int | None, seed: int) -> Labels:
    """Clusters of at least a fiftieth of the rows; noise is a cluster of its own."""
    size = max(5, len(table.frame) // 50)
    return np.asarray(HDBSCAN(min_cluster_size=size, copy=True).fit_predict(famd(table)))


def prototypes(table: Table, k: int | None, seed: int) -> Labels:
    """KPrototypes, or KModes of categories alone; of numbers alone k-prototypes is k-means."""
    from kmodes import kmodes, kprototypes

    X, codes = filled(table)
    if not table.categorical:
        return k_means(X, k, seed)
    if not table.numeric:
        return np.asarray(kmodes.KModes(k, random_state=seed).fit_predict(codes))
    places = list(range(X.shape[1], X.shape[1] + codes.shape[1]))
    model = kprototypes.KPrototypes(k, random_state=seed)
    return np.asarray(model.fit_predict(np.hstack([X.astype(object), codes]), categorical=places))


def kamila(table: Table, k: int | None, seed: int) -> Labels:
    """KAMILA in Python."""
    from pykamila import KAMILA

    X, codes = filled(table)
    if not (table.categorical and table.numeric):
        raise NotImplementedError("needs numbers and categories")
    numbers = np.arange(X.shape[1])
    codes = np.column_stack([pd.factorize(column)[0] for column in codes.T])
    return np.asarray(KAMILA(k, random_state=seed).fit(np.hstack([X, codes]), numbers).labels_)


def latent_classes(table: Table, k: int | None, seed: int) -> Labels:
    """stepmix: independent columns inside a class, missing cells integrated out."""
    from stepmix.stepmix import StepMix

    X = table.frame[table.numeric].to_numpy(np.float64)
    deviation = np.nanstd(X, axis=0)
    X = (X - np.nanmean(X, axis=0)) / np.where(deviation > 0, deviation, 1.0)
    codes = np.array([pd.factorize(table.frame[name])[0] for name in table.categorical], np.float64)
    codes = np.where(codes < 0, np.nan, codes).reshape(len(table.categorical), len(X)).T
    measured = {
        name: {"model": model + ("_nan" if np.isnan(block).any() else ""), "n_columns": block.shape[1]}
        for name, model, block in (("numbers", "gaussian_diag", X), ("levels", "categorical", codes))
        if block.shape[1]
    }
    rows = np.hstack([X, codes])
    model = StepMix(k, measurement=measured, random_state=seed, verbose=0, progress_bar=0)
    return np.asarray(model.fit(rows).predict(rows))


@dataclass(frozen=True)
class Method:
    """How a method is called, whether it takes a number of clusters and whether it finds one, its package."""

    title: str
    labels: Callable[[Table, int | None, int], Labels]
    given: bool = True
    own: bool = True
    package: str = "scikit-learn"
    module: str = "sklearn"


def on(prepare: Callable[[Table], NDArray[np.float64]], table: Table, k: int | None, seed: int) -> Labels:
    return k_means(prepare(table), k, seed)


METHODS = {
    "craft": Method("CRAFT", craft, package="craftc", module="craftc"),
    "famd": Method("FAMD + k-means", partial(on, famd)),
    "onehot": Method("one-hot + k-means", partial(on, one_hot)),
    "mixture": Method("GaussianMixture", mixture),
    "hdbscan": Method("HDBSCAN", hdbscan, given=False),
    "stepmix": Method("stepmix", latent_classes, own=False, package="stepmix", module="stepmix.stepmix"),
    "kmodes": Method("kmodes", prototypes, own=False, package="kmodes", module="kmodes.kprototypes"),
    "kamila": Method("KAMILA", kamila, own=False, package="pykamila", module="pykamila"),
}


# ---- one fit in a process of its own ----


@dataclass
class Outcome:
    """Numbers of clusters, adjusted Rand indices and processor seconds by seed, or why there are none."""

    found: list[int] = field(default_factory=list)
    agreement: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failure: str = ""

    @property
    def k(self) -> str:
        low, high = min(self.found), max(self.found)
        return f"{low}" if low == high else f"{low}-{high}"


def in_child(work: Callable[[], Labels], limit: int, answers: Any) -> None:
    """Send labels and processor seconds, or the error; the system ends the process at the limit."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    warnings.simplefilter("ignore")
    begin = time.process_time()
    try:
        with threadpool_limits(1):
            labels = work()
    except Exception as error:
        answers.send(f"{type(error).__name__}: {error}")
    else:
        answers.send((np.asarray(labels), time.process_time() - begin))


def labelled(work: Callable[[], Labels], limit: int) -> tuple[Labels, float] | str:
    """Labels and processor seconds, or why there are none."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(work, limit, sender))
    child.start()
    sender.close()
    try:
        answer: tuple[Labels, float] | str = receiver.recv()
    except EOFError:
        answer = f"> {limit} s"
    child.join()
    return answer


def measure(table: Table, method: Method, k: int | None, seeds: int, limit: int) -> Outcome:
    outcome = Outcome()
    for seed in range(seeds):
        answer = labelled(partial(method.labels, table, k, seed), limit)
        if isinstance(answer, str):
            return Outcome(failure=answer)
        labels, seconds = answer
        outcome.found.append(count(labels))
        outcome.agreement.append(float(adjusted_rand_score(table.truth, labels)))
        outcome.seconds.append(seconds)
    return outcome


# ---- tables ----


def real(folder: Path, name: str) -> Table:
    """A whole real table and its classes."""
    frame, numeric, categorical = read_table(folder, name)
    classes = pd.read_csv(folder / f"{name}.csv.gz", usecols=["class"], dtype=str, keep_default_na=False)
    return Table(frame, numeric, categorical, classes["class"].to_numpy(str))


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])


def described(name: str, table: Table) -> str:
    """Rows, numbers and categories, share of missing cells, classes."""
    missing = 100 * float(table.frame.isna().to_numpy().mean())
    share = f", {missing:.2g} % missing" if missing else ""
    columns = f"{len(table.numeric)} + {len(table.categorical)}"
    return f"{name}: {len(table.frame):,} x ({columns}){share}, {count(table.truth)} classes"


def cell(outcome: Outcome, with_k: bool) -> str:
    if outcome.failure:
        return outcome.failure if outcome.failure.startswith(">") else "-"
    score = short(float(np.mean(outcome.agreement))).replace("-0.", "-.")
    return f"{outcome.k}; {score}" if with_k else score


def seconds(outcome: Outcome) -> str:
    if outcome.failure:
        return outcome.failure if outcome.failure.startswith(">") else "-"
    return f"{np.mean(outcome.seconds):.2g}"


Results = dict[tuple[str, str], Outcome]


def means(results: Results, names: Sequence[str], methods: Sequence[str]) -> list[str]:
    """Mean index of every method where it answered; in brackets that of CRAFT there, and the tables."""
    cells = []
    for method in methods:
        answered = [name for name in names if not results[name, method].failure]
        own, ours = (
            float(np.mean([np.mean(results[name, of].agreement) for name in answered]))
            if answered
            else np.nan
            for of in (method, methods[0])
        )
        same = method == methods[0] or len(answered) == len(names)
        cells.append(f"{own:.3f}" if same else f"{own:.3f} ({ours:.3f}, {len(answered)})")
    return cells


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", metavar="DIR", help="folder of the real tables")
    parser.add_argument("--tables", nargs="+", metavar="NAME", choices=TABLES, default=TABLES)
    parser.add_argument("--methods", nargs="+", metavar="NAME", choices=METHODS, default=[*METHODS])
    parser.add_argument(
        "--seeds", type=int, default=3, help="fits of every method, whose indices are averaged"
    )
    parser.add_argument("--limit", type=int, default=120, help="processor seconds of a fit (120)")
    parser.add_argument("--out", metavar="FILE", help="write the same text to a file")
    options = parser.parse_args(arguments)
    folder = data_folder(options.data)
    if folder is None:
        parser.error("no folder of real tables: pass --data")
    versions = {}
    for method in (METHODS[key] for key in options.methods):
        try:
            importlib.import_module(method.module)  # here, so that no fit pays for it
            versions[method.package] = importlib.metadata.version(method.package)
        except ImportError:
            print(f"Skipped, not installed: {method.package}", file=sys.stderr)
    methods = [key for key in options.methods if METHODS[key].package in versions]
    tables = {name: real(folder, name) for name in options.tables}
    lines = [", ".join(f"{name} {versions[name]}" for name in sorted(versions))]
    for title, known in (("K given", True), ("K found", False)):
        used = [key for key in methods if (METHODS[key].given if known else METHODS[key].own)]
        results: Results = {}
        for name, table in tables.items():
            for key in used:
                k = count(table.truth) if known else None
                result = results[name, key] = measure(table, METHODS[key], k, options.seeds, options.limit)
                print(title, name, key, result.failure or result, file=sys.stderr, flush=True)
        header = ["", *(METHODS[key].title for key in used)]
        scores = [
            [described(name, table), *(cell(results[name, key], not known) for key in used)]
            for name, table in tables.items()
        ]
        scores.append(["mean", *means(results, [*tables], used)])
        times = [[name, *(seconds(results[name, key]) for key in used)] for name in tables]
        lines += ["", f"{title}: adjusted Rand index", "", markdown(header, scores)]
        lines += ["", f"{title}: processor seconds", "", markdown(header, times)]
    print("\n".join(lines))
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
