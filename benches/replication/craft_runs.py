"""Fits, scores and output of the replication of the CRAFT paper."""

from __future__ import annotations

import math
import os
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from craftc import DPMeans, MixedTable, PaperCRAFT
from craftc.metrics import macro_f1, nmi, purity

Model = TypeVar("Model", PaperCRAFT, DPMeans)
MODELS = ("likelihood", "paper", "paper-fixed")
TRIALS = 8  # of the search for a price


class Report:
    """Lines on the screen, kept for a file."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        for line in lines:
            print(line.rstrip(), flush=True)
            self.lines.append(line.rstrip())

    def heading(self, title: str, note: str) -> None:
        self.say("", title, "-" * len(title), *textwrap.wrap(note, 100), "")


def row(cells: Iterable[Any], widths: Sequence[int]) -> str:
    """Cells aligned to the left."""
    return " ".join(str(cell).ljust(width) for cell, width in zip(cells, widths, strict=True))


def short(value: float) -> str:
    """Two decimals without the leading zero."""
    return f"{value:.2f}".removeprefix("0")


def spread(values: Sequence[float]) -> str:
    """Mean (sd)."""
    return f"{short(float(np.mean(values)))} ({short(float(np.std(values)))})"


# ---- fits ----


@dataclass
class Runs:
    """Scores of several fits of one procedure to one table."""

    truth: NDArray[Any]
    scores: list[tuple[float, float, float]] = field(default_factory=list)  # purity, NMI, macro-F1
    objectives: list[float] = field(default_factory=list)
    n_clusters: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, labels: NDArray[Any], objective: float, seconds: float) -> None:
        score = (purity(self.truth, labels), nmi(self.truth, labels), macro_f1(self.truth, labels))
        self.scores.append(score)
        self.objectives.append(objective)
        self.n_clusters.append(len(np.unique(labels)))
        self.seconds.append(seconds)

    def column(self, j: int) -> list[float]:
        return [score[j] for score in self.scores]

    @property
    def best(self) -> str:
        """Purity/NMI of the run with the lowest objective."""
        return "/".join(map(short, self.scores[int(np.argmin(self.objectives))][:2]))

    @property
    def mean(self) -> str:
        """Mean purity/NMI."""
        return "/".join(short(float(np.mean(self.column(j)))) for j in (0, 1))

    @property
    def k(self) -> str:
        return f"{np.mean(self.n_clusters):.1f}"

    @property
    def time(self) -> str:
        return f"{1000 * float(np.mean(self.seconds)):.1f}"


def fit(table: MixedTable, **parameters: Any) -> tuple[PaperCRAFT, float]:
    """A fitted PaperCRAFT and its seconds."""
    settings: dict[str, Any] = {"model": "likelihood", "n_threads": 1}
    settings |= {"categorical": table.schema.categorical_index.tolist()} | parameters
    model = PaperCRAFT(**settings)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table)
    return model, time.process_time() - begin


def by_cap(table: MixedTable, k: int, **parameters: Any) -> tuple[PaperCRAFT, float]:
    """K forced: at most k clusters, which cost nothing."""
    return fit(table, n_clusters=k, cluster_price=0.0, **parameters)


def by_price(table: MixedTable, k: int, **parameters: Any) -> tuple[PaperCRAFT, float]:
    """K forced as in the paper's tables: the price is searched until k clusters are found."""
    parameters["max_clusters"] = 5 * k  # a larger K needs no distinction

    def at(price: float | None) -> tuple[PaperCRAFT, float, float]:
        rule = (
            {"cluster_price": price}
            if price is not None
            else {"n_clusters": k, "cluster_price": "farthest-first"}
        )
        model, seconds = fit(table, **rule, **parameters)
        return model, model.cluster_price_, seconds

    return search(at, k)


def dp_means(X: NDArray[np.float64], k: int) -> tuple[DPMeans, float]:
    """DP-means, K forced by searching lambda^2; all rows start in one cluster, so that there is nothing
    random.
    """

    def at(penalty: float | None) -> tuple[DPMeans, float, float]:
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # columns as they are, in units of their own
            penalty = float(DPMeans().penalty_path(X, k, scale="radius")[-1]) if penalty is None else penalty
            model = DPMeans(penalty, max_clusters=5 * k, mode="serial", n_threads=1).fit(X)
        return model, penalty, time.process_time() - begin

    return search(at, k)


def search(at: Callable[[float | None], tuple[Model, float, float]], k: int) -> tuple[Model, float]:
    """The model with K closest to k among 8 prices (ties: the earlier), and the mean seconds of a fit.

    `at(None)` fits at the heuristic's price, the others halve the bracket on the log scale. It returns model,
    price and seconds.
    """
    model, price, took = at(None)
    low, high, seconds, closest = 0.0, math.inf, [took], model
    while closest.n_clusters_ != k and len(seconds) < TRIALS:
        low, high = (price, high) if model.n_clusters_ > k else (low, price)
        model, price, took = at(math.sqrt(low * high) if low and high < math.inf else 4 * low or high / 4)
        seconds.append(took)
        if abs(model.n_clusters_ - k) < abs(closest.n_clusters_ - k):
            closest = model
    return closest, float(np.mean(seconds))


Procedure = tuple[str, str, Callable[..., tuple[PaperCRAFT, float]]]
LIKELIHOOD: Procedure = ("likelihood", "cap", by_cap)
PRINTED: Procedure = ("paper", "price", by_price)
UNIT: Procedure = ("paper-fixed", "price", by_price)
PROCEDURES = (LIKELIHOOD, ("paper", "cap", by_cap), PRINTED, ("paper-fixed", "cap", by_cap), UNIT)


def procedures(table: MixedTable) -> tuple[Procedure, ...]:
    """All, or without the model that differs from "paper" in numeric columns only."""
    return PROCEDURES if table.numeric.shape[1] else PROCEDURES[:3]


def start_of(model: str, run: int) -> dict[str, Any]:
    """One start per run: the likelihood's two kinds in turn, the paper's own for the others."""
    kind = ("farthest", "random")[run % 2] if model == "likelihood" else "auto"
    return {"init": kind, "n_init": 1, "random_state": run}


def repeat(
    table: MixedTable,
    truth: NDArray[Any],
    k: int,
    procedure: Procedure,
    n_runs: int,
    **parameters: Any,
) -> Runs:
    """Some runs of one procedure, one start each."""
    name, _, force = procedure
    runs = Runs(truth)
    for run in range(n_runs):
        model, seconds = force(table, k, model=name, **start_of(name, run), **parameters)
        # runs whose prices differ are compared without them
        objective = model.objective_ - model.cluster_price_ * model.n_clusters_
        runs.add(model.labels_, objective, seconds)
    return runs


def starts(model: str) -> int:
    """The likelihood keeps the best of 8 starts, the paper's algorithm has one."""
    return 8 if model == "likelihood" else 1


def triple(scores: Sequence[tuple[float, ...]]) -> str:
    """Means of the scores, separated by strokes."""
    return "/".join(short(float(value)) for value in np.mean(scores, axis=0))


def data_folder(given: str | None) -> Path | None:
    """Where the real tables lie."""
    if given or os.environ.get("CRAFTC_DATA"):
        return Path(given or os.environ["CRAFTC_DATA"])
    sibling = Path(__file__).resolve().parents[3] / "shared" / "data"
    return sibling if sibling.is_dir() else None
