"""Global and local feature selection with a Dirichlet process mixture: the paper's tables and ours.

    python benches/replication/mixture.py [--data DIR] [--seeds N] [--quick] [--figures FOLDER] [--out FILE]

Guan, Dy & Jordan, "A Unified Probabilistic Model for Global and Local Unsupervised Feature Selection", ICML
2011. The synthetic tables have the paper's layout; it gives no means, which are N(0, 1) here. The others read
`NAME.csv.gz` (header, class last) from `--data`, else the environment variable CRAFTC_DATA, else
../shared/data next to the checkout; what is not there is named and skipped. One thread throughout, CPU
seconds. Starts are chosen by the bound, never by the classes, which only the NMI sees.

"paper's" settings are those of its text: full covariances, columns standardised, m learned, rho = .01 for
HFS(G) and .2 for HFS(L). The rows "diagonal" have the same settings but independent columns. Under its own
prior rho works the other way round, hence our "local" (rho = .01) and "global" (.2), both at m = 1/2.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.cluster import KMeans, SpectralCoclustering
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import minmax_scale

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from replication.craft import Report, data_folder
from replication.madbayes import heading, machine, markdown, timed

from craftc import CRAFT, FeatureSelectionMixture
from craftc.metrics import contingency, nmi

Table = NDArray[np.float64]
Labels = NDArray[Any]
COMPONENTS = 20
DEAREST = 100  # columns that a full covariance, ours or scikit-learn's, is fitted to
DEAREST_ROWS = 5000  # rows of CRAFT

PAPER_G: dict[str, Any] = {"feature_variance": 0.01, "learn_fraction": True, "scale": "standard"}
PAPER_L: dict[str, Any] = {"feature_variance": 0.2, "learn_fraction": True, "scale": "standard"}

# NMI (clusters) of the paper's Table 1: HFS(G), HFS(L), its plain DP mixture, Law et al.'s selection,
# co-clustering; "-": not in it
PAPER = {
    "glass": (".730 (7)", ".731 (8)", ".413 (9)", ".572 (4)", ".783 (6)"),
    "chart": (".615 (8)", ".681 (7)", ".331 (7)", ".581 (4)", ".712 (6)"),
    "newsgroups, 100 posts of each (not the paper's miniNG)": (
        ".361 (21) on miniNG",
        ".582 (24) on miniNG",
        ".129 (14) on miniNG",
        ".159 (1) on miniNG",
        ".546 (20) on miniNG",
    ),
    "digits (usps)": (".258 (13)", ".354 (11)", ".176 (5)", ".254 (6)", ".364 (10)"),
}

# A post's header: up to the first empty line, which is two tabs in the half of the file where tabs stand for
# newlines. There a folded field looks the same, hence the first one after "Lines:" if that is there, mostly
# among the last fields.
HEADER = re.compile(r"\A(.*?[\n\t]Lines:)?.*?(\n\n|\t[\t\n])", re.DOTALL)


# ---- tables ----


class Made(NamedTuple):
    X: Table
    classes: Labels
    mask: NDArray[np.bool_]  # (3, 30): the columns that are a cluster's own


OWN = {"local": (range(10), range(15, 30), range(4, 25)), "global": (range(15),) * 3}


def made(kind: str, seed: int) -> Made:
    """300 rows of 30 columns in 3 clusters: own columns N(mean, 1), means N(0, 1); others N(0, 10)."""
    rng = np.random.default_rng(seed)
    mask = np.array([[d in own for d in range(30)] for own in OWN[kind]])
    classes, means = np.repeat(np.arange(3), 100), rng.normal(size=(3, 30))
    noise = rng.normal(size=(300, 30))
    return Made(np.where(mask[classes], means[classes] + noise, np.sqrt(10.0) * noise), classes, mask)


def read(folder: Path, name: str) -> tuple[Table, Labels] | None:
    """(numbers, classes) of a table, None where it is not in the folder."""
    path = folder / f"{name}.csv.gz"
    if not path.is_file():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as file:
        cells = np.array([line.rstrip("\n").split(",") for line in file][1:])
    return cells[:, :-1].astype(np.float64), cells[:, -1]


def posts(folder: Path, each: int = 100, words: int = 1000) -> tuple[Table, Labels] | None:
    """Counts of the commonest words in the first posts of each of the 20 newsgroups, headers taken off."""
    path = folder / "newsgroups20.jsonl.gz"
    if not path.is_file():
        return None
    import json

    from sklearn.feature_extraction.text import CountVectorizer

    taken: dict[str, list[str]] = {}
    with gzip.open(path, "rt", encoding="ascii") as file:
        for post in map(json.loads, file):
            if len(texts := taken.setdefault(post["class"], [])) < each:
                texts.append(HEADER.sub("", post["text"], count=1))
    count = CountVectorizer(stop_words="english", max_features=words, token_pattern=r"[a-z]{3,}")
    X = count.fit_transform(text for texts in taken.values() for text in texts).toarray().astype(np.float64)
    classes = np.repeat(list(taken), [len(texts) for texts in taken.values()])
    long = X.sum(axis=1) > 0  # a post without a word says nothing
    return X[long], classes[long]


def standardised(X: Table) -> Table:
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)


# ---- fits ----


class Fit(NamedTuple):
    labels: Labels
    seconds: float
    bound: float = np.nan
    mask: NDArray[np.bool_] | None = None
    fraction: float = np.nan


Procedure = Callable[[Table, int], Fit]  # table, seed


def ours(n_components: int = COMPONENTS, **parameters: Any) -> Procedure:
    parameters = {"n_init": 5, "n_threads": 1} | parameters

    def fit(X: Table, seed: int) -> Fit:
        model, took = timed(
            lambda: FeatureSelectionMixture(n_components, random_state=seed, **parameters).fit(X)
        )
        return Fit(model.labels_, took, model.elbo_, model.feature_mask_, model.feature_fraction_)

    return fit


def sklearns(covariance: str, n_init: int = 5) -> Procedure:
    """scikit-learn's variational DP mixture, to the same tolerance in total nats."""

    def fit(X: Table, seed: int) -> Fit:
        model = BayesianGaussianMixture(
            n_components=COMPONENTS,
            covariance_type=covariance,
            n_init=n_init,
            tol=1e-6 * len(X),
            max_iter=1000,
            random_state=seed,
        )
        labels, took = timed(lambda: model.fit_predict(standardised(X)))
        return Fit(labels, took)

    return fit


