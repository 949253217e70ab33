"""A Dirichlet process mixture whose components select their own features, by variational inference."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from craftc._common.labels import chunks, number_by_appearance
from craftc._common.random import seed_of
from craftc._common.threads import SMALL_WORK, effective_n_threads, map_side_by_side, threads_for
from craftc._common.typing import Floats, Labels
from craftc._common.validation import check_choice, check_flag, check_number
from craftc.mixture.full_covariance import FullAscent, FullPosterior
from craftc.mixture.priors import KAPPA, Beliefs, Table, Units, interval
from craftc.mixture.variational import LLOYD, Ascent, Outcome, Plan
from craftc.table.cluster_summary import posterior_summary

SELECTIONS = {"local": 0.01, "global": 0.2, "shared": 0.2}  # and the rho that is used where none is given
COMPONENTS = ("gaussian", "poisson")
COVARIANCES = ("diagonal", "full")
NOISES = ("isotropic", "feature")
SCALES = ("auto", "scalar", "standard", "none")
INITS = ("kmeans", "random")
_SIDE_BY_SIDE = 20  # times SMALL_WORK: larger tables climb one start after the other, each on all threads
_NAMED = 5  # columns in a message


class FeatureSelectionMixture(DensityMixin, ClusterMixin, BaseEstimator):
    """Clusters with probabilities: for every row its clusters, for every cluster the features that make it one.

    A Dirichlet process mixture in which every component decides column by column whether it has a distribution of its own there or
    shares the noise of the whole table; fitted by variational inference, whose bound rises with every update. Missing cells (NaN) are
    marginalised: they say nothing. The ancestor of :class:`CRAFT`, for those who want uncertainty; numbers and counts only.

    Parameters
    ----------
    n_components : int, default=20
        Components there is room for. Starts use them all, so this must lie above the number of clusters that is expected.
    selection : {"local", "global", "shared"}, default="local"
        "local": masks of the clusters are drawn nearly independently (rho = 0.01). "global": they are tied together (rho = 0.2), without
        having to be equal. "shared": one mask for all clusters; a feature that matters to one of them is in. (The paper's text has the
        effect of rho the other way round.)
    component : {"gaussian", "poisson"}, default="gaussian"
        "poisson": columns are counts; a row's rates are those of its cluster times its total, which makes documents of any length alike.
    covariance : {"diagonal", "full"}, default="diagonal"
        "full": a covariance over the selected features of every cluster, which are switched one by one from where the diagonal model
        ends; dear, and better on some tables, worse on others. No missing cells.
    noise : {"isotropic", "feature"}, default="isotropic"
        One variance for all columns nobody selects (they must be in commensurate units), or one for each, which is not identified where
        all clusters but one select a column.
    feature_fraction : float, default=0.5
        m, the share of the features a cluster is expected to select; m (1 - m) > rho.
    feature_variance : float, optional
        rho, its variance between columns, 0 < rho < 0.25: masks of two clusters correlate by rho / (m (1 - m)). None: by `selection`.
    learn_fraction : bool, default=False
        Fit m as well. The prior may then dominate and select all features or none; m (1 - m) >= 1.05 rho is kept.
    concentration : float, default=5.0
        alpha of the Dirichlet process: larger, more clusters.
    scale : {"auto", "scalar", "standard", "none"}, default="auto"
        Units the model sees Gaussian columns in (always centred): one factor for all, so that the mean variance is 1; one for each;
        as they are. "auto": "scalar" where the columns' standard deviations (their 10 % and 90 % quantiles) lie within a factor of 10.
        The priors are fixed in these units.
    merge : bool, default=True
        Moves beyond the updates, kept where they raise the bound: components are joined, and a feature that all components select is
        let go by one of them (with no cells left to the noise it would stay selected for good). Without them the number of clusters
        stays near `n_components`.
    init : {"kmeans", "random"} or array (n, K), default="kmeans"
        Start: k-means with `n_components` centres; random rows as centres, each row with the nearest; or responsibilities, whose rows
        sum to 1 (full covariances then start with no column selected, else with those of the diagonal model).
    n_init : int, default=3
        Starts; the highest bound is kept.
    max_iter : int, default=500
        Sweeps of a start at most.
    tol : float, default=1e-6
        A start ends when a sweep raises the bound by no more than so many nats per row.
    random_state : int, RandomState or None, default=None
        Seed of the starts. The same seed gives the same bits on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: a line per start; 2: a line per sweep.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Most probable cluster of every row, numbered by first appearance; `predict` of the same rows.
    n_clusters_ : int
        K, components that have rows.
    weights_ : ndarray (K,)
        Expected shares of the clusters.
    feature_mask_ : ndarray (K, D) of bool
        Features a cluster selects with probability above one half. A column without variance is never selected.
    feature_probabilities_ : ndarray (K, D) of float64
        Probability that it selects them.
    feature_gains_ : ndarray (K, D) of float64
        ln Bayes factor of a distribution of its own against the noise, nats.
    means_, variances_ : ndarray (K, D) of float64
        Of the clusters' columns in units of the table, those of the noise where a feature is not selected; counts: rates and their
        variance at the mean exposure.
    cluster_sizes_ : ndarray (K,) of float64
        Rows of every cluster.
    elbo_ : float
        The evidence lower bound of the returned state, nats, for the table in the model's units.
    elbo_path_ : ndarray of float64
        The bound after every sweep and merge of the best start; `elbo_` is the bound after one more.
    objective_, objective_path_ : float, ndarray
        The same with opposite sign, as every objective of this package falls.
    feature_fraction_ : float
        m, fitted or as given.
    scale_ : ndarray (D,) of float64
        What columns were multiplied with; 0 for columns without variance.
    n_iter_ : int
        Sweeps of the best start.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the input has column names.

    References
    ----------
    Y. Guan, J. G. Dy, M. I. Jordan: A Unified Probabilistic Model for Global and Local Unsupervised Feature Selection. ICML 2011.

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
        learn_fraction: bool = False,
        concentration: float = 5.0,
        scale: str = "auto",
        merge: bool = True,
        init: str | ArrayLike = "kmeans",
        n_init: int = 3,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: Any = None,
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
        self.concentration = concentration
        self.scale = scale
        self.merge = merge
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: Any = None) -> FeatureSelectionMixture:
        """Find the clusters of a table and their features.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers, n >= 2
            NaN is a missing cell (not with full covariances). Counts: whole numbers >= 0.
        y : ignored

        Returns
        -------
        FeatureSelectionMixture
            Itself.
        """
        beliefs = self._beliefs()
        table = self._table(X)
        given = self._given_responsibilities(len(table), beliefs.K)
        best = self._best_start(table, beliefs, given)
        self._set_state(best)
        if not best.converged:
            warnings.warn(
                f"FeatureSelectionMixture stopped after {int(self.max_iter)} sweeps while the bound still rose; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _best_start(self, table: Table, beliefs: Beliefs, given: Floats | None) -> Outcome:
        """The start that ends with the highest bound: side by side where a sweep is too short to be shared."""
        seed = seed_of(self.random_state)
        starts = range(1 if given is not None else int(self.n_init))
        small = table.X.size * beliefs.K <= _SIDE_BY_SIDE * SMALL_WORK
        side = threads_for(table.n_threads, table.X.size * beliefs.K * len(starts)) if small and len(starts) > 1 else 1
        plan = Plan(int(self.max_iter), float(self.tol), bool(self.merge), Event())

        def climb(start: int) -> Outcome:
            ascent = (FullAscent if beliefs.full else Ascent)(table, beliefs, plan, 1 if side > 1 else table.threads(beliefs.K))
            if given is not None:
                ascent.start_from(given)
            else:
                ascent.start_by_kmeans(seed, start, LLOYD if self.init == "kmeans" else 1)

            def told(n_iter: int, bound: float) -> None:
                if self.verbose > 1:
                    print(f"start {start}, sweep {n_iter}: bound {bound:.6f}, {int((ascent.mixture.size > 0).sum())} components")

            outcome = ascent.run(told)
            if self.verbose > 0:
                clusters = len(np.unique(outcome.label))
                print(f"start {start}: {clusters} clusters after {outcome.n_iter} sweeps, bound {outcome.bound:.6f}")
            return outcome

        # products of covariances by one BLAS thread: they are small, and their bits then do not depend on how many there are
        with threadpool_limits(1, "blas") if beliefs.full else nullcontext():
            return max(map_side_by_side(climb, starts, side, plan.stop), key=lambda outcome: outcome.bound)

    def _set_state(self, outcome: Outcome) -> None:
        units, found = outcome.ascent.units, number_by_appearance(outcome.label)
        posterior = self._posterior = outcome.ascent.posterior(found)
        self.labels_, self.n_clusters_ = outcome.label, len(found)
        self.cluster_sizes_ = np.bincount(self.labels_, minlength=len(found)).astype(np.float64)
        self.weights_ = posterior.weights
        self.feature_probabilities_ = self._wide(posterior.p)
        self.feature_mask_ = self.feature_probabilities_ > 0.5
        self.feature_gains_ = self._wide(posterior.gains)
        means, variances = posterior.moments()
        self.means_, self.variances_ = self._wide(means, units.mean), self._wide(variances, units.variance)
        if isinstance(posterior, FullPosterior):
            self.covariances_ = posterior.covariances()
        elif hasattr(self, "covariances_"):
            del self.covariances_
        self.scale_ = self._wide(units.scale[None])[0]
        self.feature_fraction_ = outcome.fraction
        self.elbo_, self.elbo_path_ = outcome.bound, outcome.path
        self.objective_, self.objective_path_ = -self.elbo_, -self.elbo_path_
        self.n_iter_, self.converged_ = outcome.n_iter, outcome.converged

    def _wide(self, values: Floats, rest: Any = 0.0) -> Floats:
        """(K, columns of the model) values in the columns of the input."""
        out = np.empty((len(values), self.n_features_in_))
        out[:] = rest
        out[:, self._posterior.units.column] = values
        return out

    # ---- rows ----

    def predict(self, X: ArrayLike) -> Labels:
        """The most probable cluster of every row.

        Parameters
        ----------
        X : array or data frame (n, D)

        Returns
        -------
        ndarray (n,) of int32
        """
        rows = self._new_rows(X)
        return self._posterior.labels(rows, effective_n_threads(self.n_threads))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The probabilities of the clusters, given the fitted q: E ln pi and E ln p(x).

        Parameters
        ----------
        X : array or data frame (n, D)

        Returns
        -------
        ndarray (n, K) of float64
            Rows sum to 1.
        """
        rows = self._new_rows(X)
        return self._posterior.proba(rows, effective_n_threads(self.n_threads))

    def score_samples(self, X: ArrayLike) -> Floats:
        """ln of the predictive density of every row (Student's t, negative binomial), in the units of the table.

        Parameters
        ----------
        X : array or data frame (n, D)
            Missing cells are left out. Columns without variance in `fit` count nothing. Counts: given the totals of the rows.

        Returns
        -------
        ndarray (n,) of float64
        """
        rows = self._new_rows(X)
        return self._posterior.log_density(rows)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Mean of `score_samples`.

        Parameters
        ----------
        X : array or data frame (n, D)
        y : ignored

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Floats, Labels]:
        """New rows from the predictive distribution.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
            None: the model's.

        Returns
        -------
        ndarray (n_samples, D) of float64
            Counts: of rows of mean exposure. Columns without variance have the value they had.
        ndarray (n_samples,) of int32
            Their clusters.
        """
        check_is_fitted(self)
        n = int(check_number("n_samples", n_samples, least=1, whole=True))
        rng = check_random_state(self.random_state if random_state is None else random_state)
        cells, labels = self._posterior.draw(n, rng)
        units = self._posterior.units
        return self._wide(cells / units.scale + units.centre, units.mean), labels

    def summary(self) -> Any:
        """The clusters in words: one row per cluster and feature it selects, the largest gain first.

        Returns
        -------
        pandas.DataFrame
            ``cluster``, ``rows``, ``share``, ``feature``, ``gain`` (nats), ``probability``, and typical values in the cluster and in the
            whole table.
        """
        check_is_fitted(self)
        return posterior_summary(self)

    # ---- input and parameters ----

    def _table(self, X: ArrayLike) -> Table:
        """The rows in the units of their columns; says which columns cannot be used."""
        rows = self._read(X, reset=True)
        n_threads = effective_n_threads(self.n_threads)
        units = Units.of(rows, self.component == "poisson", self.scale, n_threads)
        if len(units.column) < rows.shape[1]:
            constant = np.delete(np.arange(rows.shape[1]), units.column)
            warnings.warn(
                f"Columns without variance are kept but never selected: {self._named(constant)}.", UserWarning, stacklevel=3
            )
        return Table(rows, units, n_threads)

    def _new_rows(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        rows = self._read(X, reset=False)
        return self._posterior.units.within(rows)

    def _read(self, X: ArrayLike, reset: bool) -> NDArray[Any]:
        """The rows as a contiguous array, float32 where they are; raise where they cannot be what the model is of."""
        rows: NDArray[Any] = validate_data(
            self,
            X,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
            reset=reset,
        )
        if self.covariance == "full" and np.isnan(rows).any():
            raise ValueError(
                'covariance="full" takes no missing cells, got NaN: use covariance="diagonal", which marginalises them, or fill them first.'
            )
        if self.component == "poisson":
            bad = np.flatnonzero(np.any([not_counts(rows[some]).any(axis=0) for some in chunks(len(rows))], axis=0))
            if len(bad):
                first = rows[:, bad[0]]
                raise ValueError(
                    f'component="poisson" needs counts, whole numbers >= 0; not so in {self._named(bad)} (the first holds '
                    f'{first[not_counts(first)][0]:g}). Leave such columns out, or use component="gaussian".'
                )
        return rows

    def _named(self, columns: NDArray[Any]) -> str:
        """Columns by name, where they have one, the first few."""
        names = getattr(self, "feature_names_in_", None)
        words = [repr(str(names[d])) if names is not None else str(d) for d in columns[:_NAMED]]
        more = len(columns) - len(words)
        return ("column " if len(columns) == 1 else "columns ") + ", ".join(words) + (f" and {more} more" if more else "")

    def _given_responsibilities(self, n: int, K: int) -> Floats | None:
        """Responsibilities given as `init`, with columns of zeros up to K."""
        if isinstance(self.init, str):
            check_choice("init", self.init, INITS, "or responsibilities (n, K)")
            return None
        given = np.asarray(self.init)
        if given.dtype.kind not in "fiub" or given.ndim != 2 or len(given) != n or not 1 <= given.shape[1] <= K:
            raise ValueError(
                f"init must be responsibilities, one row for each of the {n} rows and at most n_components = {K} columns, got shape "
                f"{given.shape} of {given.dtype}."
            )
        given = given.astype(np.float64)
        if not np.isfinite(given).all() or given.min() < 0 or not np.allclose(given.sum(axis=1), 1.0, atol=1e-6):
            raise ValueError("init must be responsibilities: finite, >= 0, and 1 in the sum of every row.")
        full = np.zeros((n, K))
        full[:, : given.shape[1]] = given
        return full

    def _beliefs(self) -> Beliefs:
        """The checked parameters."""
        K = int(check_number("n_components", self.n_components, least=1, whole=True))
        check_choice("selection", self.selection, tuple(SELECTIONS))
        check_choice("component", self.component, COMPONENTS)
        check_choice("covariance", self.covariance, COVARIANCES)
        check_choice("noise", self.noise, NOISES)
        check_choice("scale", self.scale, SCALES)
        check_number("concentration", self.concentration, above=0)
        check_number("n_init", self.n_init, least=1, whole=True)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("tol", self.tol, least=0)
        check_number("verbose", self.verbose, least=0, whole=True)
        for name in ("learn_fraction", "merge"):
            check_flag(name, getattr(self, name))
        if self.component == "poisson" and self.covariance == "full":
            raise ValueError('covariance="full" is of Gaussian components; counts have none: leave covariance="diagonal".')
        variance = SELECTIONS[self.selection] if self.feature_variance is None else self.feature_variance
        check_number("feature_variance", variance, above=0, below=0.25)
        fraction = check_number("feature_fraction", self.feature_fraction, above=0, below=1)
        low, high = interval(variance)
        if not low < fraction < high:
            raise ValueError(
                f"feature_fraction must lie between {low:.6g} and {high:.6g} where feature_variance is {variance:g} (a share m with "
                f"variance rho needs m (1 - m) > rho), got {fraction!r}. Lower feature_variance or move feature_fraction towards 0.5."
            )
        if self.learn_fraction and (1.0 + KAPPA) * variance >= 0.25:
            raise ValueError(
                f"learn_fraction needs feature_variance < {0.25 / (1.0 + KAPPA):.4g}, so that there is room to move, got {variance!r}."
            )
        return Beliefs(
            K,
            counts=self.component == "poisson",
            full=self.covariance == "full",
            own_noise=self.noise == "feature",
            tied=self.selection == "shared",
            fraction=fraction,
            variance=float(variance),
            learn=bool(self.learn_fraction),
            concentration=float(self.concentration),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.covariance != "full"
        tags.input_tags.positive_only = self.component == "poisson"
        return tags


def not_counts(cells: NDArray[Any]) -> NDArray[np.bool_]:
    """Which cells are neither whole numbers >= 0 nor missing."""
    return np.asarray((cells < 0) | ((cells != np.floor(cells)) & ~np.isnan(cells)))
