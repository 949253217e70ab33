"""Groups of covariates for a classifier: the paper's tables and ours, and words grouped by their vectors.

    python benches/replication/covariates.py [--data DIR] [--seeds N] [--quick] [--out FILE]

Andrade, Fukumizu & Okajima, "Convex Covariate Clustering for Classification", arXiv 1903.01680. The synthetic
tables are made by the paper's recipe. The texts are `rt_polarity.jsonl.gz` and `newsgroups20.jsonl.gz`, the
vectors `glove50.csv.gz`, from `--data`, else the environment variable CRAFTC_DATA, else ../shared/data next
to the checkout; what is not there is named and skipped. The paper's word lists and vectors are others, and it
standardises the columns after tf-idf, so its accuracies compare in kind only. CVXPY with ECOS and CLARABEL
joins in where it is installed. One thread throughout, CPU seconds.

"reference" is a plain NumPy program of the same problem, written apart from this package.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the other benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # an installed craftc comes first

from replication.craft import Report, data_folder
from replication.madbayes import heading, machine, markdown, timed
from replication.mixture import HEADER

from craftc import ConvexClustering, ConvexCovariateClustering
from craftc.covariates import knn_similarity

Table = NDArray[np.float64]
Labels = NDArray[Any]
Cell = tuple[int, int]  # covariates, rows

# ANMI of the paper's Table 1: its method 1.0 in every cell, what groups by S alone at best the blocks of S
PAPER_BLOCKS = {40: ".88", 200: ".94"}
# the reference at sigma = .001, which a tie of the accuracies gives, and at sigma = 1: agreeing / disagreeing
REFERENCE = {
    (40, 40): ("1.0 / 1.0", "-"),
    (40, 400): ("1.0 / 1.0", ".99 / .98"),
    (200, 40): ("1.0 / 1.0", ".61 / .62"),
}
REFERENCE[200, 400] = ("1.0 / 1.0", ".97 / .71")
# seconds of the paper's Table 2: its ADMM, 300 penalties; and of CVXPY with ECOS there
PAPER_ADMM = {
    (40, 40): 133,
    (40, 400): 151,
    (40, 4000): 279,
    (200, 40): 301,
    (200, 400): 309,
    (200, 4000): 432,
}
PAPER_ADMM |= {(1000, 40): 2278, (1000, 400): 2154, (1000, 4000): 2527}
PAPER_ECOS = {
    (40, 40): 3.9 * 60,
    (40, 400): 25 * 60,
    (40, 4000): 625.116 * 60,
    (200, 40): 40 * 60,
    (200, 400): 285 * 60,
}
CONIC = {
    (40, 40): 7,
    (40, 400): 4,
    (200, 40): 4,
    (200, 400): 3,
}  # penalties that a conic solver gets; elsewhere none
SIGMAS = 10.0 ** np.arange(-3.0, 2.0, 0.5)
SIZES = (100, 500, 1000)  # groups of words
# accuracies of the paper's Table 6 at about these sizes: its method, k-means, convex clustering
PAPER_TEXTS = {
    "newsgroups20": {"ours": (0.65, 0.80, 0.84), "k-means": (0.64, 0.79, 0.83), "convex": (0.44, 0.70, 0.82)}
}
SELECTION = 2.0 ** -np.arange(
    -6.0, 4.0
)  # group lasso weights of the selection before clustering, rows of tf-idf have length 1


def anmi(truth: Labels, labels: Labels) -> float:
    return float(adjusted_mutual_info_score(truth, labels, average_method="max"))


def mean_of(values: Sequence[float], form: str = ".3f") -> str:
    return f"{np.mean(values):{form}}"


def sums(X: Any, labels: Labels) -> Any:
    """Columns added up by group, sparse where X is."""
    groups = sparse.csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)))
    return X @ groups


# ---- Table 1 ----


class Made(NamedTuple):
    X: Table
    y: Labels
    S: Table
    groups: Labels


def made(cell: Cell, agree: bool, seed: int) -> Made:
    """Ten clusters of d / 10 covariates, cluster g of weight 5 in class g mod 4; x | y ~ N(B_y, S), n / 4
    rows of each class.

    S is .9 in blocks. Where they disagree, two blocks straddle the clusters 0, 1 and 2, and the groups are
    the common refinement.
    """
    (d, n), k = cell, cell[0] // 10
    cluster = np.repeat(np.arange(10), k)
    block = cluster
    if not agree:
        half = k // 2
        block = cluster + 1
        block[:half], block[half : k + half], block[k + half : 2 * k + half] = 0, 1, 2
    S = np.where(block[:, None] == block, 0.9, 0.0)
    np.fill_diagonal(S, 1.0)
    means = np.where(cluster % 4 == np.arange(4)[:, None], 5.0, 0.0)
    y = np.repeat(np.arange(4), n // 4)
    X = means[y] + np.random.default_rng(seed).standard_normal((n, d)) @ np.linalg.cholesky(S).T
    return Made(X, y, S, np.unique(100 * cluster + block, return_inverse=True)[1])


def log_evidence(Z: Table, y: Labels, sigma: float) -> float:
    """ln p(y | groups) by Laplace's approximation with the diagonal of the Hessian, coefficients N(0,
    sigma^2).
    """
    model = LogisticRegression(C=sigma**2, tol=1e-8, max_iter=1000).fit(Z, y)
    proba = model.predict_proba(Z)
    curve = (proba * (1.0 - proba)).T @ Z**2 + sigma**-2
    likelihood = np.log(np.maximum(proba[np.arange(len(y)), y], 1e-300)).sum()
    return float(
        likelihood
        - 0.5 * (model.coef_**2).sum() / sigma**2
        - curve.size * np.log(sigma)
        - 0.5 * np.log(curve).sum()
    )


def best_by_evidence(table: Made, labellings: Sequence[Labels], scoring: str) -> Labels:
    """The groups under which the classes are most probable; sigma by folds on the finest (ties: the
    smallest).
    """
    distinct = list({labels.tobytes(): labels for labels in labellings}.values())
    finest = max(distinct, key=lambda labels: int(labels.max()))
    folds = StratifiedKFold(5 if len(table.y) / 20 >= 2 else 2, shuffle=True, random_state=0)

    def held_out(sigma: float) -> float:
        return float(
            np.mean(
                cross_val_score(
                    LogisticRegression(C=sigma**2), sums(table.X, finest), table.y, cv=folds, scoring=scoring
                )
            )
        )

    sigma = float(max(SIGMAS, key=held_out))
    return max(distinct, key=lambda labels: log_evidence(sums(table.X, labels), table.y, sigma))


def from_similarity(table: Made) -> dict[str, list[Labels]]:
    """Candidates of the two methods that see the rows of S, and neither X nor y."""
    most = min(30, len(table.S) - 1)
    return {
        "convex": list(ConvexClustering(10.0 * 2.0 ** (-0.2 * np.arange(80))).fit(table.S).path_.labels),
        "k-means": [KMeans(k, n_init=5, random_state=0).fit_predict(table.S) for k in range(2, most + 1)],
    }


def table_1(report: Report, cells: Sequence[Cell], n_seeds: int) -> None:
    heading(
        report,
        "Table 1: groups found on the synthetic data",
        f"Means over {n_seeds} seeds of the adjusted mutual information with the true groups ('max' "
        "normaliser, as the paper's), in "
        "brackets how many groups. Each method's candidates are compared by Laplace's evidence; the prior's "
        "sigma by held-out "
        "log-probability / by accuracy, as in the paper. best: the best point of our path. The paper has "
        "1.0 for its method in every "
        "cell; groups by S alone can at best be its blocks, .88 (d = 40) and .94 (d = 200) where S "
        "disagrees. Convex clustering and "
        "k-means (2 to 30 groups) get the rows of S. reference: agreeing / disagreeing, at sigma = .001 and "
        "at sigma = 1.",
    )
    lines = []
    for cell in cells:
        for agree in (True, False):
            found: dict[str, list[tuple[float, int]]] = {}
            for seed in range(n_seeds):
                table = made(cell, agree, seed)
                labels: dict[str, Labels] = {}
                model = ConvexCovariateClustering(similarity=table.S).fit(table.X, table.y)
                path = list(model.path_.labels)
                labels["ours"] = model.covariate_labels_
                labels["ours accuracy"] = best_by_evidence(table, path, "accuracy")
                labels["best"] = max(path, key=lambda labels, table=table: anmi(table.groups, labels))
                for name, candidates in from_similarity(table).items():
                    for scoring in ("neg_log_loss", "accuracy"):
                        labels[f"{name} {scoring}"] = best_by_evidence(table, candidates, scoring)
                for name, own in labels.items():
                    found.setdefault(name, []).append((anmi(table.groups, own), len(np.unique(own))))
            text = {
                name: f"{np.mean([a for a, _ in both]):.2f} ({np.mean([k for _, k in both]):.1f})"
                for name, both in found.items()
            }
            paper = ("1.0", "1.0" if agree else PAPER_BLOCKS[cell[0]])
            lines.append(
                [
                    f"{cell[0]}, {cell[1]}",
                    "agree" if agree else "disagree",
                    paper[0],
                    *REFERENCE.get(cell, ("-", "-")),
                ]
                + [text["ours"], text["ours accuracy"], text["best"], paper[1]]
                + [
                    f"{text[f'{name} neg_log_loss']} / {text[f'{name} accuracy']}"
                    for name in ("convex", "k-means")
                ]
            )
    titles = [
        "d, n",
        "S",
        "paper",
        "reference .001",
        "reference 1",
        "ours, log-probability",
        "ours, accuracy",
        "best",
        "blocks of S",
    ]
    markdown(report, [*titles, "convex clustering", "k-means"], lines)


def papers_setting(report: Report, cells: Sequence[Cell], n_seeds: int) -> None:
    heading(
        report,
        "Table 1 in the paper's own setting",
        f'Means over {n_seeds} seeds, groups in brackets: ridge=0, solver="paper" (its stopping rule and '
        "flags), sigma by accuracy. The "
        "classes are separable, so the objective has no minimum there: the true groups are found because "
        "the iteration stops early. "
        'ridge=0 with solver="certified" follows the objective itself and ends with the blocks of S.',
    )
    lines = []
    for cell in cells:
        for agree in (True, False):
            found: dict[str, list[tuple[float, int]]] = {"paper": [], "certified": []}
            for seed in range(n_seeds):
                table = made(cell, agree, seed)
                for solver, both in found.items():
                    model = ConvexCovariateClustering(similarity=table.S, ridge=0, solver=solver)
                    labels = best_by_evidence(table, model.fit(table.X, table.y).path_.labels, "accuracy")
                    both.append((anmi(table.groups, labels), len(np.unique(labels))))
            texts = [
                f"{np.mean([a for a, _ in both]):.2f} ({np.mean([k for _, k in both]):.1f})"
                for both in found.values()
            ]
            lines.append([f"{cell[0]}, {cell[1]}", "agree" if agree else "disagree", "1.0", *texts])
    markdown(report, ["d, n", "S", "paper", "paper's setting", "certified, ridge=0"], lines)


# ---- Table 2 ----


def conic(table: Made, ridge: float = 0.1) -> Any:
    """The whole problem as one vectorised CVXPY model: solver, penalties -> seconds and objectives, nan where
    the solver gave up.
    """
    import cvxpy as cp

    n, d = table.X.shape
    c = int(table.y.max()) + 1
    first, second = np.nonzero(np.triu(table.S, 1))
    edges = np.arange(len(first))
    difference = sparse.csr_array(
        (np.repeat([1.0, -1.0], len(edges)), (np.append(first, second), np.tile(edges, 2))), (d, len(edges))
    )
    B, beta0, nu = cp.Variable((c, d)), cp.Variable((1, c)), cp.Parameter(nonneg=True)
    logits = table.X @ B.T + np.ones((n, 1)) @ beta0
    loss = cp.sum(cp.log_sum_exp(logits, axis=1)) - cp.sum(cp.multiply(np.eye(c)[table.y], logits))
    fusion = cp.sum(cp.multiply(table.S[first, second], cp.norm(B @ difference, axis=0)))
    problem = cp.Problem(cp.Minimize(loss + ridge * cp.sum_squares(B) + nu * fusion))

    def once(solver: str) -> float:
        try:
            return float(problem.solve(solver=solver))
        except cp.error.SolverError:
            return np.nan

    def solve(solver: str, penalties: Table) -> tuple[Table, Table]:
        seconds, objectives = [], []
        for penalty in penalties:
            nu.value = float(penalty)
            objective, took = timed(lambda: once(solver))
            seconds.append(took)
            objectives.append(objective)
        return np.array(seconds), np.array(objectives)

    return solve


def cvxpy_is_here() -> bool:
    try:
        import cvxpy  # noqa: F401
    except ImportError:
        return False
    return True


def table_2(report: Report, cells: Sequence[Cell], thin: int) -> None:
    heading(
        report,
        "Table 2: seconds of a path",
        "Disagreeing S, ridge .1, the same instance for all. ours: the whole default path, which ends where "
        "all covariates are alone "
        "(200 x 4000: 240 penalties, d = 1000: 230), evidence included. gap: the largest relative duality "
        "gap on it. paper's ADMM: "
        'solver="paper", with our evidence, '
        f"{'the same penalties' if thin == 1 else f'every {thin}th penalty, times {thin}'}; its excess: "
        "that of its objective over ours, "
        "relative, at the first penalty / the 99 % quantile of the others. ECOS and CLARABEL: one "
        "vectorised CVXPY model, as many "
        "penalties as the bracket says, evenly thinned, and extrapolated to all: the first solve, which "
        "compiles the model, and for every "
        "other the median of those; then the largest relative difference of its objective from ours. The "
        "paper's columns: seconds of 300 "
        "penalties on its machine, without ridge.",
    )
    here, lines = cvxpy_is_here(), []
    for cell in cells:
        table, (d, n) = made(cell, False, 1), cell
        known = 230 if d == 1000 else 240 if cell == (200, 4000) else None
        penalties = None if known is None else n * 2.0 ** (-0.1 * np.arange(known))
        model, took = timed(
            lambda: ConvexCovariateClustering(penalties, similarity=table.S).fit(table.X, table.y)
        )
        path = model.path_
        line = [f"{d}, {n}", len(path), f"{took:.2f}", f"{path.gap.max():.0e}"]
        if d < 1000:
            few = path.iloc[::thin]
            authors, theirs = timed(
                lambda: ConvexCovariateClustering(
                    few.fusion_penalty.to_numpy(), similarity=table.S, solver="paper"
                ).fit(table.X, table.y)
            )
            excess = authors.path_.objective.to_numpy() / few.objective.to_numpy() - 1.0
            line += [f"{thin * theirs:.1f}", f"{excess[0]:.0e} / {np.quantile(excess[1:], 0.99):.0e}"]
        else:
            line += ["-", "-"]
        if here and cell in CONIC:
            places = ((np.arange(CONIC[cell]) + 0.5) / CONIC[cell] * len(path)).astype(int)
            solve = conic(table)
            for solver in ("ECOS", "CLARABEL"):
                each, objectives = solve(solver, path.fusion_penalty.to_numpy()[places])
                solved = np.isfinite(objectives)
                far = np.abs(objectives / path.objective.to_numpy()[places] - 1.0)[solved].max(initial=0.0)
                count = f"{len(places)}" if solved.all() else f"{solved.sum()} of {len(places)} solved"
                line.append(f"{each[0] + (len(path) - 1) * np.median(each[1:]):.0f} ({count}, {far:.0e})")
        else:
            line += ["-", "-"]
        lines.append(
            [*line, PAPER_ADMM.get(cell, "-"), f"{PAPER_ECOS[cell]:.0f}" if cell in PAPER_ECOS else "-"]
        )
    titles = [
        "d, n",
        "penalties",
        "ours",
        "gap",
        "paper's ADMM here",
        "excess",
        "ECOS",
        "CLARABEL",
        "paper: ADMM",
        "paper: ECOS",
    ]
    markdown(report, titles, lines)
    if not here:
        report.say("", "CVXPY is not installed: no ECOS, no CLARABEL.")


# ---- texts ----


class Texts(NamedTuple):
    X: Any  # csr (n, d), tf-idf
    y: Labels
    learnt: NDArray[np.bool_]  # rows that are learnt from
    vectors: Table  # (d, p)
    words: list[str]


def vectors_of(folder: Path) -> tuple[list[str], Table]:
    with gzip.open(folder / "glove50.csv.gz", "rt", encoding="utf-8") as file:
        cells = [line.rstrip("\n").rsplit(",", 50) for line in file][1:]
    return [word for word, *_ in cells], np.array([numbers for _, *numbers in cells], np.float64)


def texts(folder: Path, name: str, least: int) -> Texts | None:
    """tf-idf of the words that have a vector and stand in at least `least` training texts."""
    path = folder / f"{name}.jsonl.gz"
    if not path.is_file() or not (folder / "glove50.csv.gz").is_file():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    y = np.array([row["class"] for row in rows])
    if name == "newsgroups20":
        contents = [HEADER.sub("", row["text"], count=1) for row in rows]  # headers name the group
        learnt = np.arange(len(y)) < 11314  # "bydate"
    else:
        contents = [row["text"] for row in rows]
        learnt = np.random.default_rng(0).random(len(y)) < 0.8
    known, vectors = vectors_of(folder)
    words = [word for word in known if re.fullmatch(r"[a-z]{2,}", word)]
    place = {word: i for i, word in enumerate(known)}
    counts = TfidfVectorizer(
        vocabulary=words, token_pattern=r"[a-z]{2,}", norm=None, use_idf=False
    ).fit_transform(contents)
    words = [
        word
        for word, many in zip(words, np.diff(counts[learnt].tocsc().indptr), strict=True)
        if many >= least
    ]
    tfidf = TfidfVectorizer(vocabulary=words, token_pattern=r"[a-z]{2,}")
    tfidf.fit(text for text, own in zip(contents, learnt, strict=True) if own)
    return Texts(
        sparse.csr_array(tfidf.transform(contents)),
        y,
        learnt,
        vectors[[place[word] for word in words]],
        words,
    )


def held_out(data: Texts, labels: Labels | None) -> float:
    """Test accuracy of a ridge logistic regression on the groups' sums; the ridge by folds."""
    Z = data.X if labels is None else sums(data.X, labels)
    search = GridSearchCV(
        LogisticRegression(max_iter=300), {"C": 10.0 ** np.arange(-2.0, 3.0)}, cv=3, scoring="neg_log_loss"
    )
    right = search.fit(Z[data.learnt], data.y[data.learnt]).predict(Z[~data.learnt]) == data.y[~data.learnt]
    return float(right.mean())


