"""CRAFT: clusters of mixed tables, each defined by a few features of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from craftc._common.estimator import MixedInput, all_or_nothing, set_convergence, warn_not_converged
from craftc._common.messages import warn_user
from craftc._common.random import SAMPLE_ROWS, seed_of
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Labels, Mask
from craftc._common.validation import (
    Choice,
    Constraint,
    Number,
    check_countable,
    check_parameters,
    check_weight,
    integer_weights,
)
from craftc.craft.background import Background
from craftc.craft.clusters import Clusters
from craftc.craft.covariance import CrossProducts, too_many_columns
from craftc.craft.dependence import ColumnLinks, column_links
from craftc.craft.diagnostics import diagnose
from craftc.craft.interpretation import Interpretation
from craftc.craft.levels import Levels, step_of
from craftc.craft.new_rows import NewRows
from craftc.craft.parameters import (
    MODELS,
    ModelSpec,
    check_n_clusters,
    check_partitioned,
    cluster_limit,
    given_starts,
    model_spec,
    target_n_clusters,
    warn_ignored,
)
from craftc.craft.progress import Progress, ProgressMeter
from craftc.craft.search.automatic import automatic_fit
from craftc.craft.search.config import CraftResult, FitConfig, rows_of
from craftc.craft.search.fixed_price import at_price, fixed_price_fit
from craftc.distributed.collections import WithoutCollections, feature_names_out, rowwise
from craftc.distributed.read import is_partitioned, read_partitions
from craftc.reading.unusable import listed_reasons, usable_columns
from craftc.table import Schema
from craftc.table.estimator_input import read_input, set_input_attributes
from craftc.table.moments import Moments
from craftc.table.numeric_encoding import NumericEncoding
from craftc.table.out_of_core import is_out_of_core

_N_EXPECTED = 8  # clusters that the paper's heuristic expects where n_clusters is None


class CRAFT(
    WithoutCollections,
    ClassNamePrefixFeaturesOutMixin,
    MixedInput,
    NewRows,
    Levels,
    Interpretation,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Clusters of a table with numeric and categorical columns, and the features that define each cluster.

    Every cluster models its rows by a few selected features; the clusters that do not select a feature share
    one distribution of it (the background). The gain of a feature is what it saves in nats over the
    distribution of the whole table, for numeric and categorical columns alike. Columns therefore need no
    scaling or encoding, and missing values cost nothing.

    Parameters
    ----------
    n_clusters : int or "suggested", optional
        None: chosen automatically. "suggested": the automatic solution is merged to `suggested_n_clusters_`,
        as `at` does. An integer with ``cluster_price="auto"``: the automatic solution is merged or split to
        this number at the lowest cost. With a numeric price: the largest number of clusters. With
        "farthest-first": the guess which that heuristic needs.
    background : {"pooled", "table"}, default="pooled"
        Distribution of the features that a cluster does not select, where `cluster_price` and `selection`
        have their defaults. "pooled": that of all clusters that do not select the feature, so that a cluster
        selects only what sets it apart from the others. "table": that of the whole table, from which every
        cluster differs as soon as one other cluster stands out. Otherwise always "table".
    covariance : {"auto", "diagonal", "full"}, default="auto"
        Form of the numeric columns inside clusters under the automatic price. "diagonal": independent
        columns. "auto": a cluster may hold one full covariance of some of its columns, at (1/2) log N for
        each pair, where that is shorter. It is the last step of the search, which also merges the slices into
        which independent columns cut a slanted cloud, but never across a valley of the density. "full": every
        cluster holds the covariance of all columns. Columns with missing cells are not in it, nor is any
        column if more than 64 could be.
    cluster_price : {"auto", "farthest-first"} or float, default="auto"
        What a cluster must save to exist. "auto": its description length, which is (1/2) log N for the
        cluster and for each parameter of its features, and the entropy of the labels; this price determines
        the number of clusters. A number: Lambda of the paper's objective in nats, without the entropy of the
        labels; `craftc.craft.cluster_price` converts its lambda. "farthest-first": Lambda by the paper's
        heuristic, scaled to the share `feature_fraction`. The paper's models take "auto" as 0 if `n_clusters`
        is given, otherwise as "farthest-first" with 8 expected clusters.
    price_factor : "auto" or float, default="auto"
        Multiplies the (1/2) log N of "auto", or the price of "farthest-first". "auto": max(1, N / 1000) for
        ``cluster_price="auto"``, otherwise 1. N rows then count as 1000 rows of evidence, and the number of
        clusters does not grow with the length of a table whose columns depend on each other inside clusters.
        In a long table, clusters of less than about a hundredth of the rows may be merged, and those of less
        than a thousandth are; 1 resolves them. Larger values give fewer clusters.
    selection : {"priced", "fixed", "free", "threshold", "global"}, default="priced"
        How a cluster selects features. "priced": the features that lower its description length, possibly
        none. "fixed": the share `feature_fraction` of the numeric and of the categorical columns with the
        largest gains. "free": every feature whose gain exceeds its price (F_Delta if `cluster_price` is a
        number). "threshold": the paper's approximate budget, see the two thresholds. "global": one choice for
        all clusters, by the summed gains. The paper's models take "priced" as "fixed".
    feature_fraction : float in (0, 1], default=0.5
        Share m of the features that a cluster selects. 1: no feature selection.
    feature_variance : float in (0, m(1 - m)), optional
        Variance rho of the paper's prior on selection, which determines F_Delta. None: max(m(1 - m) - 0.01,
        m(1 - m) / 2).
    categorical_threshold : float, default=0.95
        eps_c: "threshold" selects a categorical feature whose entropy in the cluster is lower than in the
        table by more than this share. The paper's models compare, as printed, with the cost G_d of the
        cluster's cells under the table's distribution: G_d - G_kd > eps_c G_d.
    numeric_threshold : float or ("absolute", float), default=0.5
        eps_v: "threshold" selects a numeric feature whose variance in the cluster is below this share of the
        variance of the table. ``("absolute", v)``, the paper's form: whose variance is below v, in squared
        units of the column as encoded by `numeric`.
    model : {"likelihood", "paper", "paper-relative", "paper-fixed"}, default="likelihood"
        "likelihood": the coherent objective, which never rises and converges in finitely many passes.
        "paper": the algorithm as printed, with the repairs listed in the documentation. "paper-relative": the
        same, but numeric features are ranked by the ratio of the cluster's standard deviation to the table's,
        not by the former alone, which prefers columns of small units. "paper-fixed": as "paper" with all
        standard deviations 1, in the units of the columns.
    numeric : {"auto", "raw", "rank"}, default="auto"
        Encoding of numeric columns. "auto": a column with at most 10 distinct values is categorical; a value
        that fills a fifth of a column is separated from the others; skewed or heavy-tailed columns are
        replaced by ranks; other columns stay as they are. "rank": always ranks. "raw": unchanged, as "auto"
        under the paper's models. New rows are encoded in the same way, and results are reported in the
        original units.
    categorical : "auto", list of names or positions, or boolean mask, default="auto"
        Categorical columns. "auto": strings, categories, enums and booleans of a data frame; none of an
        array.
    missing : {"ignore", "category", "error"}, default="ignore"
        Missing values: they cost and count nothing; they are a level of their own (categorical columns); or
        they are an error.
    unknown : {"ignore", "error"}, default="ignore"
        A level that `fit` has not seen: it costs the same as under the background, or it is an error.
    unusable : {"error", "drop"}, default="error"
        Columns of a frame or dict that cannot define clusters: ids (a different text in every row, row
        counters, distinct whole numbers in a column with the name of an id), columns with no value or with
        one value in every row, dates. "error": columns that cannot be read are errors, and the others are
        used. "drop": `fit` sets all of them aside with one warning, and new rows may have further columns.
    max_clusters : int, default=100
        Largest number of clusters.
    init : {"auto", "single", "random", "farthest"}, array (n,) of int, or list of such arrays, default="auto"
        Start partitions. "auto" under the automatic price: one cluster, then k-means++ seeds, every second
        start random (with ``background="table"`` every fourth); under a numeric price: random and
        farthest-first in turn; ``model="paper"``: one random row, as in the paper. Arrays: one start each.
    n_init : int, default=8
        Number of starts; the lowest objective is kept (ties: the earlier start). For ``model="paper"`` and
        numeric columns, whose printed objective hardly depends on the clusters, the shortest description is
        kept: the lowest objective of the default model. Under the automatic price the best start is crossed
        with each of the others: the intersections of two partitions are merged again, and the result is kept
        if its objective is lower. A table of more than 16 384 rows is first searched on a sample of that
        size, and the best result is continued with all rows.
    max_iter : int, default=100
        Largest number of passes over the table per start, for a numeric price; the automatic search needs no
        limit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts. The same seed gives the same bits for any number of threads.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process; -1: all.
    verbose : int, default=0
        1: one line per start and stage; 2: also one line per pass.

    Attributes
    ----------
    labels_ : ndarray (n,) of int32
        Cluster of every row, numbered by first appearance.
    n_clusters_ : int
        Number of clusters K.
    objective_ : float
        The objective J of the partition in nats, recomputed from exact sums.
    objective_path_ : ndarray of float64
        Under "auto": J of one cluster, of the best start, after forced merges (if they use all rows), at
        `n_clusters`, and with covariances. Under a numeric price: J of the start partition and after every
        pass, for the start that was kept.
    n_iter_ : int
        Passes over the table that led to the result.
    converged_ : bool
        Whether the last pass moved no row or, in a table of weight N > 16 384 under the automatic price,
        lowered J by less than (1/2) log N nats. Labels, clusters and objective always agree. False where
        `n_clusters` needs a split that passes would undo.
    merge_path_ : sequence of MergeStep
        ``(n_clusters, objective, labels)`` of the result and of every partition down to one cluster; each
        step merges the cheapest pair, ``step.merged`` of the step before. Only for "auto"; read by `cut` and
        `at`.
    suggested_n_clusters_ : int or None
        The fewest clusters on `merge_path_` that keep 90 % of J(1) - J(best), what the partition of the
        lowest J on the path saves over one cluster; 1 if none saves anything. With `n_clusters`, the path
        starts there, and more clusters are never suggested. None without a path.
    dependence_ratio_ : float
        What links between columns save without clusters, over J(1) - J(best). Above 1, the table is explained
        better by columns that depend on each other than by groups of rows; inf if only links save anything,
        NaN if nothing does or the price is not automatic. A table of many columns is represented by those in
        which the clusters save most, see `craftc.craft.dependence.column_links`.
    column_links_ : list of (column, column, nats)
        These links, by falling savings: the Chow-Liu forest of the columns, each link at the price of its
        parameters. Numeric columns may save more by one common covariance, and `dependence_ratio_` takes what
        saves more.
    cluster_names_ : list of K str
        Up to three facts in which each cluster differs from the whole table, as "Husband, often Male, low
        age".
    feature_importances_ : ndarray (D,) of float64
        Share of every input column in the gains of the features in which clusters differ from the whole
        table.
    margins_ : ndarray (n,) of float32
        Nats by which each row prefers its cheapest cluster to the second cheapest; inf with one cluster. The
        cheapest one is that of `labels_` where the fit has converged.
    cluster_margins_ : ndarray (K,) of float64
        Mean margin of the rows of each cluster.
    cluster_price_ : float
        Price of a cluster in nats: Lambda, or price_factor * (1/2) log N.
    price_factor_ : float
        The price factor that was used.
    cluster_sizes_ : ndarray (K,)
        Rows (with weights: their sum) per cluster.
    feature_mask_ : ndarray (K, D) of bool
        Features that each cluster selected, in the order of the input columns. A numeric column that is
        encoded in several parts is selected if one of its parts is.
    feature_gains_ : ndarray (K, D) of float64
        Gain of each feature in each cluster over the distribution of the whole table in nats, selected or
        not, summed over the parts of a column.
    centers_, variances_ : ndarray (K, p) of float64
        Mean and smoothed variance of the numeric columns in their original units (columns:
        `numeric_features_in_`).
    covariances_ : list of Covariance or None
        For every cluster its covariance, ``(columns, matrix)``, or None if it has the diagonal form:
        positions of the columns among the input columns, and the smoothed covariance in the units of the
        columns as encoded by `numeric`.
    level_probabilities_ : list of ndarray (K, T_d)
        Smoothed level probabilities of the categorical columns (`categorical_features_in_`, levels in
        `levels_`).
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number and (for data frames) names of the input columns.

    References
    ----------
    .. [1] V. K. Garg, C. Rudin, T. Jaakkola, "CRAFT: ClusteR-specific Assorted Feature selecTion", AISTATS
       2016, Algorithm 2 and equations (5)-(7).

    Examples
    --------
    >>> from craftc import CRAFT
    >>> from craftc.datasets import load_heart
    >>> model = CRAFT(random_state=0).fit(load_heart().data)
    >>> model.n_clusters_, model.labels_.shape
    (2, (270,))
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "background": Choice(("pooled", "table")),
        "selection": Choice(("priced", "fixed", "free", "threshold", "global")),
        "model": Choice(MODELS),
        "covariance": Choice(("auto", "diagonal", "full")),
        "numeric": Choice(("auto", "raw", "rank")),
        "missing": Choice(("ignore", "category", "error")),
        "unknown": Choice(("ignore", "error")),
        "unusable": Choice(("error", "drop")),
        "cluster_price": Choice(("auto", "farthest-first"), "or a number of nats >= 0", Number(least=0.0)),
        "price_factor": Choice(("auto",), "or a number > 0", Number(above=0.0, most=1e12)),
        "feature_fraction": Number(above=0.0, most=1.0),
        "categorical_threshold": Number(least=0.0),
        "max_clusters": Number(least=1, whole=True),
        "max_iter": Number(least=1, whole=True),
        "n_clusters": Choice(
            ("suggested",), "or a whole number >= 1, or None", Number(least=1, whole=True, optional=True)
        ),
    }
    # one cluster has no margins, a column without numbers in a cluster no mean there, and no saving no ratio
    _not_always_finite = ("margins_", "cluster_margins_", "centers_", "variances_", "dependence_ratio_")
    _of_fit = (
        "init",
        "random_state",
        "labels_",
        "margins_",
        "objective_path_",
        "merge_path_",
        "_path_clusters",
        "_typical",
        "_unusual",
    )

    def __init__(
        self,
        n_clusters: int | str | None = None,
        *,
        background: str = "pooled",
        covariance: str = "auto",
        cluster_price: str | float = "auto",
        price_factor: float | str = "auto",
        selection: str = "priced",
        feature_fraction: float = 0.5,
        feature_variance: float | None = None,
        categorical_threshold: float = 0.95,
        numeric_threshold: float | tuple[str, float] = 0.5,
        model: str = "likelihood",
        numeric: str = "auto",
        categorical: Any = "auto",
        missing: str = "ignore",
        unknown: str = "ignore",
        unusable: str = "error",
        max_clusters: int = 100,
        init: Any = "auto",
        n_init: int = 8,
        max_iter: int = 100,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.background = background
        self.covariance = covariance
        self.cluster_price = cluster_price
        self.price_factor = price_factor
        self.selection = selection
        self.feature_fraction = feature_fraction
        self.feature_variance = feature_variance
        self.categorical_threshold = categorical_threshold
        self.numeric_threshold = numeric_threshold
        self.model = model
        self.numeric = numeric
        self.categorical = categorical
        self.missing = missing
        self.unknown = unknown
        self.unusable = unusable
        self.max_clusters = max_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    # ---- fitting ----

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        client: Any = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> CRAFT:
        """Find the clusters of a table.

        Parameters
        ----------
        X : data frame, dict of columns, array (n, D), MixedTable, path, dataset, stream of record batches, or
        Dask collection
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

        Warns
        -----
        UserWarning
            Parameters that differ from their defaults have no effect in the chosen mode.
        """
        check_parameters(self)
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of one argument, got {callback!r}.")
        meter = ProgressMeter(callback, int(self.verbose))
        meter.begin("reading")
        spec = model_spec(self)
        categorical = self.categorical
        if self.unusable == "drop":
            if is_out_of_core(X):
                raise ValueError(
                    "unusable='drop' needs a table in memory; choose columns by "
                    "MixedTable.from_parquet(path, columns=[...])."
                )
            if is_partitioned(X):
                raise ValueError(
                    "unusable='drop' needs a table in memory; choose the columns of the collection."
                )
            X, categorical, unusable = usable_columns(X, categorical)
            if unusable:
                warn_user(f"Columns that cannot define clusters are not used: {listed_reasons(unusable)}.")
        n_threads = effective_n_threads(self.n_threads)
        if not is_partitioned(X, client):
            snapshot = self._fit(
                X, read_input(X, categorical, self.missing), sample_weight, meter, spec, n_threads
            )
            self.labels_ = snapshot.astype(np.int32)  # after the encoded table, which is as long, is freed
            return self
        check_partitioned(self, spec, sample_weight)
        source = read_partitions(X, client, categorical, self.missing, n_threads)
        with source.engine:
            self.labels_ = self._fit(X, source, None, meter, spec, n_threads)
            return self

    def _fit(
        self,
        X: Any,
        source: Any,
        sample_weight: ArrayLike | None,
        meter: ProgressMeter,
        spec: ModelSpec,
        n_threads: int,
    ) -> Any:
        """Find the clusters of a table that has been read: a MixedTable, or a table in partitions.

        Returns the labels of the rows.
        """
        weights = check_weight(sample_weight, len(source))
        check_countable(weights)
        weight, count_weight = integer_weights(weights)
        source_rows = rows_of(source, weight)
        source_grid = source_rows.grid()
        target = target_n_clusters(self.n_clusters, spec)
        check_n_clusters(target, source_rows, spec)
        limit = cluster_limit(self, spec, len(source))
        given = given_starts(self.init, len(source), limit)
        warn_ignored(self, spec, None if given is None else len(given))
        numeric = "raw" if self.numeric == "auto" and not spec.coherent else self.numeric
        encoding = source_rows.fit_encoding(weights, numeric, n_threads)
        table = source if encoding.identity else source_rows.encoded(encoding)
        rows = rows_of(table, weight)

        grid = source_grid if encoding.identity else rows.grid()
        total = rows.moments(grid, count_weight, rows.one_cluster(), 1, n_threads)
        background = Background(total)
        spec = spec.with_price_factor(self.price_factor, background.weight)
        capped = np.minimum(weight * count_weight, 1.0) if len(weight) else None
        config = FitConfig(
            table,
            weight,
            background,
            spec,
            limit,
            int(self.max_iter),
            seed_of(self.random_state),
            n_threads,
            capped,
            meter.of_part(0),
            meter=meter,
        )
        result = self._search(config, given, target)
        if not result.converged and not (
            spec.by_length and target
        ):  # passes may undo the last splits up to n_clusters
            otherwise = "use model='likelihood' and a selection other than 'threshold', which converge"
            remedy = (
                "continue with init=labels_"
                if spec.by_length
                else f"raise max_iter (now {self.max_iter}), or {otherwise}"
            )
            warn_not_converged(self, result.n_iter, "passes", remedy)
        labels, moments = result.labels, result.moments
        original_units = moments
        if not encoding.identity:
            original_units = source_rows.moments(
                source_grid, count_weight, rows.restored(labels), moments.n_clusters, n_threads
            )
            original_units = original_units.select(np.arange(moments.n_clusters))
        set_input_attributes(self, X, source)
        set_convergence(self, result)
        self._set_state(
            moments,
            result.spec,
            source.schema,
            encoding,
            original_units,
            result.mask,
            result.cross,
            result.clusters,
        )
        path, along = result.merge_path, result.path_clusters
        labels = rows.restated(labels, self._clusters, path)
        gains = np.where(self._clusters.mask, self._clusters.gains, 0.0).sum(axis=0)
        if path is not None and along is not None and not encoding.identity:
            along.original = source_rows.sums_along(path, original_units, n_threads)
        categorical_columns = np.asarray(source.schema.categorical_index)
        links = (
            column_links(config, encoding.source, gains, categorical_columns)
            if spec.by_length
            else ColumnLinks()
        )
        self._set_path(path, along, links)
        if self.n_clusters == "suggested":
            step = step_of(self, "suggested")
            self._go_to(step)
            labels = rows.labels_of_step(path, step)
        self._set_rows(table, labels, weights)
        messages = diagnose(source, self, result.n_clusters_at_4) if spec.by_length else []
        if self.covariance == "full":
            messages += too_many_columns(config.background, total, spec)
        meter.finish(self)
        for message in messages:
            warn_user(message)
        return rows.in_form_of_input(labels)

    def _search(self, config: FitConfig, given: list[Labels] | None, target: int | None) -> CraftResult:
        """The best of all starts. Few rows in partitions are gathered."""
        if config.rows.is_partitioned and len(config.rows) <= SAMPLE_ROWS:
            here: CraftResult = config.rows.searched_here(
                config, lambda gathered: self._search(gathered, None, target)
            )
            return here
        init = self.init if isinstance(self.init, str) else "auto"
        n_starts = (
            len(given)
            if given is not None
            else 1
            if init == "single" and config.spec.coherent
            else int(self.n_init)
        )
        n_expected = min(_N_EXPECTED if target is None else target, config.max_clusters, len(config.table))
        if not config.spec.by_length:
            config = at_price(config, self.cluster_price, target, n_expected)
        of_starts = [config.of_start(start) for start in range(n_starts)]
        if config.spec.by_length:
            return automatic_fit(config, of_starts, given, init, target)
        return fixed_price_fit(of_starts, given, init, n_expected)

    def _set_state(
        self,
        moments: Moments,
        spec: ModelSpec,
        schema: Schema,
        encoding: NumericEncoding,
        moments_original_units: Moments,
        mask: Mask | None = None,
        cross: CrossProducts | None = None,
        clusters: Clusters | None = None,
    ) -> None:
        """Set all fitted attributes that follow from exact sums: those of the encoded table, and those in the
        original units.
        """
        self._moments, self._spec, self.schema_, self._encoding = moments, spec, schema, encoding
        self._moments_original_units = moments_original_units
        if clusters is None:
            clusters = Clusters(moments, Background(moments.total()), spec, mask, cross)
        self._clusters = clusters
        held = clusters.covariances
        self.covariances_ = [None] * moments.n_clusters if held is None else held.in_units(encoding.source)
        self.n_clusters_ = moments.n_clusters
        self.cluster_price_, self.price_factor_ = clusters.price, spec.price_factor
        self.objective_ = clusters.objective
        sizes = moments.sizes
        self.cluster_sizes_ = sizes.astype(np.int64) if moments.unit == 1.0 else sizes
        self.feature_mask_ = np.zeros((moments.n_clusters, schema.n_columns), bool)
        self.feature_gains_ = np.zeros(self.feature_mask_.shape)
        for d, column in enumerate(encoding.source):
            self.feature_mask_[:, column] |= clusters.mask[:, d].astype(bool)
            self.feature_gains_[:, column] += clusters.gains[:, d]
        own = clusters
        if moments_original_units is not moments:
            own = Clusters(moments_original_units, Background(moments_original_units.total()), ModelSpec())
        grid, background = own.moments.grid, own.background
        undefined = np.where(own.moments.present > 0, 0.0, np.nan)
        self.centers_ = grid.centre + own.moments.means()[0] / grid.scale + undefined
        self.variances_ = (
            background.variance / own.precision / grid.scale**2 * (background.usable[: grid.p] > 0)
            + undefined
        )
        probability = own.level_probabilities()
        self.level_probabilities_ = [
            probability[:, start : start + levels]
            for start, levels in zip(grid.level_start, schema.n_levels, strict=True)
        ]
        self.levels_ = [list(levels) for levels in schema.levels]
        self.numeric_features_in_ = np.array(schema.numeric_names, dtype=object)
        self.categorical_features_in_ = np.array(schema.categorical_names, dtype=object)

    # ---- new rows: see also NewRows; scikit-learn's set_output needs this one here ----

    @rowwise(feature_names_out, lambda model: model.schema_.dtype)
    def transform(self, X: Any) -> NDArray[Any]:
        """Cost of every row under every cluster.

        Returns
        -------
        ndarray (n, K)
            Nats, background included, without the constant (1/2) log 2 pi of each numeric cell. The cluster
            of a row is the column of its smallest cost. The dtype is that of the numeric columns.
        """
        table = self._read_new(X)
        costs: NDArray[Any] = self._clusters.full_costs(table)
        return costs.astype(self.schema_.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_
