"""KModes and KPrototypes: the interface of the package kmodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import (
    MixedInput,
    all_or_nothing,
    column_names,
    output_frame,
    warn_not_converged,
    warn_of_fewer_clusters,
)
from craftc._common.messages import listed, shown, warn_user
from craftc._common.random import rng_of
from craftc._common.ranges import warn_of_unscaled_columns
from craftc._common.threads import effective_n_threads, parallel_map
from craftc._common.typing import (
    Array,
    ColumnSelection,
    Floats,
    Labels,
    OutputFrame,
    PassCallback,
    RandomStateInput,
    TableInput,
    WeightInput,
)
from craftc._common.validation import (
    Choice,
    Constraint,
    Number,
    check_countable,
    check_parameters,
    check_weight,
    integer_weights,
)
from craftc.describe.frames import difference_frame, plain_view
from craftc.describe.named import NamedClusters
from craftc.describe.statistics import column_statistics
from craftc.describe.view import ClusterView
from craftc.distributed.open_input import set_input_attributes
from craftc.kprototypes.descent import Plan, PrototypeDescent, descend, with_exact_means
from craftc.kprototypes.dissimilarity import CATEGORICAL, NUMERIC, Dissimilarity, check_binary, name_of
from craftc.kprototypes.fitted import Prototypes, centroid_array, centroid_columns
from craftc.kprototypes.init import INITS, Modes, cao_modes, given_prototypes
from craftc.kprototypes.new_rows import PrototypePrediction, as_columns
from craftc.kprototypes.problem import Problem, some_numbers
from craftc.table import MixedTable, Schema
from craftc.table.answers import answer_groups
from craftc.table.declared import column_mask, noted_dates
from craftc.table.frames import open_source
from craftc.table.moments import integer_grid

_UPDATES = ("online", "batch")
# cells times clusters above which starts run in parallel: those of shorter tables are mostly Python code
_LONG_START = 2_000_000
Dissimilar: TypeAlias = str | Callable[..., object]


class PrototypeClustering(NamedClusters, MixedInput, PrototypePrediction, ClusterMixin, BaseEstimator):
    """What KModes and KPrototypes share."""

    n_clusters: int
    init: str | ArrayLike | Sequence[ArrayLike]
    n_init: int
    max_iter: int
    cat_dissim: Dissimilar
    update: str
    categorical: ColumnSelection | int
    unknown: str
    random_state: RandomStateInput
    n_threads: int | None
    n_jobs: int | None
    verbose: int

    schema_: Schema
    labels_: Labels
    cost_: float
    n_iter_: int
    n_clusters_: int
    epoch_costs_: list[float]
    cluster_sizes_: Array
    _prototypes: Prototypes
    _frame_library: str | None
    _mixed: ClassVar[bool]  # whether there are numeric columns
    _reads_batches = False
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_clusters": Number(least=1, whole=True),
        "max_iter": Number(least=1, whole=True),
        "cat_dissim": Dissimilarity(CATEGORICAL),
        "update": Choice(_UPDATES),
        "missing": Choice(("ignore", "category", "error")),
        "unknown": Choice(("ignore", "error")),
    }
    _of_fit = ("init", "random_state", "labels_", "epoch_costs_")

    def _fitted(
        self, X: TableInput, categorical: ColumnSelection | int | None, sample_weight: WeightInput
    ) -> Self:
        """Find the clusters."""
        check_parameters(self)
        n_threads = self._threads()
        of_levels = self._categorical(X, categorical)
        table = MixedTable.from_data(
            X, categorical=of_levels, missing=self.missing, kinds=noted_dates(X, of_levels)
        )
        weights = check_weight(sample_weight, len(table))
        check_countable(weights)
        weight, unit = integer_weights(weights)
        kind = name_of(self.cat_dissim)
        if kind == "jaccard":
            check_binary(table)
        grid = integer_grid(table, weight)
        problem = Problem(table, weight, unit, grid, CATEGORICAL.index(kind), self._factor(), n_threads)
        best = self._best(problem, self._plan(problem))
        set_input_attributes(self, X, table)
        self._warn_of_units(table)
        self.schema_ = table.schema
        self.labels_, self.cost_, self.epoch_costs_ = best.labels, best.cost, best.epoch_costs
        self.n_iter_, self.converged_ = best.n_iter, best.converged
        self._set_prototypes(Prototypes.of(problem, best))
        if not best.converged:
            warn_not_converged(self, best.n_iter, "passes", f"raise max_iter (now {self.max_iter})")
        warn_of_fewer_clusters(self, self.n_clusters_, int(self.n_clusters))
        if single := problem.columns_of_single_rows():
            warn_user(
                f"Most rows have a level of their own in {listed(single)}; {type(self).__name__} compares "
                "levels for equality. Leave out identifiers; KPrototypes and CRAFT read numbers as numbers."
            )
        return self

    def _threads(self) -> int:
        n_jobs = effective_n_threads(self.n_jobs)  # checked, whether or not n_threads replaces it
        return n_jobs if self.n_threads is None else effective_n_threads(self.n_threads)

    def _warn_of_units(self, table: MixedTable) -> None:
        """Warn if numbers of different units are compared."""

    def _factor(self) -> float | None:
        """gamma; None: from the table."""
        return 1.0

    def _categorical(self, X: object, given: ColumnSelection | int | None) -> ColumnSelection:
        """The argument `categorical` of MixedTable.from_data."""
        return as_columns(self.categorical if given is None else given)

    def _plan(self, problem: Problem) -> Plan:
        """The starts of a fit; with at most `n_clusters` distinct rows, these are the prototypes."""
        K, online = int(self.n_clusters), self.update == "online"
        if isinstance(self.init, str):
            init: str | tuple[Floats, Modes] | None = {name.lower(): name for name in INITS}.get(
                self.init.lower()
            )
            if init is None:
                raise ValueError(
                    f"init must be one of {', '.join(map(repr, INITS))} or initial centroids, got "
                    f"{shown(self.init)}."
                )
        else:
            init = given_prototypes(self.init, problem, K, self._mixed)
        rows = problem.distinct_rows(K + 1)
        if len(rows) <= K:
            return Plan(len(rows), (problem.numbers_of(rows), problem.codes_of(rows)), online, False, 0)
        cao = cao_modes(problem, K) if isinstance(init, str) and init == "Cao" else None
        return Plan(K, init, online, self._mixed, int(self.max_iter), cao)

    def _best(self, problem: Problem, plan: Plan) -> PrototypeDescent:
        """The start of the lowest cost; of equal ones the first."""
        n_init = 1 if plan.deterministic else int(self.n_init)
        seeds = rng_of(self.random_state).randint(np.iinfo(np.int32).max, size=n_init)
        long = problem.table.shape[0] * problem.table.shape[1] * plan.n_clusters >= _LONG_START
        side_by_side = problem.n_threads if n_init > 1 and long else 1
        stop, threads = Event(), problem.n_threads // side_by_side

        def run(start: int) -> PrototypeDescent:
            result = descend(problem, plan, int(seeds[start]), threads, stop, self._line_of_pass(start))
            if self.verbose:
                print(f"start {start}: cost {result.cost:.6g} after {result.n_iter} passes")
            return result

        found = parallel_map(run, range(n_init), side_by_side, stop)
        return with_exact_means(problem, min(found, key=lambda result: result.cost), problem.n_threads)

    def _line_of_pass(self, start: int) -> PassCallback | None:
        if self.verbose < 2:
            return None
        return lambda n_iter, cost: print(f"start {start}, pass {n_iter}: cost {cost:.6g}")

    def _set_prototypes(self, prototypes: Prototypes) -> None:
        """Set the attributes that follow from the prototypes and the moments of the clusters."""
        self._prototypes = prototypes
        sums = prototypes.sums
        sizes = sums.groups[:, 0] * sums.unit
        self.n_clusters_ = len(sizes)
        self.cluster_sizes_ = sizes.astype(np.int64) if sums.unit == 1.0 else sizes
        self.cluster_centroids_ = centroid_array(prototypes, self.schema_)

    def centroids(self) -> OutputFrame:
        """The prototypes as a table with the columns of the input.

        Returns
        -------
        pandas.DataFrame, or polars.DataFrame where `fit` received one
            One row per cluster: means of numeric and modes of categorical columns.
        """
        check_is_fitted(self)
        columns = centroid_columns(self._prototypes, self.schema_)
        return output_frame(dict(zip(column_names(self), columns, strict=True)), self._frame_library)

    def summary(self) -> OutputFrame:
        """Size and typical values of every cluster, compared with the whole table.

        Returns
        -------
        pandas.DataFrame, or polars.DataFrame where `fit` received one
            One row per cluster and column, the largest difference first: ``cluster``, its ``name`` after
            `rename_clusters`, ``rows`` (sum of their weights), ``share``, ``feature``, ``difference`` from
            the whole table (categorical columns: share of the rows whose level would have to change, 0 to 1;
            several answers: the largest difference of a share; numeric columns: of the means, in standard
            deviations of the whole table), and typical values in the cluster and in the whole table.
        """
        check_is_fitted(self)
        return difference_frame(self._shown_clusters(), self._frame_library)

    def _cluster_view(self) -> ClusterView:
        columns = column_statistics(self._prototypes.sums.moments(), self.schema_)
        return plain_view(column_names(self), columns, self.cluster_sizes_, answer_groups(self.schema_))


class KModes(PrototypeClustering):
    """k-modes: k-means for categorical columns.

    Minimises the sum over all rows of the number of cells that differ from the mode of their cluster. The
    interface, and with ``update="online"`` the results from equal initial centroids, are those of the package
    kmodes 0.12.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters K. A table of fewer distinct rows has one cluster for each of them.
    init : {"Cao", "Huang", "random"} or array (K, D), default="Cao"
        "Cao": dense rows far from each other, without random numbers. "Huang": random levels in proportion to
        their frequencies, replaced by the nearest row. "random": random rows. Array: initial modes, as codes
        (positions among the sorted levels of the column) or as levels (text).
    n_init : int, default=10
        Number of starts; the lowest cost is kept (ties: the earlier start). One start, if `init` is "Cao" or
        an array.
    max_iter : int, default=100
        Largest number of passes per start.
    cat_dissim : {"matching", "ng", "jaccard", "jaccard-label"} or function of kmodes, default="matching"
        "matching": number of differing cells. "ng": a cell that equals the mode costs 1 less its share in the
        cluster (Ng et al. 2007). "jaccard": columns of two levels, as the set of those with the second level;
        "jaccard-label": rows as sets of codes. Both are 1 less the share of common elements among all of a
        row and a mode.
    update : {"online", "batch"}, default="online"
        "online": rows are visited in order, and a row that moves changes its two modes at once (Huang 1998);
        starts run in parallel. As in kmodes, a pass that does not lower the cost is the last one, and its
        modes are kept. "batch": Lloyd's algorithm, parallel over rows; the cost never rises.
    categorical : "auto", list of names or positions, or boolean mask, default="auto"
        All columns are categorical; a list must name all of them.
    missing : {"ignore", "category", "error"}, default="ignore"
        Missing cells: they cost and count nothing; they are a level of their own; or they are an error.
    unknown : {"ignore", "error"}, default="ignore"
        A level that `fit` has not seen counts as a missing cell, which costs nothing and changes no label, or
        it is an error.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts. The same seed gives the same bits for any number of threads.
    n_threads : int, optional
        Threads; None: `n_jobs`, else OMP_NUM_THREADS or all processors of this process; -1: all.
    n_jobs : int, optional
        The name of kmodes for `n_threads`.
    verbose : int, default=0
        1: one line per start; 2: also one line per pass.

    Attributes
    ----------
    cluster_centroids_ : ndarray (K, D)
        The modes: levels of the columns.
    labels_ : ndarray (n,) of int32
        Cluster of every row: its nearest mode, of equally near ones the lowest number. Numbered as the modes.
    cost_ : float
        Weighted sum of the dissimilarities of the rows and the modes of their clusters.
    epoch_costs_ : list of float
        The cost at the start and after every pass.
    n_iter_ : int
        Passes of the start that was kept.
    converged_ : bool
        Whether its last pass moved no row or did not lower the cost.
    n_clusters_ : int
        Number of modes.
    cluster_sizes_ : ndarray (K,)
        Rows (with weights: their sum) per cluster.
    schema_ : Schema
        The columns and their levels.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number and (for data frames) names of the input columns.

    References
    ----------
    .. [1] Z. Huang, "Extensions to the k-means algorithm for clustering large data sets with categorical
       values", Data Mining and Knowledge Discovery 2, 1998.
    .. [2] F. Cao, J. Liang, L. Bai, "A new initialization method for categorical data clustering", Expert
       Systems with Applications 36, 2009.
    .. [3] M. K. Ng, M. J. Li, J. Z. Huang, Z. He, "On the impact of dissimilarity measure in k-modes
       clustering algorithm", IEEE TPAMI 29, 2007.

    Examples
    --------
    >>> from craftc import KModes
    >>> X = [["red", "round"], ["red", "round"], ["blue", "square"], ["blue", "round"], ["blue", "square"]]
    >>> model = KModes(n_clusters=2).fit(X)
    >>> model.labels_
    array([1, 1, 0, 0, 0], dtype=int32)
    >>> model.cluster_centroids_
    array([['blue', 'square'],
           ['red', 'round']], dtype='<U6')
    """

    _mixed, _kept_dtypes = False, ()  # numbers are levels

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "Cao",
        n_init: int = 10,
        max_iter: int = 100,
        cat_dissim: Dissimilar = "matching",
        update: str = "online",
        categorical: ColumnSelection | int = "auto",
        missing: str = "ignore",
        unknown: str = "ignore",
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.cat_dissim = cat_dissim
        self.update = update
        self.categorical = categorical
        self.missing = missing
        self.unknown = unknown
        self.random_state = random_state
        self.n_threads = n_threads
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        X: TableInput,
        y: object = None,
        sample_weight: WeightInput = None,
        categorical: ColumnSelection | int | None = None,
    ) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D) or MixedTable
            pandas, polars or pyarrow frame, dict of columns, array of numbers, of text or of objects, or
            MixedTable.
        y : ignored
        sample_weight : array (n,), optional
            Weight >= 0 of every row. Weight 2 counts as the row twice.
        categorical : int, or list of names or positions, optional
            As the parameter of this name, in place of it.

        Returns
        -------
        KModes
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            A parameter, the table or the weights are invalid. A fitted estimator keeps its fitted attributes.
        """
        return self._fitted(X, categorical, sample_weight)

    def _categorical(self, X: object, given: ColumnSelection | int | None) -> ColumnSelection:
        """All columns."""
        given = super()._categorical(X, given)
        if isinstance(X, np.ndarray) and X.ndim == 2 and isinstance(given, str) and given == "auto":
            return np.ones(X.shape[1], bool)  # the names need no second look at the cells
        names = X.schema.columns if isinstance(X, MixedTable) else open_source(X).names
        mask = column_mask(given, names)
        if mask is not None and not mask.all():
            raise ValueError(
                f"KModes treats all columns as categorical, but categorical={given!r} leaves out "
                f"{names[int(mask.argmin())]!r}; pass these columns alone, or use KPrototypes."
            )
        return np.ones(len(names), bool)