def grouped_words(report: Report, name: str, data: Texts, exponents: Sequence[int]) -> None:
    n, c = int(data.learnt.sum()), len(np.unique(data.y))
    d = len(data.words)
    model, took = timed(
        lambda: ConvexCovariateClustering(
            n * 2.0 ** (-0.1 * np.array(exponents)), similarity=knn_similarity(data.vectors)
        ).fit(data.X[data.learnt], data.y[data.learnt])
    )
    path = model.path_
    heading(
        report,
        f"{name}: {c} classes, {n} texts learnt from, {int((~data.learnt).sum())} left out, {d} words",
        f"tf-idf, 8-nearest-neighbour similarity of GloVe vectors, {len(path)} penalties; the largest "
        "relative gap is "
        f"{path.gap.max():.0e}. Accuracy on the texts left out, of a ridge logistic regression on the "
        "groups' sums, its ridge by 3 folds, "
        "the same for all methods. Ours: the evidence's choice, and the points of the path nearest to 100, "
        "500 and 1000 groups. k-means "
        "gets that number, of the path of convex clustering the nearest point is taken; both see only the "
        "vectors. s: CPU seconds of "
        "the grouping (of the whole path where there is one).",
    )
    chosen = model.n_clusters_
    own = float((model.predict(data.X[~data.learnt]) == data.y[~data.learnt]).mean())
    places = {chosen: int(np.flatnonzero(path.n_clusters == chosen)[0])}
    for size in SIZES:
        nearest = int(np.abs(path.n_clusters - size).to_numpy().argmin())
        if 0.7 < path.n_clusters[nearest] / size < 1.5:
            places.setdefault(int(path.n_clusters[nearest]), nearest)
    convex, seconds = timed(lambda: ConvexClustering(n_clusters=max(places)).fit(data.vectors).path_)
    lines: list[list[Any]] = [["no groups", d, f"{held_out(data, None):.3f}", "-", "-"]]
    lines.append(["ours, MAP fit of the evidence's choice", chosen, f"{own:.3f}", "-", f"{took:.1f}"])
    known = PAPER_TEXTS.get(name, {})

    def paper(method: str, k: int) -> str:
        """The paper's accuracy at the size to which k groups are nearest."""
        size = int(np.abs(np.log(np.array(SIZES) / k)).argmin())
        return f"{known[method][size]:.2f}" if known and k != chosen else "-"

    for k, i in places.items():
        accuracy = held_out(data, path.labels[i])
        lines.append(
            [
                "ours" + ", evidence's choice" * (k == chosen),
                k,
                f"{accuracy:.3f}",
                paper("ours", k),
                f"{took:.1f}",
            ]
        )
        labels, quick = timed(lambda k=k: KMeans(k, n_init=1, random_state=0).fit_predict(data.vectors))
        lines.append(
            [
                "k-means of the vectors",
                k,
                f"{held_out(data, labels):.3f}",
                paper("k-means", k),
                f"{quick:.1f}",
            ]
        )
        nearest = int(np.abs(convex.n_clusters - k).to_numpy().argmin())
        accuracy = held_out(data, convex.labels[nearest])
        lines.append(
            [
                "convex clustering of the vectors",
                int(convex.n_clusters[nearest]),
                f"{accuracy:.3f}",
                paper("convex", k),
                f"{seconds:.1f}",
            ]
        )
    markdown(report, ["", "groups", "accuracy", "paper, about 100, 500, 1000", "s"], lines)
    best = path.sort_values("evidence", ascending=False, kind="stable").drop_duplicates("n_clusters").head(5)
    report.say("", "The five points of largest evidence (as Tables 3 and 5):", "")
    cells = [
        [k, k * (c - 1), f"{evidence:.1f}", f"{held_out(data, labels):.3f}"]
        for k, evidence, labels in zip(best.n_clusters, best.evidence, best.labels, strict=True)
    ]
    markdown(report, ["groups", "coefficients", "ln evidence", "accuracy"], cells)
    largest = np.argsort(-np.bincount(model.covariate_labels_), kind="stable")
    shown = [" ".join(np.array(data.words)[model.covariate_labels_ == group][:8]) for group in largest[1:6]]
    report.say(
        "",
        "Groups of the evidence's choice, the second to the sixth largest, their first words: "
        f"{'; '.join(shown)}.",
    )


