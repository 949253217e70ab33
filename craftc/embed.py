"""What compiled code needs from a fitted model: see docs/embedding.md for the C functions that read it."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from craftc._kernels.embed import craft_costs
from craftc.craft.base import CraftBase
from craftc.table import MixedTable

__all__ = ["CraftCosts"]


class CraftCosts:
    """Cost tables of a fitted CRAFT, for compiled code that assigns rows without Python.

    The tables are those of the model as it stands now; a later fit of it does not change them.

    Parameters
    ----------
    model : CRAFT
        Fitted, or read by `load_model`.

    Attributes
    ----------
    capsule : PyCapsule
        Named "craftc.craft_costs.v1". ``craftc_costs_of`` of craftc/craftc.h (in Cython: of `craftc.api`)
        reads it; it keeps the tables alive.
    n_clusters : int
        K, costs of a row.
    n_numeric, n_categorical : int
        Columns of `numeric` and of `codes` as `encode` returns them. They differ from the table's own: a
        CRAFT codes its numbers as levels.

    Raises
    ------
    TypeError
        `model` is no CRAFT.
    ValueError
        Clusters of the model hold covariances.
    sklearn.exceptions.NotFittedError
        It has not been fitted.

    Examples
    --------
    >>> import craftc
    >>> heart = craftc.datasets.load_heart()
    >>> model = craftc.CRAFT(covariance="diagonal", n_init=2, random_state=0).fit(heart.data)
    >>> costs = craftc.embed.CraftCosts(model)
    >>> table = costs.encode(heart.data)
    >>> table.numeric.shape == (270, costs.n_numeric), table.codes.shape == (270, costs.n_categorical)
    (True, True)
    """

    def __init__(self, model: CraftBase) -> None:
        if not isinstance(model, CraftBase):
            raise TypeError(f"CraftCosts reads a fitted CRAFT, got {type(model).__name__}.")
        check_is_fitted(model)
        if model._fitted.clusters.covariances is not None:
            raise ValueError(
                "The C function knows no covariances, which this model has; fit it with "
                "covariance='diagonal'."
            )
        self._schema, self._encoding, self._unknown = model.schema_, model._fitted.encoding, model.unknown
        tables = model._fitted.clusters.tables()
        self.capsule: object = craft_costs(tables)
        self.n_clusters: int = model.n_clusters_
        self.n_numeric: int = tables.grid.p
        self.n_categorical: int = tables.grid.q

    def encode(self, X: Any) -> MixedTable:
        """The rows as the C function reads them.

        Parameters
        ----------
        X : data frame, array (n, D) or MixedTable
            With the columns of `fit`, in any order if they have names.

        Returns
        -------
        MixedTable
            `numeric` (n, n_numeric) of float32 or float64, NaN = missing, and `codes` (n, n_categorical) of
            uint8 or uint16; both C-contiguous.

        Raises
        ------
        ValueError
            Columns are missing or new, or (``unknown="error"``) a level was never seen in fit.
        """
        return self._encoding.apply(self._schema.encode(X, unknown=self._unknown, estimator_name="CRAFT"))