def craft(X: Table, seed: int) -> Fit:
    model, took = timed(lambda: CRAFT(random_state=seed, n_threads=1).fit(X))
    return Fit(model.labels_, took, mask=model.feature_mask_)


def true_k(classes: Labels) -> Procedure:
    """k-means with the true number of classes."""

    def fit(X: Table, seed: int) -> Fit:
        K = len(np.unique(classes))
        labels, took = timed(lambda: KMeans(K, n_init=5, random_state=seed).fit_predict(standardised(X)))
        return Fit(labels, took)

    return fit


def coclusters(classes: Labels) -> Procedure:
    """Co-clustering of rows and columns by the spectrum of the table (Dhillon 2001), columns from 0 to 1."""

    def fit(X: Table, seed: int) -> Fit:
        model = SpectralCoclustering(len(np.unique(classes)), n_init=5, random_state=seed)
        labels, took = timed(lambda: model.fit(minmax_scale(X) + 1e-9).row_labels_)
        return Fit(labels, took)

    return fit


SETTINGS: dict[str, dict[str, Any]] = {
    'selection="local"': {"selection": "local"},
    'selection="global"': {"selection": "global"},
    'selection="shared"': {"selection": "shared"},
    'selection="all"': {"selection": "all"},
    'selection="all", concentration="auto"': {"selection": "all", "concentration": "auto"},
    "own fractions": {"learn_fraction": "component"},
    "paper's HFS(G), diagonal": PAPER_G,
    "paper's HFS(L), diagonal": PAPER_L,
}
FULL: dict[str, dict[str, Any]] = {
    '"local", covariance="full"': {"covariance": "full", "n_init": 1},
    '"all", covariance="full": the paper\'s DP mixture': {
        **{"selection": "all", "covariance": "full"},
        **{"scale": "standard", "n_init": 2},
    },
    "as in the paper, HFS(G)": {**PAPER_G, "covariance": "full", "n_init": 2},
    "as in the paper, HFS(L)": {**PAPER_L, "covariance": "full", "n_init": 2},
}
FULL_SEEDS = 3


