"""Parameters of CRAFT: the model they specify, and checks across parameters and data."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, cast

from craftc._common.labels import chunks
from craftc._common.messages import warn_user
from craftc._common.typing import Labels
from craftc._common.validation import check_choice, check_labels, check_number
from craftc.table import MixedTable

ROWS_AT_FULL_PRICE = 1000.0  # n_0 of price_factor="auto": a longer table counts as so many rows
MODELS = ("likelihood", "paper", "paper-relative", "paper-fixed")


@dataclass(frozen=True)
class ModelSpec:
    """The model: prices and selection of features."""

    model: str = "likelihood"  # one of MODELS
    selection: str = "fixed"  # | "priced" | "free" | "threshold" | "global"
    price: float | None = 0.0  # Lambda; None: description-length price
    price_factor: float = 1.0  # multiplies the description-length price
    fraction: float = 0.5  # m
    variance: float | None = None  # rho
    categorical_threshold: float = 0.95  # eps_c
    numeric_threshold: float = 0.5  # eps_v
    background: str = "table"  # of the features that a cluster does not select | "pooled"
    absolute: bool = False  # whether eps_v is in squared units of the columns, not a share of their variances
    covariance: str = "diagonal"  # | "auto" | "full"

    @property
    def by_length(self) -> bool:
        """Whether clusters and features are priced by description length."""
        return self.price is None

    @property
    def features_by_length(self) -> bool:
        """Whether features are priced by the description length of their parameters."""
        return self.by_length or self.selection == "priced"

    @property
    def pooled(self) -> bool:
        """Whether the clusters that do not select a feature share a distribution of their own."""
        return self.background == "pooled"

    @property
    def with_covariances(self) -> bool:
        """Whether clusters may hold covariances: only under the default prices of the likelihood model."""
        return (
            self.covariance != "diagonal" and self.coherent and self.by_length and self.selection == "priced"
        )

    @property
    def coherent(self) -> bool:
        """Whether every step minimises one objective."""
        return self.model == "likelihood"

    @property
    def fits_variance(self) -> bool:
        """Whether this is a printed model with the variances of the clusters."""
        return self.model in ("paper", "paper-relative")

    def monotone(self, n_features: int) -> bool:
        """Whether the objective provably never rises: masks are exact, and no empty cluster would lower it."""
        price = self.price if self.price is not None else 0.0
        return (
            self.coherent
            and self.selection != "threshold"
            and price + min(self.f_delta, 0.0) * n_features >= 0.0
        )

    def comparable(self, numeric: bool) -> ModelSpec:
        """The model whose objective compares several starts.

        In "paper" and "paper-relative" the numeric part of J is S_k / 2 for every selected column, whatever
        the clusters (the normaliser counts once per cluster), so that J of a table with numeric columns would
        always prefer the start with the fewest clusters. The partitions are compared by the description
        length of the default model instead: Lambda is in the units of the columns, not in nats.
        """
        return (
            replace(self, model="likelihood", selection="priced", price=None)
            if self.fits_variance and numeric
            else self
        )

    def with_price_factor(self, price_factor: float | str, weight: float) -> ModelSpec:
        """The model with the price factor of a table of this weight.

        "auto" is max(1, N / 1000) where clusters are priced by description length. At that price the evidence
        of N rows counts as that of 1000 (coarsening: Miller & Dunson 2019), because the number of clusters of
        a model that is not exactly true grows with the rows without limit (Cai, Campbell & Broderick 2021).
        It is 1 under other prices, which are in nats.
        """
        if price_factor != "auto" or not self.by_length:
            return self
        return replace(self, price_factor=max(1.0, weight / ROWS_AT_FULL_PRICE))

    @property
    def prior(self) -> float:
        """alpha, pseudo-count of the background in a cluster's level probabilities."""
        return 1.0 if self.coherent else 0.1

    @cached_property
    def f_delta(self) -> float:
        """F_Delta, price of one selected feature."""
        return price_terms(self.fraction, self.variance)[2]


def cluster_price(
    paper_lambda: float,
    n_features: int,
    *,
    feature_fraction: float = 0.5,
    feature_variance: float | None = None,
) -> float:
    """The `cluster_price` of `CRAFT` that corresponds to a lambda of the paper: Lambda = lambda + D F_0.

    The paper charges every cluster lambda, F_0 for each feature that it does not select, and F_1 for each
    that it selects. `CRAFT` charges Lambda for the cluster and F_Delta = F_1 - F_0 for each selected feature,
    which is the same sum.

    Parameters
    ----------
    paper_lambda : float
        The paper's lambda in nats, >= 0.
    n_features : int
        D, number of columns.
    feature_fraction, feature_variance : float
        m and rho, as in `CRAFT`.

    Returns
    -------
    float
        Lambda in nats.

    Raises
    ------
    ValueError, TypeError
        A parameter is out of range.

    References
    ----------
    .. [1] V. K. Garg, C. Rudin, T. Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS
       2016, equation (5).

    Examples
    --------
    >>> from craftc import CRAFT
    >>> from craftc.craft import cluster_price
    >>> from craftc.datasets import make_subspaces
    >>> table = make_subspaces("2a", random_state=0)
    >>> price = cluster_price(30.0, 24, feature_fraction=1 / 3)
    >>> round(price, 3)
    31.957
    >>> model = CRAFT(cluster_price=price, selection="fixed", feature_fraction=1 / 3, categorical=table.categorical, random_state=0)
    >>> model.fit(table.data).n_clusters_
    3
    """
    check_number("paper_lambda", paper_lambda, least=0.0)
    check_number("n_features", n_features, least=1, whole=True)
    return float(paper_lambda) + n_features * price_terms(feature_fraction, feature_variance)[0]


