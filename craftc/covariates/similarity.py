"""Similarities of covariates, computed or given, and the graph along which covariates may be fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from craftc._common.products import nearest_rows
from craftc._common.ranges import column_ranges
from craftc._common.typing import Bits, Floats, FrameInput, Ints, WeightInput
from craftc._common.validation import check_choice, check_number, check_ranges, check_weight
from craftc._fusion.datafits import Matrix, SparseMatrix, squares
from craftc._fusion.graph import N_NEIGHBORS, Graph, edges_of
from craftc.table.numbers import read_for

SIMILARITIES = ("correlation", "knn")
Similarity: TypeAlias = "ArrayLike | SparseMatrix | Callable[[Matrix], ArrayLike | SparseMatrix]"


def knn_similarity(embedding: ArrayLike, n_neighbors: int = N_NEIGHBORS) -> sparse.csr_array:
    """A sparse similarity of covariates from vectors that describe them, such as word embeddings.

    Parameters
    ----------
    embedding : array (d, p)
        A row for every covariate.
    n_neighbors : int, default=8
        Two covariates get an edge if one is among the `n_neighbors` nearest neighbours of the other; at least
        1.

    Returns
    -------
    scipy.sparse array (d, d)
        ``exp(-|v_i - v_j|^2 / (2 s^2))``, s the median distance to the last neighbour; symmetric, with an
        empty diagonal.

    Examples
    --------
    >>> from craftc.covariates import knn_similarity
    >>> knn_similarity([[0.0], [0.1], [5.0], [5.1]], 1).nnz
    4
    """
    vectors = np.asarray(embedding, np.float64)
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        wanted = "finite, with a row for every covariate"
        raise ValueError(f"embedding must be {wanted}, got shape {vectors.shape}.")
    d, k = len(vectors), min(_checked_neighbors(n_neighbors), len(vectors) - 1)
    if k < 1:
        return sparse.csr_array((d, d))
    distance, place = nearest_rows(vectors, None, k)
    size = np.median(distance[:, -1]) or 1.0
    weight = np.exp(-0.5 * (distance / size) ** 2).ravel()
    return _symmetric(weight, np.repeat(np.arange(d), k), place.ravel(), d)


def correlation_similarity(
    X: FrameInput | SparseMatrix, n_neighbors: int = N_NEIGHBORS, sample_weight: WeightInput = None
) -> sparse.csr_array:
    """A sparse similarity of the columns: the largest positive correlations of each.

    Parameters
    ----------
    X : array, data frame or sparse array (n, d) of finite numbers
    n_neighbors : int, default=8
        Largest correlations kept per column, at least 1.
    sample_weight : array (n,), optional
        Weights >= 0 of the rows. Weight 2 counts as the row twice.

    Returns
    -------
    scipy.sparse array (d, d)
        Symmetric, with an empty diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.covariates import correlation_similarity
    >>> correlation_similarity(np.array([[0.0, 0.0, 3.0], [1.0, 2.0, 2.0], [2.0, 4.0, 3.0]])).nnz
    2
    """
    most = _checked_neighbors(n_neighbors)
    rows, names = read_for("correlation_similarity", X, "csr")
    check_ranges(*column_ranges(rows), names)
    return _correlations(rows, most, check_weight(sample_weight, rows.shape[0]))


def _correlations(X: Matrix, most: int, weight: Floats | None) -> sparse.csr_array:
    """The similarity of finite columns, with `most` correlations of each."""
    n, d = X.shape
    k = min(most, d - 1)
    if k < 1:
        return sparse.csr_array((d, d))
    if weight is None:
        mean, total = np.asarray(X.mean(axis=0)).ravel(), float(n)
    else:
        total = float(weight.sum())
        mean = np.asarray(X.T @ (weight / total)).ravel()
    if isinstance(X, np.ndarray):
        spread = X - mean if weight is None else np.sqrt(weight)[:, None] * (X - mean)
        norm = np.sqrt((spread**2).sum(axis=0))
    else:
        X = X if weight is None else sparse.csr_array(sparse.diags_array(np.sqrt(weight)) @ X)
        norm = np.sqrt(np.maximum(np.asarray(squares(X).sum(axis=0)).ravel() - total * mean**2, 0.0))
    inverse = np.divide(1.0, norm, where=norm > 0, out=np.zeros(d))
    rows, columns, values = [], [], []
    for i in range(d):
        if isinstance(X, np.ndarray):
            product = spread.T @ spread[:, i]
        else:
            product = (X.T @ X[:, [i]].toarray())[:, 0] - total * mean * mean[i]
        correlation = product * inverse * inverse[i]
        correlation[i] = -np.inf
        best = np.argsort(-correlation, kind="stable")[:k]
        best = best[correlation[best] > 1e-12]
        rows.append(np.full(len(best), i))
        columns.append(best)
        values.append(np.minimum(correlation[best], 1.0))
    return _symmetric(np.concatenate(values), np.concatenate(rows), np.concatenate(columns), d)


def _checked_neighbors(n_neighbors: object) -> int:
    return int(check_number("n_neighbors", n_neighbors, least=1, whole=True))


def _symmetric(values: Floats, rows: Ints, columns: Ints, d: int) -> sparse.csr_array:
    """A similarity (d, d) of neighbours; scikit-learn reads sparse arrays of 32-bit positions only."""
    places = rows.astype(np.int32), columns.astype(np.int32)
    near = sparse.csr_array((values, places), (d, d))
    return near.maximum(near.T)


def _standardised(X: Matrix, weight: Floats | None) -> Floats:
    """Columns as vectors for "knn": a row of weight 2 is two of their numbers."""
    if not isinstance(X, np.ndarray):
        raise ValueError(
            "similarity='knn' takes columns as vectors and needs a dense X, got a sparse one; pass "
            "similarity='correlation', or knn_similarity(...) of vectors that describe the covariates."
        )
    mean = np.average(X, axis=0, weights=weight)
    spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    standardised = (X - mean) / np.where(spread > 0, spread, 1.0)
    return np.asarray((standardised if weight is None else np.sqrt(weight)[:, None] * standardised).T)


def zero_graph(d: int) -> Graph:
    """An edge from every covariate to the zero node, for a path of the group lasso."""
    edge = np.stack([np.arange(d), np.full(d, d)], axis=1)
    return Graph(d, np.ascontiguousarray(edge, np.int32), np.ones(d), np.zeros(d, bool))


def graph_of(
    similarity: Similarity | None,
    X: Matrix,
    sparsity: float,
    selected: Bits | None = None,
    weight: Floats | None = None,
) -> Graph:
    """The edges of a similarity (None: "correlation"), and the group lasso's edges to the zero node.

    X has the selected covariates only (None: all); a given similarity has a row for every covariate.
    `weight` (n,): of the rows.
    """
    d = X.shape[1]
    if similarity is None or isinstance(similarity, str):
        built_in: dict[str, Callable[[], sparse.csr_array]] = {
            "correlation": lambda: _correlations(X, N_NEIGHBORS, weight),
            "knn": lambda: knn_similarity(_standardised(X, weight)),
        }
        name = "correlation" if similarity is None else similarity
        check_choice("similarity", name, SIMILARITIES, "or a callable, or an array (d, d)")
        edge, weight = edges_of(built_in[name](), d, "similarity", "covariate")
    elif callable(similarity):
        edge, weight = edges_of(similarity(X), d, "similarity", "covariate")
    else:
        selected = np.ones(d, bool) if selected is None else selected
        edge, weight = edges_of(similarity, len(selected), "similarity", "covariate")
        kept = selected[edge].all(axis=1)
        edge, weight = (np.cumsum(selected) - 1)[edge[kept]], weight[kept]
    group_lasso = np.repeat([False, True], [len(edge), d if sparsity > 0 else 0])
    if sparsity > 0:
        edge = np.concatenate([edge, zero_graph(d).edge])
        weight = np.append(weight, np.full(d, sparsity))
    return Graph(d, np.ascontiguousarray(edge, np.int32), weight, group_lasso)
