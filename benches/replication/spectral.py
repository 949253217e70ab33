"""Graph spectral features of mixed data: the paper's Tables I to IV beside ours, its alpha and J, and known graphs found again.

    python benches/replication/spectral.py [--data DIR] [--seeds N] [--sets heart tae ...] [--quick] [--plots FOLDER] [--out FILE]

Sahoo & Chakraborty, "Graph Spectral Feature Learning for Mixed Data of Categorical and Numerical Type", arXiv 2005.02817. The tables
heart, tae, adult and crx are `NAME.csv.gz` with their columns in `schema.json`, from `--data`, else the environment variable
CRAFTC_DATA, else ../shared/data beside the checkout; what is not there is named and skipped, and so are packages that do not import.
One thread throughout, CPU seconds.

Settings. Rows: all of heart (270), tae (151), crx (690) and adult (48 842), but 3000 rows of adult drawn with seed 0 for k-prototypes,
K-medoids, alpha and J. Features: `GraphSpectralFeatures(random_state=seed)`, nothing else, so l = 5. k-means: 5 starts. Seeds 0, 1 and 2,
which are the model's and k-means'; means over them. Encoded rows x are the estimator's: numbers times 2 / max|x - mean|, +-1 indicators,
the mean where a cell is missing. k-prototypes: standardised numbers, missing categories a level, missing numbers the mean, the package's
own gamma, 5 starts (1 on adult). K-medoids: Gower distances. Random graphs: 100 seeds, 5 on adult, N(0, 1) on every edge the learned
graph may have; the Laplacian, its eigenvectors and l are as in the learned one. Correlations of x likewise. The classes are seen by R and
E alone.

Unknown of the paper: l of its tables, the encoding of missing cells and of two levels, scaling, eps, the rank of the factorisation, steps
and rate, k-means' starts and seeds, rows of adult, and which columns of tae are numbers. So its tables cannot be replicated strictly.
Selection warning: the defaults were settled after looking at label-based results of about 180 configurations on heart and 80 on crx (36
others each on tae and adult had been seen too), so the rows of heart and crx are not held-out estimates.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from replication.craft import Report, data_folder
from replication.madbayes import heading, machine, markdown, timed

from craftc import GraphSpectralFeatures
from craftc.metrics import chance_rand_index, eigen_diffusion, rand_index, separability, total_cluster_label_entropy

Table = NDArray[np.float64]
Labels = NDArray[Any]

KS = {"heart": (2, 5, 10), "tae": (2, 5, 10), "adult": (5, 10, 20), "crx": (5, 10, 20)}
# R, E of the paper's Tables I to IV: its features (SE), principal components, k-prototypes, K-medoids
PAPER = {
    ("heart", 2): ((0.701, 0.935), (0.704, 0.852), (0.653, 1.061), (0.654, 1.001)),
    ("heart", 5): ((0.587, 2.255), (0.582, 2.431), (0.582, 2.261), (0.568, 2.301)),
    ("heart", 10): ((0.555, 5.011), (0.541, 4.581), (0.554, 4.861), (0.547, 4.641)),
    ("tae", 2): ((0.486, 2.119), (0.490, 2.122), (0.492, 2.192), (0.470, 2.191)),
    ("tae", 5): ((0.570, 4.805), (0.562, 5.131), (0.591, 4.711), (0.601, 5.130)),
    ("tae", 10): ((0.631, 8.871), (0.626, 9.281), (0.606, 7.761), (0.647, 10.146)),
    ("adult", 5): ((0.441, 2.773), (0.436, 2.761), (0.441, 2.763), (0.424, 2.742)),
    ("adult", 10): ((0.425, 5.532), (0.405, 5.502), (0.390, 5.506), (0.393, 5.223)),
    ("adult", 20): ((0.385, 11.083), (0.379, 10.911), (0.375, 11.021), (0.373, 11.011)),
    ("crx", 5): ((0.527, 2.791), (0.545, 2.691), (0.610, 2.491), (0.571, 2.544)),
    ("crx", 10): ((0.516, 5.311), (0.546, 3.905), (0.548, 4.732), (0.535, 4.364)),
    ("crx", 20): ((0.516, 8.267), (0.526, 6.651), (0.528, 7.376), (0.524, 7.930)),
}
SE, PC, PROTO, MEDOIDS = range(4)
# K-medoids on Gower distances of a plain NumPy program, written apart from this package (800 rows of adult)
REFERENCE_MEDOIDS = {
    "heart": ((0.683, 0.995), (0.592, 2.139), (0.542, 4.663)),
    "tae": ((0.488, 2.176), (0.603, 5.337), (0.642, 9.390)),
    "adult": ((0.444, 2.006), (0.408, 3.665), (0.389, 7.611)),
    "crx": ((0.559, 2.591), (0.542, 4.514), (0.525, 8.270)),
}
# the same program's areas under the curve for known graphs: hard, easy
REFERENCE_RECOVERY = {
    "pseudo, l2 = .3": (".950", "1.000"),
    "pseudo, l2 = .03": (".944", "1.000"),
    "pseudo, dense, l2 = .3": (".844", ".988"),
    "correlation": (".928", ".919"),
    "partial correlation": (".920", "1.000"),
    "mean similarity": (".758", ".825"),
    "observed, as printed": (".432", ".264"),
    "observed, as printed, theta0 = .001, 10 steps": (".422", ".413"),
    "observed, uphill, 50 steps": (".542", ".630"),
    "observed, uphill, 2000 steps": (".468", ".568"),
}

L = 5
DEAR_ROWS = 3000  # of adult, for what is dear
N_INIT = 5
FEW_GRAPHS, MANY_GRAPHS = 5, 100  # random ones


# ---- tables ----


class Data(NamedTuple):
    X: pd.DataFrame
    classes: Labels
    numeric: list[str]
    categorical: list[str]

    def some(self, many: int) -> Data:
        """So many rows at most, drawn with seed 0."""
        if many >= len(self.X):
            return self
        rows = np.sort(np.random.default_rng(0).choice(len(self.X), many, replace=False))
        return self._replace(X=self.X.iloc[rows].reset_index(drop=True), classes=self.classes[rows])


def read(folder: Path, name: str) -> Data | None:
    """A table of the data folder, None where it is not there."""
    if not (folder / "schema.json").is_file() or not (folder / f"{name}.csv.gz").is_file():
        return None
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))[name]
    types = dict.fromkeys([*schema["categorical"], schema["target"]], str)
    frame = pd.read_csv(folder / schema["file"], dtype=types, keep_default_na=False, na_values=[""])
    classes = frame.pop(schema["target"]).to_numpy(str)
    return Data(frame, classes, schema["numeric"], schema["categorical"])


def encoded(X: pd.DataFrame, model: GraphSpectralFeatures) -> Table:
    """Rows as the model's columns name them, worked out from the table alone."""
    columns = []
    for s, (name, source) in enumerate(zip(model.encoded_names_, model.encoded_columns_, strict=True)):
        cells = X.iloc[:, source]
        if s < model.n_numeric_:
            centred = cells - cells.mean()
            columns.append((model.beta * centred / centred.abs().max()).fillna(0.0))
        else:
            on = (cells == name.removeprefix(f"{cells.name}=")).where(cells.notna())
            column = on.map({True: 1.0, False: -1.0}).astype(float)
            columns.append(column.fillna(column.mean()))
    return np.column_stack(columns).astype(np.float64)


