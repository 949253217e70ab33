"""Agreement of clusters with known classes."""

from __future__ import annotations

import numpy as np

from craftc._common.typing import Array, Integers, Ints, RowsInput
from craftc.metrics.checks import check_labels


def _coded(labels_true: RowsInput, labels_pred: RowsInput) -> list[tuple[Array, Ints]]:
    """Names of both labels and their codes 0, 1, ..."""
    true, pred = check_labels(labels_true, "labels_true"), check_labels(labels_pred, "labels_pred")
    if len(true) != len(pred):
        raise ValueError(
            f"labels_true has {len(true)} labels and labels_pred has {len(pred)}; both need one label per "
            "row."
        )
    return [np.unique(labels, return_inverse=True) for labels in (true, pred)]


def contingency(labels_true: RowsInput, labels_pred: RowsInput) -> tuple[Integers, Array, Array]:
    """Count the rows of every pair (class, cluster).

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers.

    Returns
    -------
    matrix : ndarray of shape (n_classes, n_clusters), int64
        ``matrix[i, k]`` is the number of rows of class ``true_names[i]`` in cluster ``pred_names[k]``.
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
    (true_names, rows), (pred_names, columns) = _coded(labels_true, labels_pred)
    shape = (len(true_names), len(pred_names))
    cells = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
    return cells.reshape(shape).astype(np.int64), true_names, pred_names


def purity(labels_true: RowsInput, labels_pred: RowsInput) -> float:
    """Share of the rows that belong to the majority class of their cluster.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers.

    Returns
    -------
    float
        In (0, 1]. Splitting a cluster never decreases it: compare equal numbers of clusters.

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


def nmi(labels_true: RowsInput, labels_pred: RowsInput) -> float:
    """Normalized mutual information, with the geometric mean of the two entropies.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers.

    Returns
    -------
    float
        In [0, 1]: 1 for identical partitions (up to the names of the labels), 0 for independent ones.

    References
    ----------
    Strehl & Ghosh, "Cluster Ensembles", Journal of Machine Learning Research 3, 2002, equation (3).

    Examples
    --------
    >>> from craftc.metrics import nmi
    >>> round(nmi(["a", "a", "b", "b"], [7, 7, 3, 3]), 12)
    1.0
    >>> round(nmi(["a", "a", "b", "b"], [0, 1, 0, 1]), 12)
    0.0
    """
    matrix, _, _ = contingency(labels_true, labels_pred)
    n, classes, clusters = matrix.sum(), matrix.sum(axis=1), matrix.sum(axis=0)
    if len(classes) == 1 or len(clusters) == 1:  # an entropy is 0
        return float(len(classes) == len(clusters))
    entropies = [float((sizes * np.log(n / sizes)).sum() / n) for sizes in (classes, clusters)]
    rows, columns = np.nonzero(matrix)
    counts = matrix[rows, columns].astype(np.float64)
    shared = (counts * np.log(counts / classes[rows] * n / clusters[columns])).sum() / n
    return float(np.clip(shared / np.sqrt(entropies[0] * entropies[1]), 0.0, 1.0))


def rand_index(labels_true: RowsInput, labels_pred: RowsInput) -> float:
    """Share of the pairs of rows on which classes and clusters agree: together in both, or apart in both.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers.

    Returns
    -------
    float
        In [0, 1]: 1 for identical partitions (up to the names of the labels), and for a single row. Its level
        depends on the sizes of clusters and classes: compare it with `chance_rand_index`.

    References
    ----------
    Rand, "Objective Criteria for the Evaluation of Clustering Methods", JASA 66, 1971.

    Examples
    --------
    >>> from craftc.metrics import rand_index
    >>> rand_index(["a", "a", "b", "b"], [7, 7, 3, 3])
    1.0
    >>> rand_index(["a", "a", "b", "b"], [0, 0, 0, 1])  # alike: rows 0 and 1, 0 and 3, 1 and 3
    0.5
    """
    both, within, of_class, total = _pairs(labels_true, labels_pred)
    return (total + 2 * both - within - of_class) / total if total else 1.0


def chance_rand_index(labels_true: RowsInput, labels_pred: RowsInput) -> float:
    """Mean of the Rand index over all permutations of the labels: its chance level for these cluster sizes.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers.

    Returns
    -------
    float
        1 - a - b + 2 a b in [0, 1], where a is the share of the pairs of rows within a cluster and b the
        share within a class; 1 for a single row. Many small clusters have a high Rand index whatever rows
        they contain.

    References
    ----------
    Hubert & Arabie, "Comparing Partitions", Journal of Classification 2, 1985: the expectation in the
    adjusted Rand index (R - chance) / (1 - chance).

    Examples
    --------
    >>> from craftc.metrics import chance_rand_index, rand_index
    >>> classes, clusters = ["a", "a", "b", "b"], [0, 1, 2, 3]
    >>> round(rand_index(classes, clusters), 6), round(chance_rand_index(classes, clusters), 6)
    (0.666667, 0.666667)
    >>> round(chance_rand_index(["a", "a", "b", "b"], [0, 0, 1, 1]), 6)  # a = b = 1/3
    0.555556
    """
    _, within, of_class, total = _pairs(labels_true, labels_pred)
    if not total:
        return 1.0
    a, b = within / total, of_class / total
    return 1.0 - a - b + 2.0 * a * b


