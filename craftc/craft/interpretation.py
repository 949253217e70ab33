"""What a fitted CRAFT says about its clusters: contributions of features, other numbers of clusters, and the
summary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from craftc._common.estimator import frame_library, output_frame
from craftc._common.typing import Floats
from craftc._common.validation import check_number
from craftc.craft.dependence import dependence_sentence
from craftc.craft.diagnostics import contribution_columns
from craftc.craft.levels import check_rows_of_fit, weights_of_fit
from craftc.craft.probabilities import is_a_density
from craftc.craft.rows.scores import MOST_TYPICAL, MOST_UNUSUAL, extremes_of
from craftc.craft.similarity import bhattacharyya
from craftc.craft.stability import Stability, refits
from craftc.craft.summary import cluster_summary, cluster_view, differing_features, distributions
from craftc.describe.facts import Facts
from craftc.describe.overview import HtmlOverview
from craftc.describe.view import ClusterView


class Interpretation(HtmlOverview):
    """Attributes and methods of `CRAFT` for reading its result."""

    @property
    def cluster_names_(self: Any) -> list[str]:
        """Name of every cluster, of up to three facts in which it differs from the whole table."""
        check_is_fitted(self)
        return Facts(self._cluster_view()).names()

    @property
    def feature_importances_(self: Any) -> Floats:
        """(D,) share of every input column in the gains of the features in which clusters differ from the
        whole table.
        """
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
        pandas.DataFrame or polars.DataFrame
            One row per row of X: `cluster`, the second best cluster `next` (-1 with one cluster), `size`
            (contribution of the sizes of the two clusters) and one column per feature ("NAME (feature)" if it
            has one of these names). The contributions sum to the margin. Where a cluster holds a covariance,
            a cell counts as it does given the row's observed cells in the earlier columns of that covariance.
            A polars frame for a polars frame, otherwise pandas, with the index of X; there
            ``frame.attrs["distribution"]`` says whose distribution every cluster has of every feature, as
            `summary` does.
        """
        table, library = self._read_new(X), frame_library(X)
        columns = contribution_columns(
            self._clusters, table, list(self.schema_.columns), self._encoding.source
        )
        attrs = {
            "distribution": [dict(zip(self.schema_.columns, row, strict=True)) for row in distributions(self)]
        }
        return output_frame(columns, library, attrs, X.index if library == "pandas" else None)

    def summary(self: Any) -> Any:
        """Size and selected features of every cluster, compared with the whole table.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            One row per cluster and feature in which it differs from the whole table, largest gain first:
            cluster, rows, share, feature, gain in nats, distribution ("own", or "shared with n clusters"),
            typical values in the cluster and in the whole table. A polars frame if the model was fitted on
            one, otherwise pandas (``pip install craftc[app]``). The pandas frame has attributes:
            ``frame.attrs["merges"]`` lists (K, objective) along the merge path, which shows how close other
            numbers of clusters are; the attrs "price_factor", "suggested_n_clusters", "dependence_ratio" and
            "column_links" are the fitted attributes. "dependence" is a sentence if `dependence_ratio_`
            exceeds 1, otherwise empty.
        """
        check_is_fitted(self)
        return cluster_summary(self)

    def _cluster_view(self: Any) -> ClusterView:
        return cluster_view(self)

    def _overview_notes(self: Any) -> list[str]:
        suggested = self.suggested_n_clusters_
        fewer = suggested not in (None, self.n_clusters_)
        notes = [f'suggested: {suggested} clusters, at("suggested")'] if fewer else []
        return [*notes, *filter(None, [dependence_sentence(self)])]

    def representatives(self: Any, n: int = 3, X: Any = None) -> list[NDArray[np.intp]]:
        """Typical rows of every cluster: those of the highest log density that belong clearly to it.

        Parameters
        ----------
        n : int, default=3
            Rows of each cluster, at most 32 without X.
        X : data frame, array (n, D) or MixedTable, optional
            Rows to choose from; None: those of `fit`.

        Returns
        -------
        list of K arrays of int
            Positions of rows, most typical first, for every cluster. A row belongs clearly to its cluster if
            its margin is at least log 9 nats, and rows with missing cells are listed only if no others are.
            Of equal rows the first is listed, so that there may be fewer than `n`.

        Raises
        ------
        ValueError
            More than 32 without X, or a model at another step of the merge path without X.
        """
        check_number("n", n, least=1, whole=True)
        if X is None:
            return [rows[:n] for rows in _kept(self, self._typical, n, MOST_TYPICAL)]
        return extremes_of(self._clusters, self._read_new(X), n, 1).typical

    def outliers(self: Any, n: int = 10, X: Any = None) -> NDArray[np.intp]:
        """The rows with the lowest `score_samples`, which fit no cluster well.

        Parameters
        ----------
        n : int, default=10
            Rows, at most 256 without X.
        X : data frame, array (n, D) or MixedTable, optional
            Rows to choose from; None: those of `fit`.

        Returns
        -------
        ndarray of int
            Positions of rows, least likely first.

        Raises
        ------
        ValueError
            More than 256 without X, or a model at another step of the merge path without X.
        """
        check_number("n", n, least=1, whole=True)
        if X is None:
            return np.asarray(_kept(self, self._unusual, n, MOST_UNUSUAL)[:n])
        return extremes_of(self._clusters, self._read_new(X), 1, n).unusual

    def similarity(self: Any) -> Floats:
        """Similarity of every two clusters: the Bhattacharyya coefficient of their distributions.

        Returns
        -------
        ndarray (K, K) of float64
            Between 0 and 1; 1 on the diagonal. The share of rows that any rule confuses between two clusters
            of equal size is at most half of it. Not with the paper's models, which define no distributions.
        """
        check_is_fitted(self)
        is_a_density(self)
        return bhattacharyya(self._clusters)

    def stability(
        self: Any,
        X: Any,
        n: int = 20,
        *,
        n_seeds: int = 5,
        random_state: int = 0,
        sample_weight: ArrayLike | None = None,
    ) -> Stability:
        """How firm the clusters are: whether refits on parts of the rows, and with other seeds, find them
        again.

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

        Returns
        -------
        Stability
            `overlap` (n, K): the Jaccard coefficient of every cluster with the most similar cluster of every
            refit, over the rows of the refit. Its `mean` reads as in clusterboot of R's fpc: .85 and more is
            stable, less than .6 is not. A high value may also mean that the method is inflexible.

        Raises
        ------
        ValueError
            A parameter or the table is invalid, or the model was fitted on a Dask collection, where the
            labels of its rows are lazy.

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
        """
        check_is_fitted(self)
        check_number("n", n, least=1, whole=True)
        check_number("n_seeds", n_seeds, least=0, whole=True)
        check_number("random_state", random_state, least=0, whole=True)
        table = self._read_columns(X)
        if not isinstance(getattr(self, "labels_", None), np.ndarray):
            raise ValueError(
                "This model holds no labels of its rows, which lie in a Dask collection; fit a sample of "
                "the rows."
            )
        weights = weights_of_fit(self, len(table), sample_weight)
        check_rows_of_fit(self, self._encoding.apply(table), weights)
        return refits(self, table, weights, int(n), int(n_seeds), int(random_state))


def _kept(model: Any, rows: Any, n: int, most: int) -> Any:
    """Rows of `fit` that a model keeps, checked."""
    check_is_fitted(model)
    is_a_density(model)
    if rows is None:
        raise ValueError(
            "This model was made from another one and does not know the rows of fit; pass them as X."
        )
    if n > most:
        raise ValueError(
            f"A fitted model keeps {most} of these rows, fewer than n={n}; pass the table as X for more."
        )
    return rows