def apart(model: GraphSpectralFeatures) -> NDArray[np.bool_]:
    """(p, p) where the graph may have an edge: between columns of different variables."""
    source = model.encoded_columns_
    return np.asarray(source[:, None] != source)


def smoothest(graph: Table, l: int, kind: str = "signed") -> Table:  # noqa: E741
    """(p, l) first eigenvectors of the normalised Laplacian."""
    degree = np.abs(graph).sum(axis=1)
    root = 1.0 / np.sqrt(np.where(degree > 0.0, degree, 1.0))
    laplacian = np.diag(degree) - (graph if kind == "signed" else np.abs(graph))
    return np.asarray(np.linalg.eigh(root[:, None] * laplacian * root)[1][:, :l])


def random_graph(allowed: NDArray[np.bool_], seed: int) -> Table:
    upper = np.triu(np.random.default_rng(seed).normal(size=allowed.shape), 1)
    return np.asarray((upper + upper.T) * allowed)


def correlations(x: Table, allowed: NDArray[np.bool_]) -> Table:
    return np.asarray(np.corrcoef(x, rowvar=False) * allowed)


# ---- Tables I to IV ----


class Score(NamedTuple):
    R: float
    chance: float
    E: float


def score(classes: Labels, labels: Labels) -> Score:
    return Score(rand_index(classes, labels), chance_rand_index(classes, labels), total_cluster_label_entropy(classes, labels))


