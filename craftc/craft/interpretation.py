"""What a fitted CRAFT says about its clusters: contributions of features, other numbers of clusters, and the summary."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from craftc._common.merge_path import objectives_of, suggested_n_clusters
from craftc._common.optional import need_pandas
from craftc._common.typing import Labels
from craftc._common.validation import Choice, Number
from craftc.craft.diagnostics import contribution_frame
from craftc.craft.summary import cluster_summary, distributions


class Interpretation:
    """Methods of `CRAFT` for reading its result."""

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
        check_is_fitted(self)
        if not self.merge_path_:
            raise ValueError("This model has no merge path; fit it with cluster_price='auto'.")
        Choice(("suggested",), "or a whole number >= 1", Number(least=1, whole=True)).check("n_clusters", n_clusters)
        wanted = suggested_n_clusters(objectives_of(self.merge_path_)) if isinstance(n_clusters, str) else n_clusters
        if wanted > self.n_clusters_:
            raise ValueError(
                f"cut({wanted}) asks for more than the {self.n_clusters_} clusters of this model; fit with n_clusters={wanted} "
                "to split further."
            )
        at = next(i for i, step in enumerate(self.merge_path_) if step.n_clusters <= wanted)
        labels: Labels = self.merge_path_[at].labels.astype(np.int32)
        return labels

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
