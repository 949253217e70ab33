"""Parameters of CRAFT: the model they specify, and checks across parameters and data."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from craftc._common.labels import chunks
from craftc._common.typing import Labels
from craftc._common.validation import check_choice, check_labels, check_number
from craftc.table import MixedTable


@dataclass(frozen=True)
class ModelSpec:
    """The model: prices and selection of features."""

    model: str = "likelihood"  # | "paper" | "paper-fixed"
    selection: str = "fixed"  # | "priced" | "free" | "threshold" | "global"
    price: float | None = 0.0  # Lambda; None: description-length price
    price_factor: float = 1.0  # multiplies the description-length price
    fraction: float = 0.5  # m
    sharing: float | None = None  # rho
    categorical_threshold: float = 0.95  # eps_c
    numeric_threshold: float = 0.5  # eps_v, relative to the column's variance

    @property
    def by_length(self) -> bool:
        """Whether clusters and features are priced by description length."""
        return self.price is None

    @property
    def features_by_length(self) -> bool:
        """Whether features are priced by the description length of their parameters."""
        return self.by_length or self.selection == "priced"

    @property
    def coherent(self) -> bool:
        """Whether every step minimises one objective."""
        return self.model == "likelihood"

    def monotone(self, n_features: int) -> bool:
        """Whether the objective provably never rises: masks are exact, and no empty cluster would lower it."""
        price = self.price if self.price is not None else 0.0
        return self.coherent and self.selection != "threshold" and price + min(self.f_delta, 0.0) * n_features >= 0.0

    @property
    def prior(self) -> float:
        """alpha, pseudo-count of the background in a cluster's level probabilities."""
        return 1.0 if self.coherent else 0.1

    @cached_property
    def f_delta(self) -> float:
        """F_Delta, price of one selected feature."""
        return price_terms(self.fraction, self.sharing)[2]


def price_terms(fraction: float, sharing: float | None = None) -> tuple[float, float, float]:
    """F_0, F_1 and F_Delta = F_1 - F_0 of the beta prior on feature selection, in nats (section 2 of the paper, computed from s).

    Parameters
    ----------
    fraction : float
        m, expected share of selected features, in (0, 1].
    sharing : float, optional
        rho, variance of the prior, in (0, m(1 - m)); None: max(m(1 - m) - 0.01, m(1 - m) / 2).
    """
    m = fraction
    if m == 1.0:
        return 0.0, 0.0, 0.0
    zero, one, s = selection_odds(m, sharing)
    f_0, f_1 = s * _entropy(zero), s * _entropy(one)
    return f_0, f_1, 0.0 if m == 0.5 else f_1 - f_0


def selection_odds(fraction: float, sharing: float | None = None) -> tuple[float, float, float]:
    """nu_0, nu_1 and s = m(1 - m) / rho of the prior on feature selection.

    nu_0 and nu_1 are the probabilities that a new cluster selects a feature that another cluster did not select, or selected.
    """
    m, most = fraction, fraction * (1 - fraction)
    if m == 1.0:
        return 1.0, 1.0, 1.0
    s = most / (max(most - 0.01, most / 2) if sharing is None else sharing)
    return m * (1 - 1 / s), m + (1 - m) / s, s


def _entropy(p: float) -> float:
    return -sum(x * math.log(x) for x in (p, 1 - p) if x > 0)


def model_spec(estimator: Any) -> ModelSpec:
    """The model that the parameters of an estimator specify; raises if parameters contradict each other."""
    m = float(estimator.feature_fraction)
    if estimator.cluster_price == "farthest-first" and estimator.n_clusters is None:
        raise ValueError("cluster_price='farthest-first' needs a guess of the number of clusters: give n_clusters.")
    if estimator.feature_sharing is not None:
        if m == 1.0:
            raise ValueError("feature_sharing has no meaning with feature_fraction=1; leave it None.")
        check_number("feature_sharing", estimator.feature_sharing, above=0.0, below=m * (1 - m), hint="m(1 - m)")
    coherent = estimator.model == "likelihood"
    return ModelSpec(
        estimator.model,
        "fixed" if estimator.selection == "priced" and not coherent else estimator.selection,
        None if coherent and estimator.cluster_price == "auto" else 0.0,
        float(estimator.price_factor),
        m,
        estimator.feature_sharing,
        float(estimator.categorical_threshold),
        float(estimator.numeric_threshold),
    )


def cluster_limit(estimator: Any, spec: ModelSpec) -> int:
    """Largest number of clusters; under the description-length price `n_clusters` is a target and may exceed `max_clusters`."""
    limit = int(estimator.max_clusters)
    if estimator.n_clusters is None or estimator.cluster_price == "farthest-first":
        return limit
    return max(limit, int(estimator.n_clusters)) if spec.by_length else min(limit, int(estimator.n_clusters))


def check_n_clusters(n_clusters: int | None, table: MixedTable, spec: ModelSpec) -> None:
    """Raise if the table cannot have as many clusters."""
    if n_clusters is None:
        return
    if n_clusters > len(table):
        raise ValueError(f"n_clusters={n_clusters} is more than the {len(table)} rows of the table; ask for fewer clusters.")
    if spec.by_length and (found := distinct_rows(table, int(n_clusters))) < n_clusters:
        raise ValueError(f"n_clusters={n_clusters} is more than the {found} distinct rows of the table; ask for fewer clusters.")


def distinct_rows(table: MixedTable, enough: int) -> int:
    """Number of distinct rows, counted up to `enough`."""
    seen: set[bytes] = set()
    for rows in chunks(len(table)):
        for x, code in zip(table.numeric[rows], table.codes[rows], strict=True):
            seen.add(x.tobytes() + code.tobytes())
            if len(seen) >= enough:
                return len(seen)
    return len(seen)


def given_starts(init: Any, n: int, limit: int) -> list[Labels] | None:
    """Start partitions given as arrays, checked; None when `init` names a rule."""
    if isinstance(init, str):
        check_choice("init", init, ("auto", "single", "random", "farthest"), "or labels")
        return None
    several = isinstance(init, (list, tuple)) and len(init) > 0 and not isinstance(init[0], numbers.Number)
    starts = [check_labels(labels, n) for labels in (init if several else [init])]
    for labels in starts:
        if labels.max() >= limit:
            raise ValueError(f"init has {labels.max() + 1} clusters but at most {limit} are allowed; raise n_clusters or max_clusters.")
    return starts