def selected_words(report: Report, name: str, data: Texts, exponents: Sequence[int]) -> None:
    """Section 5.1: the group lasso selects words by evidence, then these are clustered."""
    n = int(data.learnt.sum())
    penalties = n * 2.0 ** (-0.1 * np.array(exponents))
    heading(
        report,
        f"{name}: selection before clustering",
        "Words selected by the group lasso weight of largest evidence, then clustered along the same "
        "penalties. Accuracy of the MAP fit.",
    )
    rows, y = data.X[data.learnt], data.y[data.learnt]
    similarity = knn_similarity(data.vectors)
    model, took = timed(
        lambda: ConvexCovariateClustering(penalties, similarity=similarity, sparsity=SELECTION).fit(rows, y)
    )
    frame = model.sparsity_path_
    markdown(
        report,
        ["sparsity", "words", "ln evidence"],
        [
            [f"{g:g}", k, f"{e:.1f}"]
            for g, k, e in zip(frame.sparsity, frame.n_covariates, frame.evidence, strict=True)
        ],
    )
    words = int((model.coef_ != 0).any(axis=0).sum())
    accuracy = float((model.predict(data.X[~data.learnt]) == data.y[~data.learnt]).mean())
    chosen = f"sparsity {model.sparsity_:g}: {words} words, in {model.n_clusters_ - 1} groups by evidence"
    report.say("", f"{chosen}; accuracy {accuracy:.3f}; {took:.1f} s.")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", metavar="DIR", help="folder of the texts and the vectors")
    parser.add_argument(
        "--seeds",
        metavar="N",
        type=int,
        default=5,
        help="seeds of the synthetic data; 3 at most where d = 200 (5)",
    )
    parser.add_argument("--quick", action="store_true", help="2 seeds, small tables, a few penalties")
    parser.add_argument("--out", metavar="FILE", help="write the same text to a file")
    options = parser.parse_args(arguments)
    folder, report, begin = data_folder(options.data), Report(), time.perf_counter()
    warnings.simplefilter("ignore")  # unfinished paths and fits: the gaps say so
    report.say("# Convex covariate clustering", "", machine())
    if options.quick:
        table_1(report, [(40, 40)], 2)
        papers_setting(report, [(40, 40)], 2)
        table_2(report, [(40, 40)], 10)
    else:
        table_1(report, [(40, 40), (40, 400)], options.seeds)
        table_1(report, [(200, 40), (200, 400)], min(options.seeds, 3))
        papers_setting(report, [(40, 40), (40, 400)], options.seeds)
        table_2(report, list(PAPER_ADMM), 1)
    skipped = []
    wanted = {"rt_polarity": (60, range(104, 136, 4))} if options.quick else {}
    wanted = wanted or {
        "rt_polarity": (2, range(104, 164)),
        "newsgroups20": (5, (96, 104, 112, 118, 124, 130, 134, 136, 138)),
    }
    for name, (least, exponents) in wanted.items():
        data = texts(folder, name, least) if folder else None
        if data is None:
            skipped.append(name)
        else:
            grouped_words(report, name, data, exponents)
            if len(np.unique(data.y)) == 2:
                selected_words(report, name, data, exponents)
    if skipped:
        report.say("", f"Skipped, not in the data folder (see --data): {', '.join(skipped)}.")
    report.say("", f"{time.perf_counter() - begin:.0f} s in all.")
    if options.out:
        Path(options.out).write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