def mean_score(scores: Sequence[Score]) -> Score:
    return Score(*(float(value) for value in np.mean(scores, axis=0)))


def kmeans(features: Table, K: int, seed: int, n_init: int = N_INIT) -> Labels:
    return np.asarray(KMeans(K, n_init=n_init, random_state=seed).fit_predict(features))


def short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".") if abs(value) < 1 else f"{value:.3f}"


def pair(values: Sequence[float]) -> str:
    return " / ".join(map(short, values))


def shown(result: Score) -> str:
    return f"{short(result.R)} ({short(result.chance)}) / {short(result.E)}"


def gower(data: Data) -> Table:
    """(n, n) mean distance over the columns that both rows have: |difference| / range, and 0 or 1."""
    total, count = (np.zeros((len(data.X), len(data.X))) for _ in range(2))
    for name in data.numeric:
        cells = data.X[name].to_numpy(np.float64)
        apart = np.abs(cells[:, None] - cells) / max(np.nanmax(cells) - np.nanmin(cells), 1e-300)
        total += np.nan_to_num(apart)
        count += ~np.isnan(apart)
    for name in data.categorical:
        codes = pd.factorize(data.X[name])[0]
        both = (codes[:, None] >= 0) & (codes >= 0)
        total += (codes[:, None] != codes) & both
        count += both
    return total / np.maximum(count, 1)


def medoids(data: Data) -> Callable[[int, int], Labels]:
    """(K, seed) -> labels. Raises where scikit-learn-extra does not import."""
    from sklearn_extra.cluster import KMedoids

    distances = gower(data)
    return lambda K, seed: KMedoids(K, metric="precomputed", method="pam", init="k-medoids++", random_state=seed).fit(distances).labels_


def prototypes(data: Data, n_init: int) -> Callable[[int, int], Labels]:
    """(K, seed) -> labels. Raises where kmodes does not import."""
    from kmodes.kprototypes import KPrototypes

    numbers = data.X[data.numeric].astype(float)
    numbers = ((numbers - numbers.mean()) / numbers.std(ddof=0)).fillna(0.0)
    cells = pd.concat([numbers, data.X[data.categorical].fillna("missing")], axis=1).to_numpy(object)
    at = list(range(len(data.numeric), cells.shape[1]))
    return lambda K, seed: np.asarray(KPrototypes(K, n_init=n_init, random_state=seed).fit_predict(cells, categorical=at))


