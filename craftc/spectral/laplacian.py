"""The Laplacian of a signed graph and its basis."""

from __future__ import annotations

import numpy as np

from craftc._common.typing import Floats

_ROUNDED = 10  # decimals to which entries of an eigenvector are compared


def laplacian(graph: Floats, kind: str, normalized: bool) -> Floats:
    """D - graph ("signed") or D - |graph| ("abs"), D the row sums of |graph|; normalized: D^-1/2 . D^-1/2.

    The Laplacian of a column without edges is zero.
    """
    weight = np.abs(graph)
    degree = weight.sum(axis=1)
    L = np.diag(degree) - (graph if kind == "signed" else weight)
    if not normalized:
        return np.asarray(L)
    root = np.where(degree > 0.0, 1.0 / np.sqrt(np.where(degree > 0.0, degree, 1.0)), 0.0)
    return np.asarray(root[:, None] * L * root)


def basis(L: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of a Laplacian, ascending, and eigenvectors as rows; the first of the largest entries of
    each is positive.
    """
    values, vectors = np.linalg.eigh(L)
    rows = np.ascontiguousarray(vectors.T)
    leading = np.abs(rows).round(_ROUNDED).argmax(axis=1)
    rows *= np.sign(rows[np.arange(len(rows)), leading])[:, None]
    return np.maximum(values, 0.0), rows
