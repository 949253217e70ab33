"""The partition with the lowest J that cuts, merges and moves of single rows find, whatever its number of
clusters.
"""

from __future__ import annotations

from craftc._common.dense_data import DenseData
from craftc._common.labels import compact
from craftc._common.typing import Floats, Labels
from craftc.dpmeans.descent import Descent
from craftc.dpmeans.rows.bounded import nearest
from craftc.dpmeans.split_search import SplitSearch

_CYCLES = 8
_FALL = 1e-3  # relative fall of J of a cycle below which the search ends
_SWEEPS = 6  # of moves of single rows


def lowest(data: DenseData, price: float, cap: int, centers: Floats, free: bool) -> Labels:
    """Labels of a partition of low J.

    Parameters
    ----------
    data : DenseData
        Rows of weight > 0.
    price : float
        lambda^2, of a cluster.
    cap : int
        Maximal number of clusters.
    centers : ndarray (K, D)
        Of the start.
    free : bool
        Whether the number of clusters may change.
    """
    search, before = (
        SplitSearch(data, labels=compact(nearest(data.X, centers, data.n_threads)[0])),
        float("inf"),
    )
    for _ in range(_CYCLES):
        if free:
            while len(search.grow(cap, price)):
                pass
            search.shrink(cap, price)
        descent = Descent(data, price, cap if free else 0, search.labels.copy(), data.order(0, 0))
        descent.run(descent.sweep("collapsed"), [], _SWEEPS)
        search.relabel(descent.rows.labels)
        if before - descent.objective <= _FALL * descent.objective:
            break
        before = descent.objective
    return search.labels