def mask_share(table: Made, fit: Fit) -> float:
    """Share of right entries, each true cluster against the component that has most of its rows."""
    counts, _, found = contingency(table.classes, fit.labels)
    assert fit.mask is not None
    return float((fit.mask[np.asarray(found)[counts.argmax(axis=1)]] == table.mask).mean())


def mean_of(values: Sequence[float], form: str = ".3f") -> str:
    mean = float(np.mean(values))
    return "-" if np.isnan(mean) else f"{mean:{form}}"


def k_of(fits: Sequence[Fit]) -> str:
    return mean_of([len(np.unique(fit.labels)) for fit in fits], ".1f")


# ---- the tables of this report ----


def synthetic(report: Report, n_seeds: int, n_full: int) -> None:
    heading(
        report,
        "Synthetic 1 (local) and 2 (global)",
        "The paper's layout: 300 rows, 30 columns, 3 clusters; local: own columns 0-9, 15-29, 4-24, global: "
        "0-14 for all, N(mean, 1) with "
        f"means N(0, 1); noise N(0, 10). Means over {n_seeds} seeds ({n_full} with a full covariance, of 1 "
        "or 2 starts); best "
        "bound of 5 starts of 20 components, merges on. mask: share of right entries, each true cluster "
        "against its largest component. The "
        "paper: labels and masks recovered in both.",
    )
    lines = []
    procedures: dict[str, Procedure] = {name: ours(**parameters) for name, parameters in SETTINGS.items()}
    procedures['"local", merge=False'] = ours(merge=False)
    procedures['"local", noise="feature"'] = ours(noise="feature")
    procedures |= {name: ours(**parameters) for name, parameters in FULL.items()}
    procedures |= {
        "CRAFT()": craft,
        "BayesianGaussianMixture diag": sklearns("diag"),
        "BayesianGaussianMixture full": sklearns("full"),
    }
    for name, procedure in procedures.items():
        line: list[str] = [name]
        for kind in OWN:
            tables = [made(kind, seed) for seed in range(n_full if name in FULL else n_seeds)]
            fits = [procedure(table.X, seed) for seed, table in enumerate(tables)]
            scores = [nmi(table.classes, fit.labels) for table, fit in zip(tables, fits, strict=True)]
            masks = [
                mask_share(table, fit) if fit.mask is not None else np.nan
                for table, fit in zip(tables, fits, strict=True)
            ]
            line += [mean_of(scores), k_of(fits), mean_of(masks), mean_of([fit.bound for fit in fits], ".1f")]
            line += [mean_of([1e3 * fit.seconds for fit in fits], ".0f")]
        lines.append(line)
    titles = [f"{kind}: {title}" for kind in OWN for title in ("NMI", "K", "mask", "bound", "ms")]
    markdown(report, ["", *titles], lines)


def correlation(report: Report, n_draws: int = 1_000_000) -> None:
    heading(
        report,
        "What rho does: the correlation of two clusters' masks",
        f"rho / (m (1 - m)), and the correlation of {n_draws:,} draws of lambda and of two masks. A large "
        "rho ties masks together, a small "
        "one frees them.",
    )
    rng, lines = np.random.default_rng(0), []
    for m, rho in ((0.5, 0.2), (0.5, 0.01), (0.9, 0.01), (0.987, 0.01)):
        kappa = m * (1 - m) / rho - 1
        share = rng.beta(m * kappa, (1 - m) * kappa, n_draws)
        y = rng.random((2, n_draws)) < share
        lines.append([m, rho, f"{rho / (m * (1 - m)):.3f}", f"{np.corrcoef(y)[0, 1]:.3f}"])
    markdown(report, ["m", "rho", "formula", "drawn"], lines)