def price_terms(
    feature_fraction: float = 0.5, feature_variance: float | None = None
) -> tuple[float, float, float]:
    """F_0, F_1 and F_Delta = F_1 - F_0 of the paper's prior on feature selection, in nats.

    F_0 is the price of a feature that a cluster does not select, F_1 of one that it selects (section 2 of the
    paper, computed from s = m(1 - m) / rho without its cancellation).

    Parameters
    ----------
    feature_fraction : float
        m, expected share of selected features, in (0, 1].
    feature_variance : float, optional
        rho, variance of the prior, in (0, m(1 - m)). None: max(m(1 - m) - 0.01, m(1 - m) / 2).

    Returns
    -------
    tuple of three floats

    Raises
    ------
    ValueError, TypeError
        A parameter is out of range.

    Examples
    --------
    >>> from craftc.craft import price_terms
    >>> [round(term, 3) for term in price_terms(1 / 3)]
    [0.082, 0.141, 0.06]
    """
    m = feature_fraction
    check_selection_prior(m, feature_variance)
    if m == 1.0:
        return 0.0, 0.0, 0.0
    zero, one, s = selection_odds(m, feature_variance)
    f_0, f_1 = s * _entropy(zero), s * _entropy(one)
    return f_0, f_1, 0.0 if m == 0.5 else f_1 - f_0


def check_selection_prior(m: float, variance: float | None) -> None:
    """Raise if no beta distribution has this mean and variance."""
    check_number("feature_fraction", m, above=0.0, most=1.0)
    if variance is None:
        return
    if m == 1.0:
        raise ValueError("feature_variance has no meaning with feature_fraction=1; leave it None.")
    check_number("feature_variance", variance, above=0.0, below=m * (1 - m), hint="m(1 - m)")


def selection_odds(fraction: float, variance: float | None = None) -> tuple[float, float, float]:
    """nu_0, nu_1 and s = m(1 - m) / rho of the prior on feature selection.

    nu_0 and nu_1 are the probabilities that a new cluster selects a feature that another cluster did not
    select, or selected.
    """
    m, most = fraction, fraction * (1 - fraction)
    if m == 1.0:
        return 1.0, 1.0, 1.0
    s = most / (max(most - 0.01, most / 2) if variance is None else variance)
    return m * (1 - 1 / s), m + (1 - m) / s, s


def _entropy(p: float) -> float:
    return -sum(x * math.log(x) for x in (p, 1 - p) if x > 0)


def model_spec(estimator: Any) -> ModelSpec:
    """The model that the parameters of an estimator specify; raises if parameters contradict each other."""
    m = float(estimator.feature_fraction)
    if estimator.cluster_price == "farthest-first" and estimator.n_clusters is None:
        raise ValueError(
            "cluster_price='farthest-first' needs a guess of the number of clusters: give n_clusters."
        )
    check_selection_prior(m, estimator.feature_variance)
    absolute, numeric_threshold = _numeric_threshold(estimator.numeric_threshold)
    coherent = estimator.model == "likelihood"
    automatic = coherent and estimator.cluster_price == "auto"
    return ModelSpec(
        estimator.model,
        "fixed" if estimator.selection == "priced" and not coherent else estimator.selection,
        None if automatic else 0.0,
        1.0
        if estimator.price_factor == "auto"
        else float(estimator.price_factor),  # see `ModelSpec.with_price_factor`
        m,
        estimator.feature_variance,
        float(estimator.categorical_threshold),
        numeric_threshold,
        estimator.background if automatic and estimator.selection == "priced" else "table",
        absolute,
        estimator.covariance,
    )


def _numeric_threshold(value: Any) -> tuple[bool, float]:
    """Whether eps_v is absolute, and its value, from a number or ("absolute", number)."""
    absolute = isinstance(value, (tuple, list)) and len(value) == 2 and value[0] == "absolute"
    if isinstance(value, (tuple, list)) and not absolute:
        raise ValueError(f'numeric_threshold must be a number >= 0 or ("absolute", number), got {value!r}.')
    return absolute, check_number("numeric_threshold", value[1] if absolute else value, least=0.0)


