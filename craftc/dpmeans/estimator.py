"""DP-means: k-means that finds the number of clusters (MAD-Bayes)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from craftc._common.cluster_moments import ExactMoments
from craftc._common.dense_data import DenseData
from craftc._common.estimator import all_or_nothing, column_names, set_convergence
from craftc._common.labels import number_by_appearance
from craftc._common.messages import numbers_of, shown, warn_user
from craftc._common.random import seed_of
from craftc._common.ranges import ROWS_COMPARED, warn_of_unscaled_columns
from craftc._common.threads import effective_n_threads
from craftc._common.typing import DaskClient, Floats, Labels, RandomStateInput, TableInput, WeightInput
from craftc._common.validation import (
    Choice,
    Constraint,
    Flag,
    Number,
    check_choice,
    check_labels,
    check_number,
    check_parameters,
    check_weight,
)
from craftc.describe.frames import MomentsSummary
from craftc.distributed.collections import WithoutCollections
from craftc.distributed.open_input import FitInput, FitTable, open_input, set_input_attributes
from craftc.dpmeans import gaussian
from craftc.dpmeans.descent import SphericalDescent, SphericalFit
from craftc.dpmeans.new_rows import DPMeansPrediction, whitened
from craftc.dpmeans.penalty import farthest_first, price_path
from craftc.dpmeans.rows.local import DPMeansLocalRows
from craftc.dpmeans.seeding import k_means_labels
from craftc.dpmeans.starts import INITS, NO_CAP, Starts, check_partitioned
from craftc.table.estimator_input import DenseInput
from craftc.table.frames import open_source
from craftc.table.numbers import finite_ranges, read_numbers, refuse_categories

MODES = ("auto", "serial", "delayed", "collapsed", "lowest")
COVARIANCES = ("spherical", "full", "full-sized")
_LONGEST_PATH = 10**6  # values of `penalty_path`
_SMALLEST_PENALTY = 1e-100  # share of the variance below which covariances, divided by lambda^2, overflow


class DPMeans(WithoutCollections, MomentsSummary, DenseInput, DPMeansPrediction, ClusterMixin, BaseEstimator):
    """k-means that finds the number of clusters.

    Minimises ``J = sum_n |x_n - mu_{z_n}|^2 + (K - 1) lambda^2`` over labels, means and K. ``DPMeans()``
    chooses K from the table, and ``DPMeans(n_clusters=K)`` finds K clusters, both by a search that cuts and
    merges clusters. ``DPMeans(lambda2)`` is the algorithm of the paper: a row further than lambda from every
    centre opens a cluster. Columns are not scaled: scale them first if their units differ. For categories or
    missing values use :class:`CRAFT`. docs/dp-means.md explains modes, prices and covariances.

    Parameters
    ----------
    cluster_penalty : float or "auto", default="auto"
        lambda^2, in squared units of the table, 0 to inf. In the paper's algorithm it is the square of a
        radius; in a search it is the price of a cluster in J. "auto": the K whose partition has the smallest
        description length (BIC of spherical normal clusters, in the dimensions of their scatter), up to 128,
        and up to 1024 where they are clear; in the modes of the paper a value of the farthest-first path.
    n_clusters : int, optional
        Number of clusters; excludes a `cluster_penalty`. In the modes of the paper it gives lambda^2 by the
        farthest-first heuristic.
    max_clusters : int, optional
        Maximal number of clusters: where more would be found, the best partition into this number. In the
        modes of the paper no further cluster opens (Eq. 12).
    mode : {"auto", "serial", "delayed", "collapsed", "lowest"}, default="auto"
        "auto": the search, unless a number as `cluster_penalty` without `max_clusters`, or a start as `init`,
        asks for the paper's algorithm; then serial or delayed sweeps, as suits lambda^2. Tables above 16 384
        rows are searched in a sample. "serial": a row beyond lambda opens a cluster immediately (the paper).
        "delayed": one new cluster per sweep, at the furthest row. "collapsed": each row moves to the cluster
        where J is smallest, with the change of the means included (Eq. 8). "lowest": the search for the
        lowest J, on all rows; the time grows with K.
    polish : bool or "auto", default="auto"
        Collapsed moves at the end; they never raise J. "auto": in the mode "lowest" alone.
    covariance : {"spherical", "full", "full-sized"} or ndarray (D, D) or (K, D, D), default="spherical"
        "full": a covariance for every cluster (Appendix E), fitted by a local method; K is that of the start
        unless `covariance_price` is given. "full-sized" counts log|Sigma_k| once per row (classification EM;
        not in the paper), which is well posed. (D, D): one known covariance, by which distances are
        Mahalanobis distances. (K, D, D): known covariances of clusters whose number is that of the start.
    init : {"auto", "single", "random-row", "random", "farthest"} or ndarray (n,), default="auto"
        Start: one cluster, whose centre is the mean ("single") or a random row (the DP-means(R) of the CRAFT
        paper); `n_clusters`, else `max_clusters`, else 8 clusters of random labels or farthest-first seeds;
        or labels. "auto": "single"; full covariances start from labels of k-means.
    n_init : int, default=1
        Number of starts; the one with the lowest J is kept. The first visits the rows in order, the others in
        random orders. A search has one start.
    max_iter : int, default=300
        Maximal number of sweeps, without the polish and sweeps over a sample.
    random_state : int, Generator, RandomState or None, default=None
        Seed of orders and random starts. The same seed gives bit-identical results on any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: print a line per start; 2: also a line per sweep.
    covariance_prior : float, optional
        phi of Appendix E, in squared units, without which J is unbounded below. None: 0.001 of the mean
        variance of the columns.
    covariance_price : float, optional
        Appendix E with K varying: clusters are removed and split as long as the objective +
        ``covariance_price * (K - 1)`` falls, K at most `max_clusters` (else n / (D + 1), and 128: clusters
        have more rows than columns). None: K is that of the start.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Cluster of every row, numbered by first appearance (after `partial_fit`: of the last batch).
    n_clusters_ : int
        Number of clusters, K.
    cluster_centers_ : ndarray (K, D) of float64
        Means.
    cluster_sizes_ : ndarray (K,) of float64
        Sum of the weights of the rows of every cluster.
    cluster_penalty_ : float
        lambda^2 of the fit.
    radius_ : float
        Distance beyond which a new row opens a cluster: lambda of the paper's algorithm; after a search the
        largest distance of a row to its nearest centre.
    objective_ : float
        J of the partition, from exact sums of the rows (one known covariance: of squared Mahalanobis
        distances; full covariances: the objective of Appendix E).
    objective_path_ : ndarray of float64
        J after every sweep.
    inertia_ : float
        Weighted sum of squared distances of the rows to the mean of their cluster.
    covariances_ : ndarray (K, D, D)
        Sigma_k, only with a covariance per cluster. ``cluster_penalty_ * covariances_`` are the covariances
        of the rows of each cluster ("full": times their number), up to `covariance_prior`.
    n_iter_ : int
        Sweeps of the best start, the polish included.
    converged_ : bool
        Whether its last sweep moved no row or, in mode "auto" above 16 384 rows, J falls by less than 1e-4.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if the input has column names.

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

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "cluster_penalty": Choice(("auto",), "or a number >= 0: lambda^2", Number(least=0, infinite=True)),
        "n_clusters": Number(least=1, whole=True, optional=True),
        "max_clusters": Number(least=1, whole=True, optional=True),
        "mode": Choice(MODES),
        "covariance_prior": Number(least=0, optional=True),
        "covariance_price": Number(least=0, optional=True),
        "polish": Choice(("auto",), "or True or False", Flag()),
        "max_iter": Number(least=1, whole=True),
    }
    _of_fit = ("init", "random_state", "labels_", "objective_path_")

    def __init__(
        self,
        cluster_penalty: float | str = "auto",
        *,
        n_clusters: int | None = None,
        max_clusters: int | None = None,
        mode: str = "auto",
        polish: bool | str = "auto",
        covariance: str | NDArray[np.float64] = "spherical",
        init: str | ArrayLike = "auto",
        n_init: int = 1,
        max_iter: int = 300,
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        verbose: int = 0,
        covariance_prior: float | None = None,
        covariance_price: float | None = None,
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
        self.covariance_price = covariance_price

    n_clusters_: int
    labels_: Labels
    cluster_centers_: Floats
    cluster_sizes_: Floats
    covariances_: Floats
    objective_path_: Floats
    n_iter_: int
    _shape: tuple[Floats, Floats] | None  # factors of one known covariance

    # ---- fitting ----

    @all_or_nothing
    def fit(
        self,
        X: FitTable,
        y: object = None,
        sample_weight: WeightInput = None,
        *,
        client: DaskClient | None = None,
    ) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers, path, dataset, stream of record batches, or Dask collection
            float32 stays float32; missing values and infinities raise an error. Parquet or Arrow files are
            read into scratch files, or by the workers of `client`. The rows of a Dask data frame or array
            stay on the workers, as do those of such files, and `labels_` is a lazy collection then. The parts
            of a `craftc.distributed.Partitions` are not joined. The result is that of the table in memory to
            the last bit; for parts, the modes "serial" and "delayed" are defined, with spherical clusters.
        y : ignored
        sample_weight : array (n,), optional
            Finite, >= 0; weights that are not whole differ by a factor of at most 2^30. In the mode "serial",
            weight 2 gives the same bits as the row twice. "delayed", "collapsed" and `polish` move a row with
            its whole weight where they would move two rows one after the other, and may end in another
            partition. A row of weight below 1 opens a cluster only if its weight times the squared distance
            exceeds lambda^2. Not for collections.
        client : distributed.Client, optional
            The Dask cluster on which a collection lies, or whose workers read files; None: the current one
            for a collection, and files are read by this process.

        Returns
        -------
        DPMeans
            The estimator itself.

        Raises
        ------
        ValueError
            A parameter or the input is invalid.
        """
        self._check_parameters()
        n_threads, seed = effective_n_threads(self.n_threads), seed_of(self.random_state)
        with open_input(X, client) as source:
            if source.place == "partitions":
                self._fit_partitions(source, sample_weight, n_threads, seed)
                return self
        table = self._read_rows(X, reset=True, finite=False)
        ranges = finite_ranges(table, self, n_threads)
        weight = check_weight(sample_weight, len(table))
        shape = self._known_shape(table.shape[1])
        rows = table
        data = DenseData(whitened(table, shape), weight, n_threads, ranges if shape is None else None)
        data.check_ranges(column_names(self))
        if isinstance(self.covariance, str) and self.covariance == "spherical":
            warn_of_unscaled_columns(self, rows, data.columns())
        starts = Starts(self, DPMeansLocalRows(data), seed)
        penalty, best = starts.best(self._given_labels(len(table)))
        spherical = shape is not None or (isinstance(self.covariance, str) and self.covariance == "spherical")
        local = None if spherical else self._descend_gaussian(data, weight, best, penalty, seed)
        self._set_spherical_state(penalty, starts.limit, shape, best)
        if self.covariance_price is not None and spherical:
            warn_user(
                f"covariance_price={self.covariance_price!r} is ignored: it belongs to covariance='full' and "
                "'full-sized'; the price of other clusters is cluster_penalty."
            )
        moments = best.moments
        if local is not None:
            moments = self._set_gaussian_state(data, local)
        starts.warn_of(self.n_clusters_, self.converged_, penalty, len(table), self.inertia_)
        if shape is not None:
            moments = DenseData(rows, weight, data.n_threads).moments(self.labels_, self.n_clusters_)
        self._moments = moments.around(self.cluster_centers_)
        return self

    @property
    def radius_(self) -> float:
        """Distance beyond which a new row opens a cluster."""
        check_is_fitted(self)
        return math.sqrt(self._limit)

    @property
    def _not_always_finite(self) -> tuple[str, ...]:
        """With an infinite lambda^2, more than one cluster has an infinite price."""
        prices = "cluster_penalty_", "objective_", "objective_path_"
        return () if np.isfinite(self.cluster_penalty_) else prices

    def _fit_partitions(
        self, source: FitInput, sample_weight: WeightInput, n_threads: int, seed: int
    ) -> None:
        """Find the clusters of a collection; the labels have its form."""
        from craftc.distributed.partitioned_table import PartitionedTable
        from craftc.dpmeans.rows.partitioned import DPMeansPartitionedRows  # not needed for tables in memory

        check_partitioned(self, sample_weight)
        partitions = source.read([], "error", n_threads)
        assert isinstance(partitions, PartitionedTable)
        refuse_categories(partitions.schema, "DPMeans")
        rows = DPMeansPartitionedRows(partitions)
        rows.table.check_ranges(partitions.schema.columns)
        starts = Starts(self, rows, seed)
        penalty, best = starts.best()
        fit: SphericalFit[Any] = best
        fit.labels = rows.in_form_of_input(best)
        compared = rows.spread_rows(ROWS_COMPARED), rows.table.columns()
        set_input_attributes(self, source.X, partitions)
        warn_of_unscaled_columns(self, *compared)
        self._set_spherical_state(penalty, starts.limit, None, fit)
        starts.warn_of(self.n_clusters_, self.converged_, penalty, len(partitions), self.inertia_)
        self._moments = fit.moments.around(self.cluster_centers_)

    @available_if(  # type: ignore[untyped-decorator]
        lambda self: (
            not self.covariance.startswith("full")
            if isinstance(self.covariance, str)
            else np.ndim(self.covariance) == 2
        )
    )
    @all_or_nothing
    def partial_fit(self, X: TableInput, y: object = None, sample_weight: WeightInput = None) -> Self:
        """Update the clusters with more rows: one serial sweep over the new rows, then the means follow.

        The first call is a `fit`, whose rows set `radius_`, beyond which a later row opens a cluster. With
        `cluster_penalty` "auto" these rows should represent the later ones, with their spread and most of
        their clusters: a row farther out opens a cluster. `n_clusters` is the number in the first call only;
        later rows may open more, up to `max_clusters`. A centre is the mean of all rows it ever received. Not
        for a covariance per cluster.

        Parameters
        ----------
        X : array or data frame (n, D) of numbers
        y : ignored
        sample_weight : array (n,), optional

        Returns
        -------
        DPMeans
            The estimator itself; `labels_`, `objective_` and `inertia_` are those of the new rows.
        """
        if not hasattr(self, "cluster_centers_"):
            self.fit(X, sample_weight=sample_weight)
            if self.radius_ == 0 and isinstance(self.cluster_penalty, str) and self.max_clusters is None:
                warn_user(
                    f"partial_fit takes lambda^2 from the first rows, but each of these {len(self.labels_)} "
                    "equals the centre of its cluster: radius_ is 0, and every later row that equals no "
                    "centre opens a cluster. Pass more rows at first, a number as cluster_penalty, or "
                    "max_clusters."
                )
            return self
        if hasattr(self, "covariances_"):
            raise ValueError(
                "partial_fit updates spherical clusters only; this model was fitted with full covariances. "
                "Use fit."
            )
        self._check_parameters()
        given = self._read_rows(X, reset=False)
        table, weight = whitened(given, self._shape), check_weight(sample_weight, len(given))
        data = DenseData(table, weight, effective_n_threads(self.n_threads))
        data.check_ranges(column_names(self))
        cap = NO_CAP if self.max_clusters is None else int(self.max_clusters)
        descent = SphericalDescent(data, self._limit, cap, None, data.order(0, 0))
        rows = descent.rows
        rows.replace_centers(whitened(self.cluster_centers_, self._shape))
        descent.serial()
        batch = rows.sums.counts[: rows.K] * data.unit
        before = np.zeros(rows.K)
        before[: self.n_clusters_] = self.cluster_sizes_
        self.cluster_sizes_ = before + batch
        share = np.divide(batch, self.cluster_sizes_, out=np.zeros(rows.K), where=self.cluster_sizes_ > 0)[
            :, None
        ]
        centers = rows.mu.copy()
        changed = batch > 0
        centers[changed] += share[changed] * (data.means(rows.sums, rows.K)[changed] - centers[changed])
        self.cluster_centers_, self.n_clusters_ = _restored(centers, self._shape), rows.K
        self.labels_ = rows.labels
        moments = data.moments(self.labels_, rows.K)
        self.inertia_ = moments.inertia(centers)
        if self._shape is not None:
            moments = DenseData(given, weight, data.n_threads).moments(self.labels_, rows.K)
        self._moments = self._moments.joined(moments.around(moments.origin + moments.offsets))
        self._moments.means = self.cluster_centers_
        self.objective_ = self.inertia_ + ((rows.K - 1) * self.cluster_penalty_ if rows.K > 1 else 0.0)
        self.objective_path_ = np.append(self.objective_path_, self.objective_)
        self.n_iter_ += 1
        return self

    def penalty_path(
        self,
        X: TableInput,
        n_clusters: int | None = None,
        sample_weight: WeightInput = None,
        *,
        scale: str = "price",
    ) -> Floats:
        """lambda^2 for every number of clusters.

        Parameters
        ----------
        X : array (n, D)
        n_clusters : int, optional
            Length of the path; None: 100 or the number of rows.
        sample_weight : array (n,), optional
            Rows of weight 0 are left out.
        scale : {"price", "radius"}, default="price"
            "price": what the k-th cut of a search from one cluster lowers the sum of squared distances by, or
            what an earlier cut does if that is less. At higher prices this search does not cut k clusters
            further; ``mode="lowest"`` also merges and searches more thoroughly, and may find more clusters at
            a lower J. "radius": squared distances of a farthest-first traversal, at which the paper's
            algorithm finds about k clusters.

        Returns
        -------
        ndarray (n_clusters,)
            Entry k - 1 is the value for k clusters, non-increasing in k.

        Examples
        --------
        >>> from craftc import DPMeans
        >>> DPMeans().penalty_path([[0.0], [1.0], [10.0]], 3).round(2)
        array([60.17,  0.5 ,  0.  ])
        >>> DPMeans().penalty_path([[0.0], [1.0], [10.0]], 3, scale="radius").round(2)
        array([40.11, 13.44,  1.  ])
        """
        check_choice("scale", scale, ("price", "radius"))
        table = read_numbers(self, X, reset=None, dtype=[np.float64, np.float32])
        names = open_source(X).names
        table = whitened(table, self._known_shape(table.shape[1]))
        most = len(table) + 1  # all later values are 0, too
        wanted = check_number(
            "n_clusters",
            min(len(table), 100) if n_clusters is None else n_clusters,
            least=1,
            most=_LONGEST_PATH,
            whole=True,
        )
        data = DenseData(table, check_weight(sample_weight, len(table)), effective_n_threads(self.n_threads))
        data.check_ranges(names)
        K = min(int(wanted), most)
        path = (
            price_path(DPMeansLocalRows(data), K, seed_of(self.random_state))
            if scale == "price"
            else farthest_first(data, K)[1]
        )
        return np.concatenate([path, np.zeros(int(wanted) - len(path))])

    def _given_labels(self, n: int) -> Labels | None:
        """Labels given as `init`, 0..K-1."""
        if isinstance(self.init, str):
            check_choice("init", self.init, INITS, "or labels, one per row")
            return None
        return check_labels(self.init, n)

    def _known_shape(self, D: int) -> tuple[Floats, Floats] | None:
        """The factors of one known covariance, if it is given."""
        if isinstance(self.covariance, str):
            return None
        known = numbers_of("covariance", self.covariance, "a name or one or several matrices")
        return gaussian.known_shape(known, D) if known.ndim == 2 else None

    def _descend_gaussian(
        self, data: DenseData, weight: Floats | None, start: SphericalFit[Labels], penalty: float, seed: int
    ) -> gaussian.GaussianFit:
        """Appendix E from labels of k-means, or of the spherical fit unless `init` is "auto"."""
        D, labels, max_iter = data.X.shape[1], start.labels.copy(), int(self.max_iter)
        if 0 < penalty < _SMALLEST_PENALTY * data.scatter / data.total:
            raise ValueError(
                f"cluster_penalty={penalty!r} is less than {_SMALLEST_PENALTY:g} of the variance of the "
                "table; covariances are divided by it and overflow. Raise it."
            )
        most = int(self.max_clusters or max(1, min(len(data) // (D + 1), gaussian.MOST_VARIED)))
        varies = self.covariance_price is not None and isinstance(self.covariance, str)
        chosen = isinstance(self.init, str) and self.init == "auto"
        if isinstance(self.covariance, str) and (chosen or (varies and len(start.sizes) > most)):
            K = min(int(self.n_clusters or len(start.sizes)), most if varies else len(data))
            labels = k_means_labels(data, K, seed, max_iter)
        prior = (
            1e-3 * data.scatter / (data.total * D)
            if self.covariance_prior is None
            else float(self.covariance_prior)
        )
        model = gaussian.model_of(self.covariance, penalty, prior, int(labels.max()) + 1, D)
        fit = gaussian.descend(data.X, weight, labels, model, max_iter)
        if self.covariance_price is not None and varies:
            fit = gaussian.vary(data.X, weight, fit, float(self.covariance_price), most, max_iter)
            found = len(np.unique(fit.labels))
            if self.max_clusters is None and found == most > 1:
                lost = penalty * data.total
                above = f" above lambda^2 * rows, {lost:.3g}" if model.sized else ""
                warn_user(
                    f"covariance_price={self.covariance_price!r} pays for {found} clusters, the "
                    f"most for {len(data)} rows in {D} columns where max_clusters is None. It splits normal "
                    f"clusters: raise it{above}, or set max_clusters."
                )
        return fit

    def _set_gaussian_state(self, data: DenseData, fit: gaussian.GaussianFit) -> ExactMoments:
        alive, model = number_by_appearance(fit.labels), fit.model
        self._gaussian, self._shapes = model, gaussian.select(fit.shapes, alive)
        if model.known is not None:
            model.known = model.known[alive]
        self.labels_, self.n_clusters_ = fit.labels, len(alive)
        self.cluster_centers_, self.covariances_ = self._shapes.means, self._shapes.covariances
        moments = data.moments(self.labels_, self.n_clusters_)
        self.cluster_sizes_, self.inertia_ = self._shapes.sizes, moments.inertia(self._shapes.means)
        set_convergence(self, fit)
        D, rows = data.X.shape[1], np.bincount(fit.labels)
        few = rows[rows <= D]
        if model.known is None and not model.sized and len(few):
            warn_user(
                f"{len(few)} of {len(rows)} clusters have at most D = {D} rows "
                f"({', '.join(map(str, few[:10]))}): their covariances are singular up to covariance_prior. "
                "Give labels as init, fewer clusters, a larger covariance_prior, or covariance='full-sized'."
            )
        return moments

    def _set_spherical_state(
        self, penalty: float, limit: float, shape: tuple[Floats, Floats] | None, fit: SphericalFit[Any]
    ) -> None:
        self.cluster_penalty_, self._limit, self._shape, self.labels_ = penalty, limit, shape, fit.labels
        self.cluster_centers_, self.cluster_sizes_ = _restored(fit.centers, shape), fit.sizes
        self.n_clusters_, self.inertia_ = len(fit.sizes), fit.inertia
        set_convergence(self, fit)
        if hasattr(self, "covariances_"):
            del self.covariances_

    def _check_parameters(self) -> None:
        check_parameters(self)
        if isinstance(self.covariance, str):
            check_choice("covariance", self.covariance, COVARIANCES, "or an array of known covariances")
        if self.mode == "lowest" and not (isinstance(self.init, str) and self.init == "auto"):
            raise ValueError(
                f"mode='lowest' searches for its start, got init={shown(self.init)}; pass init='auto', or "
                "mode='collapsed'."
            )
        if self.n_clusters is not None and not isinstance(self.cluster_penalty, str):
            raise ValueError(
                f"cluster_penalty={self.cluster_penalty!r} and n_clusters={self.n_clusters!r} both determine "
                "the number of clusters; leave one out (max_clusters bounds the number for a given penalty)."
            )


def _restored(rows: Floats, shape: tuple[Floats, Floats] | None) -> Floats:
    """The inverse of `whitened`."""
    return rows if shape is None else gaussian.multiplied(rows, shape[0])
