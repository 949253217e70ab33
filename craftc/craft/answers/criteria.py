"""A fitted CRAFT as a mixture: soft sizes of clusters, entropy of the assignment, AIC, BIC and ICL; and what
it says about the structure of its table.
"""

from __future__ import annotations

import math

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.merge_path import objectives_of
from craftc._common.typing import Floats, Mask
from craftc.craft.block_pricing import unions as unions_of
from craftc.craft.clusters import gains_of
from craftc.craft.fitted import FittedClusters
from craftc.craft.parameters import ClusterCount
from craftc.craft.rows.scores import MixtureFit
from craftc.describe.structure import Structure, clearly_better, nearly
from craftc.table.levels import LevelEncoding
from craftc.table.moments import Moments

_MORE_THAN_HALF = 0.5  # of what clusters save
_DECIDED = 0.98  # share of the rows whose cluster the value of a column tells
_SMALL = 0.05  # share of the rows of a small cluster
_HARDLY = 0.1  # of what one number tells of two clusters
_FAR_APART = 2.0  # times the variance of the whole table
_TAILS, _MANY_COLUMNS, _TAILS_OF_MANY = 0.2, 5, 0.35  # share of the rows of a cluster that lies around others
_CONCENTRIC = 0.15  # squared distance of the means over the variance of that cluster, on average over columns
_NARROWEST = 1e-9  # variance of a cluster in that of the whole table, so that quotients stay finite
_WIDER_THAN_ALL, _WIDER_THAN_ONE = 1.3, 3.0  # its variance, in those of the whole table and of the other one


class MixtureCriteria:
    """Attributes of a model whose rows have probabilities."""

    n_clusters: ClusterCount
    n_clusters_: int
    price_factor_: float
    max_clusters: int
    min_cluster_size: float | None = None
    max_cluster_size: float | None = None
    _fitted: FittedClusters
    _mixture: MixtureFit | None = None
    _groups: str | None = None  # the column of groups that stay together; "": an array without a name
    _slices: int | None = None  # clusters at four times the price, where that shows slices of the table
    _pattern: float | None = None  # `pattern_of_pieces`

    @property
    def _asked(self) -> bool:
        """Whether the number of clusters, their sizes or groups were given, or `max_clusters` limits it."""
        parameters = self.n_clusters, self.min_cluster_size, self.max_cluster_size, self._groups
        return self.n_clusters_ >= self.max_clusters or any(each is not None for each in parameters)

    @property
    def _bounded(self) -> bool:
        """Whether what was asked for is not a number of clusters."""
        return self._asked and not isinstance(self.n_clusters, int | np.integer)

    @property
    def _clear(self) -> float | None:
        """Share of the rows that are clearly placed, where it is known."""
        return None if self._mixture is None else self._mixture.clear / self._fitted.weight

    def _mixture_fit(self) -> MixtureFit:
        check_is_fitted(self)
        if self._mixture is None:
            raise AttributeError(
                "The model does not know the probabilities of the rows of fit: it defines no "
                "densities, or is another step of a merge path, whose at(k, X) computes them."
            )
        return self._mixture

    @property
    def soft_sizes_(self) -> Floats:
        """(K,) sums of the probabilities of the rows, or of their products with the weights."""
        return self._mixture_fit().sizes

    @property
    def assignment_entropy_(self) -> float:
        """Entropy of the probabilities of the clusters, summed over the rows, nats."""
        return self._mixture_fit().entropy

    @property
    def log_likelihood_(self) -> float:
        """Sum of the log probabilities of the rows (`score_samples`), nats."""
        return self._mixture_fit().log_likelihood

    @property
    def n_parameters_(self) -> int:
        """Free parameters of the mixture."""
        check_is_fitted(self)
        return n_parameters(self._fitted)

    @property
    def aic_(self) -> float:
        """Akaike's information criterion, -2 log L + 2 p; lower is better."""
        return -2.0 * self.log_likelihood_ + 2.0 * self.n_parameters_

    @property
    def bic_(self) -> float:
        """Bayesian information criterion, -2 log L + p log N; lower is better."""
        check_is_fitted(self)
        N = self._fitted.weight
        return -2.0 * self.log_likelihood_ + self.n_parameters_ * math.log(N)

    @property
    def icl_(self) -> float:
        """Integrated classification likelihood, BIC + 2 entropy; lower is better."""
        return self.bic_ + 2.0 * self.assignment_entropy_

    @property
    def _on_factor(self) -> list[int]:
        """The columns of the factor, if it describes the table better than links and clusters; the largest
        gains first.
        """
        fitted = self._fitted
        if not (fitted.dependence_ratio > 1.0 and fitted.links.factor.gradual > fitted.links.saving):
            return []
        gains = fitted.gains.sum(axis=0)
        return sorted(fitted.links.factor.columns, key=lambda j: -float(gains[j]))

    def _structure(self) -> Structure:
        """What the model itself says about the structure of its table."""
        fitted: FittedClusters = self._fitted
        objectives = objectives_of(() if fitted.path is None else fitted.path)
        return Structure(
            len(fitted.clusters.mask),
            saving=objectives[-1][1] - objectives[0][1] if objectives else None,
            asked=self._asked and not self._bounded,
            bounded=self._bounded,
            fewer=clearly_better(objectives, self.price_factor_) if self._asked else None,
            links=fitted.links.saving,
            factor=fitted.links.factor.gradual,
            dependence_ratio=fitted.dependence_ratio,
            pattern=self._pattern,
            largest=float(np.max(fitted.sizes)) / fitted.weight,
            slices=self._slices,
            clear=self._clear,
            nearly=nearly(self.price_factor_),
            column=deciding_column(fitted),
            scattered=outlying_clusters(fitted),
        )

    def _criteria(self) -> dict[str, object]:
        """What a summary lists; empty if the rows of the fit are not known."""
        if self._mixture is None:
            return {}
        fit, K = self._mixture, len(self._mixture.sizes)
        N = self._fitted.weight
        return {
            "soft_sizes": fit.sizes.tolist(),
            "assignment_entropy": fit.entropy,
            "relative_entropy": 1.0 - fit.entropy / (N * math.log(K)) if K > 1 else 1.0,
            "log_likelihood": fit.log_likelihood,
            "n_parameters": self.n_parameters_,
            "aic": self.aic_,
            "bic": self.bic_,
            "icl": self.icl_,
            "clearly_placed": self._clear,
        }


