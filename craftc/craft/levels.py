"""Other numbers of clusters from one fit of CRAFT: labels and models at the steps of the merge path."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.merge_path import MergePath, objectives_of, saving_of, suggested_n_clusters
from craftc._common.threads import effective_n_threads
from craftc._common.typing import Labels
from craftc._common.validation import Choice, Number, check_weight, integer_weights
from craftc.craft.dependence import ColumnLinks
from craftc.craft.rows.path_sums import PathClusters
from craftc.craft.search.config import rows_of
from craftc.table import MixedTable
from craftc.table.moments import Moments


class Levels:
    """Methods of `CRAFT` for the steps of its merge path."""

    _typical: list[NDArray[np.intp]] | None
    _unusual: NDArray[np.intp] | None

    def cut(self: Any, n_clusters: int | str) -> Labels:
        """Labels at a smaller number of clusters, from the merge path, without a new fit.

        Parameters
        ----------
        n_clusters : int or "suggested"
            From 1 to `n_clusters_`; "suggested": `suggested_n_clusters_`.

        Returns
        -------
        ndarray (n,) of int32
            Numbered by first appearance. If the path skips that number, the labels have the next smaller
            number on the path.

        Raises
        ------
        ValueError
            More clusters than the model has, or a model without a merge path.
        """
        labels: Labels = self.merge_path_[step_of(self, n_clusters)].labels
        return labels

    def at(self: Any, n_clusters: int | str, X: Any = None, sample_weight: ArrayLike | None = None) -> Any:
        """The model at a smaller number of clusters, from the merge path, without a new fit.

        Parameters
        ----------
        n_clusters : int or "suggested"
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
            its own partition, and its parameter `n_clusters` is its number of clusters.

        Raises
        ------
        ValueError
            More clusters than the model has, a model without a merge path, or not the table or the weights of
            `fit`.

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
        step = step_of(self, n_clusters)
        if step and self._path_clusters is None:
            raise ValueError(
                "This model was saved by an earlier version of craftc, without the sums along its merge "
                "path; fit it again."
            )
        model = object.__new__(type(self))
        vars(model).update(vars(self))  # copy() leaves the labels of a collection behind
        if step:
            model._go_to(step)
        model.n_clusters = model.n_clusters_
        if X is not None:
            table = model._read_new(X)
            weights = weights_of_fit(model, len(table), sample_weight)
            check_rows_of_fit(model, table, weights)
            model._set_rows(table, model.labels_, weights)
        return model

    def _set_path(self: Any, path: MergePath | None, along: PathClusters | None, links: ColumnLinks) -> None:
        """Set what follows from the merge path and the links between columns, which only the automatic price
        gives.
        """
        self.merge_path_ = () if path is None else path
        self._path_clusters, self._links = along, links
        objectives = objectives_of(self.merge_path_)
        self.suggested_n_clusters_ = suggested_n_clusters(objectives) if objectives else None
        saved = saving_of(objectives) if objectives else 0.0
        if (
            saved > 0.0 and self._clusters.covariances is not None
        ):  # the last step of the path holds a covariance: links of its columns
            saved = self._clusters.objective_of_one - min(objective for _, objective in objectives)
        self.dependence_ratio_ = links.ratio(saved)
        self.column_links_ = [
            (self.schema_.columns[a], self.schema_.columns[b], nats) for a, b, nats in links.pairs
        ]

    def _set_rows(self: Any, table: Any, labels: Any, weights: NDArray[np.float64] | None) -> None:
        """Set what the rows of the fit say: margins, and typical and unusual rows."""
        statistics = rows_of(table, np.empty(0, np.int64)).statistics(self._clusters, labels, weights)
        if isinstance(table, MixedTable):
            self.margins_ = statistics.margins
        else:
            self.margins_ = table.collection.margins(self)
            self.merge_path_.release()
        self.cluster_margins_, extremes = statistics.means.values(), statistics.extremes
        self._typical, self._unusual = (
            (None, None) if extremes is None else (extremes.typical, extremes.unusual)
        )

    def _go_to(self: Any, step: int) -> None:
        """Become the model at a later step of the merge path."""
        path, along, held = self.merge_path_, self._path_clusters, self._clusters.covariances
        cross = None if held is None else held.cross
        moments, original, mask, cross = along.at(step, self._moments, self._moments_original_units, cross)
        self._set_state(moments, self._spec, self.schema_, self._encoding, original, mask, cross)
        path = path.after(step)
        self._set_path(path, along.after(step), self._links)
        vars(self).pop("labels_", None)
        if path.has_labels:
            self.labels_ = path[0].labels
        self.objective_path_ = np.append(self.objective_path_, self.objective_)
        self._typical = self._unusual = None
        for name in ("margins_", "cluster_margins_"):  # of the rows, which a model does not hold
            if hasattr(self, name):
                delattr(self, name)


def weights_of_fit(model: Any, n_rows: int, sample_weight: ArrayLike | None) -> NDArray[np.float64] | None:
    """Weights that are passed again with the table of `fit`; raise if that table has other rows, or the
    weights are others.
    """
    n = n_rows_of(model)
    if n_rows != n:
        raise ValueError(f"X has {n_rows} rows, but the model was fitted on {n}; pass the table of fit.")
    weights = check_weight(sample_weight, n)
    whole = float(np.sum(model.cluster_sizes_))
    given = float(n) if weights is None else float(weights.sum())
    if not math.isclose(given, whole, rel_tol=1e-9):
        raise ValueError(
            f"The rows of fit have a weight of {whole:g} in all, these one of {given:g}; pass the "
            "sample_weight of fit."
        )
    return weights


def check_rows_of_fit(model: Any, table: MixedTable, weights: NDArray[np.float64] | None) -> None:
    """Raise unless encoded rows are those of `fit`, in its order, as the exact sums of the clusters show; a
    collection is not checked.
    """
    labels, known = getattr(model, "labels_", None), model._moments
    if not isinstance(labels, np.ndarray):
        return
    integers, unit = integer_weights(weights)
    found = Moments.of_partition(
        known.grid, unit, table, integers, labels, known.n_clusters, effective_n_threads(model.n_threads)
    )
    if unit != known.unit or not np.array_equal(found.groups, known.groups):
        raise ValueError(
            "X is not the table of fit, or its rows are in another order: the sums of the rows of its "
            "clusters are others; pass the table "
            "of fit."
        )


def n_rows_of(model: Any) -> int:
    """Rows of the fit; those of a collection, or of a model that has left it, have no weights."""
    labels = getattr(model, "labels_", None)
    return len(labels) if isinstance(labels, np.ndarray) else int(model.cluster_sizes_.sum())


def step_of(model: Any, n_clusters: int | str) -> int:
    """The step of the merge path with this number of clusters, or the next smaller one."""
    check_is_fitted(model)
    if not model.merge_path_:
        raise ValueError("This model has no merge path; fit it with cluster_price='auto'.")
    Choice(("suggested",), "or a whole number >= 1", Number(least=1, whole=True)).check(
        "n_clusters", n_clusters
    )
    wanted = model.suggested_n_clusters_ if isinstance(n_clusters, str) else n_clusters
    if wanted > model.n_clusters_:
        raise ValueError(
            f"The model has {model.n_clusters_} clusters, fewer than {wanted}; fit with n_clusters={wanted} "
            "to split further."
        )
    step: int = model.merge_path_.down_to(wanted)
    return step
