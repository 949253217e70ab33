"""A Dirichlet process mixture whose components select their own features, by variational inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils.validation import check_is_fitted

from craftc._common.cluster_moments import ClusterMoments
from craftc._common.estimator import all_or_nothing, column_names, set_convergence, warn_not_converged
from craftc._common.labels import number_by_appearance
from craftc._common.messages import no_value, warn_user
from craftc._common.random import rng_of, seed_of
from craftc._common.ranges import column_ranges
from craftc._common.threads import SMALL_WORK, effective_n_threads, one_blas_thread, threads_for
from craftc._common.typing import (
    Array,
    Floats,
    Labels,
    OutputFrame,
    RandomStateInput,
    TableInput,
    WeightInput,
)
from craftc._common.validation import (
    Choice,
    Constraint,
    Flag,
    Number,
    check_countable,
    check_number,
    check_ranges,
    check_weight,
)
from craftc._kernels.team import Team
from craftc.describe.frames import summary_frame
from craftc.describe.overview import HtmlOverview
from craftc.describe.statistics import numeric_statistics
from craftc.describe.view import ClusterView
from craftc.mixture.cells import check_cells, given_responsibilities, named
from craftc.mixture.full_covariance import FullModel, FullPosterior
from craftc.mixture.new_rows import MixturePrediction
from craftc.mixture.posterior import Posterior
from craftc.mixture.priors import SELECTIONS, Priors, checked_priors
from craftc.mixture.race import Race
from craftc.mixture.scaling import ColumnScaling, ScaledData, has_missing
from craftc.mixture.variational import (
    LLOYD,
    Ascent,
    ComponentModel,
    DiagonalModel,
    MixtureConfig,
    MixtureResult,
)
from craftc.table.estimator_input import DenseInput

if TYPE_CHECKING:
    from sklearn.utils import Tags

# cell visits of a sweep, in SMALL_WORK, above which starts run one after the other, each on all threads
_PARALLEL_STARTS = 8
_MOST_PER_ROW = 0.5  # clusters for each row beyond which a fit is doubtful
_FEW_ROWS = 100  # rows of a table that may be fewer than `n_components`


class FeatureSelectionMixture(
    HtmlOverview, DenseInput, MixturePrediction, DensityMixin, ClusterMixin, BaseEstimator
):
    """A mixture model that estimates cluster probabilities for every row and selects features for every
    cluster.

    A Dirichlet process mixture in which each component decides for every column whether it has its own
    distribution or shares the noise distribution of the whole table. It is fitted by variational inference;
    every update increases the evidence lower bound (ELBO). Missing cells (NaN) are marginalised. Use it for
    overlapping clusters, in tables of numbers, counts, or indicators. docs/mixture.md has the model.

    Parameters
    ----------
    n_components : int, default=20
        Maximum number of components. Starts use all of them, so choose more than the expected number of
        clusters.
    selection : {"local", "global", "shared", "all"}, default="local"
        "local": each cluster selects features nearly independently (rho = 0.01). "global": the selections are
        coupled (rho = 0.2), but may differ. "shared": all clusters select the same features. "all": every
        cluster selects every feature, a Dirichlet process mixture without selection.
    component : {"gaussian", "poisson", "bernoulli"}, default="gaussian"
        "poisson": columns are counts, with rates proportional to the total of the row. "bernoulli": columns
        are indicators, 0 or 1.
    covariance : {"diagonal", "full"}, default="diagonal"
        "full": a full covariance over the selected features of each cluster; slow, and for tables without
        missing cells.
    noise : {"isotropic", "feature"}, default="isotropic"
        "isotropic": one noise variance for all columns, which must be in commensurate units. "feature": one
        for each column.
    feature_fraction : float, default=0.5
        m, the expected fraction of features that a cluster selects; m (1 - m) > rho.
    feature_variance : float, optional
        rho, the variance of that fraction between columns, 0 < rho < 0.25. The selections of two clusters
        have correlation rho / (m (1 - m)). None: set by `selection`.
    learn_fraction : bool, "shared" or "component", default=False
        "shared" or True: also fit m, within m (1 - m) >= 1.05 rho. "component": every cluster has its own
        fraction m_k, and selects independently of the others; `feature_variance` has no role. Not with
        ``selection="shared"`` or full covariances.
    fraction_prior : (float, float), default=(1.0, 1.0)
        Shapes gamma, beta > 0 of the Beta prior of m or m_k where they are fitted (equation (8)).
    concentration : float or "auto", default=5.0
        alpha of the Dirichlet process. A priori a larger value spreads the weights over more components; well
        above `n_components` nearly all weight is that of the last one, and few clusters are left. "auto":
        fitted.
    concentration_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the Gamma prior of a fitted alpha.
    mean_precision_prior : float, default=0.1
        k0 of the normal-inverse-Wishart prior of Gaussian components: their means count as this many rows at
        the mean of the table.
    degrees_of_freedom_prior : float, default=2.0
        nu0 of that prior; of q selected features nu0 + q - 1, so that a feature has the same prior with every
        selection. A diagonal component has the same prior, for each feature by itself.
    covariance_prior : float, default=1.0
        s0 of that prior, whose scale matrix is s0 I for columns scaled by `scale`.
    scale : {"auto", "scalar", "standard", "none"}, default="auto"
        Scaling of Gaussian columns, which are always centred, to variance 1. "scalar": one factor for all
        columns; "standard": one for each; "none": no scaling. "auto": "standard" if the standard deviations
        differ by more than a factor of 10 (between their 10 % and 90 % quantiles), otherwise "scalar".
    merge : bool, default=True
        Merge components, deselect features that every component selects, switch blocks of correlated features
        (full covariances), and split components, where that increases the ELBO. Otherwise the number of
        clusters stays near `n_components`.
    init : {"kmeans", "random"} or array (n, K), default="kmeans"
        Start: k-means (a few passes); random rows as centres; or responsibilities, whose rows sum to 1.
    n_init : int, default=3
        Number of starts; after a rough fit the one with the highest ELBO is continued.
    max_iter : int, default=500
        Maximum number of sweeps of a start, before and after the comparison together.
    tol : float in [0, 1], default=1e-6
        The best start converges when a sweep increases the ELBO by at most this many nats per row.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts. The same seed gives bit-identical results for any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: a line per start; 2: also a line per few sweeps.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Most probable cluster of every row, numbered by first appearance; `predict` of the same rows.
    n_clusters_ : int
        K, the number of components that have rows.
    weights_ : ndarray (K,)
        Expected mixing weights.
    feature_mask_ : ndarray (K, D) of bool
        Features that a cluster selects with probability above 0.5.
    feature_probabilities_ : ndarray (K, D) of float64
        Probability that a cluster selects a feature.
    feature_gains_ : ndarray (K, D) of float64
        Log Bayes factor of the cluster's own distribution against the noise, nats; for ``selection="all"``
        against one distribution of the whole table.
    means_, variances_ : ndarray (K, D) of float64
        Of each cluster in the units of the table; where a feature is not selected, those of the noise.
    covariances_ : ndarray (K, D, D) of float64
        With ``covariance="full"``: expected covariances in the units of the table.
    cluster_sizes_ : ndarray (K,) of float64
        Number of rows of each cluster, or the sum of their weights.
    elbo_ : float
        The ELBO of the fitted model, nats, for the scaled table.
    elbo_path_ : ndarray of float64
        The ELBO after every sweep and move of the best start.
    objective_, objective_path_ : float, ndarray
        -`elbo_` and -`elbo_path_`: every objective of this package is minimised.
    feature_fraction_ : float, or ndarray (K,)
        m, given or fitted; with ``learn_fraction="component"`` the expected m_k; 1 for ``selection="all"``.
    concentration_ : float
        alpha, given, or its expectation where it is fitted.
    scale_ : ndarray (D,) of float64
        Factors of the columns; 0 for columns without variance.
    n_iter_ : int
        Sweeps of the best start.
    converged_ : bool
        Whether the best start met `tol`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If the input has column names.

    References
    ----------
    Y. Guan, J. G. Dy, M. I. Jordan: A Unified Probabilistic Model for Global and Local Unsupervised Feature
    Selection. ICML 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import FeatureSelectionMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(0, 3, (200, 4))
    >>> X[:100, 0], X[100:, 0] = rng.normal(-4, 0.5, 100), rng.normal(4, 0.5, 100)
    >>> model = FeatureSelectionMixture(6, random_state=0).fit(X)
    >>> model.n_clusters_, model.feature_mask_.tolist()
    (2, [[True, False, False, False], [True, False, False, False]])
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_components": Number(least=1, most=10_000, whole=True),
        "selection": Choice(tuple(SELECTIONS)),
        "component": Choice(("gaussian", "poisson", "bernoulli")),
        "covariance": Choice(("diagonal", "full")),
        "noise": Choice(("isotropic", "feature")),
        "feature_fraction": Number(above=0, below=1),
        # the Beta functions of a smaller variance are rounded away
        "feature_variance": Number(least=1e-6, below=0.25, optional=True),
        "concentration": Choice(("auto",), "or a number >= 1e-09 and <= 1e+09", Number(least=1e-9, most=1e9)),
        # the Gamma functions of larger values are rounded away
        "mean_precision_prior": Number(least=1e-9, most=1e9),
        "degrees_of_freedom_prior": Number(least=1e-6, most=1e6),
        "covariance_prior": Number(least=1e-9, most=1e9),
        "scale": Choice(("auto", "scalar", "standard", "none")),
        "merge": Flag(),
        "max_iter": Number(least=1, whole=True),
        "tol": Number(least=0, most=1.0),
    }
    _of_fit = ("init", "random_state", "labels_", "objective_path_", "elbo_path_")

    def __init__(
        self,
        n_components: int = 20,
        *,
        selection: str = "local",
        component: str = "gaussian",
        covariance: str = "diagonal",
        noise: str = "isotropic",
        feature_fraction: float = 0.5,
        feature_variance: float | None = None,
        learn_fraction: bool | str = False,
        fraction_prior: tuple[float, float] = (1.0, 1.0),
        concentration: float | str = 5.0,
        concentration_prior: tuple[float, float] = (1.0, 1.0),
        mean_precision_prior: float = 0.1,
        degrees_of_freedom_prior: float = 2.0,
        covariance_prior: float = 1.0,
        scale: str = "auto",
        merge: bool = True,
        init: str | ArrayLike = "kmeans",
        n_init: int = 3,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.selection = selection
        self.component = component
        self.covariance = covariance
        self.noise = noise
        self.feature_fraction = feature_fraction
        self.feature_variance = feature_variance
        self.learn_fraction = learn_fraction
        self.fraction_prior = fraction_prior
        self.concentration = concentration
        self.concentration_prior = concentration_prior
        self.mean_precision_prior = mean_precision_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.scale = scale
        self.merge = merge
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: TableInput, y: object = None, sample_weight: WeightInput = None) -> Self:
        """Find the clusters of a table and their features.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers, n >= 2
            NaN is a missing cell (not with full covariances); every column has a value. Counts: whole numbers
            >= 0. Indicators: 0 and 1.
        y : ignored
        sample_weight : array (n,), optional
            Finite, >= 0. Weight 2 counts as two equal rows, weight 0 as none; such a row only gets a label.
            Random starts draw other rows than for repeated rows; from responsibilities given as `init` the
            result is the same up to rounding.

        Returns
        -------
        FeatureSelectionMixture
            The fitted estimator.
        """
        priors = checked_priors(self)
        rows = self._read(X, reset=True)
        weight = check_weight(sample_weight, len(rows))
        check_countable(weight)
        present = np.ones(len(rows), bool) if weight is None else weight > 0
        if max(len(rows), _FEW_ROWS) < priors.K:
            raise ValueError(
                f"n_components={priors.K} is more than the {len(rows)} rows of the table; ask for fewer "
                "components."
            )
        data = self._scaled_data(
            rows[present] if not present.all() else rows, None if weight is None else weight[present]
        )
        given = given_responsibilities(self.init, len(rows), priors.K)
        best = self._best_start(data, priors, None if given is None else given[present])
        self._set_state(best, rows, present)
        if not best.converged:
            warn_not_converged(self, best.n_iter, "sweeps", "raise max_iter or tol")
        if given is None and self.n_clusters_ > max(2.0, _MOST_PER_ROW * present.sum()):
            warn_user(
                f"FeatureSelectionMixture found {self.n_clusters_} clusters in {present.sum()} rows, which "
                "are too few to show distributions. Take more rows or fewer columns, or lower n_components, "
                "the most clusters that it finds."
            )
        return self

    def _best_start(self, data: ScaledData, priors: Priors, given: Floats | None) -> MixtureResult:
        """The start that is ahead once all have roughly converged, continued to the end.

        Starts run in parallel if a sweep is too short to wake threads for it. The one that is ahead has all
        threads for itself.
        """
        seed = seed_of(self.random_state)
        starts = range(1 if given is not None else int(self.n_init))
        small = data.X.size * priors.K <= _PARALLEL_STARTS * SMALL_WORK
        side = (
            threads_for(data.n_threads, data.X.size * priors.K * len(starts))
            if small and len(starts) > 1
            else 1
        )
        config = MixtureConfig(int(self.max_iter), float(self.tol), bool(self.merge), Event())
        race = Race(side, Team(1 if priors.full else side), config.stop)

        def run(start: int) -> Iterator[None]:
            n_threads = 1 if side > 1 else data.n_threads
            model: ComponentModel = (FullModel if priors.full else DiagonalModel)(data, priors, n_threads)
            if given is not None:
                model.start_from(given)
            else:
                model.start_by_kmeans(seed, start, config, LLOYD if self.init == "kmeans" else 1)
            if config.merge and isinstance(model, FullModel):
                model.select()
            ascent = Ascent(
                model, config, partial(self._report_sweep, start, model) if self.verbose > 1 else None
            )
            yield
            yield from race.follow(start, ascent)
            self._report_start(start, ascent)

        # one BLAS thread for the small products of covariances, so that their bits do not depend on the
        # number of threads
        with one_blas_thread() if priors.full else nullcontext():
            result = race.run(run(start) for start in starts)
        self._report_start(race.ahead, race.ascents[race.ahead])
        return result

    def _report_sweep(self, start: int, model: ComponentModel, n_iter: int, elbo: float) -> None:
        print(
            f"start {start}, sweep {n_iter}: ELBO {elbo:.6f}, {int((model.factors.mixture.size > 0).sum())} "
            "components"
        )

    def _report_start(self, start: int, ascent: Ascent) -> None:
        if self.verbose > 0:
            alive = int((ascent.model.factors.mixture.size > 0).sum())
            print(f"start {start}: {alive} components after {ascent.n_iter} sweeps, ELBO {ascent.elbo:.6f}")

    def _set_state(self, result: MixtureResult, rows: Array, present: NDArray[np.bool_]) -> None:
        factors, found = result.model.factors, number_by_appearance(result.label)
        posterior = result.model.posterior(found)
        labels = np.empty(len(rows), np.int32)
        labels[present] = result.label
        if not present.all():  # rows of weight 0 get labels, and count for the order of the clusters
            labels[~present] = posterior.labels(
                posterior.scaling.clipped(rows[~present]), factors.data.n_threads
            )
            found = found[number_by_appearance(labels)]
            posterior = result.model.posterior(found)
        self.labels_, self.n_clusters_ = labels, len(found)
        self.cluster_sizes_ = np.bincount(labels[present], factors.data.weight, len(found)).astype(np.float64)
        self._set_posterior(posterior)
        common = 1.0 if posterior.priors.all_selected else factors.fraction
        self.feature_fraction_ = common if posterior.fractions is None else posterior.fractions
        set_convergence(self, result)
        self.elbo_, self.elbo_path_ = -self.objective_, -self.objective_path_

    def _set_posterior(self, posterior: Posterior) -> None:
        """The attributes that follow from the posterior."""
        self._posterior, scaling = posterior, posterior.scaling
        self.weights_, self.concentration_ = posterior.weights, posterior.priors.concentration
        self.feature_probabilities_ = self._all_columns(posterior.p)
        self.feature_mask_ = self.feature_probabilities_ > 0.5
        self.feature_gains_ = self._all_columns(posterior.gains)
        means, variances = posterior.moments()
        self.means_ = self._all_columns(means, scaling.mean)
        self.variances_ = self._all_columns(variances, scaling.variance)
        if isinstance(posterior, FullPosterior):
            self.covariances_ = posterior.covariances()
        elif hasattr(self, "covariances_"):
            del self.covariances_
        self.scale_ = self._all_columns(scaling.scale[None])[0]

    def _all_columns(self, values: Floats, rest: float | Floats = 0.0) -> Floats:
        """(K, columns of the model) values in the columns of the input; `rest` in the columns left out."""
        out = np.empty((len(values), self.n_features_in_))
        out[:] = rest
        out[:, self._posterior.scaling.column] = values
        return out

    # ---- rows ----

    def sample(self, n_samples: int = 1, random_state: RandomStateInput = None) -> tuple[Floats, Labels]:
        """New rows from the predictive distribution.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            None: that of the estimator.

        Returns
        -------
        ndarray (n_samples, D) of float64
            Counts: for rows of mean exposure. Columns without variance keep their value.
        ndarray (n_samples,) of int32
            Their clusters.
        """
        check_is_fitted(self)
        n = int(check_number("n_samples", n_samples, least=1, most=10**7, whole=True))
        rng = rng_of(self.random_state if random_state is None else random_state)
        cells, labels = self._posterior.draw(n, rng)
        scaling = self._posterior.scaling
        return self._all_columns(cells / scaling.scale + scaling.centre, scaling.mean), labels

    def summary(self) -> OutputFrame:
        """The selected features of every cluster: one row per cluster and feature, the largest gain first.

        Returns
        -------
        pandas.DataFrame
            ``cluster``, its ``name`` after `rename_clusters`, ``rows`` of `labels_` and their ``share``,
            ``feature``, ``gain`` (nats), ``probability``, and mean ± standard deviation in the cluster and in
            the whole table. Those of the cluster are `means_` and `variances_`, which the priors draw towards
            the whole table: the mean of a cluster of one row is not its cell.
        """
        check_is_fitted(self)
        return summary_frame(
            self._shown_clusters(),
            getattr(self, "_frame_library", None),
            probability=self.feature_probabilities_,
        )

    def _cluster_view(self) -> ClusterView:
        scaling, sizes = self._posterior.scaling, self.cluster_sizes_
        columns = numeric_statistics(
            ClusterMoments(sizes, self.means_, self.variances_),
            ClusterMoments(sizes.sum(keepdims=True), scaling.mean[None], scaling.variance[None]),
        )
        mask = self.feature_mask_
        return ClusterView(column_names(self), columns, sizes, mask, mask, self.feature_gains_, named=False)

    # ---- input and parameters ----

    def _scaled_data(self, rows: Array, weight: Floats | None) -> ScaledData:
        """The rows in scaled units; warns about columns that cannot be used."""
        n_threads = effective_n_threads(self.n_threads)
        missing = has_missing(rows)
        if missing and (empty := np.isnan(rows).all(axis=0)).any():
            raise no_value(column_names(self)[int(empty.argmax())], len(rows))
        scaling = ColumnScaling.fitted(rows, missing, self.component, self.scale, n_threads, weight)
        if len(scaling.column) < rows.shape[1]:
            constant = np.delete(np.arange(rows.shape[1]), scaling.column)
            columns = named(constant, getattr(self, "feature_names_in_", None))
            warn_user(f"Columns without variance are kept but never selected: {columns}.")
        return ScaledData(rows, missing, scaling, n_threads, weight)

    def _new_rows(self, X: TableInput) -> Array:
        check_is_fitted(self)
        return self._posterior.scaling.clipped(self._read(X, reset=False))

    def _read(self, X: TableInput, reset: bool) -> Array:
        """The rows; raise if they do not fit the kind of components."""
        rows = self._read_rows(X, reset, allow_nan=True, min_rows=2 if reset else 1)
        if reset:
            check_ranges(*column_ranges(rows), column_names(self))
        if self.covariance == "full" and np.isnan(rows).any():
            raise ValueError(
                'covariance="full" does not accept missing cells, got NaN; use covariance="diagonal", which '
                "marginalises them, or impute "
                "them first."
            )
        check_cells(rows, self.component, getattr(self, "feature_names_in_", None))
        return rows

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.covariance != "full"
        tags.input_tags.positive_only = self.component != "gaussian"
        return tags
