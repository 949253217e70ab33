"""The defaults of CRAFT on many kinds of tables: what they find, and a bar for each measure.

    python benches/replication/automatic_bars.py [--only NAME ...] [--quick] [--data DIR] [--out FILE]
                                                 [--covariance ...] [--price-factor ...] [--null ...]

Every line gives the measure, the result, the bar with "yes" or "no", and other packages, measured earlier on
tables of the same recipes (on the first 1 to 3 seeds where marked *). Parameters of CRAFT are its defaults
unless the command line names them. `--only` runs some items, `--quick` a few tables of each; no item needs
another one. Real tables come from `--data`, else from CRAFTC_DATA, else from ../shared/data next to the
checkout; missing files are named and skipped. The items "speed" and "adult" measure time on all threads
(OMP_NUM_THREADS), so nothing else should run.

Clusters are matched with the true ones so that most rows agree; a true cluster without a partner has Jaccard
coefficient 0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta
from sklearn.metrics import adjusted_rand_score

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from peers.craft import million_rows, peak_resident, read_table, reset_peak, resident
from replication.automatic import NOISE, Table, made
from replication.automatic_recipes import (
    RECIPES,
    equally_correlated,
    noise,
    random_covariances,
    round_blobs,
    subspaces,
    weak_categories,
)
from replication.automatic_recipes import made as made_by
from replication.craft_runs import Report, data_folder, row, short

from craftc import CRAFT, MixedTable
from craftc.datasets import make_mixed
from craftc.metrics.agreement import contingency


@dataclass(frozen=True)
class Line:
    """One measure. `met` is None where there is no bar."""

    measure: str
    ours: str
    bar: str = "-"
    met: bool | None = None
    peers: str = ""


@dataclass(frozen=True)
class Options:
    """Parameters of CRAFT from the command line, the folder of the real tables, and whether a few tables are
    enough.
    """

    parameters: dict[str, Any]
    folder: Path | None = None
    quick: bool = False

    def seeds(self, number: int) -> range:
        return range(min(number, 1) if self.quick else number)


def fit(X: Any, options: Options, **more: Any) -> CRAFT:
    """CRAFT with the options' parameters; its warnings are not part of the measure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return CRAFT(random_state=0, **(options.parameters | more)).fit(X)


def seconds_of(X: Any, options: Options, repeats: int = 1) -> tuple[CRAFT, float]:
    """A fitted model and the least seconds of some fits."""
    took = []
    for _ in range(repeats):
        begin = time.perf_counter()
        model = fit(X, options)
        took.append(time.perf_counter() - begin)
    return model, min(took)


def ari(table: Table, model: CRAFT) -> float:
    return float(adjusted_rand_score(table.truth, model.labels_))


def partners(truth: NDArray[Any], labels: NDArray[Any]) -> list[tuple[int, int]]:
    """Pairs (true cluster, found cluster), both 0, 1, ..., with the largest number of common rows in all."""
    counts, _, _ = contingency(truth, labels)
    return list(zip(*(side.tolist() for side in linear_sum_assignment(-counts)), strict=True))


def mask_jaccard(
    truth: NDArray[np.bool_], found: NDArray[np.bool_], pairs: Sequence[tuple[int, int]]
) -> float:
    """Mean over the true clusters of the common columns divided by the columns that either mask has."""
    shares = [(truth[k] & found[j]).sum() / max(1, (truth[k] | found[j]).sum()) for k, j in pairs]
    return float(sum(shares)) / len(truth)


def listed(values: Sequence[int]) -> str:
    """1 3 3, or 3 if all are equal."""
    return str(values[0]) if len(set(values)) == 1 else " ".join(map(str, values))


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def k_and_ari(found: Sequence[int], scores: Sequence[float]) -> str:
    return f"{mean(found):.1f} {short(mean(scores))}"


# ---- clusters with columns of their own ----