class KPrototypes(PrototypeClustering):
    """k-prototypes: k-means for numeric and categorical columns.

    Minimises the sum over all rows of the squared distances of the numbers to the mean of their cluster, plus
    gamma times the number of cells that differ from its mode. The interface, and with ``update="online"`` the
    results from equal initial centroids, are those of the package kmodes 0.12. Numeric columns are not
    scaled. :class:`CRAFT` needs neither scaling, nor gamma, nor the number of clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters K. A table of fewer distinct rows has one cluster for each of them.
    gamma : float, optional
        Weight of the categories. None: half the mean standard deviation of the numeric columns (Huang 1997),
        1 if none of them varies. The value used is `gamma_`; kmodes overwrites the parameter.
    num_dissim : "euclidean" or function of kmodes, default="euclidean"
        The squared Euclidean distance.
    init : {"Huang", "Cao", "random"} or list of two arrays, default="Huang"
        Initial modes as in :class:`KModes`; initial means are drawn from the normal distributions of the
        columns. A start that leaves a cluster empty is drawn again. List: initial means (K, p), and modes (K,
        q) as codes (positions among the sorted levels of the column) or as levels (text); columns in the
        order of the table.
    categorical : "auto", list of names or positions, or boolean mask, default="auto"
        Categorical columns. "auto": strings, categories, enums and booleans of a data frame; none of an
        array. A list adds to them.
    n_init, max_iter, cat_dissim, update, missing, unknown, random_state, n_threads, n_jobs, verbose
        As in :class:`KModes`, with prototypes for modes; there is one start if `init` is given.

    Attributes
    ----------
    cluster_centroids_ : ndarray (K, D)
        Means of the numeric columns, then modes of the categorical columns.
    gamma_ : float
        Weight of the categories.
    labels_, cost_, epoch_costs_, n_iter_, converged_, n_clusters_, cluster_sizes_, schema_, n_features_in_, \
feature_names_in_
        As in :class:`KModes`, with prototypes for modes.

    References
    ----------
    .. [1] Z. Huang, "Extensions to the k-means algorithm for clustering large data sets with categorical
       values", Data Mining and Knowledge Discovery 2, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc import KPrototypes
    >>> X = [[1.0, "a", "x"], [1.5, "a", "y"], [9.0, "b", "y"], [8.5, "b", "x"], [8.0, "b", "y"]]
    >>> X = np.array(X, dtype=object)
    >>> model = KPrototypes(n_clusters=2, random_state=0).fit(X, categorical=[1, 2])
    >>> model.centroids()
         x0 x1 x2
    0  8.50  b  y
    1  1.25  a  x
    """

    _mixed = True
    gamma_: float
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **PrototypeClustering._constraints,
        "gamma": Number(least=0.0, most=1e100, optional=True),
        "num_dissim": Dissimilarity(NUMERIC),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        gamma: float | None = None,
        num_dissim: Dissimilar = "euclidean",
        init: str | Sequence[ArrayLike] = "Huang",
        n_init: int = 10,
        max_iter: int = 100,
        cat_dissim: Dissimilar = "matching",
        update: str = "online",
        categorical: ColumnSelection | int = "auto",
        missing: str = "ignore",
        unknown: str = "ignore",
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.gamma = gamma
        self.num_dissim = num_dissim
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.cat_dissim = cat_dissim
        self.update = update
        self.categorical = categorical
        self.missing = missing
        self.unknown = unknown
        self.random_state = random_state
        self.n_threads = n_threads
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        X: TableInput,
        y: object = None,
        categorical: ColumnSelection | int | None = None,
        sample_weight: WeightInput = None,
    ) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D) or MixedTable
            pandas, polars or pyarrow frame, dict of columns, array of numbers, of text or of objects, or
            MixedTable.
        y : ignored
        categorical : int, or list of names or positions, optional
            As the parameter of this name, in place of it.
        sample_weight : array (n,), optional
            Weight >= 0 of every row. Weight 2 counts as the row twice.

        Returns
        -------
        KPrototypes
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            A parameter, the table or the weights are invalid. A fitted estimator keeps its fitted attributes.
        """
        return self._fitted(X, categorical, sample_weight)

    def _factor(self) -> float | None:
        return None if self.gamma is None else float(self.gamma)

    def _warn_of_units(self, table: MixedTable) -> None:
        warn_of_unscaled_columns(self, some_numbers(table), names=table.schema.numeric_names)

    def _set_prototypes(self, prototypes: Prototypes) -> None:
        super()._set_prototypes(prototypes)
        self.gamma_ = prototypes.gamma