def tables(report: Report, name: str, data: Data, n_seeds: int, quick: bool) -> None:
    """One of the paper's tables."""
    seeds = range(n_seeds)
    fits = [timed(lambda seed=seed: GraphSpectralFeatures(random_state=seed, n_threads=1).fit(data.X)) for seed in seeds]
    models = [model for model, _ in fits]
    x, p = encoded(data.X, models[0]), len(models[0].encoded_names_)
    allowed = apart(models[0])
    shares = np.unique(data.classes, return_counts=True)[1] / len(data.classes)
    base = float(-(shares * np.log(shares)).sum())
    heading(
        report,
        f"{name}: {len(data.X)} rows, p = {p} encoded columns, {int(np.triu(allowed).sum())} edges, {len(shares)} classes",
        f"R (R of the same sizes by chance) / E in nats, means of {n_seeds} seeds. Clusters that say nothing about the classes have E = "
        f"K times {short(base)}. The fit: {', '.join(f'{model.n_iter_} steps, {took:.2f} s' for model, took in fits[:1])} at seed 0.",
    )
    methods: dict[str, tuple[int | None, Callable[[int, int], Labels]]] = {}

    def add(label: str, paper: int | None, features: Sequence[Table]) -> None:
        methods[label] = (paper, lambda K, seed: kmeans(features[seed % len(features)], K, seed))

    add(f"ours, l = {L}", SE, [model.transform(data.X) for model in models])
    whole = GraphSpectralFeatures(p, random_state=0, n_threads=1).fit(data.X)
    rotated = whole.transform(data.X)
    add(f"all p = {p} components", SE, [rotated])
    add("encoded rows x", SE, [x])
    pca = PCA(p, svd_solver="full").fit(x)
    add(f"principal components, l = {L}", PC, [pca.transform(x)[:, :L]])
    add("all principal components", PC, [pca.transform(x)])
    add(f"correlation graph, l = {L}", None, [x @ smoothest(correlations(x, allowed), L)])
    for label, options in OBSERVED.items():
        walked = [GraphSpectralFeatures(random_state=seed, n_threads=1, **options).fit(data.X) for seed in seeds]
        add(label, None, [model.transform(data.X) for model in walked])
    few, skipped = data.some(DEAR_ROWS), []
    where = f" of {len(few.X)} rows" if len(few.X) < len(data.X) else ""
    for label, paper, make in (
        (f"k-prototypes{where}", PROTO, partial(prototypes, few, 1 if where else N_INIT)),
        (f"K-medoids, Gower{where}", MEDOIDS, partial(medoids, few)),
    ):
        try:
            methods[label] = (paper, make())
        except (ImportError, ValueError) as error:
            skipped.append(f"{label.split(',')[0]} ({type(error).__name__}: {str(error).split('. ')[0]})")
    Ks = KS[name][:1] if quick else KS[name]
    results = {label: [] for label in methods}
    for label, (_, fit) in methods.items():
        classes = few.classes if where and label.endswith(where) else data.classes
        for K in Ks:
            results[label].append(mean_score([score(classes, fit(K, seed)) for seed in seeds]))
    lines: list[list[str]] = []
    for label, (paper, _) in methods.items():
        line = [label]
        for K, result in zip(Ks, results[label], strict=True):
            line += ["-" if paper is None else pair(PAPER[name, K][paper]), shown(result)]
        lines.append(line)
    if not any("medoids" in label for label in methods):
        line = ["K-medoids, Gower, of the reference program"]
        for K, reference in zip(Ks, REFERENCE_MEDOIDS[name], strict=False):
            line += [pair(PAPER[name, K][MEDOIDS]), pair(reference)]
        lines.append(line)
    n_graphs = FEW_GRAPHS if quick or len(x) > DEAR_ROWS else MANY_GRAPHS
    graphs = [x @ smoothest(random_graph(allowed, seed), L) for seed in range(n_graphs)]
    middle, best, many = [f"random graphs, l = {L}: mean"], [f"best R of the first {FEW_GRAPHS}"], ["how many reach the R of ours"]
    for K, mine in zip(Ks, results[f"ours, l = {L}"], strict=True):
        each = [score(data.classes, kmeans(features, K, seed)) for seed, features in enumerate(graphs)]
        middle += ["-", shown(mean_score(each))]
        best += ["-", shown(max(each[:FEW_GRAPHS]))]
        many += ["-", f"{sum(one.R >= mine.R for one in each)} of {n_graphs}"]
    lines += [middle, best, many]
    markdown(report, ["", *(title for K in Ks for title in (f"paper, K = {K}", f"here, K = {K}"))], lines)
    if skipped:
        report.say("", f"Skipped, as the package does not import: {'; '.join(skipped)}.")
    report.say("", rotation(x, rotated, whole, Ks[-1]))


OBSERVED: dict[str, dict[str, Any]] = {
    "observed, as printed": {"objective": "observed"},
    'observed, as printed, "abs", theta0 = .001, 10 steps': {
        "objective": "observed",
        "laplacian": "abs",
        "theta0": 1e-3,
        "n_steps": 10,
    },
    "observed, uphill": {"objective": "observed", "sign": 1},
}