def fractions(report: Report, tables: dict[str, Any], n_seeds: int) -> None:
    heading(
        report,
        "rho and m: fixed and learned",
        f"Best bound of 5 starts of 20 components, means over {n_seeds} seeds (synthetic: tables); glass "
        "and chart standardised. "
        "selected: share of cells of the mask; vary: share of columns that some clusters select and others "
        "do not.",
    )
    lines = []
    for name, table in tables.items():
        for rho in (0.2, 0.01):
            for learn in (True, False):
                scale = "scalar" if name in OWN else "standard"
                fit = ours(feature_variance=rho, learn_fraction=learn, scale=scale)
                pairs = [(classes, fit(X, seed)) for seed in range(n_seeds) for X, classes in [table(seed)]]
                masks = [np.asarray(done.mask) for _, done in pairs]
                line = [
                    name,
                    f"{rho:g}",
                    "learned" if learn else ".5",
                    mean_of([done.bound for _, done in pairs], ".1f"),
                ]
                line += [
                    mean_of([nmi(classes, done.labels) for classes, done in pairs]),
                    k_of([done for _, done in pairs]),
                ]
                line += [mean_of([mask.mean() for mask in masks], ".2f")]
                line += [
                    mean_of([float((mask.any(axis=0) & ~mask.all(axis=0)).mean()) for mask in masks], ".2f")
                ]
                lines.append([*line, mean_of([done.fraction for _, done in pairs])])
    markdown(report, ["data", "rho", "m", "bound", "NMI", "K", "selected", "vary", "m found"], lines)


def numbers_of_clusters(report: Report, tables: dict[str, Any], n_seeds: int) -> None:
    starts = (3, 5, 8, 12, 20, 40)
    heading(
        report,
        "How many clusters: K found for as many components as the starts had",
        f'selection="local", 2 starts, means over {n_seeds} seeds; without merges / with. bound: the number '
        "of components "
        "where it is highest (with merges).",
    )
    lines = []
    for name, table in tables.items():
        line, bounds = [name], []
        for n_components in starts:
            cells = []
            for merge in (False, True):
                fit = ours(n_components, merge=merge, n_init=2)
                fits = [fit(table(seed)[0], seed) for seed in range(n_seeds)]
                cells.append(k_of(fits))
            bounds.append(float(np.mean([done.bound for done in fits])))
            line.append(" / ".join(cells))
        lines.append([*line, starts[int(np.argmax(bounds))]])
    markdown(report, ["data", *(f"{n} components" for n in starts), "bound"], lines)


def real(
    report: Report, name: str, X: Table, classes: Labels, n_seeds: int, n_full: int, counts: bool = False
) -> None:
    """One table of Table 1."""
    big = len(X) > DEAREST_ROWS
    n_init = 2 if big else 5
    heading(
        report,
        f"{name}: {len(X)} x {X.shape[1]}, {len(np.unique(classes))} classes",
        f"Best bound of {n_init} starts of {COMPONENTS} components (full covariance: of 1); means over "
        f"{n_seeds} seeds, lowest and highest "
        "NMI in brackets. Ours and scikit-learn's see standardised columns."
        * (not counts)
        + "Counts, Poisson components; scikit-learn's and k-means see standardised shares of the words."
        * counts,
    )
    theirs = PAPER.get(name, ("-",) * 5)
    units = {"component": "poisson"} if counts else {"scale": "standard"}
    procedures: dict[str, Procedure] = {}
    for label, parameters in SETTINGS.items():
        procedures[label] = ours(**{"n_init": n_init} | parameters | units)
    wide = X.shape[1] > DEAREST or counts
    if not wide:
        procedures |= {
            label: ours(**parameters | units)
            for label, parameters in FULL.items()
            if not big or parameters["n_init"] == 1
        }
    if not big and not counts:
        procedures["CRAFT()"] = craft
    procedures["BayesianGaussianMixture diag"] = sklearns("diag", n_init)
    if not wide:
        procedures["BayesianGaussianMixture full"] = sklearns("full", n_init)
    procedures["k-means, true number of classes"] = true_k(classes)
    procedures["co-clustering (Dhillon), true number"] = coclusters(classes)
    shares = X / np.maximum(X.sum(axis=1, keepdims=True), 1.0) if counts else X
    quoted = ("HFS(G)", "HFS(L)", "DP mixture without selection", "Law et al.", "co-clustering")
    lines: list[list[Any]] = [
        [f"paper, {label}", paper, *["-"] * 5]
        for label, paper in zip(quoted, theirs, strict=True)
        if paper != "-"
    ]
    for label, procedure in procedures.items():
        own = label in SETTINGS or label in FULL
        fits = [procedure(X if own else shares, seed) for seed in range(n_full if label in FULL else n_seeds)]
        scores = [nmi(classes, fit.labels) for fit in fits]
        selected = mean_of([fit.mask.mean() if fit.mask is not None else np.nan for fit in fits], ".2f")
        around = f" ({min(scores):.3f}-{max(scores):.3f})" if len(scores) > 1 else ""
        seconds = mean_of([fit.seconds for fit in fits], ".2f")
        lines.append(
            [
                label,
                "-",
                mean_of(scores) + around,
                k_of(fits),
                mean_of([fit.bound for fit in fits], ".1f"),
                selected,
                seconds,
            ]
        )
    markdown(report, ["", "paper: NMI (K)", "NMI", "K", "bound", "selected", "s"], lines)


