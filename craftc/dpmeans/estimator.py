"""DP-means: k-means that finds the number of clusters (MAD-Bayes)."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from craftc._common.labels import compact, number_by_appearance
from craftc._common.points import Points
from craftc._common.random import seed_of, spread, uniform
from craftc._common.threads import effective_n_threads, threads_for
from craftc._common.typing import Floats, Labels
from craftc._common.validation import check_choice, check_flag, check_labels, check_number, check_weight
from craftc._kernels import dpmeans as _kernel
from craftc.dpmeans import gaussian
from craftc.dpmeans.descent import Descent, Outcome, nearest
from craftc.dpmeans.penalty import MOST_CHOSEN, choose_penalty, farthest_first

MODES = ("serial", "delayed", "collapsed")
COVARIANCES = ("spherical", "full", "full-sized")
INITS = ("auto", "single", "random", "farthest")
_MANY = 100  # clusters that may be a sign of shattering
_START_CLUSTERS = 8  # of a random or farthest start where nothing says how many
_CHOICE_ROWS = 1 << 14  # a larger table chooses lambda^2 by fits on so many rows
_MARGIN = 1.1
_NO_CAP = np.iinfo(np.int32).max
_LABEL_DRAW, _CHOICE_DRAW = 22, 23  # first keys of the random streams


class DPMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means that finds the number of clusters: a row further than lambda from every centre opens a new one.

    Minimises ``J = sum_n |x_n - mu_{z_n}|^2 + (K - 1) lambda^2`` over labels, means and K. Columns are taken as they are: scale them
    first if their units differ; for categories or missing cells use :class:`CRAFT`.

    Parameters
    ----------
    cluster_penalty : float or "auto", default="auto"
        lambda^2, in squared units of the table, 0 to inf. A row is compared by its SQUARED distance. "auto": the value along the
        farthest-first path (one traversal gives a lambda^2 for every K) whose partition is told in the fewest nats by spherical
        clusters of equal variance with their labels (BIC of the classification likelihood); one cluster competes, and no more than
        128 are chosen. Tables above 16 384 rows are judged by a sample of so many.
    n_clusters : int, optional
        Ask the farthest-first heuristic for a lambda^2 that gives about so many clusters, in place of a `cluster_penalty`.
    max_clusters : int, optional
        No cluster opens once there are so many (Eq. 12).
    mode : {"serial", "delayed", "collapsed"}, default="serial"
        "serial": row by row, a far row opens a cluster at once (the paper). "delayed": one new cluster per sweep, at the furthest
        row; slower, but does not shatter clusters where D < lambda^2 / variance < 2 D. "collapsed": each row in turn goes where J
        is smallest, its own weight in the means accounted for (Eq. 8).
    polish : bool, default=False
        Collapsed moves at the end; J can only fall.
    covariance : {"spherical", "full", "full-sized"} or ndarray (D, D) or (K, D, D), default="spherical"
        "full": a covariance for every cluster (Appendix E), fitted from the spherical labels. A local method: its global minimum is
        usually degenerate (clusters of a few rows), K is that of the start, and lambda^2 no longer moves the labels.
        "full-sized" counts log|Sigma_k| once per row (classification EM; not in the paper), which is well posed. An array: known
        covariances.
    init : {"auto", "single", "random", "farthest"} or ndarray (n,), default="single"
        Start partition: all rows in one cluster ("auto" means that too), random labels, the nearest of farthest-first seeds, or labels.
        Random and farthest starts have n_clusters, else max_clusters, else 8 clusters.
    n_init : int, default=1
        Starts; the lowest J is kept. The first visits the rows as they stand, the others in random orders.
    max_iter : int, default=300
        Sweeps at most (the polish not counted).
    random_state : int, RandomState or None, default=None
        Seed of orders and random starts. The same seed gives the same bits on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: a line per start; 2: a line per sweep.
    covariance_prior : float, optional
        phi of Appendix E, squared units: without it a cluster of at most D rows has covariance zero and J falls without end.
        None: 0.001 of the mean variance of the columns.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Cluster of every row, numbered by first appearance (after `partial_fit`: rows of the last batch, numbered as the centres).
    n_clusters_ : int
        Number of clusters found, K.
    cluster_centers_ : ndarray (K, D) of float64
        Means.
    cluster_sizes_ : ndarray (K,) of float64
        Weights of the clusters.
    cluster_penalty_ : float
        lambda^2 in use.
    objective_ : float
        J, worked out from the rows of the returned partition (full covariances: the objective of Appendix E).
    objective_path_ : ndarray of float64
        J after every sweep.
    inertia_ : float
        Sum of squared distances to the own centre.
    covariances_ : ndarray (K, D, D)
        With full covariances only.
    n_iter_ : int
        Sweeps of the best start, the polish included.
    converged_ : bool
        Whether its last sweep moved nothing.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where the input has column names.

    References
    ----------
    T. Broderick, B. Kulis, M. I. Jordan: MAD-Bayes: MAP-based Asymptotic Derivations from Bayes. ICML 2013.
    B. Kulis, M. I. Jordan: Revisiting k-means: New Algorithms via Bayesian Nonparametrics. ICML 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import DPMeans
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    >>> model = DPMeans(cluster_penalty=1.0).fit(X)
    >>> model.labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    >>> model.predict([[0.15], [20.0]], open_cluster=True)
    array([ 0, -1], dtype=int32)
    """

    def __init__(
        self,
        cluster_penalty: float | str = "auto",
        *,
        n_clusters: int | None = None,
        max_clusters: int | None = None,
        mode: str = "serial",
        polish: bool = False,
        covariance: str | NDArray[np.float64] = "spherical",
        init: str | ArrayLike = "single",
        n_init: int = 1,
        max_iter: int = 300,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        covariance_prior: float | None = None,
    ) -> None:
        self.cluster_penalty = cluster_penalty
        self.n_clusters = n_clusters
        self.max_clusters = max_clusters
        self.mode = mode
        self.polish = polish
        self.covariance = covariance
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.covariance_prior = covariance_prior

    n_clusters_: int
    labels_: Labels
    cluster_centers_: Floats
    cluster_sizes_: Floats
    covariances_: Floats
    objective_path_: Floats
    n_iter_: int

    # ---- fitting ----

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> DPMeans:
        """Find the clusters.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers
            float32 stays float32; missing cells and infinities are refused.
        y : ignored
        sample_weight : array (n,), optional
            Finite, >= 0. Weight 2 is the row twice; a row of weight below 1 opens a cluster only where its weight times the
            squared distance exceeds lambda^2.

        Returns
        -------
        DPMeans
            Itself.

        Raises
        ------
        ValueError
            A parameter or the input cannot be used; the sentence says why.
        """
        self._check_parameters()
        table = self._read(X, reset=True)
        weight = check_weight(sample_weight, len(table))
        points = Points(table, weight, effective_n_threads(self.n_threads))
        points.check_width()
        seed = seed_of(self.random_state)
        given = self._given_labels(len(table))
        cap = _NO_CAP if self.max_clusters is None else int(self.max_clusters)
        penalty, chosen = self._penalty(points, cap, seed)
        best: Outcome | None = None
        for start in range(int(self.n_init) if given is None else 1):
            labels = given if given is not None else chosen if chosen is not None else self._start_labels(points, seed, start)
            outcome = self._descend(points, penalty, cap, labels, points.order(seed, start), start)
            if best is None or outcome.objective < best.objective - 1e-12 * points.scatter:
                best = outcome
        assert best is not None
        spherical = isinstance(self.covariance, str) and self.covariance == "spherical"
        local = None if spherical else self._descend_gaussian(table, weight, points, best, penalty)
        self.cluster_penalty_ = penalty
        self._set_state(best)
        if not best.converged:
            warnings.warn(
                f"DPMeans stopped after {int(self.max_iter)} sweeps while rows still moved; raise max_iter for the last of the way.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if penalty > 0 and self.n_clusters_ > max(_MANY, len(table) / 10):
            warnings.warn(
                f"DPMeans opened {self.n_clusters_} clusters for {len(table)} rows: lambda^2 = {penalty:.4g} is of the size of the "
                "distances inside clusters. Try a larger cluster_penalty (penalty_path), or mode='delayed' or 'collapsed'.",
                UserWarning,
                stacklevel=2,
            )
        if local is not None:
            self._set_gaussian_state(points, *local)
        elif hasattr(self, "covariances_"):
            del self.covariances_
        return self

    @available_if(lambda self: isinstance(self.covariance, str) and not self.covariance.startswith("full"))  # type: ignore[untyped-decorator]
    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> DPMeans:
        """Go on with more rows: each to its nearest centre or, beyond lambda, to a new one; then the means follow.

        The first call is a `fit`. Later ones make one serial sweep over the new rows; a centre becomes the mean of all the rows
        it ever got. Spherical clusters only.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers
        y : ignored
        sample_weight : array (n,), optional

        Returns
        -------
        DPMeans
            Itself; `labels_` are those of the new rows, `objective_` and `inertia_` speak of them alone.
        """
        if not hasattr(self, "cluster_centers_"):
            return self.fit(X, sample_weight=sample_weight)
        if hasattr(self, "covariances_"):
            raise ValueError("partial_fit goes on with spherical clusters only; this model was fitted with covariances. Use fit.")
        self._check_parameters()
        table = self._read(X, reset=False)
        points = Points(table, check_weight(sample_weight, len(table)), effective_n_threads(self.n_threads))
        points.check_width()
        cap = _NO_CAP if self.max_clusters is None else int(self.max_clusters)
        descent = Descent(points, self.cluster_penalty_, cap, np.zeros(len(table), np.int32), points.order(0, 0))
        descent.go_on_from(self.cluster_centers_)
        descent.serial()
        batch = descent.sums.counts[: descent.K] * points.unit
        before = np.zeros(descent.K)
        before[: self.n_clusters_] = self.cluster_sizes_
        self.cluster_sizes_ = before + batch
        share = np.divide(batch, self.cluster_sizes_, out=np.zeros(descent.K), where=self.cluster_sizes_ > 0)[:, None]
        centers = descent.mu.copy()
        fed = batch > 0
        centers[fed] += share[fed] * (points.means(descent.sums, descent.K)[fed] - centers[fed])
        self.cluster_centers_, self.n_clusters_ = centers, descent.K
        self.labels_ = descent.labels
        self.inertia_ = points.inertia(self.labels_, centers)
        self.objective_ = self.inertia_ + descent.price(descent.K)
        self.objective_path_ = np.append(self.objective_path_, self.objective_)
        self.n_iter_ += 1
        return self

    def penalty_path(self, X: ArrayLike, n_clusters: int | None = None, sample_weight: ArrayLike | None = None) -> Floats:
        """lambda^2 for every number of clusters, from one farthest-first traversal.

        Parameters
        ----------
        X : array (n, D)
        n_clusters : int, optional
            Length of the path; None: 100 or the number of rows.
        sample_weight : array (n,), optional
            Rows of weight 0 are not visited.

        Returns
        -------
        ndarray (n_clusters,)
            Entry k - 1 is the value that asks for k clusters; it never rises with k. Serial DP-means comes near that number.

        Examples
        --------
        >>> from craftc import DPMeans
        >>> DPMeans().penalty_path([[0.0], [1.0], [10.0]], 3).round(2)
        array([40.11, 13.44,  1.  ])
        """
        table = self._read(X)
        most = min(len(table), 100) if n_clusters is None else int(check_number("n_clusters", n_clusters, least=1, whole=True))
        points = Points(table, check_weight(sample_weight, len(table)), effective_n_threads(self.n_threads))
        return farthest_first(points, most)[1]

    def _descend(self, points: Points, penalty: float, cap: int, labels: Labels, order: NDArray[np.int32], start: int) -> Outcome:
        """One start to its end."""
        descent = Descent(points, penalty, cap, labels, order)
        path: list[float] = []

        def told(n_iter: int, objective: float) -> None:
            if self.verbose > 1:
                print(f"start {start}, sweep {n_iter}: {descent.K} clusters, J {objective:.6g}")

        n_iter, converged = descent.run(descent.sweep(self.mode), path, int(self.max_iter), told)
        if self.polish:
            n_iter += descent.polish(path, told)
        outcome = descent.outcome(path, n_iter, converged)
        if self.verbose > 0:
            print(f"start {start}: {len(outcome.sizes)} clusters after {n_iter} sweeps, J {outcome.objective:.6g}")
        return outcome

    def _penalty(self, points: Points, cap: int, seed: int) -> tuple[float, Labels | None]:
        """lambda^2: given, asked of the heuristic, or chosen; for a large table the partition that was chosen with it."""
        if not isinstance(self.cluster_penalty, str):
            return float(self.cluster_penalty), None
        if self.n_clusters is not None:
            return float(farthest_first(points, int(self.n_clusters))[1][-1]), None
        rows = points
        weighty = np.flatnonzero(points.weight) if len(points.weight) else np.arange(len(points))
        if len(weighty) > _CHOICE_ROWS:
            rows = points.of_rows(weighty[spread(len(weighty), _CHOICE_ROWS, seed, _CHOICE_DRAW)])

        def fit(penalty: float) -> Outcome:
            descent = Descent(rows, penalty, min(cap, MOST_CHOSEN + 1), np.zeros(len(rows), np.int32), rows.order(seed, 0))
            path: list[float] = []
            n_iter, converged = descent.run(descent.sweep(self.mode), path, int(self.max_iter), lambda *_: None)
            return descent.outcome(path, n_iter, converged)

        penalty, best = choose_penalty(rows, fit, cap)
        if rows is points:
            return penalty, None
        # more rows have stray ones further out, which are not to open clusters of their own, nor when the means move a little
        labels, squared = nearest(points.X, best.centers, points.n_threads)
        return max(penalty, _MARGIN * float(squared.max())), compact(labels)

    def _start_labels(self, points: Points, seed: int, start: int) -> Labels:
        """The partition a start begins with."""
        n = len(points)
        if self.init in ("auto", "single"):
            return np.zeros(n, np.int32)
        K = min(int(self.n_clusters or self.max_clusters or _START_CLUSTERS), n)
        if self.init == "random":
            return compact((uniform(seed, _LABEL_DRAW, start, np.arange(n)) * K).astype(np.int32))
        rows, _ = farthest_first(points, K)
        return compact(nearest(points.X, points.X[np.unique(rows)].astype(np.float64), points.n_threads)[0])

    def _given_labels(self, n: int) -> Labels | None:
        """Labels given as `init`, 0..K-1."""
        if isinstance(self.init, str):
            check_choice("init", self.init, INITS, "or labels, one per row")
            return None
        return check_labels(self.init, n)

    def _descend_gaussian(
        self, X: NDArray[Any], weight: Floats | None, points: Points, start: Outcome, penalty: float
    ) -> tuple[gaussian.Gaussian, gaussian.Fit]:
        """Appendix E from the spherical labels."""
        D, K, known = X.shape[1], len(start.sizes), None
        if not isinstance(self.covariance, str):
            known = np.asarray(self.covariance, np.float64)
            known = np.broadcast_to(known, (K, D, D)) if known.shape == (D, D) else known
            if known.shape != (K, D, D) or not np.isfinite(known).all() or not np.allclose(known, known.swapaxes(1, 2)):
                raise ValueError(
                    f"covariance must be finite and symmetric, of shape ({D}, {D}) or (K, {D}, {D}) with K = {K} as the start found, "
                    f"got shape {known.shape}. Give labels as init to fix K."
                )
        if not 0 < penalty < np.inf:
            raise ValueError(f"Full covariances need 0 < cluster_penalty < inf (Sigma = scatter / lambda^2), got {penalty}.")
        variance = points.scatter / (points.total * D)
        phi = 1e-3 * variance if self.covariance_prior is None else float(self.covariance_prior)
        model = gaussian.Gaussian(penalty, phi, known is None and self.covariance == "full-sized", known)
        return model, gaussian.descend(X, weight, start.labels.copy(), model, int(self.max_iter))

    def _set_gaussian_state(self, points: Points, model: gaussian.Gaussian, fit: gaussian.Fit) -> None:
        alive = number_by_appearance(fit.labels)
        self._gaussian, self._shapes = model, gaussian.select(fit.shapes, alive)
        if model.known is not None:
            model.known = model.known[alive]
        self.labels_, self.n_clusters_ = fit.labels, len(alive)
        self.cluster_centers_, self.covariances_ = self._shapes.means, self._shapes.covariances
        self.cluster_sizes_, self.inertia_ = self._shapes.sizes, points.inertia(self.labels_, self._shapes.means)
        self.objective_, self.objective_path_ = fit.objective, np.array(fit.path)
        self.n_iter_, self.converged_ = fit.n_iter, fit.converged

    def _set_state(self, outcome: Outcome) -> None:
        self.labels_, self.cluster_centers_, self.cluster_sizes_ = outcome.labels, outcome.centers, outcome.sizes
        self.n_clusters_ = len(outcome.sizes)
        self.inertia_, self.objective_ = outcome.inertia, outcome.objective
        self.objective_path_ = np.array(outcome.path)
        self.n_iter_, self.converged_ = outcome.n_iter, outcome.converged

    # ---- new rows ----

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def predict(self, X: ArrayLike, open_cluster: bool = False) -> Labels:
        """The nearest cluster of every row.

        Parameters
        ----------
        X : array or data frame (n, D)
        open_cluster : bool, default=False
            Mark rows further than lambda from every centre, which would open a cluster, with -1 (spherical clusters only).

        Returns
        -------
        ndarray (n,) of int32
        """
        check_is_fitted(self)
        table = self._read(X, reset=False)
        if hasattr(self, "covariances_"):
            if open_cluster:
                raise ValueError("open_cluster=True compares squared distances with lambda^2; full covariances have no such rule.")
            labels: Labels = gaussian.costs(table, self._shapes, self._gaussian).argmin(axis=1).astype(np.int32)
            return labels
        labels, squared = nearest(table, self.cluster_centers_, effective_n_threads(self.n_threads))
        if open_cluster:
            labels[squared > self.cluster_penalty_] = -1
        return labels

    def transform(self, X: ArrayLike) -> Floats:
        """Distances to the centres (full covariances: Mahalanobis distances).

        Parameters
        ----------
        X : array or data frame (n, D)

        Returns
        -------
        ndarray (n, K) of float64
        """
        check_is_fitted(self)
        table = self._read(X, reset=False)
        out = np.empty((len(table), self.n_clusters_))
        if hasattr(self, "covariances_"):
            for k in range(self.n_clusters_):
                out[:, k] = gaussian.mahalanobis(table, self._shapes, k)
        else:
            threads = threads_for(effective_n_threads(self.n_threads), table.size * self.n_clusters_)
            _kernel.distances(table, self.cluster_centers_, out, threads)
        return np.asarray(np.sqrt(out, out=out))

    # ---- input and parameters ----

    def _read(self, X: ArrayLike, reset: bool | None = None) -> NDArray[Any]:
        """The rows as a contiguous array, float32 where they are; reset: whether the model is to remember the columns (None: no matter)."""
        if reset is None:
            return np.asarray(check_array(X, dtype=[np.float64, np.float32], order="C"))
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=reset))

    def _check_parameters(self) -> None:
        if isinstance(self.cluster_penalty, str):
            check_choice("cluster_penalty", self.cluster_penalty, ("auto",), "or a number >= 0: lambda^2")
        elif not (isinstance(self.cluster_penalty, numbers.Real) and self.cluster_penalty == np.inf):
            check_number("cluster_penalty", self.cluster_penalty, least=0)
        if self.n_clusters is not None:
            check_number("n_clusters", self.n_clusters, least=1, whole=True)
            if not isinstance(self.cluster_penalty, str):
                raise ValueError(
                    f"Both cluster_penalty={self.cluster_penalty!r} and n_clusters={self.n_clusters!r} are given, and each says how "
                    "many clusters there should be: leave one out (max_clusters sets a bound beside a penalty)."
                )
        if self.max_clusters is not None:
            check_number("max_clusters", self.max_clusters, least=1, whole=True)
        check_choice("mode", self.mode, MODES)
        if isinstance(self.covariance, str):
            check_choice("covariance", self.covariance, COVARIANCES, "or an array of known covariances")
        if self.covariance_prior is not None:
            check_number("covariance_prior", self.covariance_prior, least=0)
        check_flag("polish", self.polish)
        check_number("verbose", self.verbose, least=0, whole=True)
        check_number("n_init", self.n_init, least=1, whole=True)
        check_number("max_iter", self.max_iter, least=1, whole=True)