def rotation(x: Table, rotated: Table, model: GraphSpectralFeatures, K: int) -> str:
    """All p features beside x: the same rows in other axes, and the same k-means."""
    away = np.abs(model.components_ @ model.components_.T - np.eye(x.shape[1])).max()
    back = np.abs(rotated @ model.components_ - x).max()
    # mixtures of rows: rows themselves may be equally far from two of them, and rounding would decide
    mixtures = np.random.default_rng(0).dirichlet(np.full(len(x), 0.05), K)
    ends = [KMeans(K, init=mixtures @ features, n_init=1).fit(features) for features in (x, rotated)]
    same = float((ends[0].labels_ == ends[1].labels_).mean())
    return (
        f"All p components are a rotation: their products differ from the identity by {away:.0e} at most, turned back they differ from x "
        f"by {back:.0e}. k-means from the same {K} centres: the inertia differs by {ends[1].inertia_ / ends[0].inertia_ - 1:.0e}, "
        f"{100 * same:.4g} % of the labels equal."
    )


# ---- alpha and J ----


def trace_ratio(features: Table, labels: Labels) -> float:
    """Scatter between clusters over scatter inside them."""
    away = features - features.mean(axis=0)
    inside = sum(float(((rows - rows.mean(axis=0)) ** 2).sum()) for rows in (away[labels == k] for k in np.unique(labels)))
    return float((away**2).sum() / inside) - 1.0


def diffusion(report: Report, found: dict[str, Data], quick: bool) -> None:
    sizes, penalties = ((3, 5), (0.1,)) if quick else ((2, 3, 5, 10), (0.01, 0.1, 1.0))
    seeds = 2 if quick else FEW_GRAPHS
    heading(
        report,
        "alpha and J beside principal components of as many features",
        f"The paper: alpha always falls, J always rises. In how many runs they do so here. Learned: l2 in {penalties}, signed and abs; "
        f"random: {seeds} graphs, signed and abs; l in {sizes}. J of the clusters that k-means (2 starts) finds in the features, for each "
        f"K of the tables; adult: {DEAR_ROWS} rows. alpha is `metrics.eigen_diffusion`, J `metrics.separability`, tr(S_w^+ S_b), beside "
        "it tr(S_b) / tr(S_w). The paper's own formulas, with which a reference program counted 78 of 96 and 21 of 24 (alpha), 236 of 288 "
        "and 39 of 72 (J), are not at hand.",
    )
    lines, total = [], np.zeros((2, 6), np.int64)
    for name, data in found.items():
        few, Ks = data.some(DEAR_ROWS), KS[name][:1] if quick else KS[name]
        models = [GraphSpectralFeatures(random_state=0, l2=l2, n_threads=1).fit(few.X) for l2 in penalties]
        x, allowed = encoded(few.X, models[0]), apart(models[0])
        kinds = [[model.graph_ for model in models], [random_graph(allowed, seed) for seed in range(seeds)]]
        counts = np.zeros((2, 6), np.int64)  # learned and random: alpha below, of, J above, of, ratio above, of
        for l in sizes:  # noqa: E741
            pc = PCA(l).fit_transform(x)
            alpha, theirs = eigen_diffusion(pc), [both(pc, kmeans(pc, K, 0, 2)) for K in Ks]
            for count, graphs in zip(counts, kinds, strict=True):
                for graph in graphs:
                    for kind in ("signed", "abs"):
                        features = x @ smoothest(graph, l, kind)
                        J, ratio = np.sum([both(features, kmeans(features, K, 0, 2)) > pair for K, pair in zip(Ks, theirs, strict=True)], 0)
                        count += (eigen_diffusion(features) < alpha, 1, J, len(Ks), ratio, len(Ks))
        total += counts
        lines.append([name, *cells(counts)])
    titles = [f"{what}, {graph}" for graph in ("learned", "random") for what in ("alpha below", "J above", "tr / tr above")]
    markdown(report, ["", *titles], [*lines, ["all", *cells(total)]])


def both(features: Table, labels: Labels) -> Table:
    """The two readings of J."""
    return np.array([separability(features, labels), trace_ratio(features, labels)])


def cells(counts: NDArray[np.int64]) -> list[str]:
    return [f"{some} of {of}" for some, of in counts.reshape(-1, 2)]


# ---- known graphs ----


def similarity(u: Any, a: Any, eps: float = 0.1) -> Table:
    """g(u, a) of numbers in [-1, 1]."""
    U, A = np.maximum(np.abs(u), eps), np.maximum(np.abs(a), eps)
    opposite = (np.abs(u) > eps) & (np.abs(a) > eps) & (np.sign(u) != np.sign(a))
    return np.asarray(np.where(opposite, -1.0, 1.0) * np.minimum(U / A, A / U))