def figures(folder: Path, tables: dict[str, Any]) -> None:
    """The paper's figure 2, the prior of lambda_d, and figure 4 for all tables."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from craftc import plot

    folder.mkdir(parents=True, exist_ok=True)
    share = np.linspace(0.001, 0.999, 999)
    figure, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
    for m, rho in ((0.5, 0.2), (0.5, 0.01), (0.9, 0.01), (0.1, 0.01)):
        kappa = m * (1 - m) / rho - 1
        axis.semilogy(share, beta.pdf(share, m * kappa, (1 - m) * kappa), label=f"m = {m:g}, rho = {rho:g}")
    axis.set(title="density of lambda", xlabel="lambda", ylim=(1e-3, 30))
    axis.legend(frameon=False)
    figure.savefig(folder / "figure2.png", dpi=150)
    for name, table in tables.items():
        X, _ = table(0)
        model = FeatureSelectionMixture(random_state=0, n_threads=1).fit(X)
        plot.tiles(model, X).figure.savefig(folder / f"{name}.png", dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", metavar="DIR", help="folder of the real tables")
    parser.add_argument(
        "--seeds", metavar="N", type=int, default=10, help="seeds of made and small tables (10)"
    )
    parser.add_argument("--quick", action="store_true", help="2 seeds, small tables only")
    parser.add_argument(
        "--figures", metavar="FOLDER", type=Path, help="write figure 2, and figure 4 for every table"
    )
    parser.add_argument("--out", metavar="FILE", help="write the same text to a file")
    options = parser.parse_args(arguments)
    n_seeds = 2 if options.quick else options.seeds
    folder, report, begin = data_folder(options.data), Report(), time.perf_counter()
    warnings.simplefilter(
        "ignore"
    )  # unfinished sweeps, columns without variance, skewed columns: the tables say so
    report.say("# Global and local feature selection with a DP mixture", "", machine())

    found = {
        name: read(folder, file) if folder else None
        for name, file in (("glass", "glass"), ("chart", "synthetic_control"))
    }
    small: dict[str, Any] = {kind: lambda seed, kind=kind: made(kind, seed)[:2] for kind in OWN}
    small |= {name: lambda seed, table=table: table for name, table in found.items() if table is not None}
    n_full = 1 if options.quick else min(n_seeds, FULL_SEEDS)
    synthetic(report, n_seeds, n_full)
    correlation(report)
    fractions(report, small, min(n_seeds, 5))
    numbers_of_clusters(report, small, min(n_seeds, 5))
    if options.figures:
        figures(options.figures, small)
    large = {} if options.quick else {"digits (optdigits)": "optdigits", "digits (usps)": "usps"}
    skipped = [name for name, table in found.items() if table is None]
    for name, table in found.items():
        if table is not None:
            real(report, name, *table, n_seeds, n_full)
    for name, file in large.items():
        table = read(folder, file) if folder else None
        if table is None:
            skipped.append(name)
        else:
            real(report, name, *table, 1, 1)
    if not options.quick:
        texts = posts(folder) if folder else None
        if texts is None:
            skipped.append("newsgroups")
        else:
            real(
                report,
                "newsgroups, 100 posts of each (not the paper's miniNG)",
                *texts,
                min(n_seeds, 5),
                n_full,
                counts=True,
            )
    if skipped:
        report.say("", f"Skipped, not in the data folder (see --data): {', '.join(skipped)}.")
    report.say("", "Not attempted: Hrct, faces, webKB, yeast, Reuters, and miniNG as the paper has it.")
    report.say("", f"{time.perf_counter() - begin:.0f} s in all.")
    if options.out:
        Path(options.out).write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