def figures(options: Options) -> Iterator[Line]:
    """Figures 2a and 3a of the paper, 3 seeds: K, ARI, mean Jaccard coefficient of the masks."""
    for layout, least in (("2a", 0.95), ("3a", 0.85)):
        found, scores, masks = [], [], []
        for seed in options.seeds(3):
            table, truth = subspaces(layout, seed)
            model = fit(table.frame, options)
            found.append(model.n_clusters_)
            scores.append(ari(table, model))
            masks.append(mask_jaccard(truth, model.feature_mask_, partners(table.truth, model.labels_)))
        met = set(found) == {3} and min(scores) > 0.995 and mean(masks) >= least
        ours = f"{listed(found)} {short(mean(scores))} {short(mean(masks))}"
        yield Line(f"figure {layout}: K, ARI, mask Jaccard", ours, f"3 1.00 {short(least)}", met)


def weak(options: Options) -> Iterator[Line]:
    """Weak categories, 10 seeds: mean ARI."""
    for k, least in ((3, 0.72), (5, 0.63)):
        models = [
            (table, fit(table.frame, options))
            for table in (weak_categories(k, seed) for seed in options.seeds(10))
        ]
        score = mean([ari(table, model) for table, model in models])
        found = listed([model.n_clusters_ for _, model in models])
        yield Line(
            f"weak categories, K* {k}: ARI (K)",
            f"{short(score)} ({found})",
            short(least),
            score >= least,
        )


# ---- recipes ----

#: Mean K and ARI of 5 seeds; * fewer seeds. "given K": the true number of clusters is an input.
PEERS = {
    "skewed": "FAMD + k-means 3.6 .82, KAMILA* given K .86, AutoClass* 8 .64, VarSelLCM* 7 .71, GMM BIC 9.2 "
    ".41",
    "correlated": "FAMD + k-means 3.0 .93, KAMILA* given K .93, VarSelLCM* 10 .36, GMM BIC 9.2 .32, "
    "AutoClass* 20 .23",
    "depcat": "KAMILA* given K .80, VarSelLCM* 6.5 .69, FAMD + k-means 4.0 .68, AutoClass* 13 .41, GMM BIC "
    "10 .24",
    "missing": "VarSelLCM* 7 .58, KAMILA* given K .53, FAMD + k-means 4.6 .44, AutoClass* 9 .38, GMM BIC "
    "9.4 .10",
    "unbalanced": "FAMD + k-means 2.6 .92, KAMILA* given K .62, AutoClass* 8 .22, GMM BIC 9.6 .21, "
    "VarSelLCM* 9 .18",
    "manynoise": "FAMD + k-means 3.0 .84, KAMILA* given K .79, AutoClass* 3.5 .59, VarSelLCM* 5.5 .58, GMM "
    "BIC 10 .16",
    "skew": "VarSelLCM* 1.5, FAMD + k-means 6.4, GMM BIC 9.8, AutoClass* 13",
    "bounded": "AutoClass* 4.5, FAMD + k-means 5.4, VarSelLCM* 6, GMM BIC 9.8",
    "elongated": "FAMD + k-means 2.0, GMM BIC 9.8, VarSelLCM* 10, AutoClass* 17",
    "factor": "FAMD + k-means 2.0, VarSelLCM* 4.5, AutoClass* 5.5, GMM BIC 9.6",
}


def of_recipe(name: str, options: Options, n_seeds: int) -> tuple[list[int], list[float]]:
    """K and ARI of some seeds."""
    tables = [made_by(name, seed) for seed in options.seeds(n_seeds)]
    models = [fit(table.frame, options) for table in tables]
    return [model.n_clusters_ for model in models], [
        ari(table, model) for table, model in zip(tables, models, strict=True)
    ]


def dependent(options: Options) -> Iterator[Line]:
    """Dependent categories, 5 seeds: mean K and ARI."""
    found, scores = of_recipe("depcat", options, 5)
    yield Line(
        "dependent categories, K* 4: K, ARI",
        k_and_ari(found, scores),
        ".80",
        mean(scores) >= 0.80,
        PEERS["depcat"],
    )


def correlated(options: Options) -> Iterator[Line]:
    """Correlated numbers inside clusters, 10 seeds: how often K is right, mean ARI."""
    found, scores = of_recipe("correlated", options, 10)
    right = sum(k == 3 for k in found)
    met = right >= 0.9 * len(found) and mean(scores) >= 0.95
    ours = f"{right} of {len(found)}, {short(mean(scores))} ({listed(found)})"
    yield Line(
        "correlated clusters, K* 3: K right, ARI",
        ours,
        "9 of 10, .95",
        met,
        PEERS["correlated"],
    )