def warn_ignored(estimator: Any, spec: ModelSpec, n_given: int | None) -> None:
    """Warn once about all parameters that differ from their defaults and have no effect in the chosen mode.

    Parameters
    ----------
    estimator : CRAFT
    spec : ModelSpec
    n_given : int, optional
        Number of start partitions that are given as `init`.
    """
    rule = estimator.cluster_price
    heuristic = rule == "farthest-first" or (
        rule == "auto" and not spec.coherent and estimator.n_clusters is None
    )
    single = spec.coherent and isinstance(estimator.init, str) and estimator.init == "single"
    effective = {
        "covariance": (
            spec.with_covariances or spec.covariance == "diagonal",
            "use cluster_price='auto', selection='priced' and model='likelihood'",
        ),
        "price_factor": (
            spec.features_by_length or heuristic,
            "use cluster_price='auto' or 'farthest-first'",
        ),
        "feature_fraction": (
            spec.selection in ("fixed", "global") or not spec.features_by_length or heuristic,
            "use selection='fixed' or 'global'",
        ),
        "feature_variance": (
            not spec.features_by_length,
            "use a number as cluster_price and a selection other than 'priced'",
        ),
        "categorical_threshold": (spec.selection == "threshold", "use selection='threshold'"),
        "numeric_threshold": (spec.selection == "threshold", "use selection='threshold'"),
        "n_init": (n_given in (None, estimator.n_init) and not single, "init determines the starts"),
        "max_iter": (
            not spec.by_length,
            "the automatic search needs no limit; use a number as cluster_price",
        ),
    }
    defaults = _parameters(cast(Hashable, type(estimator)))
    ignored = [
        f"{name}={getattr(estimator, name)!r} ({remedy})"
        for name, (works, remedy) in effective.items()
        if not works and name in defaults and getattr(estimator, name) != defaults[name].default
    ]
    if ignored:
        warn_user(f"{type(estimator).__name__} ignores {', '.join(ignored)}.")


@lru_cache
def _parameters(estimator: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of an estimator, with their defaults."""
    return inspect.signature(estimator).parameters


_ROOM = 100  # for clusters of a start, of short tables


def cluster_limit(estimator: Any, spec: ModelSpec, n_rows: int) -> int:
    """Largest number of clusters; under the description-length price `n_clusters` is a target and may exceed
    `max_clusters`.

    Partitions never have more clusters than rows. Buffers have room for this number.
    """
    limit = min(int(estimator.max_clusters), max(n_rows, _ROOM))
    target = target_n_clusters(estimator.n_clusters, spec)
    if target is None or estimator.cluster_price == "farthest-first":
        return limit
    return max(limit, target) if spec.by_length else min(limit, target)


def target_n_clusters(n_clusters: int | str | None, spec: ModelSpec) -> int | None:
    """The number of clusters that the search is given; None if it chooses the number."""
    if n_clusters == "suggested" and not spec.by_length:
        raise ValueError(
            "n_clusters='suggested' needs the merge path of cluster_price='auto' and model='likelihood'; "
            "give a number."
        )
    return None if n_clusters is None or isinstance(n_clusters, str) else int(n_clusters)


def check_n_clusters(n_clusters: int | None, rows: Any, spec: ModelSpec) -> None:
    """Raise if the table of these rows cannot have as many clusters."""
    if n_clusters is None:
        return
    if n_clusters > len(rows):
        raise ValueError(
            f"n_clusters={n_clusters} is more than the {len(rows)} rows of the table; ask for fewer clusters."
        )
    if spec.by_length and (found := rows.n_distinct(int(n_clusters))) < n_clusters:
        raise ValueError(
            f"n_clusters={n_clusters} is more than the {found} distinct rows of the table; ask for fewer "
            "clusters."
        )


def distinct_rows(table: MixedTable, enough: int) -> set[bytes]:
    """The cells of distinct rows, at most `enough` of them."""
    seen: set[bytes] = set()
    for rows in chunks(len(table)):
        for x, code in zip(table.numeric[rows], table.codes[rows], strict=True):
            seen.add(x.tobytes() + code.tobytes())
            if len(seen) >= enough:
                return seen
    return seen


def given_starts(init: Any, n: int, limit: int) -> list[Labels] | None:
    """Start partitions given as arrays, checked; None when `init` names a rule."""
    if isinstance(init, str):
        check_choice("init", init, ("auto", "single", "random", "farthest"), "or labels")
        return None
    several = isinstance(init, (list, tuple)) and len(init) > 0 and not isinstance(init[0], numbers.Number)
    starts = [check_labels(labels, n) for labels in (init if several else [init])]
    for labels in starts:
        if labels.max() >= limit:
            raise ValueError(
                f"init has {labels.max() + 1} clusters but at most {limit} are allowed; raise n_clusters or "
                "max_clusters."
            )
    return starts


def check_partitioned(parameters: Any, spec: ModelSpec, sample_weight: Any) -> None:
    """Raise ValueError if a fit on partitions is not defined with these parameters."""
    problem = ""
    if not spec.by_length:
        problem = "the automatic price; pass cluster_price='auto' and model='likelihood'"
    elif not (isinstance(parameters.init, str) and parameters.init == "auto"):
        problem = f"init='auto', got {parameters.init!r}"
    elif sample_weight is not None:
        problem = "rows without weights; repeat rows instead of passing sample_weight"
    if problem:
        raise ValueError(f"A fit on Partitions or a Dask collection needs {problem}.")
