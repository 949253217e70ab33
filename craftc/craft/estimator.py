"""CRAFT: clusters of mixed tables, each defined by a few features of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from craftc._common.estimator import all_or_nothing, set_convergence, warn_not_converged
from craftc._common.messages import warn_user
from craftc._common.random import seed_of
from craftc._common.threads import effective_n_threads, one_blas_thread
from craftc._common.typing import (
    Array,
    ColumnSelection,
    DaskClient,
    Floats,
    Labels,
    RandomStateInput,
    TableInput,
    WeightInput,
)
from craftc._common.validation import Choice, Constraint, Number, check_parameters
from craftc.craft.bounds import (
    GroupsInput,
    bounds_of,
    check_n_clusters,
    check_partitioned,
    groups_of,
    within,
    without_groups,
)
from craftc.craft.covariance import too_many_columns
from craftc.craft.diagnosis import codes_among, diagnose, slices_at_4
from craftc.craft.found import Found, falls_apart, pattern_of_pieces
from craftc.craft.given import completed, described_labels, is_model, labels_by, names_of
from craftc.craft.kept import FixedInput, WithFixed
from craftc.craft.parameters import (
    ClusterCount,
    ModelSpec,
    NumberOfClusters,
    Size,
    StartsInput,
    given_starts,
    price_factor_of,
    range_of,
)
from craftc.craft.progress import Progress, ProgressMeter
from craftc.craft.refit import Former, renumbered
from craftc.craft.rows import L, RowStore, S
from craftc.craft.search import AutomaticResult, Encode, EncodedRows, FitConfig, LocalConfig
from craftc.craft.search.automatic import fit_in_range
from craftc.describe.structure import nearly
from craftc.describe.words import nats
from craftc.distributed.open_input import FitTable, open_input, set_input_attributes
from craftc.reading.unusable import listed_reasons, usable_columns
from craftc.table import MixedTable
from craftc.table.column_weights import (
    WeightsInput,
    WeightsParameter,
    check_weighted_columns,
    weights_of,
)
from craftc.table.declared import KindsInput, KindsParameter, declared_periods, kinds_of
from craftc.table.levels import LevelEncoding

_MAX_CLUSTERS = 100  # default of max_clusters, for which the buffers of a short table have room


class CRAFT(WithFixed):
    """Clusters of a table with numeric and categorical columns, and the features that define each cluster.

    Every cluster models its rows by a few selected features; the clusters that do not select a feature share
    one distribution of it (the background). The gain of a feature is what it saves in nats over the
    distribution of the whole table, for numeric and categorical columns alike: columns need no scaling or
    encoding, and missing values cost nothing. The number of clusters follows from description length. The
    page docs/craft.md explains the method; `PaperCRAFT` is the algorithm of the paper [1]_.

    Parameters
    ----------
    n_clusters : int or (int, int), optional
        None: chosen automatically. An integer: searched at this number, from the automatic solution, which is
        merged or split, and from k-means. (low, high): the automatic number if it lies between, else the
        nearer of the two.
    kinds : mapping, optional
        Kinds of some columns, by name (of an array: by position); the types of the others decide, and ordered
        categories of pandas, polars (Enum) and Arrow are ordered. "number". "category". "ordered": levels in
        their declared order, numbers by value; a list: these levels in this order. ("periodic", period);
        "periodic": the period is the smallest of 7, 12, 24, 31, 52, 53, 60, 365 and 366 that covers whole
        numbers, and 2 pi or 360 of others. "date": days since 1970-01-01. "ignore": takes no part.
    categorical : "auto", list of names or positions, or boolean mask, default="auto"
        "auto": strings, categories, enums and booleans of a data frame or an array of objects; none of an
        array of numbers. A list adds columns to those of a frame. A mask, and a list for an array, say of all
        columns whether they are categorical.
    column_weights : mapping, optional
        Weights of some columns, by name (of an array: by position), from 0.001 to 1000; others have 1. A
        weight of 2 counts the column as two independent columns: its nats and its prices double. 0: the
        column is shown, but not used. A column of another weight than 1 is in no covariance.
    null : {"marginals", "normal"}, default="marginals"
        What describes a number without clusters. "marginals": the table's own distribution of the column,
        whatever its shape, so that no single column makes clusters. "normal": one normal density, which finds
        clusters that show in one or two columns, and takes every other shape of a column for clusters.
    feature_sharing : float in [0, 1], default=0.0
        s, how far all clusters select the same features. 0: each cluster selects its own (local). 1: all
        select a feature or none does (global), and no cluster holds a covariance. Between: the number of
        clusters that select a feature has a price, see docs/craft.md and `mask_path`.
    covariance : {"auto", "diagonal", "full", "tied"}, default="auto"
        Form of the numeric columns inside clusters. "diagonal": independent columns. "full": every cluster
        has a covariance of its own, of all columns. "tied": all clusters share one covariance of all columns.
        "auto": the form with the shortest description of these: diagonal; covariances of their own of some of
        the columns of some of the clusters, and normal densities of others where these are shorter than
        tilts; one shared covariance of some of the columns, which may have common factors. A covariance of
        its own has at most 64 columns, a shared one 512. Of more columns, those without missing cells are
        used; if these are still too many, the form is diagonal.
    price_factor : "auto" or float, default="auto"
        Multiplies the price (1/2) log N of a cluster and of each of its parameters; larger values give fewer
        clusters. "auto": max(1, N / 1000), so that the number of clusters does not grow with the rows, but 1
        where that merges groups, see docs/how-many-clusters.md. 1 resolves clusters of less than a hundredth
        of a long table.
    missing : {"ignore", "category", "error"}, default="ignore"
        Missing values cost and count nothing, are a level of their own (categorical columns), or an error.
    unknown : {"ignore", "error"}, default="ignore"
        A level that `fit` has not seen costs the same as under the background, or is an error.
    unusable : {"error", "drop"}, default="error"
        Columns of a frame that cannot define clusters: ids, dates, columns of one value, sums and products.
        "error": a column that cannot be read is an error, the others are used. "drop": all are set aside with
        a warning.
    max_clusters : int, default=100
        Largest number of clusters; `n_clusters` may exceed it.
    min_cluster_size, max_cluster_size : int or float, optional
        Smallest and largest size of a cluster: rows (with weights: their sum), or a float of at most 1, the
        share of the rows. Rows leave their cheapest cluster only where a bound asks for it; `predict` knows
        no bounds. Needs rows in one process, and 8 bytes per row and cluster.
    outlier_price : float, optional
        Nats that a row must save in a cluster, over the table's own distributions, to belong to it: rows that
        save less get the label -1, in `labels_` and from `predict`. The clusters themselves contain all rows.
        0: rows that cost more in every cluster than without clusters. None: every row belongs to a cluster.
        Without effect where the whole table is one cluster.
    init : {"auto", "single", "random", "farthest"}, array (n,) of int, list of such arrays, fitted model or \
            mapping, default="auto"
        Start partitions. "auto": one cluster, then random partitions and k-means++ seeds in turn. Arrays: one
        start each. A fitted model: its clusters of the rows. A mapping, ``{"young": {"age": ("<", 30)}}``,
        describes clusters by conditions on columns (docs/craft.md) or by positions of example rows. The other
        rows join the cheapest of these; a cluster that mostly keeps its rows keeps its name.
    n_init : int, default=8
        Number of starts; the lowest objective is kept and crossed with the others.
    random_state : int, Generator, RandomState or None, default=None
        Seed. The same seed gives the same bits for any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: one line per start and stage; 2: also one line per pass.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Cluster of every row, numbered by first appearance; -1 for outliers, with `outlier_price`.
    n_clusters_ : int
        Number of clusters K.
    objective_, objective_path_ : float, ndarray of float64
        Description length J of the partition in nats, and after each stage of the search.
    n_iter_, converged_ : int, bool
        Passes over the table, and whether the last one moved no row; in a table of weight above 16 384, or
        lowered J by less than the price of a parameter.
    merge_path_ : sequence of MergeStep
        The result and every partition down to one cluster, each by the cheapest merge; read by `cut`, `at`
        and `n_clusters_within`.
    dependence_ratio_, column_links_ : float, list of (column, column, nats)
        What links between columns or one factor save, over what clusters save (above 1, a gradual pattern
        explains the table better than groups of rows); and these links.
    cluster_names_ : list of K str
        Up to three facts in which each cluster differs from the whole table.
    feature_importances_ : ndarray (D,) of float64
        Share of every input column in the gains of the features in which clusters differ.
    margins_, cluster_margins_ : ndarray (n,) of float32, ndarray (K,) of float64
        Nats by which rows prefer their cheapest cluster to the second, and means; NaN without a row. In a
        long table, the cheapest cluster of a few rows is that of `predict`, not of `labels_`.
    outlier_scores_ : ndarray (n,) of float32
        What every row costs in its cheapest cluster less what it costs without clusters, nats.
    soft_sizes_, assignment_entropy_ : ndarray (K,) of float64, float
        Sums of the probabilities of the rows, and the entropy of these in nats: 0 where clusters do not
        overlap.
    log_likelihood_, n_parameters_, aic_, bic_, icl_ : float, int, and float
        The clusters as a mixture; of the criteria, lower is better. docs/craft.md says what counts.
    changes_ : Changes
        After `refit`: which clusters were kept, split, merged, born or died, with their shares then and now.
    cluster_price_, price_factor_ : float
        Price of a cluster in nats, and the factor that was used.
    cluster_sizes_ : ndarray (K,)
        Rows (with weights: their sum) per cluster.
    feature_mask_, feature_gains_ : ndarray (K, D) of bool and of float64
        Features that each cluster selected, and the gain of each feature over the whole table in nats.
    centers_, variances_ : ndarray (K, p) of float64
        Mean and smoothed variance of the numeric columns (`numeric_features_in_`).
    covariances_ : list of Covariance or None
        For every cluster ``(columns, matrix)`` of its covariance, that of standardised values, or of normal
        scores where a column is skewed.
    level_probabilities_ : list of ndarray (K, T_d)
        Smoothed shares of the `levels_` of the categorical columns (`categorical_features_in_`).
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number and (for data frames) names of the input columns.

    References
    ----------
    .. [1] V. K. Garg, C. Rudin, T. Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS
       2016.

    Examples
    --------
    >>> from craftc import CRAFT
    >>> from craftc.datasets import load_heart
    >>> model = CRAFT(random_state=0).fit(load_heart().data)
    >>> model.n_clusters_, model.labels_.shape
    (2, (270,))
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "kinds": KindsParameter(),
        "column_weights": WeightsParameter(),
        "null": Choice(("marginals", "normal")),
        "feature_sharing": Number(least=0.0, most=1.0),
        "covariance": Choice(("auto", "diagonal", "full", "tied")),
        "missing": Choice(("ignore", "category", "error")),
        "unknown": Choice(("ignore", "error")),
        "unusable": Choice(("error", "drop")),
        "price_factor": Choice(("auto",), "or a number > 0", Number(above=0.0, most=1e12)),
        "outlier_price": Number(optional=True),
        "max_clusters": Number(least=1, whole=True),
        "min_cluster_size": Size(),
        "max_cluster_size": Size(),
        "n_clusters": NumberOfClusters(),
    }

    def __init__(
        self,
        n_clusters: ClusterCount = None,
        *,
        kinds: KindsInput = None,
        categorical: ColumnSelection = "auto",
        column_weights: WeightsInput = None,
        null: str = "marginals",
        feature_sharing: float = 0.0,
        covariance: str = "auto",
        price_factor: float | str = "auto",
        missing: str = "ignore",
        unknown: str = "ignore",
        unusable: str = "error",
        max_clusters: int = _MAX_CLUSTERS,
        min_cluster_size: float | None = None,
        max_cluster_size: float | None = None,
        outlier_price: float | None = None,
        init: StartsInput = "auto",
        n_init: int = 8,
        random_state: RandomStateInput = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.kinds = kinds
        self.categorical = categorical
        self.column_weights = column_weights
        self.null = null
        self.feature_sharing = feature_sharing
        self.covariance = covariance
        self.price_factor = price_factor
        self.missing = missing
        self.unknown = unknown
        self.unusable = unusable
        self.max_clusters = max_clusters
        self.min_cluster_size = min_cluster_size
        self.max_cluster_size = max_cluster_size
        self.outlier_price = outlier_price
        self.init = init
        self.n_init = n_init
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        X: FitTable,
        y: object = None,
        sample_weight: WeightInput = None,
        *,
        groups: GroupsInput = None,
        fixed: FixedInput = None,
        client: DaskClient | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Find the clusters of a table.

        Parameters
        ----------
        X : frame, dict of columns, array (n, D), MixedTable, path, dataset, record batches or Dask collection
            pandas, polars or pyarrow frame (columns keep their types), dict of columns, numeric array, or
            MixedTable. Parquet or Arrow files (a path, pattern, folder or list of these), a pyarrow Dataset
            and a RecordBatchReader are read in batches into scratch files; files can be read by the workers
            of `client` instead. The rows of a Dask data frame or array stay on the workers, as do those of
            such files, and `labels_` and `margins_` are lazy collections then. The parts of a
            `craftc.distributed.Partitions` are not joined.
        y : ignored
        sample_weight : array (n,), optional
            Weight >= 0 of every row. From the same start partition, weight 2 gives the same bits as the row
            twice. Not for collections.
        groups : str or array (n,), optional
            Rows of one group are in one cluster: the name of a column, which takes no part otherwise, or a
            label for every row. A row whose label is missing is a group of its own. Not for collections.
        fixed : fitted CRAFT or (fitted CRAFT, list of labels or names), optional
            Clusters that keep their distributions and names: others are found among the rows of X that these
            do not describe. They are the first clusters, and `n_clusters` counts them. Sizes are of rows of
            X. X has the columns of that model (docs/craft.md). Not for collections.
        client : distributed.Client, optional
            The Dask cluster on which a collection lies, or whose workers read files; None: the current one
            for a collection, and files are read by this process.
        callback : callable, optional
            Called with a `craftc.craft.Progress` (share done, seconds left, ...) at most ten times a second,
            one call at a time, from this thread or a worker. What it raises ends the fit. It does not change
            the result.

        Returns
        -------
        CRAFT
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            A parameter, the table or the weights are invalid. A fitted estimator keeps its fitted attributes.
        """
        check_parameters(self)
        if self.feature_sharing == 1.0 and self.covariance in ("full", "tied"):
            raise ValueError(
                f"covariance={self.covariance!r} needs feature_sharing below 1, because clusters with "
                "covariances select features of their own; use covariance='diagonal'."
            )
        meter, n_threads = ProgressMeter(callback, int(self.verbose)), effective_n_threads(self.n_threads)
        if fixed is not None:
            if groups is not None:
                raise ValueError("fixed and groups cannot be given together; leave one of them out.")
            return self._fit_new(cast("TableInput", X), fixed, sample_weight, meter, n_threads)
        with open_input(X, client) as source:
            categorical, kinds = self.categorical, kinds_of(X, self.kinds, self.categorical)
            unusable: Mapping[str, str] = {}
            if source.place == "partitions":
                bounded = groups is not None or (self.min_cluster_size, self.max_cluster_size) != (None, None)
                check_partitioned(self.init, self.outlier_price, sample_weight, bounded)
            kinds = without_groups(source.X, groups, kinds)
            if self.unusable == "drop":
                source.require_memory("unusable='drop'")
                source.X, categorical, kinds, unusable = usable_columns(X, categorical, kinds)
                if unusable:
                    warn_user(
                        f"Columns that cannot define clusters are not used: {listed_reasons(unusable)}."
                    )
            table = source.read(categorical, self.missing, n_threads, kinds)
            check_weighted_columns(self.column_weights, table.schema, unusable)
            set_input_attributes(self, source.X, table)
            levels = self._levels_by(declared_periods(kinds, table.schema), n_threads)
            if isinstance(table, MixedTable):
                together = groups_of(X, groups, len(table))
                local = EncodedRows.of_table(table, sample_weight, n_threads, levels)
                start = self._start(X, table)
                self.labels_ = self._fit(local, meter, n_threads, groups=together, start=start)
                if isinstance(self.init, Mapping) and start is not None:
                    self.rename_clusters(names_of(self.init, start, self.labels_))
                self._mark_outliers()
                if groups is not None:
                    self._groups = groups if isinstance(groups, str) else str(getattr(groups, "name", ""))
            else:
                from craftc.craft.rows.partitioned import PartitionedRows  # which ordinary tables do not need

                far = EncodedRows.of_store(
                    PartitionedRows(table), None, np.empty(0, np.int64), 1.0, n_threads, levels
                )
                self.labels_ = self._fit(far, meter, n_threads)
        return self

    def _start(self, X: object, table: MixedTable) -> Labels | None:
        """Labels of the start that `init` gives as a model or by descriptions; None: in another form."""
        if isinstance(self.init, Mapping):
            return described_labels(self.init, table)
        return labels_by(self.init, X, len(table)) if is_model(self.init) else None

    def _levels_by(self, periods: list[float], n_threads: int) -> Encode:
        """Chooses the levels of the columns of a table, whose numeric columns have these periods."""

        def levels(rows: RowStore[Any, Any], weights: Floats | None) -> LevelEncoding:
            tallies = rows.tallies(weights, n_threads)
            weights_of_columns = weights_of(self.column_weights, rows.schema)
            return LevelEncoding.of_tallies(rows.schema, tallies, periods, self.null, weights_of_columns)

        return levels

    def _spec(self, weight: float) -> ModelSpec:
        """The model that the parameters specify, of a table of this weight."""
        return ModelSpec(
            selection="priced",
            price=None,
            price_factor=price_factor_of(self.price_factor, weight),
            pooled=True,
            covariance="diagonal" if self.feature_sharing == 1.0 else self.covariance,
            feature_sharing=float(self.feature_sharing),
        )

    def _may_merge(self, spec: ModelSpec) -> bool:
        """Whether the price factor was chosen for the length of the table, and a search without given labels
        may find more clusters at a factor of 1.
        """
        return self.price_factor == "auto" and spec.price_factor > 1.0 and isinstance(self.init, str)

    @one_blas_thread()
    def _fit(
        self,
        encoded: EncodedRows[L, S],
        meter: ProgressMeter,
        n_threads: int,
        former: Former | None = None,
        groups: Labels | None = None,
        start: Labels | None = None,
        merged: bool = False,
    ) -> Any:
        """Find the clusters of rows that have been read; returns their labels. `former`: the clusters from
        which the search starts, too, and whose numbers the clusters get. `groups`: of rows that stay
        together. `start`: labels of a start, -1 where a row joins the cheapest cluster. `merged`: whether
        the price factor "auto" has merged separate groups, so that it is 1.
        """
        background, n = encoded.background, len(encoded.rows)
        low, high = range_of(self.n_clusters, 0)
        check_n_clusters(low, encoded.source)
        limit = max(min(int(self.max_clusters), max(n, _MAX_CLUSTERS)), min(high, n))
        sizes = self.min_cluster_size, self.max_cluster_size
        unit = background.count_weight
        bounds = bounds_of(self.n_clusters, limit, sizes, groups, encoded.weight, unit, n)
        low, high = range_of(self.n_clusters, limit) if bounds is None else (bounds.low, bounds.high)
        spec = self._spec(background.weight)
        if merged:
            spec = replace(spec, price_factor=1.0)
        assert isinstance(encoded.encoding, LevelEncoding)
        config = FitConfig(
            encoded.rows,
            encoded.weight,
            background,
            spec,
            limit,
            seed_of(self.random_state),
            n_threads,
            callback=meter.of_part(0),
            meter=meter,
            encoding=encoded.encoding,
        )
        result = self._search(config, (low, high), former, start)
        if bounds is not None:
            free = cast("AutomaticResult[Array]", result)
            result = cast("AutomaticResult[S]", within(bounds, cast("LocalConfig", config), free))
        if former is not None:
            result = renumbered(result, former.places(cast("Array", result.labels), n_threads))
        if bounds is None and isinstance(self.init, str):
            codes = codes_among(encoded, config, result.objective, self._target(low, high), self.kinds)
            if codes:
                return self._fit(encoded.with_codes(codes), meter, n_threads, former, groups, start, merged)
        found = Found.of(encoded, config, result, former)
        may_merge = bounds is None and found.n_best < high and self._may_merge(spec)
        if may_merge and falls_apart(found):
            return self._fit(encoded, meter, n_threads, former, groups, start, merged=True)
        set_convergence(self, result)
        self._set_found(found, encoded.weights)
        slices = slices_at_4(found.n_best, result.n_clusters_at_4, self.dependence_ratio_)
        shown = {"_slices": slices, "_pattern": pattern_of_pieces(found, self._clear)}
        self.__dict__.update({name: one for name, one in shown.items() if one is not None})
        meter.finish(self.n_clusters_, self.objective_)
        for message in self._doubts(encoded, found, slices):
            warn_user(message)
        return found.rows.in_form_of_input(found.labels)

    def _target(self, low: int, high: int) -> int | None:
        """The number of clusters, if it is given."""
        return low if low == high and self.n_clusters is not None else None

    def _search(
        self,
        config: FitConfig[L, S],
        n_clusters: tuple[int, int],
        former: Former | None,
        start: Labels | None,
    ) -> AutomaticResult[S]:
        """Search a number of clusters in a range from all starts."""
        given, further, init = None, [], self.init if isinstance(self.init, str) else "auto"
        if former is None:
            own = self.init if start is None else completed(start, cast("LocalConfig", config))
            given = given_starts(own, len(config.rows), config.max_clusters)
        else:
            further = former.starts(config.max_clusters)
        n_starts = 1 if init == "single" else int(self.n_init)
        starts = cast("list[L] | None", given), cast("list[L]", further)
        return fit_in_range(config, n_starts, starts, init, n_clusters, self._target(*n_clusters))

    def _set_found(self, found: Found[L, S], weights: Floats | None) -> None:
        """Set the fitted attributes; warn where the search has not converged."""
        self._set_fitted(found.fitted)
        self._forget_former()
        statistics = found.rows.statistics(found.clusters, found.labels, weights, found.config.n_threads)
        self._set_rows(statistics)
        if self.n_clusters is None and not self.converged_:
            warn_not_converged(self, self.n_iter_, "passes", "continue with init=labels_")
        elif self.n_clusters is not None and not (self.converged_ and statistics.margins.all()):
            warn_user(
                f"{self.n_clusters_} clusters are more than the columns tell apart: some rows cost as much "
                "in another cluster, or less, so that predict can differ from labels_. Fit fewer clusters.",
                ConvergenceWarning,
            )
        self.margins_ = found.rows.margins(self, statistics)

    def _doubts(
        self, encoded: EncodedRows[L, S], found: Found[L, S], n_clusters_at_4: int | None
    ) -> list[str]:
        """Warnings about a table that the model cannot describe well, and limits that the search has met."""
        moments = found.clusters.moments
        messages = diagnose(encoded, moments, found.n_best, n_clusters_at_4, self.price_factor_)
        if self.covariance in ("full", "tied"):
            messages += too_many_columns(found.config.encoding, moments.total(), found.config.spec)
            more = self.objective_ - float(self.objective_path_.min())  # of clusters without covariances
            if self.n_clusters is None and self.n_clusters_ > 1 and more > nearly(self.price_factor_):
                messages.append(
                    f"covariance={self.covariance!r} describes this table in {nats(more)} nats more "
                    "than clusters without covariances do, so that the shape of a single column may make "
                    'clusters. Use covariance="auto", which takes the shorter description.'
                )
        if self.n_clusters is None and self.n_clusters_ == self.max_clusters == _MAX_CLUSTERS:
            messages.append(
                f"{_MAX_CLUSTERS} clusters are the most that max_clusters allows: more may have a lower "
                "objective. Raise max_clusters, or set price_factor or n_clusters for a coarser answer."
            )
        return messages
