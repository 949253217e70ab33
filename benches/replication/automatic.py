"""The number of clusters out of the data: noise, made clusters and real tables, with peers.

    python benches/replication/automatic.py [--data DIR] [--quick] [--seeds N] [--out FILE]

Four questions about the defaults of `CRAFT`: how often are independent columns split, are made clusters
found, how many clusters do real tables have, and how much does the result depend on the seed.
`automatic_bars.py` measures the defaults on further recipes. The real tables (`NAME.csv.gz` and
`schema.json`) come from a folder: `--data`, else the environment variable CRAFTC_DATA, else ../shared/data
next to the checkout. Missing files are named and skipped. Needs pandas; k-modes and k-prototypes only where
kmodes is installed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from peers.craft import one_hot, read_table
from replication.craft import Report, data_folder, row, short

from craftc import CRAFT
from craftc.datasets import make_mixed
from craftc.metrics import nmi, purity

KMODES: Any = None
try:
    from kmodes import kmodes, kprototypes

    KMODES = kmodes, kprototypes
except ImportError:
    pass

N_PEERS = 3  # noise tables per row that the slow peer sees
J_SEEDS = 5  # seeds among which the best J is sought
STABLE_SEEDS = 3  # of them, those whose labels are compared


@dataclass
class Table:
    """A frame, its columns by kind, and its classes, which no method sees."""

    frame: Any
    numeric: list[str]
    categorical: list[str]
    truth: NDArray[Any]

    def numbers(self) -> NDArray[np.float64]:
        """Standardised numbers with indicators; a missing number is the mean."""
        if self.categorical:
            return np.nan_to_num(one_hot(self.frame, self.numeric, self.categorical))
        X = self.frame[self.numeric].to_numpy(np.float64)
        return np.nan_to_num((X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0))


def table_of(numeric: Any, codes: Any, truth: Any = None) -> Table:
    """A table from a block of numbers and a block of codes, which become strings."""
    numbers = {f"x{j}": column for j, column in enumerate(np.asarray(numeric).T)}
    levels = {f"c{j}": column.astype(str) for j, column in enumerate(np.asarray(codes).T)}
    frame = pd.DataFrame({**numbers, **levels})
    classes = np.zeros(len(frame), np.int64) if truth is None else truth
    return Table(frame, list(numbers), list(levels), classes)


# ---- the methods ----


def craft(table: Table, seed: int = 0, **parameters: Any) -> tuple[CRAFT, float]:
    """CRAFT as it comes unless options say otherwise, and its seconds, the reading of the frame included."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CRAFT(random_state=seed, n_threads=1, **parameters).fit(table.frame)
    return model, time.perf_counter() - begin


def mixture(table: Table, seed: int = 0) -> NDArray[Any]:
    """Labels of a Bayesian Gaussian mixture of at most 20 parts with diagonal covariances."""
    model = BayesianGaussianMixture(n_components=20, covariance_type="diag", max_iter=200, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(model.fit_predict(table.numbers()))


def with_true_k(table: Table, k: int) -> NDArray[Any] | None:
    """Labels of k-means, k-modes or k-prototypes, by the kinds of the columns."""
    if not table.categorical:
        return np.asarray(KMeans(k, n_init=10, random_state=0).fit_predict(table.numbers()))
    if KMODES is None:
        return None
    levels = table.frame[table.categorical].to_numpy(object)
    settings = {"n_init": 2, "random_state": 0}
    if not table.numeric:
        return np.asarray(KMODES[0].KModes(k, **settings).fit_predict(levels))
    X = table.frame[table.numeric].to_numpy(np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    values = np.hstack([X.astype(object), levels])
    places = list(range(X.shape[1], values.shape[1]))
    fitted = KMODES[1].KPrototypes(k, init="Huang", **settings)
    return np.asarray(fitted.fit_predict(values, categorical=places))


def count(labels: NDArray[Any]) -> int:
    return len(np.unique(labels))


def span(values: Sequence[int]) -> str:
    """One number, or the least and the largest."""
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)}-{max(values)}"


# ---- independent noise ----

Generator = np.random.Generator


def skewed(rng: Generator, n: int, d: int) -> NDArray[np.float64]:
    return np.exp(rng.standard_normal((n, d)))


def with_zeros(rng: Generator, n: int, d: int) -> NDArray[np.float64]:
    return np.where(rng.random((n, d)) < 0.5, 0.0, skewed(rng, n, d))


