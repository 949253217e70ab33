"""The model that the parameters of CRAFT and PaperCRAFT specify, and checks of parameters with the table."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike

from craftc._common.messages import shown
from craftc._common.typing import Labels
from craftc._common.validation import check_choice, check_labels, check_number

#: What `init` may be: the name of a rule, start partitions, a fitted model, or descriptions of clusters.
StartsInput: TypeAlias = "str | ArrayLike | Sequence[ArrayLike] | Predicts | Mapping[str, object]"
#: A number of clusters, the smallest and largest number, or None: chosen automatically.
ClusterCount: TypeAlias = "int | tuple[int, int] | None"
LEAST_FRACTION = 1e-9  # of the features, which its prior can hold
ROWS_AT_FULL_PRICE = 1000.0  # n_0 of price_factor="auto": a longer table counts as this many rows
MODELS = ("likelihood", "paper", "paper-relative", "paper-fixed")
SELECTIONS = ("priced", "fixed", "free", "threshold")


class Predicts(Protocol):
    """A fitted estimator that assigns rows to clusters."""

    def predict(self, X: Any) -> Any: ...


@dataclass(frozen=True)
class NumberOfClusters:
    """The constraint of the parameter `n_clusters`."""

    def check(self, name: str, value: object) -> None:
        if value is None:
            return
        if not isinstance(value, list | tuple):
            try:
                check_number(name, value, least=1, whole=True)
            except TypeError as error:
                raise TypeError(f"{str(error).rstrip('.')}; None finds it, (low, high) bounds it.") from None
            return
        if len(value) != 2:
            raise ValueError(
                f"{name} must be a whole number, or the smallest and the largest number as (low, high), got "
                f"{shown(value)}."
            )
        low, high = (check_number(f"{name}[{i}]", each, least=1, whole=True) for i, each in enumerate(value))
        if low > high:
            raise ValueError(
                f"{name}={shown(value)} has its largest number before its smallest; pass ({high:.0f}, "
                f"{low:.0f})."
            )


@dataclass(frozen=True)
class Size:
    """The constraint of a size of clusters: rows, or a float of at most 1, the share of the rows."""

    def check(self, name: str, value: object) -> None:
        if value is None:
            return
        valid = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not valid or not (0.0 < value < 1.0 or (1.0 <= value < math.inf)):  # type: ignore[operator]
            raise (ValueError if valid else TypeError)(
                f"{name} must be a number of rows >= 1, or a share of the rows as a float from 0 to 1, got "
                f"{shown(value)}."
            )


@dataclass(frozen=True)
class ModelSpec:
    """The model: prices and selection of features. The defaults of PaperCRAFT's fields are the coherent model
    without a price.
    """

    model: str = "likelihood"  # one of MODELS
    selection: str = "fixed"  # one of SELECTIONS; "priced": features at their description length
    price: float | None = 0.0  # Lambda; None: clusters, and features, at their description length
    price_factor: float = 1.0  # multiplies the description-length price
    fraction: float = 0.5  # m
    variance: float | None = None  # rho
    categorical_threshold: float = 0.95  # eps_c
    numeric_threshold: float = 0.5  # eps_v
    absolute: bool = False  # whether eps_v is in squared units of the columns, not a share of their variances
    pooled: bool = False  # whether clusters that do not select a feature share a distribution of their own
    covariance: str = "diagonal"  # | "auto" | "full" | "tied", as the parameter of CRAFT
    tied: bool = False  # whether all clusters share one covariance
    feature_sharing: float = 0.0  # s, between local (0) and global selection (1)

    @property
    def coherent(self) -> bool:
        """Whether every step minimises one objective."""
        return self.model == "likelihood"

    @property
    def prior(self) -> float:
        """alpha, pseudo-count of the background in a cluster's level probabilities."""
        return 1.0 if self.coherent else 0.1

    @property
    def is_global(self) -> bool:
        """Whether all clusters have one mask (PaperCRAFT)."""
        return self.feature_sharing == 1.0 and not self.pooled

    @property
    def couples(self) -> bool:
        """Whether the number of clusters that select a feature has a price (PaperCRAFT: sharing.py)."""
        return 0.0 < self.feature_sharing < 1.0 and self.fraction < 1.0 and not self.pooled

    @cached_property
    def f_delta(self) -> float:
        """F_Delta, price of one selected feature."""
        return price_terms(self.fraction, self.variance)[2]