def adjusted_rand_index(labels_true: RowsInput, labels_pred: RowsInput) -> float:
    """Rand index, adjusted for chance: 0 is the level of permuted labels.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers.

    Returns
    -------
    float
        (R - chance) / (1 - chance) in [-0.5, 1], with `rand_index` R and `chance_rand_index`; 1 for identical
        partitions (up to the names of the labels).

    References
    ----------
    Hubert & Arabie, "Comparing Partitions", Journal of Classification 2, 1985.

    Examples
    --------
    >>> from craftc.metrics import adjusted_rand_index
    >>> adjusted_rand_index(["a", "a", "b", "b"], [7, 7, 3, 3])
    1.0
    >>> round(adjusted_rand_index(["a", "a", "b", "b"], [0, 0, 1, 2]), 6)
    0.571429
    """
    both, within, of_class, total = _pairs(labels_true, labels_pred)
    most, expected = (within + of_class) * total, 2 * within * of_class
    return (2 * both * total - expected) / (most - expected) if most > expected else 1.0


def _pairs(labels_true: RowsInput, labels_pred: RowsInput) -> tuple[int, int, int, int]:
    """Ordered pairs of two rows: within a cluster and a class, within a cluster, within a class, and all."""
    matrix, _, _ = contingency(labels_true, labels_pred)
    sizes = (matrix, matrix.sum(axis=0), matrix.sum(axis=1), matrix.sum())
    both, within, of_class, total = (int((each * (each - 1)).sum()) for each in sizes)
    return both, within, of_class, total


def cluster_label_entropy(labels_true: RowsInput, labels_pred: RowsInput) -> float:
    """Mean entropy of the classes within a cluster, weighted by the size of the cluster.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers.

    Returns
    -------
    float
        The conditional entropy H(class | cluster) in nats: 0 if every cluster contains a single class, at
        most the entropy of the classes.

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
    counts, sizes = _nonzero_cells(matrix)
    return float((counts * np.log(sizes / counts)).sum() / matrix.sum())


def total_cluster_label_entropy(labels_true: RowsInput, labels_pred: RowsInput) -> float:
    """Entropy of the classes within a cluster, summed over the clusters without weights.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers.

    Returns
    -------
    float
        E of the paper in nats: 0 if every cluster contains a single class, at most K ln C for K clusters and
        C classes. Clusters of any size count alike, and E grows with K: compare equal numbers of clusters.

    References
    ----------
    Sahoo & Chakraborty, arXiv 2005.02817, 2020, Tables I-IV.

    Examples
    --------
    >>> from craftc.metrics import total_cluster_label_entropy
    >>> total_cluster_label_entropy(["a", "a", "b", "b"], [0, 0, 1, 1])
    0.0
    >>> round(total_cluster_label_entropy(["a", "b", "b", "b"], [0, 0, 1, 1]), 6)  # log 2 + 0
    0.693147
    """
    matrix, _, _ = contingency(labels_true, labels_pred)
    counts, sizes = _nonzero_cells(matrix)
    return float((counts / sizes * np.log(sizes / counts)).sum())


def _nonzero_cells(matrix: Integers) -> tuple[Integers, Integers]:
    """Counts of the cells that are not 0, and the sizes of their clusters."""
    rows, columns = np.nonzero(matrix)
    return matrix[rows, columns], matrix.sum(axis=0)[columns]


def macro_f1(labels_true: RowsInput, labels_pred: RowsInput) -> float:
    """Mean of the F1 scores of the classes when every cluster predicts its majority class.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Classes and clusters: strings or integers. A cluster predicts its most frequent class; ties go to the
        first class in sorted order.

    Returns
    -------
    float
        In (0, 1]. A class that no cluster predicts counts as 0.

    References
    ----------
    Manning, Raghavan & Schuetze, "Introduction to Information Retrieval", 2008, sections 8.3, 13.6.

    Examples
    --------
    >>> from craftc.metrics import macro_f1
    >>> macro_f1(["a", "a", "b", "b"], [1, 1, 0, 0])
    1.0
    >>> round(macro_f1(["a", "a", "b", "b"], [0, 0, 0, 0]), 6)  # all "a": (2/3 + 0) / 2
    0.333333
    """
    matrix, _, _ = contingency(labels_true, labels_pred)
    predicted = matrix.argmax(axis=0)
    confusion = np.zeros((len(matrix), len(matrix)), dtype=np.int64)  # class x predicted class
    np.add.at(confusion.T, predicted, matrix.T)
    hits = np.diag(confusion)
    return float(np.mean(2.0 * hits / (confusion.sum(axis=0) + confusion.sum(axis=1))))
