"""What CRAFT and PaperCRAFT share: fitted attributes, the rows of the fit, new rows, and what a model says
about its clusters.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import MixedInput, finite_result, frame_library, output_frame
from craftc._common.merge_path import MergePath, objectives_of
from craftc._common.threads import effective_n_threads, threads_for
from craftc._common.typing import (
    ColumnSelection,
    Floats,
    Labels,
    OutputFrame,
    RandomStateInput,
    TableInput,
    WeightInput,
)
from craftc._common.validation import check_number, check_weight
from craftc.craft.answers.criteria import MixtureCriteria
from craftc.craft.answers.stability import Stability, stability_of
from craftc.craft.bounds import GroupsInput
from craftc.craft.clusters import Clusters, bhattacharyya, pass_work
from craftc.craft.fitted import FittedClusters, WeightColumn
from craftc.craft.parameters import StartsInput
from craftc.craft.rows import scores
from craftc.describe.facts import Facts
from craftc.describe.frames import summary_frame
from craftc.describe.overview import HtmlOverview
from craftc.describe.view import ClusterView
from craftc.distributed.collections import WithoutCollections, feature_names_out, rowwise
from craftc.distributed.open_input import FitTable
from craftc.reading.unusable import known_columns
from craftc.table import MixedTable
from craftc.table.other_ranges import warn_of_other_ranges
from craftc.table.out_of_core import is_out_of_core

Rows = TypeVar("Rows")


def is_a_density(model: CraftBase) -> bool:
    """Raise AttributeError unless the costs of rows are minus log densities."""
    if reason := model._no_density():
        raise AttributeError(reason)
    return True


class CraftBase(
    MixtureCriteria,
    WithoutCollections,
    ClassNamePrefixFeaturesOutMixin,
    MixedInput,
    HtmlOverview,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Fitted attributes and methods of CRAFT and PaperCRAFT.

    As a mixture, a model has one component for each cluster. The weight of a component is its cluster's share
    of the rows; clusters at a fixed price, which does not include the labels, have equal weights. A cell of a
    selected feature has the cluster's distribution, any other cell that of the background.
    """

    categorical: ColumnSelection
    unknown: str
    unusable: str = "error"
    n_threads: int | None
    random_state: RandomStateInput
    init: StartsInput

    _fitted: FittedClusters
    _clusters_of_rows: Labels | None = None  # where `labels_` marks outliers
    _frame_library: str | None
    _weight: WeightColumn | None = None  # of a fit of the command line
    _typical: list[NDArray[np.intp]] | None
    _unusual: NDArray[np.intp] | None
    n_features_in_: int
    n_clusters_: int
    objective_: float
    objective_path_: Floats
    labels_: Labels
    merge_path_: MergePath | tuple[()]

    # one cluster has no margins, a column without numbers in a cluster no mean there, and no saving no ratio
    _not_always_finite = ("margins_", "cluster_margins_", "centers_", "variances_", "dependence_ratio_")
    _of_fit: tuple[str, ...] = ("init", "random_state", "labels_", "margins_", "objective_path_")
    _of_fit += (
        "outlier_scores_",
        "_clusters_of_rows",
        "merge_path_",
        "_typical",
        "_unusual",
        "_mixture",
        "_fixed",
        "changes_",
    )

    def _no_density(self) -> str:
        """Why the costs of rows are no log densities; empty if they are."""
        return ""

    # ---- fitted attributes ----

    def _set_fitted(self, fitted: FittedClusters) -> None:
        """Set all fitted attributes that follow from the state of a fitted model."""
        self._fitted = fitted
        clusters, schema = fitted.clusters, fitted.schema
        self.schema_ = schema
        held, K = clusters.covariances, clusters.moments.n_clusters
        self.covariances_ = [None] * K if held is None else held.in_units(fitted.encoding.source)
        self.n_clusters_, self.objective_ = K, clusters.objective
        self.cluster_price_, self.price_factor_ = clusters.pricing.h, fitted.spec.price_factor
        self.cluster_sizes_ = fitted.sizes
        self.feature_mask_ = fitted.selected
        self.feature_gains_ = fitted.gains
        moments = fitted.original_moments
        grid, undefined = moments.grid, np.where(moments.present > 0, 0.0, np.nan)
        self.centers_ = grid.centre + moments.means()[0] / grid.scale + undefined
        variances, probability = fitted.smoothed
        self.variances_ = variances + undefined
        self.level_probabilities_ = [
            probability[:, start : start + levels]
            for start, levels in zip(grid.level_start, schema.n_levels, strict=True)
        ]
        self.levels_ = [list(levels) for levels in schema.levels]
        self.numeric_features_in_ = np.array(schema.numeric_names, dtype=object)
        self.categorical_features_in_ = np.array(schema.categorical_names, dtype=object)
        self.merge_path_ = () if fitted.path is None else fitted.path
        self.dependence_ratio_ = fitted.dependence_ratio
        columns = schema.columns
        self.column_links_ = [(columns[a], columns[b], nats) for a, b, nats in fitted.links.pairs]

    def _set_rows(self, statistics: scores.RowStatistics) -> None:
        """Set what the rows of the fit say: margins, probabilities, and typical and unusual rows."""
        self._clusters_of_rows = None
        self._mixture = None if statistics.mixture is None else statistics.mixture.values()
        self.margins_ = statistics.margins
        self.cluster_margins_, extremes = statistics.means.values(), statistics.extremes
        self._typical, self._unusual = (
            (None, None) if extremes is None else (extremes.typical, extremes.unusual)
        )

    def _forget_rows(self) -> None:
        """Keep only what new rows need."""
        self._fitted = self._fitted.for_new_rows()

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    # ---- rows of the fit ----

    @property
    def _partition(self) -> Labels | None:
        """The clusters of the rows of the fit, outliers included, unless only a collection knows them."""
        own = self._clusters_of_rows
        labels = getattr(self, "labels_", None) if own is None else own
        return labels if isinstance(labels, np.ndarray) else None

    def _marked(self, labels: Labels, table: MixedTable) -> Labels:
        """The labels of encoded rows, where those of outliers may be -1."""
        return labels

    def _n_rows(self) -> int:
        """Rows of the fit; those of a collection, or of a model that has left it, have no weights."""
        labels = getattr(self, "labels_", None)
        return len(labels) if isinstance(labels, np.ndarray) else int(self.cluster_sizes_.sum())

    def _rows_of_fit(self, columns: MixedTable, weight: WeightInput) -> tuple[MixedTable, Floats | None]:
        """The table of `fit` as the model sees it, from its columns in their original units, and its weights;
        raise ValueError for another table or other weights.

        The exact sums of the clusters show whether the rows are those of the fit, in its order; a collection
        is not checked.
        """
        table, threads = self._fitted.encoding.apply(columns), effective_n_threads(self.n_threads)
        weights = self._fitted.check_rows(table, weight, self._n_rows(), self._partition, threads)
        return table, weights

    # ---- new rows; columns and levels are matched by name ----

    def _read_new(self, X: TableInput) -> MixedTable:
        columns, fitted = self._read_columns(X), self._fitted
        warn_of_other_ranges(fitted.levels, columns)
        return fitted.encoding.apply(columns, n_threads=self._threads_of(len(columns)))

    def _read_with_range(self, X: TableInput) -> tuple[MixedTable, Floats]:
        """New rows as the model sees them, and (n,) nats for their numbers outside the ranges of `fit`."""
        columns = self._read_columns(X)
        each = math.log(self._fitted_clusters().background.weight + 1.0)
        penalties = np.zeros(len(columns))
        for rows in self._outside(columns).values():
            penalties[rows] += each
        return self._fitted.encoding.apply(columns, n_threads=self._threads_of(len(columns))), penalties

    def _outside(self, columns: MixedTable) -> dict[str, NDArray[np.intp]]:
        """Positions of rows with numbers outside the ranges of `fit`, by column."""
        encoding = self._fitted_state().levels
        return {} if encoding is None else encoding.outside(columns)

    def _read_columns(self, X: TableInput) -> MixedTable:
        """The columns of the model in their original units."""
        schema = self._fitted_state().schema
        if is_out_of_core(X):  # the table of fit; new rows come in batches
            X = MixedTable.from_parquet(X, columns=schema.columns, missing=self.missing, kinds=schema.kinds)
        elif self.unusable == "drop":
            X = known_columns(X, schema.columns)
        return schema.encode(X, unknown=self.unknown, estimator_name=type(self).__name__)

    def _fitted_state(self) -> FittedClusters:
        check_is_fitted(self)
        return self._fitted

    def _fitted_clusters(self) -> Clusters:
        """The clusters of a fitted model; raise NotFittedError before a fit."""
        return self._fitted_state().clusters

    @rowwise("cluster", "int32")
    def predict(self, X: TableInput) -> NDArray[np.int32]:
        """Cheapest cluster of every row; columns and levels are matched by name.

        Parameters
        ----------
        X : data frame, array (n, D), MixedTable or Dask collection, whose result is lazy
            The columns of `fit`, in any order if they have names.

        Returns
        -------
        ndarray (n,) of int32
            With `outlier_price`, -1 for rows that fit no cluster.
        """
        table = self._read_new(X)
        labels = self._fitted_clusters().cheapest(table, self._threads_of(len(table)))
        return self._marked(labels, table)

    def _threads_of(self, n_rows: int) -> int:
        work = pass_work(n_rows, len(self._fitted.encoding.source), self.n_clusters_)
        return threads_for(effective_n_threads(self.n_threads), work)

    @finite_result
    def score(self, X: TableInput, y: object = None, sample_weight: WeightInput = None) -> float:
        """Minus the summed cost of the rows under their cheapest cluster, nats; higher is better.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable
        y : ignored
        sample_weight : array (n,), optional

        Returns
        -------
        float
        """
        table = self._read_new(X)
        weight = check_weight(sample_weight, len(table))
        least = self._fitted_clusters().full_costs(table).min(axis=1)
        return -float(least.sum() if weight is None else (least * weight).sum())

    @rowwise(feature_names_out, lambda model: model.schema_.dtype)
    @finite_result
    def transform(self, X: TableInput) -> NDArray[np.floating]:
        """Cost of every row under every cluster.

        Returns
        -------
        ndarray (n, K)
            Nats, background included: minus the log probability of the levels of a row and of the cluster.
            Numbers of `PaperCRAFT` have a density instead, without the constant (1/2) log 2 pi of each. The
            cluster of a row is the column of its smallest cost. The dtype is that of the numeric columns.
        """
        table = self._read_new(X)
        costs = self._fitted_clusters().full_costs(table)
        return costs.astype(self.schema_.dtype, copy=False)

    @available_if(is_a_density)  # type: ignore[untyped-decorator]
    @rowwise(lambda model: range(model.n_clusters_), "float64")
    def predict_proba(self, X: TableInput) -> Floats:
        """Probability of every cluster for every row: softmax of -`transform`. Not with the paper's models.

        Parameters
        ----------
        X : data frame, array (n, D), MixedTable or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n, K) of float64
            Rows sum to 1. The columns are in the order of the cluster numbers.

        Notes
        -----
        The search assigns rows to clusters, so that dependence between columns inside clusters makes these
        probabilities too certain.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> model = CRAFT(random_state=0).fit(heart)
        >>> model.predict_proba(heart.head(2)).round(3).tolist()
        [[1.0, 0.0], [0.846, 0.154]]
        """
        table = self._read_new(X)
        return np.asarray(softmax(-self._fitted_clusters().full_costs(table), axis=1))

    @available_if(is_a_density)  # type: ignore[untyped-decorator]
    @rowwise("score", "float64")
    def score_samples(self, X: TableInput) -> Floats:
        """Log probability of every row under the fitted mixture, in nats. Not with the paper's models.

        Parameters
        ----------
        X : data frame, array (n, D), MixedTable or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n,) of float64
            A missing cell is integrated out, as is a level that `fit` has not seen. A column that was
            constant in `fit` counts nothing. A number outside the range of its column in `fit` lowers the
            result by log(N + 1), with N the weight of the table: one cell of that kind in N + 1.

        Notes
        -----
        The probability is that of the levels of a row: of a number, its value or one of about 64 intervals;
        in a covariance nearly, by a normal density. Numbers of `PaperCRAFT` have densities.

        Examples
        --------
        >>> import numpy as np
        >>> from craftc import CRAFT
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2)) + 6.0 * rng.integers(0, 2, (200, 1))
        >>> model = CRAFT(random_state=0).fit(X)
        >>> held_out = rng.normal(size=(200, 2)) + 6.0 * rng.integers(0, 2, (200, 1))
        >>> round(float(model.score_samples(held_out).mean()), 2)
        -7.73
        """
        return scores.densities_of(self._fitted_clusters(), *self._read_with_range(X))

    @rowwise("margin", "float64")
    def margins(self, X: TableInput) -> NDArray[np.float64]:
        """Margin of every row: nats by which it prefers its cluster to the second best; inf with one cluster.

        Parameters
        ----------
        X : data frame, array (n, D), MixedTable or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n,) of float64
            Near 0: the row lies between two clusters. 5: the row is e^5 = 150 times as likely in its own
            cluster.
        """
        return scores.margins_of(self._fitted_clusters(), self._read_new(X))

    # ---- interpretation ----

    @property
    def cluster_names_(self) -> list[str]:
        """Name of every cluster: that of `rename_clusters`, or up to three facts that set it apart."""
        check_is_fitted(self)
        return Facts(self._shown_clusters()).names()

    @property
    def feature_importances_(self) -> Floats:
        """(D,) share of every input column in the gains of the features in which clusters differ."""
        check_is_fitted(self)
        gains = np.where(self._fitted.differs, self.feature_gains_, 0.0).sum(axis=0)
        return np.asarray(gains / max(gains.sum(), 1e-300))

    def explain(self, X: TableInput) -> OutputFrame:
        """Contribution of every feature to the margin of every row, in nats.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            One row per row of X: `cluster`, the second best cluster `next` (-1 with one cluster), `size`
            (contribution of the sizes of the two clusters) and one column per feature ("NAME (feature)" if it
            has one of these names). The contributions sum to the margin. Where a cluster holds a covariance,
            a cell counts as it does given the row's observed cells in the earlier columns of that covariance.
            A polars frame for a polars frame, otherwise pandas, with the index of X; there
            ``frame.attrs["distribution"]`` says whose distribution every cluster has of every feature, as
            `summary` does. ``frame.attrs["outside_range"]`` lists, by column, the
            positions of rows with a number outside the range of `fit`.
        """
        own, library = self._read_columns(X), frame_library(X)
        table = self._fitted_state().encoding.apply(own)
        columns = scores.contribution_columns(
            self._fitted_clusters(), table, list(self.schema_.columns), self._fitted.encoding.source
        )
        rows = self._fitted.distributions
        attrs = {
            "distribution": [dict(zip(self.schema_.columns, row, strict=True)) for row in rows],
            "outside_range": {name: at.tolist() for name, at in self._outside(own).items()},
        }
        index = getattr(X, "index", None) if library == "pandas" else None
        return output_frame(columns, library, attrs, index)

    def summary(self) -> OutputFrame:
        """Size and selected features of every cluster, compared with the whole table.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            One row per cluster and feature in which it differs from the whole table, largest gain first:
            cluster, its `name` after `rename_clusters`, rows, share, feature (answers of one column are one),
            gain in nats, distribution ("own", or "shared with n clusters"), typical values in the cluster and
            in the whole table; standard deviations are those of the rows (n), in `profile` those of a sample
            (n - 1). A polars frame if the model was fitted on one, otherwise pandas. It has attrs:
            ``frame.attrs["merges"]`` lists (K, objective) along the merge path, which shows how close other
            numbers of clusters are; "price_factor", "dependence_ratio" and "column_links" are fitted
            attributes, as are "soft_sizes", "assignment_entropy", "log_likelihood", "n_parameters", "aic",
            "bic" and "icl"; "relative_entropy" is 1 - entropy / (N log K); "clearly_placed", the share of the
            rows with a probability of at least .9; "structure", a sentence; "notes", a list of warnings.
        """
        fitted = self._fitted_state()
        attrs = {
            "merges": objectives_of(self.merge_path_),
            "structure": self._structure().sentence,
            "price_factor": self.price_factor_,
            "dependence_ratio": self.dependence_ratio_,
            "column_links": self.column_links_,
            "notes": self._notes(),
            **self._criteria(),
        }
        view = self._shown_clusters()
        of = fitted.distributions_of(view.members)
        return summary_frame(view, self._frame_library, attrs, distribution=of)

    def _cluster_view(self) -> ClusterView:
        return self._fitted.view

    def _overview_notes(self) -> list[str]:
        return [*filter(None, [self._structure().sentence]), *self._notes()]

    def _notes(self) -> list[str]:
        """What to know about the clusters: weights of columns, the form of covariances, outliers."""
        return self._fitted.notes

    def representatives(self, n: int = 3, X: TableInput | None = None) -> list[NDArray[np.intp]]:
        """Typical rows of every cluster: those of the highest log density that belong clearly to it.

        Parameters
        ----------
        n : int, default=3
            Rows of each cluster, at most 32 without X.
        X : data frame, array (n, D) or MixedTable, optional
            Rows to choose from; None: those of `fit`, unless the model is another step of a merge path.

        Returns
        -------
        list of K arrays of int
            Positions of rows, most typical first, for every cluster. A row belongs clearly to its cluster if
            its margin is at least log 9 nats, and rows with missing cells are listed only if no others are.
            Of rows of equal levels the first is listed, so that there may be fewer than `n`.
        """
        check_number("n", n, least=1, whole=True)
        check_is_fitted(self)
        if X is None:
            return [rows[:n] for rows in _kept(self, self._typical, n, scores.MOST_TYPICAL)]
        table, penalties = self._read_with_range(X)
        return scores.extremes_of(self._fitted_clusters(), table, n, 1, penalties).typical

    def outliers(self, n: int = 10, X: TableInput | None = None) -> NDArray[np.intp]:
        """The rows with the lowest `score_samples`, which fit no cluster well.

        Parameters
        ----------
        n : int, default=10
            Rows, at most 256 without X.
        X : data frame, array (n, D) or MixedTable, optional
            Rows to choose from; None: those of `fit`, unless the model is another step of a merge path.

        Returns
        -------
        ndarray of int
            Positions of rows, least likely first.
        """
        check_number("n", n, least=1, whole=True)
        check_is_fitted(self)
        if X is None:
            return np.asarray(_kept(self, self._unusual, n, scores.MOST_UNUSUAL)[:n])
        table, penalties = self._read_with_range(X)
        return scores.extremes_of(self._fitted_clusters(), table, 1, n, penalties).unusual

    def similarity(self) -> Floats:
        """Similarity of every two clusters: the Bhattacharyya coefficient of their distributions.

        Returns
        -------
        ndarray (K, K) of float64
            Between 0 and 1; 1 on the diagonal. The share of rows that any rule confuses between two clusters
            of equal size is at most half of it. Not with the paper's models, which define no distributions.
        """
        check_is_fitted(self)
        is_a_density(self)
        return bhattacharyya(self._fitted_clusters())

    def stability(
        self,
        X: FitTable,
        n: int = 20,
        *,
        n_seeds: int = 5,
        random_state: int = 0,
        sample_weight: WeightInput = None,
        groups: GroupsInput = None,
    ) -> Stability:
        """How firm the clusters are: whether refits on parts of the rows and with other seeds find them.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable
            The table of `fit`.
        n : int, default=20
            Refits, each on 80 % of the rows, drawn without replacement. (With replacement, repeated rows look
            like structure.)
        n_seeds : int, default=5
            Refits on all rows with other seeds.
        random_state : int, default=0
            Seed of the draws.
        sample_weight : array (n,), optional
            The weights of `fit`; rows of weight 0 are left out.
        groups : str or array (n,), optional
            The groups of `fit`, whose rows stay together in every refit.

        Returns
        -------
        Stability
            `overlap` (n, K): the Jaccard coefficient of every cluster with the most similar cluster of every
            refit, over the rows of the refit. Its `mean` reads as in clusterboot of R's fpc: .85 and more is
            stable, less than .6 is not. A high value may also mean that the method is inflexible.

        References
        ----------
        .. [1] C. Hennig, "Cluster-wise assessment of cluster stability", Computational Statistics & Data
           Analysis 52 (2007).

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> found = CRAFT(random_state=0).fit(heart).stability(heart, n=4, n_seeds=1)
        >>> found.overlap.shape, found.n_clusters.tolist()
        ((4, 2), [2, 2, 2, 2])

        Raises
        ------
        ValueError
            The table, the weights or the groups are not those of `fit`.
        """
        check_is_fitted(self)
        return stability_of(self, X, (n, n_seeds, random_state), sample_weight, groups)


def _kept(model: CraftBase, rows: Rows | None, n: int, most: int) -> Rows:
    """Rows of `fit` that a model keeps, checked."""
    check_is_fitted(model)
    is_a_density(model)
    if rows is None:
        raise ValueError("This model, made from another one, does not know the rows of fit; pass them as X.")
    if n > most:
        raise ValueError(
            f"A fitted model keeps {most} of these rows, fewer than n={n}; pass the table as X for more."
        )
    return rows