def recipes(options: Options) -> Iterator[Line]:
    """The other recipes, 5 seeds: mean K and ARI; mean K of clouds."""
    for name in ("skewed", "missing", "unbalanced", "manynoise"):
        found, scores = of_recipe(name, options, 5)
        yield Line(
            f"{name}, K* {RECIPES[name].clusters}: K, ARI",
            k_and_ari(found, scores),
            peers=PEERS[name],
        )
    for name in ("skew", "bounded"):
        found = [fit(noise(name, seed).frame, options).n_clusters_ for seed in options.seeds(5)]
        yield Line(f"noise, {name}: K", f"{mean(found):.1f}", peers=PEERS[name])


def categorical(options: Options) -> Iterator[Line]:
    """The made categorical tables of automatic.py, 4 seeds: mean ARI.

    Other packages: a program of its own draws.
    """
    for k, least, k_modes in ((3, 0.89, ".34"), (5, 0.84, ".29"), (10, 0.75, ".20")):
        tables = [made("categorical", k, seed)[0] for seed in options.seeds(4)]
        models = [fit(table.frame, options) for table in tables]
        score = mean([ari(table, model) for table, model in zip(tables, models, strict=True)])
        ours = f"{short(score)} ({listed([model.n_clusters_ for model in models])})"
        yield Line(
            f"categorical, K* {k}: ARI (K)",
            ours,
            short(least),
            score >= least,
            f"k-modes given K {k_modes}",
        )


# ---- one cloud ----


def independent(options: Options) -> Iterator[Line]:
    """The independent columns of automatic.py: 6 kinds, 12 or 60 columns, 48 seeds each, 300 rows: 576
    tables.
    """
    cut = {f"{kind.name}, {d}": 0 for kind in NOISE for d in (12, 60)}
    seeds = options.seeds(48)
    for kind in NOISE:
        for d in (12, 60):
            cut[f"{kind.name}, {d}"] = sum(
                fit(kind.table(300, d, seed).frame, options).n_clusters_ > 1 for seed in seeds
            )
    total, fits = sum(cut.values()), len(cut) * len(seeds)
    bound = beta.ppf(0.95, total + 1, fits - total) if total < fits else 1.0
    for name, number in cut.items():
        if number:
            yield Line(f"independent, {name} columns: K > 1", f"{number} of {len(seeds)}")
    ours = f"{total} of {fits} (below {100 * bound:.1f} %)"
    peers = "Bayesian mixture: 0 of 15 normal, 60 of 60 others"
    yield Line(
        "independent columns: K > 1 (95 % bound)",
        ours,
        "3 of 576",
        total <= 3 * fits / 576,
        peers,
    )


def clouds(options: Options) -> Iterator[Line]:
    """40 single clouds: 10 elongated, 10 of one skewed factor, 20 of 10 equally correlated columns (.6, .9;
    300, 3000 rows; 5 seeds).
    """
    kinds: dict[str, list[Table]] = {
        name: [noise(name, seed) for seed in options.seeds(10)] for name in ("elongated", "factor")
    }
    for correlation in (0.6, 0.9):
        rows_and_seeds = ((n, seed) for n in (300, 3000) for seed in options.seeds(5))
        kinds[f"correlation {short(correlation)}"] = [
            equally_correlated(correlation, *each) for each in rows_and_seeds
        ]
    found = {
        name: [fit(table.frame, options).n_clusters_ for table in tables] for name, tables in kinds.items()
    }
    for name, these in found.items():
        cut = sum(k > 1 for k in these)
        yield Line(
            f"one cloud, {name}: K > 1 (mean K)",
            f"{cut} of {len(these)} ({mean(these):.1f})",
            peers=PEERS.get(name, ""),
        )
    every = [k for these in found.values() for k in these]
    cut = sum(k > 1 for k in every)
    yield Line("all clouds: K > 1", f"{cut} of {len(every)}", "4 of 40", cut <= 0.1 * len(every))


# ---- normal clusters ----