def drawn(hard: bool, seed: int, sweeps: int = 100) -> tuple[pd.DataFrame, Table]:
    """(rows, weights): Gibbs draws of 6 numeric and 6 binary columns from a random graph of 14 edges, by the model with codes +-1/2."""
    n, low, high = (250, 0.15, 0.5) if hard else (1000, 0.5, 1.0)
    rng, half, p = np.random.default_rng(seed), 6, 12
    s, t = np.triu_indices(p, 1)
    edges = rng.choice(len(s), 14, replace=False)
    theta = np.zeros((p, p))
    theta[s[edges], t[edges]] = rng.uniform(low, high, 14) * rng.choice([-1.0, 1.0], 14)
    theta += theta.T
    u = (np.arange(200) + 0.5) / 100.0 - 1.0
    x = np.column_stack([rng.choice(u, (n, half)), rng.choice([-1.0, 1.0], (n, half))])
    for _ in range(sweeps):
        for j in range(p):
            values = u if j < half else np.array([-1.0, 1.0])
            energy = np.zeros((n, len(values)))
            for k in np.flatnonzero(theta[j]):
                if j >= half and k >= half:
                    energy += theta[j, k] * np.outer(x[:, k], values)
                else:  # a numeric column sees the code of a binary one
                    seen, own = (x[:, k] / 2.0 if k >= half else x[:, k]), (values / 2.0 if j >= half else values)
                    energy += theta[j, k] * similarity(own, seen[:, None])
            x[:, j] = values[(energy + rng.gumbel(size=energy.shape)).argmax(axis=1)]
    frame = pd.DataFrame({f"number {j}": x[:, j] for j in range(half)})
    return frame.assign(**{f"sign {j}": np.where(x[:, half + j] > 0, "b", "a") for j in range(half)}), theta


def mean_similarity(x: Table, model: GraphSpectralFeatures) -> Table:
    """|mean h| of every pair; a numeric and a binary column through the codes."""
    half, eps = model.n_numeric_, 0.1 * model.beta
    seen = x.copy()
    seen[:, half:] = np.where(x[:, half:] > 0, model.codes_[half:, 1], model.codes_[half:, 0])
    h = similarity(seen[:, :, None], seen[:, None, :], eps).mean(axis=0)
    h[half:, half:] = x[:, half:].T @ x[:, half:] / len(x)
    return h


def recovery(report: Report, n_hard: int, n_easy: int) -> None:
    heading(
        report,
        "Known graphs found again",
        "Gibbs draws of 6 numeric and 6 binary columns, 14 edges of 66; area under the curve of |weight|, mean +- standard error. hard: "
        f"250 rows, weights .15 to .5, {n_hard} seeds; easy: 1000 rows, .5 to 1, {n_easy} seeds. The draws are from the model with codes "
        "itself, which favours it. reference: a plain NumPy program on its own draws. paired: how far `pseudo, l2 = .3` is above, hard.",
    )
    options: dict[str, dict[str, Any]] = {
        "pseudo, l2 = .3": {"l2": 0.3},
        "pseudo, l2 = .1 (the default)": {},
        "pseudo, l2 = .03": {"l2": 0.03},
        "pseudo, dense, l2 = .3": {"l2": 0.3, "conditionals": "dense"},
        "observed, as printed": {"objective": "observed"},
        "observed, as printed, theta0 = .001, 10 steps": {"objective": "observed", "theta0": 1e-3, "n_steps": 10},
        "observed, uphill, 50 steps": {"objective": "observed", "sign": 1},
        "observed, uphill, 2000 steps": {"objective": "observed", "sign": 1, "n_steps": 2000},
    }
    areas: dict[str, list[list[float]]] = {}
    for column, (hard, n_seeds) in enumerate(((True, n_hard), (False, n_easy))):
        for seed in range(n_seeds):
            frame, truth = drawn(hard, seed)
            weights, model = {}, None
            for label, parameters in options.items():
                fitted = GraphSpectralFeatures(random_state=seed, n_threads=1, **parameters).fit(frame)
                model, weights[label] = model or fitted, fitted.graph_
            assert model is not None
            x = encoded(frame, model)
            correlation = np.corrcoef(x, rowvar=False)
            inverse = np.linalg.inv(correlation)
            scale = np.sqrt(np.diag(inverse))
            weights |= {"correlation": correlation, "partial correlation": inverse / np.outer(scale, scale)}
            weights["mean similarity"] = mean_similarity(x, model)
            pairs = np.triu_indices(len(truth), 1)
            for label, weight in weights.items():
                area = float(roc_auc_score(truth[pairs] != 0.0, np.abs(weight[pairs])))
                areas.setdefault(label, [[], []])[column].append(area)
    lines = []
    best = np.array(areas["pseudo, l2 = .3"][0])
    for label, both in areas.items():
        cells = [f"{short(float(np.mean(a)))} +- {short(float(np.std(a, ddof=1) / np.sqrt(len(a))))}" if len(a) > 1 else "-" for a in both]
        ahead = best - np.array(both[0])
        reference = REFERENCE_RECOVERY.get(label, ("-", "-"))
        wins = "-" if not ahead.any() else f"{ahead.mean():+.3f}, {int((ahead > 0).sum())} of {len(ahead)} seeds"
        lines.append([label, cells[0], reference[0], cells[1], reference[1], wins])
    markdown(report, ["", "hard", "reference", "easy", "reference", "paired"], lines)


