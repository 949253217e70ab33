"""The MAD-Bayes paper's tabletop experiment and our own tables of DP-means and feature models.

    python benches/replication/madbayes.py [--data DIR] [--quick] [--figures FOLDER] [--out FILE]

Broderick, Kulis & Jordan, "MAD-Bayes: MAP-based Asymptotic Derivations from Bayes", ICML 2013.
Tabletop (`tabletop.npz` with X, the principal component scores of the 100 pictures) and the faces
(`olivetti.csv.gz`, 400 pictures of 64 x 64 pixels, in place of the paper's) come from `--data`, else
the environment variable CRAFTC_DATA, else ../shared/data next to the checkout; without a file its
tables are skipped. The others make their data. One thread throughout, CPU seconds.

The authors' objectives are from the documentation of their program, best of 1000 starts;
the paper's times are its own, of 2013, on a machine and with code that are not ours.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from replication import ibp, madbayes_figures
from replication.craft import Report, data_folder

from craftc import BPMeans, DPMeans, KFeatures

AUTHORS = (615.9, 423.2, 295.3, 205.8, 161.2, 156.1, 150.9, 143.5)
PENALTIES = (
    12.0,
    20.0,
)  # five features are best between 11.4 and 44.6; 20 is lambda^2 of the authors' example

# features, seconds per run, seconds in all
PAPER = {
    "Gibbs": ("10", "8.5e3", "-"),
    "collapsed BP-means": ("5", "11", "1.1e4"),
    "BP-means": ("6", "0.36", "3.6e2"),
    "stepwise K-features": ("5", "0.10", "1.55e2"),
}

Table = NDArray[np.float64]


def markdown(report: Report, titles: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    report.say("| " + " | ".join(titles) + " |", "|" + "---|" * len(titles))
    for cells in lines:
        report.say("| " + " | ".join(str(cell) for cell in cells) + " |")


def heading(report: Report, title: str, note: str) -> None:
    report.say("", f"## {title}", "", *textwrap.wrap(note, 130), "")


def machine() -> str:
    """The processor, its cores, and the versions that matter."""
    names = []
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    versions = (
        f"Python {platform.python_version()}, numpy {np.__version__}, scikit-learn {sklearn.__version__}"
    )
    return (
        f"{name}, {os.cpu_count()} cores, one thread used, CPU seconds, {versions}, {datetime.date.today()}"
    )


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """What was fitted, and CPU seconds: with one thread on an idle machine."""
    begin = time.process_time()
    model = fit()
    return model, time.process_time() - begin


# ---- tabletop ----


def tabletop(folder: Path | None) -> Table | None:
    """The scores; None where the file is not there."""
    path = folder / "tabletop.npz" if folder else None
    return np.asarray(np.load(path)["X"], np.float64) if path and path.is_file() else None


def best_objectives(report: Report, X: Table, n_init: int) -> None:
    heading(
        report,
        f"Tabletop: lowest squared error of {n_init} starts",
        "Median of seeds 0 to 4, and the range where they differ; seconds of one seed, all K. Ours ends "
        "with exchanges: in the best three "
        "ends, feature after feature gives way to a drawn residual. base and assignment as in KFeatures; "
        "the paper's are mean and sweep.",
    )
    ways = [(base, assignment) for assignment in ("auto", "sweep") for base in ("mean", "none", "mixed")]
    lines: list[list[Any]] = [["authors, 1000 starts", *AUTHORS, "-"]]
    for base, assignment in ways:
        cells, seconds = [], 0.0
        for K in range(1, 9):
            ends = []
            for seed in range(5):
                parameters = {"base": base, "assignment": assignment, "n_init": n_init, "random_state": seed}
                model, took = timed(
                    lambda K=K, parameters=parameters: KFeatures(K, n_threads=1, **parameters).fit(X)
                )
                ends.append(model.objective_)
                seconds += took / 5
            low, middle, high = (f"{value:.1f}" for value in (min(ends), statistics.median(ends), max(ends)))
            cells.append(middle if low == high else f"{middle} ({low}-{high})")
        exact = "exact z" if assignment == "auto" else "sweep"
        lines.append([f"{exact}, base {base}", *cells, f"{seconds:.2f}"])
    markdown(report, ["", *(f"K = {K}" for K in range(1, 9)), "seconds"], lines)


def gibbs(report: Report, X: Table, n_sweeps: int) -> tuple[list[str], list[int]]:
    """The paper's baseline: its cells of the table of algorithms, and numbers of features of later sweeps."""
    heading(
        report,
        f"Figure 1: the number of features under a Gibbs sampler, {n_sweeps} sweeps",
        "Collapsed sampler of the linear Gaussian model, alpha = 1, variances sampled; the second half of "
        "the sweeps. The paper's sampler "
        "found 10 features in 8.5e3 s.",
    )
    chain, seconds = timed(lambda: ibp.sample(X, n_sweeps, 0))
    later = [one.n_features for one in chain[n_sweeps // 2 :]]
    values, counts = np.unique(later, return_counts=True)
    markdown(
        report,
        ["features", "share of the sweeps"],
        [[k, f"{c / len(later):.2f}"] for k, c in zip(values, counts, strict=True)],
    )
    most = str(values[counts.argmax()])
    return [most, f"{chain[-1].error:.1f}", f"{1e6 * seconds:.0f}", f"{seconds:.3f}"], later


def algorithms(report: Report, X: Table, penalty: float, sampled: list[str], quick: bool) -> None:
    n_bp, n_step, repeats = (100, 30, 1) if quick else (1000, 300, 3)
    heading(
        report,
        f"Figure 1 and the table of algorithms, lambda^2 = {penalty:g}",
        f"Medians of {repeats} interleaved fits. J = squared error + {penalty:g} K (Gibbs: squared error). "
        f"A run is one start: {n_bp} of "
        f"BP-means, {n_step} for each K of the stepwise search, which ends one K beyond the best; exchanges "
        "count as part of the runs. "
        "As printed: exchanges=False, one draw per feature; sweeps, but all combinations of a row in "
        "collapsed BP-means. The paper's lambda^2 = 1 is in other units.",
    )
    common: dict[str, Any] = {"random_state": 0, "n_threads": 1}
    printed: dict[str, Any] = {"exchanges": False, "assignment": "sweep", **common}
    jointly = {**printed, "assignment": "exact"}  # Eq. 10 is minimised in all memberships of a row
    ours: dict[str, tuple[str, Callable[[], Any], int]] = {
        "collapsed BP-means, as printed": (
            "collapsed BP-means",
            lambda: BPMeans(penalty, collapsed=True, n_init=n_bp, **jointly),
            n_bp,
        ),
        "BP-means, as printed": ("BP-means", lambda: BPMeans(penalty, n_init=n_bp, **printed), n_bp),
        "stepwise K-features, as printed": (
            "stepwise K-features",
            lambda: KFeatures(feature_penalty=penalty, n_init=n_step, **printed),
            0,
        ),
        "collapsed BP-means": (
            "collapsed BP-means",
            lambda: BPMeans(penalty, collapsed=True, n_init=n_bp, **common),
            n_bp,
        ),
        "BP-means": ("BP-means", lambda: BPMeans(penalty, n_init=n_bp, **common), n_bp),
        "BP-means, sweeps": ("-", lambda: BPMeans(penalty, n_init=n_bp, assignment="sweep", **common), n_bp),
        'BP-means, init="kfeatures"': (
            "-",
            lambda: BPMeans(penalty, init="kfeatures", n_init=n_step, **common),
            0,
        ),
        "stepwise K-features": (
            "stepwise K-features",
            lambda: KFeatures(feature_penalty=penalty, n_init=n_step, **common),
            0,
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ours}
    models = {}
    for _ in range(repeats):
        for name, (_, make, _) in ours.items():
            models[name], took = timed(lambda make=make: make().fit(X))
            seconds[name].append(took)
    lines: list[list[str]] = [["Gibbs", *PAPER["Gibbs"], *sampled]]
    for name, (theirs, _, runs) in ours.items():
        model, total = models[name], statistics.median(seconds[name])
        runs = runs or (model.n_features_ + 1) * n_step
        known = PAPER.get(theirs, ("-", "-", "-"))
        J = model.inertia_ + penalty * model.n_features_
        lines.append(
            [name, *known, str(model.n_features_), f"{J:.2f}", f"{1e6 * total / runs:.0f}", f"{total:.3f}"]
        )
    titles = ["", "paper: features", "s per run", "s in all", "ours: features", "J", "µs per run", "s in all"]
    markdown(report, titles, lines)


def counts(report: Report, X: Table, n_seeds: int) -> None:
    heading(
        report,
        "Figure 1: numbers of features as printed, by lambda^2",
        f"Seeds 0 to {n_seeds - 1}; 1000 starts of BP-means, 300 for each K; exchanges=False, sweeps, all "
        "combinations of a row in collapsed BP-means. The paper: 5, 6 and 5.",
    )
    lines = []
    for penalty in (12.0, 15.0, 20.0, 25.0):
        cells: list[list[int]] = [[], [], []]
        for seed in range(n_seeds):
            printed: dict[str, Any] = {
                "exchanges": False,
                "assignment": "sweep",
                "random_state": seed,
                "n_threads": 1,
            }
            jointly = {**printed, "assignment": "exact"}
            cells[0].append(BPMeans(penalty, collapsed=True, n_init=1000, **jointly).fit(X).n_features_)
            cells[1].append(BPMeans(penalty, n_init=1000, **printed).fit(X).n_features_)
            cells[2].append(KFeatures(feature_penalty=penalty, n_init=300, **printed).fit(X).n_features_)
        lines.append([f"{penalty:g}", *(" ".join(map(str, found)) for found in cells)])
    markdown(report, ["lambda^2", "collapsed BP-means", "BP-means", "stepwise K-features"], lines)


def more_starts(report: Report, X: Table) -> None:
    counts = (3, 10, 20, 30, 60, 100)
    heading(
        report,
        "Tabletop: more starts never end higher",
        "Objective by the number of starts, seed 0: K-features with K = 5, stepwise K-features and BP-means "
        "at lambda^2 = 20.",
    )
    makers: dict[str, Callable[[int], Any]] = {
        "KFeatures(5)": lambda n: KFeatures(5, n_init=n, random_state=0, n_threads=1),
        "KFeatures(5, exchanges=False)": lambda n: KFeatures(
            5, n_init=n, exchanges=False, random_state=0, n_threads=1
        ),
        "KFeatures(feature_penalty=20)": lambda n: KFeatures(
            feature_penalty=20, n_init=n, random_state=0, n_threads=1
        ),
        'BPMeans(20, init="kfeatures")': lambda n: BPMeans(
            20.0, init="kfeatures", n_init=n, random_state=0, n_threads=1
        ),
        "BPMeans(20)": lambda n: BPMeans(20.0, n_init=n, random_state=0, n_threads=1),
    }
    lines = [[name, *(f"{make(n).fit(X).objective_:.2f}" for n in counts)] for name, make in makers.items()]
    markdown(report, ["n_init", *map(str, counts)], lines)


def histograms(report: Report, figures: Path, X: Table, sweeps: Sequence[int], n_starts: int) -> None:
    """Figure 1, right."""
    heading(
        report,
        f"Figure 1: numbers of features of {n_starts} single starts, lambda^2 = 20",
        "As printed, one start each; Gibbs: the later sweeps of one chain. Share of each number.",
    )
    found = madbayes_figures.numbers_of_features(figures, X, sweeps, n_starts)
    lines = []
    for name, numbers in found.items():
        values, times = np.unique(numbers, return_counts=True)
        shares = (f"{K}: {time / len(numbers):.2f}" for K, time in zip(values, times, strict=True))
        lines.append([name, ", ".join(shares)])
    markdown(report, ["", "features: share"], lines)


def faces(report: Report, folder: Path | None, quick: bool, figures: Path | None) -> None:
    """Section 5.2, figure 3."""
    path = folder / "olivetti.csv.gz" if folder else None
    if path is None or not path.is_file():
        report.say("", "Faces: skipped, no olivetti.csv.gz (see --data).")
        return
    X = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(4096))[:: 4 if quick else 1] / 255.0
    heading(
        report,
        "Figure 3, faces: squared error per picture, K-features and k-means",
        f"{len(X)} pictures of olivetti, grey levels from 0 to 1 (the paper has 400 pictures of FEI; it "
        "prints pictures of "
        "the features and no errors). K features make 2^K sums of features, k-means has K centres. Ten "
        "starts each.",
    )
    lines = []
    for K in (2, 3, 4):
        features = KFeatures(K, random_state=0, n_threads=1).fit(X)
        error = KMeans(K, n_init=10, random_state=0).fit(X).inertia_
        _, times = np.unique(features.assignments_, axis=0, return_counts=True)
        each = " ".join(map(str, sorted(times, reverse=True)))
        lines.append([K, f"{features.inertia_ / len(X):.1f}", each, f"{error / len(X):.1f}"])
    markdown(report, ["K", "K-features", "pictures of each combination", "k-means"], lines)
    if figures:
        madbayes_figures.faces(figures, X)


# ---- Appendix E ----


def covariances(report: Report) -> None:
    heading(
        report,
        "Appendix E: clusters with covariances, Wine (178 x 13, standardised), three classes",
        "The paper prints no figures. ARI: adjusted Rand index with the classes. Known Sigma: the mean "
        "covariance within the classes; "
        "a row opens a cluster where its squared Mahalanobis distance exceeds lambda^2.",
    )
    data = load_wine()
    X, kinds = scale(data.data), data.target
    within = np.mean([np.cov(X[kinds == k].T, bias=True) for k in range(3)], axis=0)
    makers: dict[str, Any] = {
        "n_clusters=3": DPMeans(n_clusters=3),
        '0, max_clusters=3, n_init=20, init="random-row"': DPMeans(
            0, max_clusters=3, n_init=20, init="random-row"
        ),
        '20, init="random-row"': DPMeans(20.0, init="random-row"),
        'n_clusters=3, covariance="full"': DPMeans(n_clusters=3, covariance="full"),
        'n_clusters=3, covariance="full-sized"': DPMeans(n_clusters=3, covariance="full-sized"),
        'n_clusters=3, covariance="full-sized", covariance_price=80000': DPMeans(
            n_clusters=3, covariance="full-sized", covariance_price=80000
        ),
        '40, covariance=Sigma, mode="delayed"': DPMeans(40.0, covariance=within, mode="delayed"),
    }
    lines = []
    for name, model in makers.items():
        model.set_params(random_state=0, n_threads=1).fit(X)
        sizes = " ".join(f"{size:.0f}" for size in model.cluster_sizes_)
        lines.append(
            [
                f"`DPMeans({name})`",
                model.n_clusters_,
                sizes,
                f"{adjusted_rand_score(kinds, model.labels_):.2f}",
            ]
        )
    markdown(report, ["", "K", "rows", "ARI"], lines)


# ---- DP-means ----

BLOBS = {2: (6, 4.0), 16: (10, 2.0), 64: (10, 1.0)}  # columns: clusters, spread of the centres
# the reference's J over that of the truth, and its K: serial, delayed, collapsed, serial with polish
REFERENCE = {
    (2, "farthest-first"): ("1.17 (5.2)", "0.985 (5.0)", "1.13 (4.5)", "0.948 (5.5)"),
    (2, "noise"): ("0.660 (10.5)", "0.737 (8.8)", "0.824 (7.5)", "0.690 (9.5)"),
    (16, "farthest-first"): ("1.096 (10.2)", "1.235 (8.8)", "1.285 (8.5)", "1.193 (10)"),
    (16, "noise"): ("0.949 (44)", "0.998 (12.5)", "0.994 (12)", "0.915 (42)"),
    (64, "farthest-first"): ("1.211 (10)", "1.311 (6.8)", "1.321 (6)", "1.140 (10)"),
    (64, "noise"): ("1.146 (147)", "1.018 (16)", "0.998 (11.5)", "1.035 (99)"),
}


def blobs(D: int, seed: int, n: int = 500) -> tuple[Table, NDArray[np.int64]]:
    """Unit normals around normal centres."""
    K, spread = BLOBS[D]
    rng = np.random.default_rng(seed)
    centres, labels = spread * rng.normal(size=(K, D)), rng.integers(0, K, n)
    return centres[labels] + rng.normal(size=(n, D)), labels


def truth(X: Table, labels: NDArray[np.int64], penalty: float) -> float:
    """J of a partition."""
    kinds = np.unique(labels)
    return float(
        sum(((X[labels == k] - X[labels == k].mean(axis=0)) ** 2).sum() for k in kinds)
    ) + penalty * (len(kinds) - 1)


def dp_means(report: Report, n_sets: int) -> None:
    heading(
        report,
        "DP-means: J relative to the partition that was made (K found)",
        f"Means of {n_sets} sets of 500 rows: D = 2 around 6 centres, D = 16 and 64 around 10; centres 4, 2 "
        "and 1 times standard normal, "
        "noise 1. lambda^2: farthest-first, asked for the true K; noise, D + 4 sqrt(2 D), above which "
        "hardly any row is from its mean. "
        "In brackets below: a plain NumPy reference on sets of its own of the same kind (400 to 600 rows, "
        "other centres), so that rows "
        "of the two compare in kind and not in digits.",
    )
    modes: dict[str, dict[str, Any]] = {
        "serial": {"mode": "serial"},
        "delayed": {"mode": "delayed"},
        "collapsed": {"mode": "collapsed"},
        "serial, polish": {"mode": "serial", "polish": True},
    }
    lines = []
    for (D, kind), theirs in REFERENCE.items():
        found: dict[str, list[tuple[float, int]]] = {name: [] for name in modes}
        for seed in range(n_sets):
            X, labels = blobs(D, seed)
            K = BLOBS[D][0]
            penalty = (
                float(DPMeans().penalty_path(X, K, scale="radius")[-1])
                if kind == "farthest-first"
                else D + 4 * (2 * D) ** 0.5
            )
            for name, parameters in modes.items():
                model = DPMeans(penalty, n_threads=1, **parameters).fit(X)
                found[name].append((model.objective_ / truth(X, labels, penalty), model.n_clusters_))
        means = ["{:.3f} ({:.1f})".format(*np.mean(values, axis=0)) for values in found.values()]
        lines.append([f"D = {D}, {kind}", *means])
        lines.append(["(reference)", *(f"({cell})" for cell in theirs)])
    markdown(report, ["", *modes], lines)


# ---- how many features ----


def sums(
    n: int, D: int, K: int, seed: int, share: float = 0.4, size: float = 2.0, offset: float = 0.0
) -> Table:
    """Rows that are sums of K normal features with unit noise; every row has a feature with the probability
    `share`.
    """
    rng = np.random.default_rng(seed)
    return (rng.random((n, K)) < share) @ (size * rng.normal(size=(K, D))) + rng.normal(size=(n, D)) + offset


def automatic(report: Report, n_sets: int) -> None:
    heading(
        report,
        "How many features: found with nothing given, of the true ones",
        f"{n_sets} sets per line: rows are sums of normal features plus unit noise, each feature in 40 % of "
        "the rows. An offset of 5 in "
        "all columns is a feature more. Numbers found, and how often.",
    )
    kinds: list[tuple[str, int, dict[str, Any]]] = [
        ("noise, 200 x 20", 0, {"n": 200, "D": 20, "K": 0}),
        ("200 x 20, 3 features", 3, {"n": 200, "D": 20, "K": 3}),
        ("200 x 20, 5 features", 5, {"n": 200, "D": 20, "K": 5}),
        ("200 x 20, 5 features, half as large", 5, {"n": 200, "D": 20, "K": 5, "size": 1.0}),
        ("200 x 20, 3 features, offset", 4, {"n": 200, "D": 20, "K": 3, "offset": 5.0}),
        ("500 x 40, 8 features", 8, {"n": 500, "D": 40, "K": 8}),
        ("500 x 5, 4 features", 4, {"n": 500, "D": 5, "K": 4}),
        ("60 x 100, 4 features", 4, {"n": 60, "D": 100, "K": 4}),
    ]
    lines = []
    for name, true, recipe in kinds:
        cells = []
        for kind in (KFeatures, BPMeans):
            tables = [sums(seed=seed, **recipe) for seed in range(n_sets)]
            pairs = [timed(lambda kind=kind, X=X: kind(random_state=0, n_threads=1).fit(X)) for X in tables]
            values, counts = np.unique([model.n_features_ for model, _ in pairs], return_counts=True)
            cells.append(
                ", ".join(f"{value} ({count}x)" for value, count in zip(values, counts, strict=True))
            )
            cells.append(f"{statistics.median(took for _, took in pairs):.3f}")
        lines.append([name, true, *cells])
    markdown(report, ["data", "made", "KFeatures()", "s", "BPMeans()", "s"], lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", metavar="DIR", help="folder of tabletop.npz")
    parser.add_argument("--quick", action="store_true", help="fewer starts and sets")
    parser.add_argument("--figures", metavar="FOLDER", type=Path, help="write figures 1 to 3")
    parser.add_argument("--out", metavar="FILE", help="write the same text to a file")
    options = parser.parse_args(arguments)
    report, begin = Report(), time.perf_counter()
    warnings.simplefilter("ignore", UserWarning)  # shattered clusters, unfinished sweeps: the tables say so
    report.say("# MAD-Bayes", "", machine())
    folder = data_folder(options.data)
    X = tabletop(folder)
    if X is None:
        report.say("", "Tabletop: skipped, no tabletop.npz (see --data).")
    else:
        best_objectives(report, X, 100 if options.quick else 1000)
        sampled, sweeps = gibbs(report, X, 100 if options.quick else 1000)
        for penalty in PENALTIES:
            algorithms(report, X, penalty, sampled, options.quick)
        counts(report, X, 2 if options.quick else 5)
        more_starts(report, X)
        if options.figures and folder:
            histograms(report, options.figures, X, sweeps, 100 if options.quick else 1000)
            madbayes_figures.tabletop(options.figures, X, np.load(folder / "tabletop.npz")["images"])
    faces(report, folder, options.quick, options.figures)
    covariances(report)
    dp_means(report, 2 if options.quick else 4)
    automatic(report, 2 if options.quick else 10)
    report.say("", f"{time.perf_counter() - begin:.0f} s in all.")
    if options.out:
        Path(options.out).write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
