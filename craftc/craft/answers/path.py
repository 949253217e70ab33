"""Answers of a fitted CRAFT by its merge path: other numbers of clusters, whether there is structure (with
fits of tables with permuted columns, the null test), and fits from local to global selection of features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.merge_path import MergePath, n_clusters_within, objectives_of
from craftc._common.messages import need_pandas
from craftc._common.own_names import OwnNames
from craftc._common.random import SAMPLE_ROWS, CraftStream, spread, uniform
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Array, DaskClient, Floats, Ints, Labels, TableInput, WeightInput
from craftc._common.validation import check_number
from craftc.craft.answers.interpretation import Interpreted
from craftc.craft.answers.stability import Stability, agreement_of, refit
from craftc.craft.base import CraftBase
from craftc.craft.fixed import FixedClusters
from craftc.craft.rows.scores import RowStatistics
from craftc.describe.structure import Structure
from craftc.describe.words import nats, number, plural, range_of
from craftc.distributed.open_input import FitTable, open_input
from craftc.metrics import adjusted_rand_index
from craftc.table import MixedTable

if TYPE_CHECKING:
    from craftc.distributed.partitioned_table import PartitionedTable
if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class NullTest:
    """Savings of clusters in a table and in tables without structure; the result of ``CRAFT.null_test``.

    Attributes
    ----------
    saving : float
        Nats by which the clusters of the table are shorter than one cluster; below 0 if a given number of
        clusters costs more.
    n_clusters : int
        Clusters of the table.
    null_savings : ndarray (n,) of float64
        The same saving in every table with permuted columns.
    null_n_clusters : ndarray (n,) of int
        Clusters of these tables.
    n_rows : int
        Rows of these tables.
    sampled : bool
        Whether they are a sample of the table, on which `saving` and `n_clusters` are those of a refit.
    one_and_two : (float, float) or None
        J of one cluster, and of the best partition into two, in nats, if no clusters were found.
    agreement : float or None
        Adjusted Rand index of this refit with the model on the sample; None if it is the whole table.
    """

    saving: float
    n_clusters: int
    null_savings: Floats
    null_n_clusters: Ints
    n_rows: int
    sampled: bool
    one_and_two: tuple[float, float] | None = None
    agreement: float | None = None

    @property
    def p_value(self) -> float:
        """(1 + tables with permuted columns that save at least as much) / (n + 1)."""
        return (1 + int((self.null_savings >= self.saving).sum())) / (len(self.null_savings) + 1)

    def __repr__(self) -> str:
        saves = f"{plural(self.n_clusters, 'cluster')} save {nats(self.saving)} nats"
        if self.n_clusters == 1:
            saves = "1 cluster"
        if self.one_and_two is not None:
            one, two = self.one_and_two
            saves = f"no clusters found: one costs {nats(one)} nats, the best two {nats(two)}"
        tables = plural(len(self.null_savings), "table")
        rows = f" of {plural(self.n_rows, 'row')}" if self.sampled else ""
        null = f"{range_of(self.null_savings.tolist(), nats)} nats"
        K = range_of(self.null_n_clusters.tolist(), str)
        of_null = f"{tables}{rows} with permuted columns: {null}, {K} cluster{'' if K == '1' else 's'}"
        return f"NullTest({saves}; {of_null}; p = {number(self.p_value)})"


def null_test(
    model: CraftBase, X: FitTable, n: int, seed: int, sample_weight: WeightInput, client: DaskClient | None
) -> NullTest:
    """Refits of a model on tables with permuted columns, of at most 16 384 rows."""
    table, weight, sampled = rows_to_test(model, X, seed, sample_weight, client)
    found, agreement, one_and_two = model, None, None
    if sampled:
        found = refit(model, table, weight, seed)
        agreement = agreement_of([model, found], table)[0]
    if found.n_clusters_ == 1 and not model._asked:
        two = refit(model, table, weight, seed, parameters={"n_clusters": 2})
        one_and_two = (found.objective_, two.objective_) if two.n_clusters_ == 2 else None
    null = [refit(model, permuted(table, seed, i), weight, seed + i) for i in range(n)]
    return NullTest(
        saving_of_clusters(found),
        int(found.n_clusters_),
        np.array([saving_of_clusters(each) for each in null]),
        np.array([each.n_clusters_ for each in null]),
        len(table),
        sampled,
        one_and_two,
        agreement,
    )


def saving_of_clusters(model: CraftBase) -> float:
    """Nats by which the clusters of a model are shorter than one cluster."""
    return float(objectives_of(model.merge_path_)[-1][1] - model.objective_)


def rows_to_test(
    model: CraftBase, X: FitTable, seed: int, sample_weight: WeightInput, client: DaskClient | None
) -> tuple[MixedTable, Floats | None, bool]:
    """The rows of weight > 0 of the table of fit and their weights, or a sample of them; and whether it is a
    sample.
    """
    weight = None
    with open_input(X, client) as source:
        whole: MixedTable | PartitionedTable
        if source.place == "partitions":
            if sample_weight is not None:
                raise ValueError("The rows of Partitions or a Dask collection have no weights.")
            threads = effective_n_threads(model.n_threads)
            whole = source.read("auto", model.missing, threads, model.schema_.kinds)
        else:
            whole = model._read_columns(cast("TableInput", X))
            weight = model._rows_of_fit(whole, sample_weight)[1]
        rows = np.arange(len(whole)) if weight is None else np.flatnonzero(weight)
        if sampled := len(rows) > SAMPLE_ROWS:
            rows = rows[spread(len(rows), SAMPLE_ROWS, seed, CraftStream.NULL_SAMPLE)]
        table = model.schema_.encode(whole.take(rows))
    return table, None if weight is None else weight[rows], sampled


def permuted(table: MixedTable, seed: int, i: int) -> MixedTable:
    """A table in which every column has its cells in an order of its own, missing ones among them."""
    schema = table.schema

    def block(cells: Array, columns: Sequence[int]) -> Array:
        out = np.empty_like(cells)
        for d, j in enumerate(columns):
            draws = uniform(seed, CraftStream.PERMUTATION, i, j, np.arange(len(cells)))
            out[:, d] = cells[np.argsort(draws, kind="stable"), d]
        return out

    numeric = block(table.numeric, schema.numeric_index.tolist())
    return MixedTable._trusted(numeric, block(table.codes, schema.categorical_index.tolist()), schema)


class WithMergePath(Interpreted):
    """Methods of a model whose merge path leads down to one cluster."""

    merge_path_: MergePath
    _fixed: FixedClusters | None = None  # by which partial_fit assigns rows; None: the present clusters

    def n_clusters_within(self, nats: float) -> list[int]:
        """The numbers of clusters on the merge path that describe the table nearly as well as the best.

        Parameters
        ----------
        nats : float
            Most nats by which their description may be longer.

        Returns
        -------
        list of int
            Ascending; the best number is among them.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from sklearn.datasets import load_wine
        >>> model = CRAFT(5, random_state=0).fit(load_wine().data)
        >>> model.n_clusters_within(5.0), model.n_clusters_within(30.0)
        ([3], [3, 4, 5])
        """
        check_is_fitted(self)
        return n_clusters_within(self.merge_path_.objectives(), check_number("nats", nats, least=0.0))

    def cut(self, n_clusters: int) -> Labels:
        """Labels at a smaller number of clusters, from the merge path, without a new fit.

        Parameters
        ----------
        n_clusters : int
            From 1 to `n_clusters_`.

        Returns
        -------
        ndarray (n,) of int32
            Numbered by first appearance. If the path skips that number, the labels have the next smaller
            number on the path.

        Raises
        ------
        ValueError
            More clusters than the model has.
        """
        at = self._step(n_clusters)
        labels: Labels = self.merge_path_[at].labels
        return labels

    def at(self, n_clusters: int, X: TableInput | None = None, sample_weight: WeightInput = None) -> Self:
        """The model at a smaller number of clusters, from the merge path, without a new fit.

        Parameters
        ----------
        n_clusters : int
            As in `cut`.
        X : data frame, array (n, D) or MixedTable, optional
            The table of `fit`. With it the result has `margins_`, and typical and unusual rows, which depend
            on the rows.
        sample_weight : array (n,), optional
            The weights of `fit`.

        Returns
        -------
        CRAFT
            A fitted model, which predicts, explains, summarises and can be saved. Its merge path begins at
            its own partition; its parameter `n_clusters` is its number of clusters, without bounds on sizes.

        Raises
        ------
        ValueError
            More clusters than the model has, or not the table or the weights of `fit`.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from sklearn.datasets import load_wine
        >>> wine = load_wine().data
        >>> model = CRAFT(5, random_state=0).fit(wine)
        >>> three = model.at(3)
        >>> three.n_clusters_, bool((three.predict(wine) == model.cut(3)).all())
        (3, True)
        """
        step = self._step(n_clusters)
        model = object.__new__(type(self))
        model.__dict__.update(self.__dict__)  # copy() leaves the labels of a collection behind
        if step:
            model._go_to(step)
        model.n_clusters = model.n_clusters_
        model.min_cluster_size = model.max_cluster_size = None
        if X is not None:
            table, weights = model._rows_of_fit(model._read_columns(X), sample_weight)
            labels = model._partition
            assert labels is not None  # those of a collection have no step
            of_rows = RowStatistics.of_rows(model._fitted.clusters, table, labels, weights)
            model._set_rows(of_rows)
            model.labels_ = labels  # without marks, which the next line makes
            model._mark_outliers()
        return model

    def null_test(
        self,
        X: FitTable,
        n: int = 19,
        *,
        random_state: int = 0,
        sample_weight: WeightInput = None,
        client: DaskClient | None = None,
    ) -> NullTest:
        """Whether the table has structure: what clusters save there, and in tables with permuted columns.

        Every column of a table is permuted on its own, its missing cells among the others, so that all
        columns keep their distributions and no two of them depend on each other. The model is fitted to such
        tables with its own parameters.

        Parameters
        ----------
        X : frame, array, MixedTable, path, dataset or Dask collection
            The table of `fit`. More than 16 384 rows are represented by a sample of this size, on which the
            saving of the model is that of a refit, too.
        n : int, default=19
            Number of tables with permuted columns; with 19 of them the smallest p is .05.
        random_state : int, default=0
            Seed of the permutations, the refits and the sample.
        sample_weight : array (n,), optional
            The weights of `fit`, which stay where they are; rows of weight 0 are left out.
        client : distributed.Client, optional
            As in `fit`.

        Returns
        -------
        NullTest
            Savings over one cluster in nats, numbers of clusters, and `p_value`: (1 + number of tables with
            permuted columns that save at least as much) / (n + 1).

        Notes
        -----
        The test is of independent columns. A small p-value says that columns depend on each other in a way
        that clusters describe, not that the clusters are separate groups or that their number is right.
        Tables with permuted columns have the bounds of `fit`, but no groups of rows that stay together.

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> found = CRAFT(random_state=0).fit(heart).null_test(heart, n=4)
        >>> found.p_value, found.null_savings.tolist()
        (0.2, [0.0, 0.0, 0.0, 0.0])
        """
        check_is_fitted(self)
        for name, value, least in (("n", n, 1), ("random_state", random_state, 0)):
            check_number(name, value, least=least, whole=True)
        return null_test(self, X, int(n), int(random_state), sample_weight, client)

    def mask_path(
        self,
        X: FitTable,
        feature_sharing: Iterable[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
        *,
        random_state: int = 0,
        sample_weight: WeightInput = None,
        client: DaskClient | None = None,
    ) -> DataFrame:
        """From local to global selection: fits with other values of `feature_sharing`.

        Parameters
        ----------
        X : frame, array, MixedTable, path, dataset or Dask collection
            The table of `fit`. More than 16 384 rows are represented by a sample of this size.
        feature_sharing : list of float in [0, 1]
            The values, in the order of the lines. At 1 no cluster holds a covariance.
        random_state : int, default=0
            Seed of the fits and of the sample.
        sample_weight : array (n,), optional
            The weights of `fit`; rows of weight 0 are left out.
        client : distributed.Client, optional
            As in `fit`.

        Returns
        -------
        DataFrame
            A line for each value: `n_clusters`, `objective` (J in nats), `selected` (mean share of the
            features that a cluster selects), `common` (share of the features that all clusters select or
            none does) and `agreement` (adjusted Rand index with the partition of the first line).

        Examples
        --------
        >>> from craftc import CRAFT
        >>> from craftc.datasets import load_heart
        >>> heart = load_heart().data
        >>> path = CRAFT(random_state=0).fit(heart).mask_path(heart, (0, 0.5, 1))
        >>> path[["feature_sharing", "n_clusters"]].values.tolist(), path["common"].iloc[-1].item()
        ([[0.0, 2.0], [0.5, 2.0], [1.0, 2.0]], 1.0)
        """
        check_is_fitted(self)
        check_number("random_state", random_state, least=0, whole=True)
        if not isinstance(feature_sharing, Iterable) or isinstance(feature_sharing, str):
            raise TypeError(
                f"feature_sharing must be a list of numbers from 0 to 1, got {feature_sharing!r}."
            )
        shares = [check_number("feature_sharing", s, least=0.0, most=1.0) for s in feature_sharing]
        if not shares:
            raise ValueError("feature_sharing has no values; give at least one number from 0 to 1.")
        seed = int(random_state)
        table, weight, _ = rows_to_test(self, X, seed, sample_weight, client)
        fits = [refit(self, table, weight, seed, parameters=_parameters(share)) for share in shares]
        masks = [fit.feature_mask_.astype(bool) for fit in fits]
        path: DataFrame = need_pandas().DataFrame(
            {
                "feature_sharing": shares,
                "n_clusters": [fit.n_clusters_ for fit in fits],
                "objective": [fit.objective_ for fit in fits],
                "selected": [float(mask.mean()) for mask in masks],
                "common": [float(np.mean(mask.all(axis=0) | ~mask.any(axis=0))) for mask in masks],
                "agreement": [adjusted_rand_index(fits[0].labels_, fit.labels_) for fit in fits],
            }
        )
        return path

    def _step(self, n_clusters: int) -> int:
        """The step of the merge path with this number of clusters, or the next smaller one."""
        check_is_fitted(self)
        check_number("n_clusters", n_clusters, least=1, whole=True)
        if n_clusters > self.n_clusters_:
            raise ValueError(
                f"The model has {self.n_clusters_} clusters, fewer than {n_clusters}; fit with "
                f"n_clusters={n_clusters} to split further."
            )
        return self.merge_path_.down_to(n_clusters)

    def _go_to(self, step: int) -> None:
        """Become the model at a later step of the merge path."""
        self._set_fitted(self._fitted.at(step))
        self.__dict__.pop("labels_", None)
        if self.merge_path_.has_labels:
            self.labels_ = self.merge_path_[0].labels
        self.objective_path_ = np.append(self.objective_path_, self.objective_)
        self._own_names = OwnNames(clusters={}, columns=self._own_names["columns"])
        self._drop_of_rows("_slices", "_pattern", "_fixed")

    def _drop_of_rows(self, *others: str) -> None:
        """Drop what needs the rows of the fit, which a model does not hold, the changes of a refit, and
        `others`.
        """
        self._typical = self._unusual = self._mixture = self._clusters_of_rows = None
        for name in ("margins_", "outlier_scores_", "cluster_margins_", "changes_", *others):
            self.__dict__.pop(name, None)

    def _forget_former(self) -> None:
        """Drop what an earlier fit, and not every one, has set."""
        for name in ("_fixed", "_groups", "_weight", "changes_", "_slices", "_pattern"):
            self.__dict__.pop(name, None)


def _parameters(share: float) -> dict[str, float | str]:
    """With one mask for all clusters, none holds a covariance of its own."""
    return {"feature_sharing": share} | ({"covariance": "diagonal"} if share == 1.0 else {})


def structure_of(
    model: CraftBase,
    null_test: NullTest | None = None,
    stability: Stability | None = None,
    agreement: Sequence[float] = (),
) -> Structure:
    """The structure that a model shows; `agreement`: adjusted Rand indices with fits from other seeds."""
    found: Structure = model._structure()
    if null_test is not None:
        found = replace(
            found,
            saving=null_test.saving,
            null_savings=null_test.null_savings.tolist(),
            n_sampled=null_test.n_rows if null_test.sampled else 0,
            one_and_two=null_test.one_and_two,
        )
    agreement = [
        *agreement,
        *(() if null_test is None or null_test.agreement is None else [null_test.agreement]),
    ]
    if stability is not None and model.n_clusters_ > 1:
        agreement = [*agreement, *stability.agreement.tolist()]
        mean = stability.mean
        known = ~np.isnan(mean)
        if known.any():
            overlap = float(np.average(mean[known], weights=model.cluster_sizes_[known]))
            found = replace(found, overlap=overlap)
    return replace(found, agreement=agreement)