def covariances(options: Options) -> Iterator[Line]:
    """Full random covariances, p 4 and 10, K 2 and 5, 5 seeds each: median ARI of 20 tables."""
    scores, found = [], []
    for p in (4, 10):
        for k in (2, 5):
            for seed in options.seeds(5):
                table = random_covariances(p, k, seed)
                model = fit(table.frame, options)
                scores.append(ari(table, model))
                found.append(model.n_clusters_)
    score = float(np.median(scores))
    ours = f"{short(score)} (least {short(min(scores))}; K {listed(found)})"
    yield Line("random covariances: median ARI", ours, ".95", score >= 0.95)


#: Clusters that tables of two seeds have to give, by columns and true number: as many as can be separated.
BLOBS = {
    2: {3: (3, 1), 5: (4, 3), 8: (1, 4)},
    3: {3: (3, 3), 5: (4, 4), 8: (7, 7)},
    6: {3: (3, 3), 5: (5, 5), 8: (8, 7)},
    12: {3: (3, 3), 5: (5, 5), 8: (8, 8)},
}


def blobs(options: Options) -> Iterator[Line]:
    """24 tables of round clusters: clusters that can be separated and are not found; superfluous ones do
    not count.
    """
    lost, tables, where = 0, 0, []
    for p, by_k in BLOBS.items():
        for k, known in by_k.items():
            for seed in options.seeds(2):
                found = fit(round_blobs(p, k, seed).frame, options).n_clusters_
                lost, tables = lost + max(0, min(k, known[seed]) - found), tables + 1
                where += [f"p {p}, K* {k}: {found} for {known[seed]}"] if found != known[seed] else []
    yield Line(
        f"round blobs, {tables} tables: clusters lost",
        str(lost),
        "0",
        lost == 0,
        "others: " + ("; ".join(where) or "none"),
    )


# ---- real tables ----


def real(folder: Path, name: str, n_rows: int | None = None) -> Table:
    """A real table, or some of its rows, drawn with a fixed seed."""
    frame, numeric, categories = read_table(folder, name)
    truth = pd.read_csv(folder / f"{name}.csv.gz", usecols=["class"], dtype=str, keep_default_na=False)[
        "class"
    ].to_numpy(str)
    if n_rows is not None and n_rows < len(frame):
        rows = np.sort(np.random.default_rng(0).permutation(len(frame))[:n_rows])
        frame, truth = frame.iloc[rows].reset_index(drop=True), truth[rows]
    return Table(frame, numeric, categories, truth)


#: Name, least ARI, other packages' K and ARI.
REAL = (
    ("splice", 0.85, "AutoClass 8 .42, GMM BIC 9 .27, FAMD + k-means given K .10 (2000 rows)"),
    (
        "wine",
        0.90,
        "FAMD + k-means 3 .90, AutoClass 3 .90, k-means given K .90, GMM BIC 4 .81, VarSelLCM 4 .68",
    ),
    (
        "heart",
        0.30,
        "PAM 2 .43, VarSelLCM 2 .38, KAMILA given K .37, FAMD + k-means 3 .30, AutoClass 7 .13",
    ),
    ("synthetic_control", 0.62, "GMM BIC 10 .61, FAMD + k-means 4 .60, AutoClass 18 .51"),
)


def available(options: Options, name: str) -> bool:
    return options.folder is not None and (options.folder / f"{name}.csv.gz").is_file()


def classes(options: Options) -> Iterator[Line]:
    """Real tables with classes, all rows: K and ARI."""
    for name, least, peers in REAL:
        if not available(options, name):
            yield Line(f"{name}: K, ARI", "no file; see --data", short(least), None, peers)
            continue
        table = real(options.folder, name, 300 if options.quick else None)
        model = fit(table.frame, options)
        score = ari(table, model)
        yield Line(
            f"{name}: K, ARI",
            f"{model.n_clusters_} {short(score)}",
            short(least),
            score >= least,
            peers,
        )


#: Tables whose columns are permuted; of the longest ones, 2000 rows.
PERMUTED = {
    **dict.fromkeys(("heart", "crx", "wine", "glass", "autos", "bridges", "colic", "column3c", "ecoli")),
    **dict.fromkeys(("eucalyptus", "fishcatch", "hepatitis", "penguins", "segment", "vehicle", "vowel")),
    **dict.fromkeys(("bank", "shoppers")),
    **dict.fromkeys(("adult", "spambase"), 2000),
}