def range_of(n_clusters: ClusterCount, limit: int) -> tuple[int, int]:
    """The smallest and largest number of clusters; at most `limit` where the number is not given."""
    if n_clusters is None:
        return 1, limit
    if isinstance(n_clusters, list | tuple):
        return int(n_clusters[0]), int(n_clusters[1])
    return int(n_clusters), int(n_clusters)


def size_in_rows(value: float, total: float) -> float:
    """A size as a weight of rows."""
    is_share = value < 1.0 or (value == 1.0 and not isinstance(value, numbers.Integral))
    return float(value) * total if is_share else float(value)


def price_factor_of(price_factor: float | str, weight: float) -> float:
    """The price factor of a table of this weight; "auto" is max(1, N / 1000).

    At that price the evidence of N rows counts as that of 1000 (coarsening: Miller & Dunson 2019), because
    the number of clusters of a model that is not exactly true grows with the rows without limit (Cai,
    Campbell & Broderick 2021).
    """
    return max(1.0, weight / ROWS_AT_FULL_PRICE) if isinstance(price_factor, str) else float(price_factor)


def cluster_price(
    paper_lambda: float,
    n_features: int,
    *,
    feature_fraction: float = 0.5,
    feature_variance: float | None = None,
) -> float:
    """The `cluster_price` of `PaperCRAFT` that corresponds to a lambda of the paper: Lambda = lambda + D F_0.

    The paper charges every cluster lambda, F_0 for each feature that it does not select, and F_1 for each
    that it selects. `PaperCRAFT` charges Lambda for the cluster and F_Delta = F_1 - F_0 for each selected
    feature, which is the same sum.

    Parameters
    ----------
    paper_lambda : float
        The paper's lambda in nats, >= 0.
    n_features : int
        D, number of columns.
    feature_fraction, feature_variance : float
        m and rho, as in `PaperCRAFT`.

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
    >>> from craftc import PaperCRAFT
    >>> from craftc.craft import cluster_price
    >>> from craftc.datasets import make_subspaces
    >>> table = make_subspaces("2a", random_state=0)
    >>> price = cluster_price(30.0, 24, feature_fraction=1 / 3)
    >>> round(price, 3)
    31.957
    >>> model = PaperCRAFT(cluster_price=price, model="likelihood", feature_fraction=1 / 3, random_state=0)
    >>> model = model.set_params(categorical=table.categorical)
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
    check_number("feature_fraction", m, least=LEAST_FRACTION, most=1.0)
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


def numeric_threshold_of(value: object) -> tuple[bool, float]:
    """Whether eps_v is absolute, and its value, from a number or ("absolute", number)."""
    if not isinstance(value, (tuple, list)):
        return False, check_number("numeric_threshold", value, least=0.0)
    if len(value) != 2 or value[0] != "absolute":
        raise ValueError(f'numeric_threshold must be a number >= 0 or ("absolute", number), got {value!r}.')
    return True, check_number("numeric_threshold", value[1], least=0.0)


def given_starts(init: StartsInput, n: int, limit: int) -> list[Labels] | None:
    """Start partitions given as arrays, checked; None when `init` names a rule."""
    if isinstance(init, str):
        check_choice(
            "init",
            init,
            ("auto", "single", "random", "farthest"),
            "or labels, a fitted model or descriptions of clusters",
        )
        return None
    several = isinstance(init, (list, tuple)) and len(init) > 0 and not isinstance(init[0], numbers.Number)
    starts = [check_labels(labels, n) for labels in (list(init) if several else [init])]  # type: ignore[arg-type]
    for labels in starts:
        if labels.max() >= limit:
            raise ValueError(
                f"init has {labels.max() + 1} clusters but at most {limit} are allowed; raise n_clusters or "
                "max_clusters."
            )
    return starts