def deciding_column(fitted: FittedClusters) -> tuple[str, float] | None:
    """A category, or a number with a frequent value, whose values alone tell the clusters apart, and its
    share of what these save, if that is more than half.
    """
    levels, moments = fitted.encoding, fitted.clusters.moments
    if not isinstance(levels, LevelEncoding) or moments.n_clusters == 1:
        return None
    gains = np.where(fitted.selected, fitted.gains, 0.0).sum(axis=0)
    j = int(gains.argmax())
    schema, share = levels.input_schema, float(gains[j] / max(gains.sum(), 1e-300))
    numbers = dict(zip(schema.numeric_index.tolist(), levels.numbers, strict=True))
    if share <= _MORE_THAN_HALF or (j in numbers and not numbers[j].atom.any()):
        return None
    start = moments.grid.level_start[j]
    counts = moments.counts[:, start : start + fitted.clusters.background.level_widths[j]]
    if j in numbers:  # by the frequent value
        atom = np.append(numbers[j].atom, False)
        counts = np.column_stack([counts[:, atom].sum(axis=1), counts[:, ~atom].sum(axis=1)])
    alone = counts.max(axis=0).sum() >= _DECIDED * counts.sum()
    return (str(schema.columns[j]), share) if alone else None


def outlying_clusters(fitted: FittedClusters) -> tuple[int, float] | None:
    """How many clusters hold outliers or tails, as far as numbers show, and the share of the rows in them."""
    if fitted.clusters.moments.n_clusters == 1:
        return None
    shares = fitted.sizes / fitted.weight
    found = scattered(fitted, shares) | apart_in_one_number(fitted, shares)
    return (int(found.sum()), float(shares[found].sum())) if found.any() else None