def permuted(options: Options) -> Iterator[Line]:
    """Real tables, each column permuted on its own, so that no groups are left: fits with K > 1; and the mean
    adjusted Rand index of the tables as they are.
    """
    tables = {name: n for name, n in PERMUTED.items() if available(options, name)}
    if not tables:
        yield Line("real tables, columns permuted", "no file; see --data")
        return
    split, n_fits, indices = 0, 0, []
    for name, n in tables.items():
        table = real(options.folder, name, n)
        indices.append(adjusted_rand_score(table.truth, fit(table.frame, options).labels_))
        for seed in range(1 if options.quick else 3):
            rng = np.random.default_rng(seed)
            columns = {c: table.frame[c].to_numpy()[rng.permutation(len(table.frame))] for c in table.frame}
            split += fit(pd.DataFrame(columns), options).n_clusters_ > 1
            n_fits += 1
    yield Line("real tables, columns permuted: K > 1", f"{split} of {n_fits}", "1 of 60", split <= 1)
    yield Line(f"{len(tables)} real tables: mean ARI", short(float(np.mean(indices))))


def adult(options: Options) -> Iterator[Line]:
    """Adult at 1, 3, 10 and 48.8 thousand rows: K; seconds of all rows, the best of 3 fits, without reading
    the frame.
    """
    if not available(options, "adult"):
        yield Line("adult", "no file; see --data")
        return
    found = []
    sizes = (1000, 3000) if options.quick else (1000, 3000, 10_000, 48_842)
    for n in sizes:
        table = MixedTable.from_data(real(options.folder, "adult", n).frame)
        model, seconds = seconds_of(table, options, repeats=3 if n == sizes[-1] else 1)
        found.append(model.n_clusters_)
    met = max(found) <= 2 * min(found) and max(found) <= 12
    shown = " ".join(f"{n / 1000:.3g}" for n in sizes)
    yield Line(
        f"adult, {shown} thousand rows: K",
        listed(found),
        "factor 2, <= 12",
        met,
        "FAMD + k-means 6 (2000 rows)",
    )
    if not options.quick:
        yield Line("adult, all rows: seconds", f"{seconds:.2f}", "1.5", seconds <= 1.5)


# ---- long and wide tables ----


def rare(options: Options) -> Iterator[Line]:
    """12 clusters in 8 numbers and 8 categories, one of them .25 % of the rows: found if a cluster shares
    half of the rows of both.
    """
    n, k = (20_000, 4) if options.quick else (1_000_000, 12)
    sizes = [0.0025, *[0.9975 / (k - 1)] * (k - 1)]
    for shift in (2.5, 4.0):
        bunch = make_mixed(n, k, 8, 8, 0, n_own=6, shift=shift, proportions=sizes, random_state=0)
        model = fit(MixedTable.from_data(bunch.data, categorical=bunch.categorical), options)
        counts, _, _ = contingency(bunch.target, model.labels_)
        union = counts.sum(axis=1, keepdims=True) + counts.sum(axis=0) - counts
        found = (counts / union).max(axis=1)
        met = bool((found > 0.5).all())
        ours = f"{(found > 0.5).sum()} of {k} (K {model.n_clusters_}, the rare one {short(float(found[0]))})"
        yield Line(f"{n} rows, one cluster of {n // 400}, shift {shift}: found", ours, f"{k} of {k}", met)


def speed(options: Options) -> Iterator[Line]:
    """1 000 000 rows of 8 numbers and 8 categories, K* = 16: seconds of a fit; peak memory beyond the input,
    in a process of its own.
    """
    n = 50_000 if options.quick else 1_000_000
    table, _ = million_rows(n)
    model, seconds = seconds_of(table, options)
    yield Line(f"{n} x (8 + 8): seconds (K)", f"{seconds:.2f} ({model.n_clusters_})", "3", seconds <= 3.0)
    if sys.platform == "linux":
        given = [
            text
            for name, value in options.parameters.items()
            for text in (f"--{name.replace('_', '-')}", str(value))
        ]
        command = [sys.executable, __file__, "--memory-of-rows", str(n), *given]
        at_once = {
            "MALLOC_MMAP_THRESHOLD_": "65536",
            "MALLOC_TRIM_THRESHOLD_": "0",
        }  # freed memory goes back at once
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, **at_once}
        )
        share = float(done.stdout)
        yield Line(f"{n} x (8 + 8): memory beyond the input", f"{100 * share:.0f} %", "25 %", share <= 0.25)