def levels(rng: Generator, n: int, d: int) -> NDArray[np.int64]:
    """Columns of 2 to 7 levels, whose shares are drawn evenly from all there are."""
    columns = [rng.choice(T, n, p=rng.dirichlet(np.ones(T))) for T in rng.integers(2, 8, d)]
    return np.array(columns).reshape(d, n).T


def normal(rng: Generator, n: int, d: int) -> NDArray[np.float64]:
    return rng.standard_normal((n, d))


def heavy(rng: Generator, n: int, d: int) -> NDArray[np.float64]:
    return rng.standard_t(3, (n, d))


@dataclass(frozen=True)
class Noise:
    """Independent columns: numbers of some distribution, categories, or half of each."""

    name: str
    numbers: Callable[[Generator, int, int], NDArray[np.float64]] | None
    categories: bool

    def table(self, n: int, d: int, seed: int) -> Table:
        rng = np.random.default_rng([seed, d, *self.name.encode()])
        q = 0 if not self.categories else d if self.numbers is None else d // 2
        block = self.numbers(rng, n, d - q) if self.numbers else np.empty((n, 0))
        return table_of(block, levels(rng, n, q))


NOISE = (
    Noise("Gaussian", normal, False),
    Noise("categorical, 2-7 levels", None, True),
    Noise("half and half", normal, True),
    Noise("lognormal", skewed, False),
    Noise("lognormal, half zeros", with_zeros, False),
    Noise("t, 3 degrees of freedom", heavy, False),
)


def noise(report: Report, n_seeds: int, n_peers: int) -> None:
    widths = (24, 4, 8, 6, 8, 9, 8)
    report.heading(
        "Noise: how often are independent columns cut?",
        f"300 rows, {n_seeds} tables per row. K > 1: tables that CRAFT cut, of all. BGM: scikit-learn's "
        f"Bayesian Gaussian mixture, 20 parts, diagonal, on standardised numbers and indicators, {n_peers} "
        "tables.",
    )
    report.say(row(("columns", "D", "K > 1", "max K", "ms/fit", "BGM > 1", "BGM K"), widths))
    cut = fits = 0
    for kind in NOISE:
        for d in (12, 60):
            found, seconds, theirs = [], [], []
            for seed in range(n_seeds):
                table = kind.table(300, d, seed)
                model, took = craft(table, seed)
                found.append(model.n_clusters_)
                seconds.append(took)
                if seed < n_peers:
                    theirs.append(count(mixture(table, seed)))
            above = sum(k > 1 for k in found)
            cut, fits = cut + above, fits + n_seeds
            peers = f"{sum(k > 1 for k in theirs)}/{len(theirs)}", span(theirs)
            ours = f"{above}/{n_seeds}", max(found), f"{1000 * np.mean(seconds):.1f}"
            report.say(row((kind.name, d, *ours, *peers), widths))
    bound = beta.ppf(0.95, cut + 1, fits - cut) if cut < fits else 1.0
    report.say(f"All: {cut} of {fits} cut (95 % upper bound {100 * bound:.1f} %).")


# ---- made clusters ----

#: Numeric and categorical columns that clusters may own.
KINDS = {"numeric": (16, 0), "categorical": (0, 16), "mixed": (8, 8)}


def made(kind: str, k: int, seed: int) -> tuple[Table, NDArray[Any]]:
    """A made table, and the labels of Bayes' rule, which knows how it was made."""
    p, q = KINDS[kind]
    bunch = make_mixed(1000, k, p, q, 8, n_own=6, shift=2.5, random_state=seed)
    table = table_of(bunch.numeric, bunch.codes, bunch.target)
    n_numeric = bunch.numeric.shape[1]
    cost = np.zeros((1000, k))
    for cluster in range(k):
        rows = bunch.target == cluster
        for d in np.flatnonzero(bunch.feature_mask[cluster]):
            if d < n_numeric:
                x = bunch.numeric[:, d]
                mean = np.copysign(2.5, x[rows].mean())
                cost[:, cluster] += 0.5 * ((x - mean) ** 2 - x**2)
            else:
                code = bunch.codes[:, d - n_numeric]
                T = bunch.n_levels[d - n_numeric]
                favourite = np.bincount(code[rows], minlength=T).argmax()
                weight = np.exp(2.5)
                cost[:, cluster] -= np.where(code == favourite, np.log(weight), 0.0) - np.log(
                    (weight + T - 1) / T
                )
    return table, cost.argmin(axis=1)


