"""MCFS and NDFS, the other methods of feature selection of the CRAFT paper: one set of columns for the whole
table, on which k-means finds the clusters.

MCFS: D. Cai, C. Zhang, X. He, "Unsupervised Feature Selection for Multi-Cluster Data", KDD 2010. NDFS: Z. Li,
Y. Yang, J. Liu, X. Zhou, H. Lu, "Unsupervised Feature Selection Using Nonnegative Spectral Analysis", AAAI
2012. The CRAFT paper states no settings. Here columns are standardised for the selection, a row has its 5
nearest neighbours (as in both papers), and alpha = beta = 1 in NDFS, whose paper takes the best of a grid by
the classes.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.cluster import KMeans
from sklearn.linear_model import lars_path
from sklearn.manifold import spectral_embedding
from sklearn.preprocessing import StandardScaler

from craftc.covariates import knn_similarity

Table = NDArray[np.float64]
NEIGHBOURS, STEPS = 5, 30
ALPHA, BETA, ORTHOGONAL = 1.0, 1.0, 1e8  # weights of NDFS
LEAST = 1e-12


def scores_of_mcfs(X: Table, k: int, n_selected: int) -> Table:
    """(D,) the largest coefficient of a column in the sparse fits of k eigenvectors of the graph of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a graph of several components
        eigenvectors = spectral_embedding(_graph(X), n_components=k, random_state=0)
    coefficients = [lars_path(X, y - y.mean(), max_iter=n_selected)[2][:, -1] for y in eigenvectors.T]
    return np.abs(coefficients).max(axis=0)


def scores_of_ndfs(X: Table, k: int, seed: int = 0) -> Table:
    """(D,) lengths of the rows of W in min tr F'LF + alpha (|XW - F|^2 + beta |W|_21), F >= 0, F'F = I, by
    the multiplicative updates of F.
    """
    graph = _graph(X)
    root = diags_array(1.0 / np.sqrt(np.maximum(graph.sum(axis=1), LEAST)))
    similarity, gram = csr_array(root @ graph @ root), X.T @ X
    F = np.eye(k)[KMeans(k, n_init=10, random_state=seed).fit_predict(X)] + 0.2
    F /= np.sqrt((F**2).sum(axis=0))
    lengths = np.ones(X.shape[1])
    for _ in range(STEPS):
        W = np.linalg.solve(gram + np.diag(BETA / (2.0 * lengths)), X.T @ F)
        lengths = np.maximum(np.sqrt((W**2).sum(axis=1)), LEAST)
        descent = (F - similarity @ F) + ALPHA * (F - X @ W)  # half the gradient of what F'F = I leaves
        F = F * (ORTHOGONAL * F) / np.maximum(descent + ORTHOGONAL * F @ (F.T @ F), LEAST)
        F /= np.maximum(np.sqrt((F**2).sum(axis=0)), LEAST)
    return lengths


def columns_of(method: str, X: Table, k: int, share: float) -> NDArray[np.intp]:
    """The share of the columns that "MCFS" or "NDFS" selects for k clusters."""
    n_selected = max(1, round(share * X.shape[1]))
    Z = StandardScaler().fit_transform(X)
    scores = scores_of_mcfs(Z, k, n_selected) if method == "MCFS" else scores_of_ndfs(Z, k)
    return np.sort(np.argsort(-scores, kind="stable")[:n_selected])


def _graph(X: Table) -> csr_array:
    return knn_similarity(X, NEIGHBOURS)
