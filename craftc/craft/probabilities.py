"""The fitted CRAFT as a mixture: probabilities of clusters, log densities of rows, and margins between
clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils.metaestimators import available_if

from craftc._common.typing import Floats
from craftc.craft.rows.scores import densities_of, margins_of
from craftc.distributed.collections import rowwise


def is_a_density(model: Any) -> bool:
    """Whether the costs of rows are minus log densities; the paper's lack their normalising constants."""
    if model.model != "likelihood":
        raise AttributeError(f"model={model.model!r} defines no density; use model='likelihood'.")
    return True


class Probabilities:
    """Methods of `CRAFT` for rows as draws from a mixture with one component for each cluster.

    The weight of a component is its cluster's share of the rows; clusters at a numeric price, which does not
    include the labels, have equal weights. A cell of a selected feature has the cluster's distribution, any
    other cell that of the background.
    """

    @available_if(is_a_density)  # type: ignore[untyped-decorator]
    @rowwise(lambda model: range(model.n_clusters_), "float64")
    def predict_proba(self: Any, X: Any) -> Floats:
        """Probability of every cluster for every row: softmax of minus `transform`. Not with the paper's
        models.

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
        [[1.0, 0.0], [0.916, 0.084]]
        """
        table = self._read_new(X)
        return np.asarray(softmax(-self._clusters.full_costs(table), axis=1))

    @available_if(is_a_density)  # type: ignore[untyped-decorator]
    @rowwise("score", "float64")
    def score_samples(self: Any, X: Any) -> Floats:
        """Log density of every row under the fitted mixture, in nats. Not with the paper's models.

        Parameters
        ----------
        X : data frame, array (n, D), MixedTable or Dask collection, whose result is lazy

        Returns
        -------
        ndarray (n,) of float64
            A missing cell is integrated out, as is a level that `fit` has not seen. A column that was
            constant in `fit` counts nothing.

        Notes
        -----
        The density is that of the encoded row. A numeric column has a density in its own units where
        `numeric` leaves it unchanged, a probability for each value where it is categorical, and both where
        frequent values are separated (probabilities of these values, and a density of the others). A column
        replaced by ranks has the density of its normal scores, whose values end at the extremes of the fitted
        table. ``numeric="raw"`` gives densities in the units of all numeric columns, which compare with those
        of other packages.

        Examples
        --------
        >>> import numpy as np
        >>> from craftc import CRAFT
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2)) + 6.0 * rng.integers(0, 2, (200, 1))
        >>> model = CRAFT(numeric="raw", random_state=0).fit(X)
        >>> held_out = rng.normal(size=(200, 2)) + 6.0 * rng.integers(0, 2, (200, 1))
        >>> round(float(model.score_samples(held_out).mean()), 2)
        -3.41
        """
        return densities_of(self._clusters, self._read_new(X))

    @rowwise("margin", "float64")
    def margins(self: Any, X: Any) -> NDArray[np.float64]:
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
        return margins_of(self._clusters, self._read_new(X))