def scattered(fitted: FittedClusters, shares: Floats) -> Mask:
    """(K,) small clusters whose rows lie farther apart than those of the whole table in most numbers, and
    clusters that lie around a larger one, or around all rows, with a much larger variance.
    """
    moments = fitted.original_moments
    whole, found = moments.total(), np.zeros(len(shares), bool)
    varies = (whole.means()[1][0] > 0.0) & (moments.present > 1.0).all(axis=0)
    if np.count_nonzero(varies) < 2:
        return found
    mean, variance = (
        np.vstack([own[:, varies], all_rows[:, varies]])
        for own, all_rows in zip(moments.means(), whole.means(), strict=True)
    )
    variance /= np.vstack([moments.present[:, varies], whole.present[:, varies]]) - 1.0
    mean = (mean - mean[-1]) / np.sqrt(variance[-1])
    variance = np.maximum(variance / variance[-1], _NARROWEST)
    shares = np.append(shares, 1.0)
    most = _TAILS_OF_MANY if np.count_nonzero(varies) >= _MANY_COLUMNS else _TAILS
    for k in np.flatnonzero(shares[:-1] <= most).tolist():
        wider = np.median(variance[k] / variance, axis=1)
        around = (np.square(mean - mean[k]) / variance[k]).mean(axis=1) <= _CONCENTRIC
        least = _FAR_APART if shares[k] <= _SMALL else _WIDER_THAN_ALL if around[-1] else math.inf
        found[k] = wider[-1] > least or (around & (wider > _WIDER_THAN_ONE))[shares > shares[k]].any()
    return found


def apart_in_one_number(fitted: FittedClusters, shares: Floats) -> Mask:
    """(K,) small clusters that one number sets apart from a larger one: without it, the two would save hardly
    more than one cluster, and what fitted parameters save by chance.
    """
    moments, background, levels = fitted.clusters.moments, fitted.clusters.background, fitted.encoding
    found = np.zeros(len(shares), bool)
    if not isinstance(levels, LevelEncoding):
        return found
    first, second = np.nonzero((shares[:, None] <= _SMALL) & (shares[:, None] < shares))
    if not len(first):
        return found
    unions = Moments(moments.grid, moments.unit, len(first))
    unions.groups[:] = unions_of(moments.groups, first, second, moments.grid.first_numeric)
    gains, together = gains_of(moments, background), gains_of(unions, background)
    by_chance = 0.5 * background.n_parameters
    apart = (gains[first] + gains[second] - together - by_chance) * (background.usable > 0)
    numbers = np.isin(levels.source, levels.input_schema.numeric_index)
    most = apart[:, -len(numbers) :][:, numbers].max(axis=1, initial=0.0)
    found[first[apart.sum(axis=1) - most <= _HARDLY * most]] = True
    return found


def n_parameters(fitted: FittedClusters) -> int:
    """Free parameters of a mixture: K - 1 weights, the distributions of every column that varies, and the
    pairs of columns in covariances.

    A category has T - 1 parameters for every different distribution: those of the clusters that select it,
    and one that the others share. A tilted column has the table's own distribution once, T - 1 parameters (2
    of a normal density), and the parameters of every different tilt, if there are several. A number of
    `PaperCRAFT` has a mean and a variance for every different distribution. Clusters at a fixed price have
    equal weights. A column of weight w counts w times, the sum rounded.
    """
    clusters = fitted.clusters
    background, mask = clusters.background, clusters.mask > 0
    grid, K = background.grid, len(mask)
    own = mask.sum(axis=0)
    different = own + (own < K)
    occur = (
        np.add.reduceat(background.frequency > 0, grid.level_start, dtype=np.intp) if grid.q else np.empty(0)
    )
    base = np.zeros(len(own))
    tilted = np.concatenate([np.zeros(grid.p, bool), background.tilts.tilted > 0])
    base[grid.p :] = occur - 1.0
    levels = fitted.encoding
    if isinstance(levels, LevelEncoding) and levels.null == "normal":
        base[grid.p + levels.input_schema.numeric_index] = 2.0
    tilts = np.where(different > 1, different, 0)
    each = np.where(tilted, base + background.n_parameters * tilts, background.n_parameters * different)
    each *= background.column_weights
    total = float(each[background.usable > 0].sum()) + (K - 1) * (clusters.spec.price is None)
    if clusters.covariances is not None:
        m = clusters.covariances.block.sum(axis=1, dtype=np.intp)
        pairs = m * (m - 1) // 2
        # clusters that share a covariance share its variances, too
        total += float(pairs[0] - (K - 1) * m[0] if clusters.spec.tied else pairs.sum())
    return round(total)