def print_memory(n: int, options: Options) -> None:
    """Peak memory of a fit beyond what the process had before, divided by the bytes of the table."""
    table, _ = million_rows(n)
    fit(million_rows(2000)[0], options)  # imports and buffers of the first fit are not part of it
    before = resident()
    reset_peak()
    fit(table, options)
    print((peak_resident() - before) / table.nbytes)


def wide(options: Options) -> Iterator[Line]:
    """50 rows of 3000 normal columns: noise, and three clusters that differ in a tenth of the columns:
    seconds.
    """
    D = 300 if options.quick else 3000
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(50, D)), rng.integers(3, size=50)
    clusters = X.copy()
    clusters[:, : D // 10] += 2.5 * rng.choice([-1, 1], (3, D // 10))[z]
    for name, values in (("noise", X), ("3 clusters", clusters)):
        model, seconds = seconds_of(values, options)
        yield Line(
            f"50 x {D}, {name}: seconds (K)",
            f"{seconds:.2f} ({model.n_clusters_})",
            "3",
            seconds <= 3.0,
        )


ITEMS: dict[str, Callable[[Options], Iterator[Line]]] = {
    "figures": figures,
    "weak": weak,
    "dependent": dependent,
    "categorical": categorical,
    "noise": independent,
    "clouds": clouds,
    "correlated": correlated,
    "covariances": covariances,
    "blobs": blobs,
    "recipes": recipes,
    "real": classes,
    "permuted": permuted,
    "adult": adult,
    "rare": rare,
    "speed": speed,
    "wide": wide,
}
WIDTHS = (44, 34, 16, 4, 1)


def number_or_name(text: str) -> float | str:
    """A number where the text is one."""
    try:
        return float(text)
    except ValueError:
        return text


def parser() -> argparse.ArgumentParser:
    commands = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=ITEMS,
        default=list(ITEMS),
        help=f"some of: {', '.join(ITEMS)}",
    )
    commands.add_argument(
        "--quick", action="store_true", help="a few tables of each kind, or short ones, and no verdict"
    )
    commands.add_argument("--data", metavar="DIR", help="folder of the real tables")
    commands.add_argument("--out", metavar="FILE", help="write the same text to a file")
    commands.add_argument("--memory-of-rows", metavar="N", type=int, help=argparse.SUPPRESS)
    given = commands.add_argument_group("parameters of CRAFT", "its defaults where not given")
    given.add_argument("--covariance", choices=("diagonal", "auto", "full", "tied"))
    given.add_argument("--price-factor", type=number_or_name, metavar="X")
    given.add_argument("--null", choices=("marginals", "normal"))
    given.add_argument("--n-init", type=int, metavar="N")
    given.add_argument("--n-threads", type=int, metavar="N")
    return commands


PARAMETERS = ("covariance", "price_factor", "null", "n_init", "n_threads")


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    parameters = {name: value for name in PARAMETERS if (value := getattr(asked, name)) is not None}
    options = Options(parameters, data_folder(asked.data), asked.quick)
    if asked.memory_of_rows:
        print_memory(asked.memory_of_rows, options)
        return 0
    report, begin = Report(), time.perf_counter()
    shown = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    report.heading(
        f"CRAFT({shown})",
        "Other packages: measured earlier on the same recipes; K and ARI, K alone for one cloud.",
    )
    report.say(row(("measure", "ours", "bar", "met", "other packages"), WIDTHS))
    verdicts = []
    for name in asked.only:
        for line in ITEMS[name](options):
            verdict = None if asked.quick else line.met
            met = {None: "", True: "yes", False: "no"}[verdict]
            report.say(row((line.measure, line.ours, line.bar, met, line.peers), WIDTHS))
            verdicts.append(verdict)
    bars = len(verdicts) - verdicts.count(None)
    report.say("", f"{verdicts.count(True)} of {bars} bars met; {time.perf_counter() - begin:.0f} s in all.")
    if asked.out:
        Path(asked.out).write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
