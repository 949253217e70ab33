"""Known graphs found again, graphs of two halves of a table, edges of tables of permuted columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from replication.craft import Report
from replication.madbayes import heading, markdown
from replication.spectral_common import Data, Table, encoded, mean_error, short
from sklearn.metrics import roc_auc_score

from craftc import GraphSpectralFeatures
from craftc.spectral import observed_graph

# a reference program's areas under the curve for known graphs: hard, easy
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
PERMUTED_ROWS = 10_000  # of adult
LARGE = 3000  # rows of a table that is cut into halves twice instead of ten times
# unary terms of the columns, which the comparisons of shapes vary
SHAPES: dict[str, dict[str, Any]] = {
    "default": {},
    'scaling="normal"': {"scaling": "normal"},
    "unary=True, grid_size=16": {"unary": True, "grid_size": 16},
    'unary=True, grid_size=16, scaling="normal"': {"unary": True, "grid_size": 16, "scaling": "normal"},
}


def correlations_of(x: Table) -> dict[str, Table]:
    """Correlation and partial correlation of encoded rows."""
    correlation = np.corrcoef(x, rowvar=False)
    inverse = np.linalg.inv(correlation)
    scale = np.sqrt(np.diag(inverse))
    return {"correlation": correlation, "partial correlation": inverse / np.outer(scale, scale)}


def similarity(u: Any, a: Any, eps: float = 0.1) -> Table:
    """g(u, a) of numbers in [-1, 1]."""
    U, A = np.maximum(np.abs(u), eps), np.maximum(np.abs(a), eps)
    opposite = (np.abs(u) > eps) & (np.abs(a) > eps) & (np.sign(u) != np.sign(a))
    return np.asarray(np.where(opposite, -1.0, 1.0) * np.minimum(U / A, A / U))


def drawn(hard: bool, seed: int, sweeps: int = 100) -> tuple[pd.DataFrame, Table]:
    """(rows, weights): Gibbs draws of 6 numeric and 6 binary columns from a random graph of 14 edges, by the
    model with codes +-1/2.
    """
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
                    seen, own = (
                        (x[:, k] / 2.0 if k >= half else x[:, k]),
                        (values / 2.0 if j >= half else values),
                    )
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
        "Gibbs draws of 6 numeric and 6 binary columns, 14 edges of 66; area under the curve of |weight|, "
        "mean +- standard error. hard: "
        f"250 rows, weights .15 to .5, {n_hard} seeds; easy: 1000 rows, .5 to 1, {n_easy} seeds. The draws "
        "are from the model with codes "
        "itself, which favours it. reference: a plain NumPy program on its own draws. paired: how far "
        "`pseudo, l2 = .3` is above, hard.",
    )
    options: dict[str, dict[str, Any]] = {
        "pseudo, l2 = .3": {"l2": 0.3},
        "pseudo, l2 = .1 (the default)": {},
        "pseudo, l2 = .1, unary=True, grid_size=16": {"unary": True, "grid_size": 16},
        "pseudo, l2 = .03": {"l2": 0.03},
        "pseudo, dense, l2 = .3": {"l2": 0.3, "conditionals": "dense"},
    }
    observed: dict[str, dict[str, Any]] = {
        "observed, as printed": {},
        "observed, as printed, theta0 = .001, 10 steps": {"theta0": 1e-3, "n_steps": 10},
        "observed, uphill, 50 steps": {"sign": 1},
        "observed, uphill, 2000 steps": {"sign": 1, "n_steps": 2000},
    }
    areas: dict[str, list[list[float]]] = {}
    for column, (hard, n_seeds) in enumerate(((True, n_hard), (False, n_easy))):
        for seed in range(n_seeds):
            frame, truth = drawn(hard, seed)
            weights, model = {}, None
            for label, parameters in options.items():
                fitted = GraphSpectralFeatures(random_state=seed, n_threads=1, **parameters).fit(frame)
                model, weights[label] = model or fitted, fitted.graph_
            for label, steps in observed.items():
                weights[label] = observed_graph(frame, random_state=seed, n_threads=1, **steps).weights
            assert model is not None
            x = encoded(frame, model)
            weights |= correlations_of(x)
            weights["mean similarity"] = mean_similarity(x, model)
            pairs = np.triu_indices(len(truth), 1)
            for label, weight in weights.items():
                area = float(roc_auc_score(truth[pairs] != 0.0, np.abs(weight[pairs])))
                areas.setdefault(label, [[], []])[column].append(area)
    lines = []
    best = np.array(areas["pseudo, l2 = .3"][0])
    for label, both in areas.items():
        cells = [mean_error(areas_of) for areas_of in both]
        ahead = best - np.array(both[0])
        reference = REFERENCE_RECOVERY.get(label, ("-", "-"))
        wins = (
            "-" if not ahead.any() else f"{ahead.mean():+.3f}, {int((ahead > 0).sum())} of {len(ahead)} seeds"
        )
        lines.append([label, cells[0], reference[0], cells[1], reference[1], wins])
    markdown(report, ["", "hard", "reference", "easy", "reference", "paired"], lines)


# ---- two halves ----


def stability(report: Report, found: dict[str, Data], quick: bool) -> None:
    heading(
        report,
        "Graphs of two halves of a table",
        "The rows cut into two halves at random, a graph learned from each: the correlation of their "
        "weights (of edges that both have), "
        "mean (lowest to highest), and how many of the ten strongest edges are the same.",
    )
    lines = []
    for name, data in found.items():
        cuts = 2 if quick or len(data.X) > LARGE else 10
        for l2 in (0.1, 1.0):
            alike, same = [], []
            for seed in range(cuts):
                order = np.random.default_rng(seed).permutation(len(data.X))
                halves = order[: len(order) // 2], order[len(order) // 2 :]
                one, other = (
                    GraphSpectralFeatures(random_state=0, l2=l2, n_threads=1).fit(data.X.iloc[rows]).edges()
                    for rows in halves
                )
                shared = one.merge(other, on=["source", "target"])
                alike.append(shared.weight_x.corr(shared.weight_y))
                same.append(len(one.head(10).merge(other.head(10), on=["source", "target"])))
            spread = f"{short(float(np.mean(alike)))} ({short(min(alike))} to {short(max(alike))})"
            lines.append([name, len(data.X) // 2, f"{l2:g}", cuts, spread, f"{np.mean(same):.1f} of 10"])
    markdown(report, ["", "rows of a half", "l2", "cuts", "correlation", "strongest edges in both"], lines)


# ---- columns of odd shapes ----


def copula(odd: bool, n: int, seed: int) -> tuple[pd.DataFrame, Table]:
    """(rows, precision): 10 numbers and 6 binary columns, cut from normal columns with 18 edges of 120.

    odd: four columns with 85 % of the rows at one value, two lognormal ones, two with two modes and two of
    counts, all of them monotone functions of the normal columns. The edges of columns that are cut are those
    of the normal ones, which is approximate.
    """
    rng, p = np.random.default_rng(seed), 16
    s, t = np.triu_indices(p, 1)
    edges = rng.choice(len(s), 18, replace=False)
    precision = np.zeros((p, p))
    precision[s[edges], t[edges]] = rng.uniform(0.3, 0.6, 18) * rng.choice([-1.0, 1.0], 18)
    precision += precision.T
    precision += np.eye(p) * (0.1 - min(float(np.linalg.eigvalsh(precision)[0]), 0.0))
    covariance = np.linalg.inv(precision)
    scale = np.sqrt(np.diag(covariance))
    z = rng.multivariate_normal(np.zeros(p), covariance / np.outer(scale, scale), n)
    numbers = z[:, :10].copy()
    if odd:
        numbers[:, :4] = np.maximum(z[:, :4] - 1.0364, 0.0)  # the quantile of .85
        numbers[:, 4:6] = np.exp(z[:, 4:6])
        numbers[:, 6:8] = np.sign(z[:, 6:8]) * 2.0 + 0.5 * z[:, 6:8]
        numbers[:, 8:] = np.floor(np.exp(0.7 * z[:, 8:10] + 0.7))
    frame = pd.DataFrame({f"number {j}": column for j, column in enumerate(numbers.T)})
    return frame.assign(**{f"sign {j}": np.where(z[:, 10 + j] > 0.0, "b", "a") for j in range(6)}), precision


def shapes(report: Report, n_seeds: int, sizes: tuple[int, ...]) -> None:
    heading(
        report,
        "Known graphs of columns of odd shapes",
        "10 numbers and 6 binary columns from a Gaussian copula with 18 edges of 120; odd: four columns "
        "with a spike of 85 % of the "
        "rows, two lognormal, two with two modes, two of counts. Area under the curve of |weight|, mean +- "
        "standard error of "
        f"{n_seeds} seeds; in brackets the mean number of absent edges with a weight above .3.",
    )
    lines = []
    for odd in (False, True):
        for n in sizes:
            areas: dict[str, list[tuple[float, int]]] = {}
            for seed in range(n_seeds):
                frame, truth = copula(odd, n, seed)
                weights = {}
                for label, parameters in SHAPES.items():
                    model = GraphSpectralFeatures(random_state=0, n_threads=1, **parameters).fit(frame)
                    weights[label] = model.graph_
                weights |= correlations_of(encoded(frame, model))
                pairs = np.triu_indices(len(truth), 1)
                there = truth[pairs] != 0.0
                for label, weight in weights.items():
                    size = np.abs(weight[pairs])
                    areas.setdefault(label, []).append(
                        (float(roc_auc_score(there, size)), int((size[~there] > 0.3).sum()))
                    )
            cells = [
                f"{mean_error([area for area, _ in each])} ({np.mean([false for _, false in each]):.1f})"
                for each in areas.values()
            ]
            lines.append(["odd" if odd else "normal", n, *cells])
    markdown(report, ["", "rows", *areas], lines)


# ---- columns permuted ----


def permuted(report: Report, found: dict[str, Data], quick: bool) -> None:
    heading(
        report,
        "Edges of tables whose columns are permuted",
        "Every column is permuted on its own, so that no two depend on each other. What is left is the "
        "shape of single columns: spikes, "
        "skewness, few values, rare levels; and chance. Largest |weight| of the table; means over the "
        "permutations of the largest |weight| "
        "and of the number above .1, .2 and .3; how many edges of the table are stronger than all edges of "
        "all permutations; steps of the "
        f"fit. {PERMUTED_ROWS} rows of adult.",
    )
    lines = []
    options = {**SHAPES, "l2=1": {"l2": 1.0}, 'unary="free", grid_size=16': {"grid_size": 16}}
    for name, whole in found.items():
        data, draws = whole.some(PERMUTED_ROWS), 3 if quick or len(whole.X) > PERMUTED_ROWS else 8
        for label, parameters in options.items():
            model = GraphSpectralFeatures(random_state=0, n_threads=1, **parameters).fit(data.X)
            upper = np.triu_indices(len(model.graph_), 1)
            null = []
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                table = pd.DataFrame(
                    {column: rng.permutation(cells.to_numpy(object)) for column, cells in data.X.items()}
                )
                table[data.numeric] = table[data.numeric].astype(float)
                null.append(
                    np.abs(
                        GraphSpectralFeatures(random_state=0, n_threads=1, **parameters)
                        .fit(table)
                        .graph_[upper]
                    )
                )
            own, false = np.abs(model.graph_[upper]), np.array(null)
            counts = " / ".join(f"{(false > least).sum() / draws:.1f}" for least in (0.1, 0.2, 0.3))
            beyond = int((own > false.max()).sum())
            strongest = float(false.max(axis=1).mean())
            lines.append(
                [name, draws, label, short(own.max()), short(strongest), counts, beyond, model.n_iter_]
            )
    titles = [
        "",
        "permutations",
        "options",
        "largest",
        "permuted",
        "above .1 / .2 / .3",
        "beyond all permuted",
        "steps",
    ]
    markdown(report, titles, lines)
