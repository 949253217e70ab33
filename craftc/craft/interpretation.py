"""What a fitted CRAFT says about its clusters: contributions of features, other numbers of clusters, and the summary."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.optional import need_pandas
from craftc._common.typing import Floats, Labels
from craftc._common.validation import Choice, Number
from craftc.craft.diagnostics import contribution_frame
from craftc.craft.naming import cluster_names
from craftc.craft.summary import cluster_summary, differing_features, distributions


class Interpretation:
    """Attributes and methods of `CRAFT` for reading its result."""

    @property
    def cluster_names_(self: Any) -> list[str]:
        """Name of every cluster, of up to three facts in which it differs from the whole table."""
        check_is_fitted(self)
        return cluster_names(self)

    @property
    def feature_importances_(self: Any) -> Floats:
        """(D,) share of every input column in the gains of the features in which clusters differ from the whole table."""
        check_is_fitted(self)
        gains = np.where(differing_features(self), self.feature_gains_, 0.0).sum(axis=0)
        return np.asarray(gains / max(gains.sum(), 1e-300))

    def explain(self: Any, X: Any) -> Any:
        """Contribution of every feature to the margin of every row, in nats.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable

        Returns
        -------
        pandas.DataFrame
            One row per row of X: `cluster`, the second best cluster `next` (-1 with one cluster), `size` (contribution of the sizes of the
            two clusters) and one column per feature. The contributions sum to the margin. Where a cluster holds a covariance, a cell
            counts as it does given the row's observed cells in the earlier columns of that covariance. ``frame.attrs["distribution"]``
            says whose distribution every cluster has of every feature, as `summary` does. Needs pandas.
        """
        table, pd = self._read_new(X), need_pandas()
        index = X.index if isinstance(X, pd.DataFrame) else None
        frame = contribution_frame(self._clusters, table, list(self.schema_.columns), self._encoding.source, index)
        frame.attrs["distribution"] = [dict(zip(self.schema_.columns, row, strict=True)) for row in distributions(self)]
        return frame

    def cut(self: Any, n_clusters: int | str) -> Labels:
        """Labels at a smaller number of clusters, from the merge path, without a new fit.

        Parameters
        ----------
        n_clusters : int or "suggested"
            From 1 to `n_clusters_`; "suggested": `suggested_n_clusters_`.

        Returns
        -------
        ndarray (n,) of int32
            Numbered by first appearance. If the path skips that number, the labels have the next smaller number on the path.

        Raises
        ------
        ValueError
            More clusters than the model has, or a model without a merge path.
        """
        labels: Labels = self.merge_path_[step_of(self, n_clusters)].labels
        return labels

    def at(self: Any, n_clusters: int | str, X: Any = None) -> Any:
        """The model at a smaller number of clusters, from the merge path, without a new fit.

        Parameters
        ----------
        n_clusters : int or "suggested"
            As in `cut`.
        X : data frame, array (n, D) or MixedTable, optional
            The table of `fit`. With it the result has `margins_`, and typical and unusual rows, which depend on the rows.

        Returns
        -------
        CRAFT
            A fitted model, which predicts, explains, summarises and can be saved. Its merge path begins at its own partition, and its
            parameter `n_clusters` is its number of clusters.

        Raises
        ------
        ValueError
            More clusters than the model has, or a model without a merge path.

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
        model = copy(self)
        if step:
            model._go_to(step)
        if X is not None:
            model._set_rows(model._read_new(X), model.labels_, None)
        return model

    def summary(self: Any) -> Any:
        """Size and selected features of every cluster, compared with the whole table.

        Returns
        -------
        pandas.DataFrame
            One row per cluster and feature in which it differs from the whole table, largest gain first: cluster, rows, share, feature,
            gain in nats, distribution ("own", or "shared with n clusters"), typical values in the cluster and in the whole table.
            ``frame.attrs["merges"]`` lists (K, objective) along the merge path, which shows how close other numbers of clusters are; the
            attrs "price_factor", "suggested_n_clusters", "dependence_ratio" and "column_links" are the fitted attributes. "dependence" is
            a sentence if `dependence_ratio_` exceeds 1, otherwise empty. Needs pandas (``pip install craftc[app]``).
        """
        check_is_fitted(self)
        return cluster_summary(self)


def step_of(model: Any, n_clusters: int | str) -> int:
    """The step of the merge path with this number of clusters, or the next smaller one."""
    check_is_fitted(model)
    if not model.merge_path_:
        raise ValueError("This model has no merge path; fit it with cluster_price='auto'.")
    Choice(("suggested",), "or a whole number >= 1", Number(least=1, whole=True)).check("n_clusters", n_clusters)
    wanted = model.suggested_n_clusters_ if isinstance(n_clusters, str) else n_clusters
    if wanted > model.n_clusters_:
        raise ValueError(f"The model has {model.n_clusters_} clusters, fewer than {wanted}; fit with n_clusters={wanted} to split further.")
    step: int = model.merge_path_.down_to(wanted)
    return step