def both(found: Sequence[int], scores: Sequence[float]) -> str:
    """Mean K and mean ARI."""
    return f"{f'{np.mean(found):.1f}'.removesuffix('.0')} {short(float(np.mean(scores)))}"


def recovery(report: Report, n_sets: int) -> None:
    widths = (12, 3, 9, 7, 7, 9, 8)
    report.heading(
        "Made clusters: are K and the clusters found?",
        f"Mean K and ARI over {n_sets} tables of 1000 rows per line: 16 columns that clusters may own and 8 "
        "of "
        "noise; 6 own columns per cluster, N(2.5, 1) or N(-2.5, 1) against N(0, 1), or one of 4 levels "
        "e^2.5 = 12 "
        "times as likely as each other one against all alike. Bayes: the rule that knows all this, the "
        "ceiling. BGM as "
        "above. true K: k-means, k-modes or k-prototypes given K.",
    )
    report.say(row(("columns", "K*", "CRAFT", "Bayes", "ms/fit", "BGM", "true K"), widths))
    for kind in KINDS:
        for k in (3, 5, 10):
            scores: dict[str, list[float]] = {"craft": [], "bayes": [], "bgm": [], "given K": []}
            found, theirs, seconds = [], [], []
            for seed in range(n_sets):
                table, rule = made(kind, k, seed)
                model, took = craft(table)
                labels = mixture(table)
                informed = with_true_k(table, k)
                found.append(model.n_clusters_)
                theirs.append(count(labels))
                seconds.append(took)
                for name, guess in (
                    ("craft", model.labels_),
                    ("bayes", rule),
                    ("bgm", labels),
                    ("given K", informed),
                ):
                    if guess is not None:
                        scores[name].append(adjusted_rand_score(table.truth, guess))
            given_k = short(float(np.mean(scores["given K"]))) if scores["given K"] else "-"
            bayes, speed = short(float(np.mean(scores["bayes"]))), f"{1000 * np.mean(seconds):.0f}"
            cells = both(found, scores["craft"]), bayes, speed, both(theirs, scores["bgm"]), given_k
            report.say(row((kind, k, *cells), widths))


# ---- real tables ----


#: Rows that are taken.
REAL = {
    "wine": 178,
    "heart": 270,
    "crx": 690,
    "splice": 2000,
    "spambase": 2500,
    "monk3": 554,
    "synthetic_control": 600,
    "adult": 5000,
}


def real(folder: Path, name: str) -> Table:
    """A real table; of a longer one the wanted number of rows, drawn with a fixed seed."""
    frame, numeric, categorical = read_table(folder, name)
    classes = pd.read_csv(folder / f"{name}.csv.gz", usecols=["class"], dtype=str, keep_default_na=False)
    truth = classes["class"].to_numpy(str)
    if len(frame) > REAL[name]:
        rows = np.sort(np.random.default_rng(0).permutation(len(frame))[: REAL[name]])
        frame, truth = frame.iloc[rows].reset_index(drop=True), truth[rows]
    return Table(frame, numeric, categorical, truth)


@dataclass
class Excess:
    """J of several seeds above the best of them, nats per 100 rows."""

    name: str
    excess: NDArray[np.float64]
    found: list[int]
    truth: float | None = None  # the same of a descent from the true labels

    @classmethod
    def of(cls, name: str, models: Sequence[CRAFT], n: int, from_truth: CRAFT | None = None) -> Excess:
        objectives = np.array([model.objective_ for model in models])
        best = objectives.min()
        truth = None if from_truth is None else 100 * (from_truth.objective_ - best) / n
        return cls(name, 100 * (objectives - best) / n, [model.n_clusters_ for model in models], truth)


