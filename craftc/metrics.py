"""How well clusters agree with classes that were known all along.

Every measure takes the true labels first and the clusters second; labels are any strings or
integers, and which cluster bears which number never matters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score

__all__ = ["cluster_label_entropy", "contingency", "macro_f1", "nmi", "purity"]


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT or pandas' NA, which refuses to be compared."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _labels(values: Any, name: str) -> NDArray[Any]:
    """Labels as a 1-D array of strings or integers, or a sentence about what they are instead."""
    # a plain list goes through objects, or NumPy would write a NaN among strings as "nan"
    labels = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got an array of shape {labels.shape}; "
            "pass one label per row."
        )
    if labels.size == 0:
        raise ValueError(f"{name} is empty; pass one label per row.")
    kind = labels.dtype.kind
    if kind == "O":
        if any(_is_missing(value) for value in labels):
            raise ValueError(f"{name} holds missing values; drop these rows or name them.")
        as_strings = {isinstance(value, str) for value in labels}
        if len(as_strings) > 1:
            raise ValueError(f"{name} mixes strings and other labels; use one kind of label.")
        labels = np.array(labels.tolist())
        kind = labels.dtype.kind
    if kind == "f":
        if not np.all(np.isfinite(labels)):
            raise ValueError(f"{name} holds NaN or infinite values; drop these rows or name them.")
        if np.any(labels != np.floor(labels)):
            raise ValueError(
                f"{name} holds fractions such as {labels[labels % 1 != 0][0]}; "
                "labels must be strings or integers."
            )
    elif kind not in "iubUST":
        raise ValueError(f"{name} has dtype {labels.dtype}; labels must be strings or integers.")
    return labels


def _pair(labels_true: Any, labels_pred: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both label arrays, checked to be of one length."""
    true, pred = _labels(labels_true, "labels_true"), _labels(labels_pred, "labels_pred")
    if len(true) != len(pred):
        raise ValueError(
            f"labels_true has {len(true)} labels and labels_pred has {len(pred)}; "
            "both need one label per row."
        )
    return true, pred


def contingency(
    labels_true: Any, labels_pred: Any
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Count the rows of every pair (class, cluster).

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        Classes: strings or integers.
    labels_pred : array-like of shape (n_samples,)
        Clusters: strings or integers.

    Returns
    -------
    matrix : ndarray of shape (n_classes, n_clusters), int64
        ``matrix[i, k]`` rows of class ``true_names[i]`` lie in cluster ``pred_names[k]``.
    true_names : ndarray of shape (n_classes,)
        The classes, sorted.
    pred_names : ndarray of shape (n_clusters,)
        The clusters, sorted.

    Examples
    --------
    >>> from craftc.metrics import contingency
    >>> matrix, classes, clusters = contingency(["a", "a", "b", "b"], [0, 1, 1, 1])
    >>> matrix
    array([[1, 1],
           [0, 2]])
    >>> classes.tolist(), clusters.tolist()
    (['a', 'b'], [0, 1])
    """
    true, pred = _pair(labels_true, labels_pred)
    true_names, rows = np.unique(true, return_inverse=True)
    pred_names, columns = np.unique(pred, return_inverse=True)
    shape = (len(true_names), len(pred_names))
    cells = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
    return cells.reshape(shape).astype(np.int64), true_names, pred_names


def purity(labels_true: Any, labels_pred: Any) -> float:
    """Share of the rows that belong to the majority class of their cluster.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        Classes.
    labels_pred : array-like of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        In (0, 1]. It never falls when a cluster is split: compare only clusterings with the
        same number of clusters.

    References
    ----------
    Manning, Raghavan & Schuetze, "Introduction to Information Retrieval", 2008, section 16.3.

    Examples
    --------
    >>> from craftc.metrics import purity
    >>> purity(["a", "a", "a", "b"], [0, 0, 1, 1])
    0.75
    """
    matrix, _, _ = contingency(labels_true, labels_pred)
    return float(matrix.max(axis=0).sum() / matrix.sum())


def nmi(labels_true: Any, labels_pred: Any) -> float:
    """Normalized mutual information, with the geometric mean of the two entropies.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        Classes.
    labels_pred : array-like of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        In [0, 1]: 1 for the same partition under any names, 0 if one says nothing about the other.

    References ---------- Strehl & Ghosh, "Cluster Ensembles - A Knowledge Reuse Framework for
    Combining Multiple Partitions", Journal of Machine Learning Research 3, 2002, equation (3).

    Examples
    --------
    >>> from craftc.metrics import nmi
    >>> round(nmi(["a", "a", "b", "b"], [7, 7, 3, 3]), 12)
    1.0
    >>> round(nmi(["a", "a", "b", "b"], [0, 1, 0, 1]), 12)
    0.0
    """
    true, pred = _pair(labels_true, labels_pred)
    return float(normalized_mutual_info_score(true, pred, average_method="geometric"))


def cluster_label_entropy(labels_true: Any, labels_pred: Any) -> float:
    """Mean entropy of the classes inside a cluster, weighted by the size of the cluster.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        Classes.
    labels_pred : array-like of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        The conditional entropy H(class | cluster) in nats: 0 if every cluster holds one class
        only, at most the entropy of the classes.

    References
    ----------
    Cover & Thomas, "Elements of Information Theory", 2nd edition, 2006, section 2.2.

    Examples
    --------
    >>> from craftc.metrics import cluster_label_entropy
    >>> cluster_label_entropy(["a", "a", "b", "b"], [0, 0, 1, 1])
    0.0
    >>> round(cluster_label_entropy(["a", "b", "b", "b"], [0, 0, 1, 1]), 6)  # half of log 2
    0.346574
    """
    matrix, _, _ = contingency(labels_true, labels_pred)
    rows, columns = np.nonzero(matrix)
    counts, sizes = matrix[rows, columns], matrix.sum(axis=0)[columns]
    return float((counts * np.log(sizes / counts)).sum() / matrix.sum())


def macro_f1(labels_true: Any, labels_pred: Any) -> float:
    """Mean of the F1 scores of the classes when every cluster votes for its majority class.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        Classes.
    labels_pred : array-like of shape (n_samples,)
        Clusters. A cluster stands for the class that most of its rows have; of equally frequent
        classes for the first in sorted order.

    Returns
    -------
    float
        In (0, 1]. A class that no cluster stands for counts as 0.

    References ---------- Manning, Raghavan & Schuetze, "Introduction to Information Retrieval",
    2008, sections 8.3 and 13.6.

    Examples
    --------
    >>> from craftc.metrics import macro_f1
    >>> macro_f1(["a", "a", "b", "b"], [1, 1, 0, 0])
    1.0
    >>> round(macro_f1(["a", "a", "b", "b"], [0, 0, 0, 0]), 6)  # all "a": (2/3 + 0) / 2
    0.333333
    """
    matrix, _, _ = contingency(labels_true, labels_pred)
    votes = matrix.argmax(axis=0)
    confusion = np.zeros((len(matrix), len(matrix)), dtype=np.int64)  # class, class voted for
    np.add.at(confusion.T, votes, matrix.T)
    hits = np.diag(confusion)
    return float(np.mean(2.0 * hits / (confusion.sum(axis=0) + confusion.sum(axis=1))))