# ---- two halves ----


def stability(report: Report, found: dict[str, Data], quick: bool) -> None:
    heading(
        report,
        "Graphs of two halves of a table",
        "The rows cut into two halves at random, a graph learned from each: the correlation of their weights (of edges that both have), "
        "mean (lowest to highest), and how many of the ten strongest edges are the same.",
    )
    lines = []
    for name, data in found.items():
        cuts = 2 if quick or len(data.X) > DEAR_ROWS else 10
        for l2 in (0.1, 1.0):
            alike, same = [], []
            for seed in range(cuts):
                order = np.random.default_rng(seed).permutation(len(data.X))
                halves = order[: len(order) // 2], order[len(order) // 2 :]
                one, other = (GraphSpectralFeatures(random_state=0, l2=l2, n_threads=1).fit(data.X.iloc[rows]).edges() for rows in halves)
                shared = one.merge(other, on=["source", "target"])
                alike.append(shared.weight_x.corr(shared.weight_y))
                same.append(len(one.head(10).merge(other.head(10), on=["source", "target"])))
            spread = f"{short(float(np.mean(alike)))} ({short(min(alike))} to {short(max(alike))})"
            lines.append([name, len(data.X) // 2, f"{l2:g}", cuts, spread, f"{np.mean(same):.1f} of 10"])
    markdown(report, ["", "rows of a half", "l2", "cuts", "correlation", "strongest edges in both"], lines)


# ---- columns permuted ----


def permuted(report: Report, found: dict[str, Data], quick: bool) -> None:
    heading(
        report,
        "Edges of tables whose columns are permuted",
        "Every column is permuted on its own, so that no two depend on each other. What is left is the shape of single columns: spikes, "
        "skewness, few values, rare levels. Largest |weight|; root mean square of the weights, by that of the table itself; and how many "
        "of the table's ten strongest edges have a larger |weight| than the same edge in any of the permuted tables.",
    )
    lines = []
    for name, data in found.items():
        draws = 3 if quick or len(data.X) > DEAR_ROWS else 20
        for options in ({"l2": 0.1}, {"l2": 1.0}, {"l2": 0.1, "unary": "free"}):
            model = GraphSpectralFeatures(random_state=0, n_threads=1, **options).fit(data.X)
            null = []
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                table = pd.DataFrame({column: rng.permutation(cells.to_numpy(object)) for column, cells in data.X.items()})
                table[data.numeric] = table[data.numeric].astype(float)
                null.append(np.abs(GraphSpectralFeatures(random_state=0, n_threads=1, **options).fit(table).graph_))
            own, high = np.abs(model.graph_), np.max(null, axis=0)
            place = {column: i for i, column in enumerate(model.encoded_names_)}
            top = model.edges(10)
            beyond = sum(own[place[s], place[t]] > high[place[s], place[t]] for s, t in zip(top.source, top.target, strict=True))
            share = float(np.sqrt(np.mean(np.square(null)) / np.mean(own**2)))
            strongest = float(np.mean([weights.max() for weights in null]))
            asked = ", ".join(f"{key}={value}" for key, value in options.items())
            lines.append([name, draws, asked, short(own.max()), short(strongest), short(share), f"{beyond} of 10"])
    markdown(report, ["", "permutations", "options", "largest", "permuted", "r.m.s., permuted / own", "beyond all permuted"], lines)


# ---- figures 2 and 3 ----


def figures(folder: Path, found: dict[str, Data]) -> None:
    """Spectra and scatters of principal components and of ours: what the paper's figures 2 and 3 show is not known here."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from craftc import plot

    folder.mkdir(parents=True, exist_ok=True)
    for name, data in found.items():
        few = data.some(DEAR_ROWS)
        model = GraphSpectralFeatures(random_state=0, n_threads=1).fit(few.X)
        x, ours = encoded(few.X, model), model.transform(few.X)
        l = ours.shape[1]  # noqa: E741
        sets = {"principal components": PCA(l).fit_transform(x), "graph spectral features": ours}
        figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
        for label, features in sets.items():
            values = np.linalg.eigvalsh(np.cov(features, rowvar=False))[::-1]
            axes[0].semilogy(np.arange(1, l + 1), values / values[0], marker="o", label=f"{label}, alpha {eigen_diffusion(features):.2f}")
        axes[0].set(title=f"{name}: eigenvalues of the covariance, l = {l}", xlabel="k", ylabel="eigenvalue / the largest")
        axes[0].set_xticks(np.arange(1, l + 1))
        axes[0].legend(frameon=False)
        for axis, (label, features) in zip(axes[1:], sets.items(), strict=True):
            for c in np.unique(few.classes):
                rows = few.classes == c
                axis.scatter(features[rows, 0], features[rows, 1], s=8, alpha=0.6, label=c)
            axis.set(title=label, xlabel="1", ylabel="2")
        axes[2].legend(title="class", frameon=False)
        figure.savefig(folder / f"{name}.png", dpi=150)
        for stem, draw in (("graph", plot.dependence_graph), ("spectrum", plot.spectrum)):
            draw(model).figure.savefig(folder / f"{name}_{stem}.png", dpi=150)
        plt.close("all")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", metavar="DIR", help="folder of the real tables")
    parser.add_argument("--seeds", metavar="N", type=int, default=3, help="seeds of the features and of k-means (3)")
    parser.add_argument("--sets", nargs="+", choices=list(KS), default=list(KS), help="which tables")
    parser.add_argument("--quick", action="store_true", help="heart and tae, the smallest K, 2 seeds, few graphs")
    parser.add_argument("--plots", metavar="FOLDER", type=Path, help="write pictures: see figures 2 and 3 at the end")
    parser.add_argument("--out", metavar="FILE", help="write the same text to a file")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    folder, report, begin = data_folder(options.data), Report(), time.perf_counter()
    warnings.simplefilter("ignore")  # k-means that finds fewer distinct rows than K: R and E say so
    names = [name for name in options.sets if not options.quick or name in ("heart", "tae")]
    tried = {name: read(folder, name) if folder else None for name in names}
    found = {name: data for name, data in tried.items() if data is not None}
    report.say("# Graph spectral features", "", machine())
    recovery(report, *((2, 1) if options.quick else (10, 5)))
    for name, data in found.items():
        tables(report, name, data, 2 if options.quick else options.seeds, options.quick)
    if found:
        diffusion(report, found, options.quick)
        stability(report, found, options.quick)
        permuted(report, found, options.quick)
    if skipped := [name for name in names if name not in found]:
        report.say("", f"Skipped, not in the data folder (see --data): {', '.join(skipped)}.")
    if options.plots:
        figures(options.plots, found)
        report.say("", f"Pictures in {options.plots}: eigenvalues of the features' covariance, and the first two features of principal")
        report.say("components and of ours by class. Whether the paper's figures 2 and 3 show the same is not known here.")
    report.say("", f"{time.perf_counter() - begin:.0f} s in all.")
    if options.out:
        Path(options.out).write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