def real_tables(report: Report, folder: Path | None, n_seeds: int) -> list[Excess]:
    widths = (18, 5, 3, 3, 12, 7, 5, 11)
    here = [name for name in REAL if folder and (folder / f"{name}.csv.gz").is_file()]
    absent = sorted(set(REAL) - set(here))
    if absent:
        report.say("", f"Real tables: skipped {', '.join(absent)} (no file; see --data)")
    if not here or folder is None:
        return []
    stable_seeds = min(STABLE_SEEDS, n_seeds)
    report.heading(
        "Real tables: how many clusters, and are they the classes?",
        "Seed 0; the K* classes were never shown. Scores: ARI, NMI, purity. Columns: selected by a cluster "
        "on average. "
        f"same: mean ARI between {stable_seeds} seeds, and their K. s: mean of {n_seeds} fits. spambase, "
        "splice and adult are cut to a draw of rows.",
    )
    report.say(row(("table", "rows", "K*", "K", "scores", "columns", "s", "same (K)"), widths))
    out = []
    for name in here:
        table = real(folder, name)
        fits = [craft(table, seed) for seed in range(n_seeds)]
        models = [model for model, _ in fits]
        pairs = combinations([model.labels_ for model in models[:stable_seeds]], 2)
        same = float(np.mean([adjusted_rand_score(a, b) for a, b in pairs]))
        labels = models[0].labels_
        scores = (
            adjusted_rand_score(table.truth, labels),
            nmi(table.truth, labels),
            purity(table.truth, labels),
        )
        used = f"{models[0].feature_mask_.sum(axis=1).mean():.0f}/{table.frame.shape[1]}"
        found = [model.n_clusters_ for model in models]
        cells = (
            found[0],
            " ".join(short(float(score)) for score in scores),
            used,
            f"{np.mean([s for _, s in fits]):.2f}",
        )
        stable = f"{short(same)} ({span(found[:stable_seeds])})"
        report.say(row((name, len(table.frame), count(table.truth), *cells, stable), widths))
        out.append(Excess.of(name, models, len(table.frame)))
    return out


# ---- the search ----


def search(report: Report, results: Sequence[Excess], n_sets: int, n_seeds: int) -> None:
    widths = (24, 6, 7, 8, 8, 10)
    report.heading(
        "Search: how much does the seed cost?",
        f"J above the best of {n_seeds} seeds, nats per 100 rows: mean and largest over the seeds (and the "
        f"{n_sets} tables of "
        "a made kind). at best: fits that reached it. truth: the mean J that passes, merges and splits "
        "reach from the "
        "true labels, above that best; below 0 all seeds missed something.",
    )
    report.say(row(("tables", "K", "mean", "largest", "at best", "truth"), widths))

    def line(name: str, these: Sequence[Excess]) -> None:
        excess = np.concatenate([each.excess for each in these])
        found = [k for each in these for k in each.found]
        share = f"{(excess <= 1e-6).sum()}/{len(excess)}"
        truth = [each.truth for each in these if each.truth is not None]
        cells = (
            f"{excess.mean():.2f}",
            f"{excess.max():.2f}",
            share,
            f"{np.mean(truth):+.2f}" if truth else "",
        )
        report.say(row((name, span(found), *cells), widths))

    synthetic = []
    for kind in KINDS:
        for k in (3, 5, 10):
            these = []
            for seed in range(n_sets):
                table, _ = made(kind, k, seed)
                models = [craft(table, start)[0] for start in range(n_seeds)]
                from_truth, _ = craft(table, init=table.truth, n_init=1)
                these.append(Excess.of(kind, models, len(table.frame), from_truth))
            line(f"{kind}, {k} clusters", these)
            synthetic += these
    for each in results:
        line(each.name, [each])
    for name, these in (("all made tables", synthetic), ("all real tables", results)):
        if these:
            line(name, these)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", metavar="DIR", help="folder of the real tables")
    parser.add_argument("--seeds", metavar="N", type=int, default=48, help="noise tables per row (48)")
    parser.add_argument("--quick", action="store_true", help="6 noise tables, 1 made table, 2 seeds")
    parser.add_argument("--out", metavar="FILE", help="write the same text to a file")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    quick = options.quick
    n_noise, n_sets, n_seeds = (min(6, options.seeds), 1, 2) if quick else (options.seeds, 4, J_SEEDS)
    report, begin = Report(), time.perf_counter()

    noise(report, n_noise, min(1 if quick else N_PEERS, n_noise))
    recovery(report, n_sets)
    results = real_tables(report, data_folder(options.data), n_seeds)
    search(report, results, n_sets, n_seeds)
    report.say("", f"{time.perf_counter() - begin:.0f} s in all, one thread.")
    if options.out:
        Path(options.out).write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
