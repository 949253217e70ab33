"""How well clusters agree with classes that were known all along, and how features spread and part clusters."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score, rand_score

_ROUNDING = 1e-12  # an eigenvalue below this share of the largest is the rounding of 0
_REPEATED = 1e-28  # share of the whole scatter left where repeated rows differ in their last bits alone


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


def _codes(labels_true: Any, labels_pred: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Both labels as numbers 0, 1, ...: scikit-learn refuses bytes."""
    true, pred = _pair(labels_true, labels_pred)
    return np.unique(true, return_inverse=True)[1], np.unique(pred, return_inverse=True)[1]


def _features(features: Any) -> NDArray[np.float64]:
    """Features as float64 (n, l), n >= 2 and l >= 1, or a sentence about what they are instead."""
    rows_and_columns = "pass one row per observation and one column per feature"
    try:
        values = np.asarray(features)
    except ValueError:
        raise ValueError(f"features has rows of different lengths; {rows_and_columns}.") from None
    if values.ndim != 2:
        raise ValueError(f"features must be two-dimensional, got an array of shape {values.shape}; {rows_and_columns}.")
    if values.shape[0] < 2 or values.shape[1] < 1:
        raise ValueError(f"features needs at least two rows and one column, got shape {values.shape}; {rows_and_columns}.")
    kind = values.dtype.kind
    if kind == "O":
        if any(_is_missing(cell) for cell in values.flat):
            raise ValueError("features holds NaN or other missing values; drop these rows or fill them in.")
        strange = {type(cell).__name__ for cell in values.flat if not isinstance(cell, (Real, Decimal, np.bool_))}
        if strange:
            raise ValueError(f"features holds cells that are no real numbers ({', '.join(sorted(strange))}); encode these columns first.")
    elif kind not in "fiub":
        raise ValueError(f"features has dtype {values.dtype}; it must hold real numbers, so encode other columns first.")
    try:
        with np.errstate(over="ignore"):  # a wider float may become infinite, which the next check tells
            numbers = values.astype(np.float64)
    except OverflowError:
        raise ValueError("features holds whole numbers beyond the range of float64; scale these columns down.") from None
    if not np.isfinite(numbers).all():
        raise ValueError("features holds NaN or infinite values; drop these rows or fill them in.")
    return numbers


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows less their mean, times a power of two that brings the largest cell near 1.

    So no square overflows or vanishes. The first row is taken off first, as then a constant column
    becomes exactly 0; the halves keep the difference finite.
    """
    away = values / 2.0 - values[0] / 2.0
    away = np.ldexp(away, -int(np.frexp(np.abs(away).max())[1]))
    centred: NDArray[np.float64] = away - away.mean(axis=0)
    return centred


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

    References
    ----------
    Strehl & Ghosh, "Cluster Ensembles - A Knowledge Reuse Framework for Combining Multiple
    Partitions", Journal of Machine Learning Research 3, 2002, equation (3).

    Examples
    --------
    >>> from craftc.metrics import nmi
    >>> round(nmi(["a", "a", "b", "b"], [7, 7, 3, 3]), 12)
    1.0
    >>> round(nmi(["a", "a", "b", "b"], [0, 1, 0, 1]), 12)
    0.0
    """
    return float(normalized_mutual_info_score(*_codes(labels_true, labels_pred), average_method="geometric"))


def rand_index(labels_true: Any, labels_pred: Any) -> float:
    """Share of the pairs of rows that classes and clusters treat alike: both together or both apart.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        Classes.
    labels_pred : array-like of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        R in [0, 1]: 1 for the same partition under any names. Alone it says nothing, as its level
        depends on the sizes of clusters and classes: print `chance_rand_index` beside it. One row
        has no pairs and gives 1.0.

    Raises
    ------
    ValueError
        If labels are missing, are neither strings nor integers, or the two lengths differ.

    References
    ----------
    Rand, "Objective Criteria for the Evaluation of Clustering Methods", Journal of the American
    Statistical Association 66, 1971.

    Examples
    --------
    >>> from craftc.metrics import rand_index
    >>> rand_index(["a", "a", "b", "b"], [7, 7, 3, 3])
    1.0
    >>> rand_index(["a", "a", "b", "b"], [0, 0, 0, 1])  # alike: rows 0 and 1, 0 and 3, 1 and 3
    0.5
    """
    return float(rand_score(*_codes(labels_true, labels_pred)))


def chance_rand_index(labels_true: Any, labels_pred: Any) -> float:
    """Mean of the Rand index over all permutations of the labels: what clusters of these sizes get by chance.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        Classes.
    labels_pred : array-like of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        1 - a - b + 2 a b in [0, 1], with a the share of the pairs of rows inside a cluster and b
        that inside a class; only the sizes of clusters and classes enter. A Rand index R says
        nothing without it: many small clusters have a high R whatever they hold. One row has no
        pairs and gives 1.0, as `rand_index` does.

    Raises
    ------
    ValueError
        If labels are missing, are neither strings nor integers, or the two lengths differ.

    References
    ----------
    Hubert & Arabie, "Comparing Partitions", Journal of Classification 2, 1985: the expectation that
    the adjusted Rand index (R - chance) / (1 - chance) takes off.

    Examples
    --------
    >>> from craftc.metrics import chance_rand_index, rand_index
    >>> classes, clusters = ["a", "a", "b", "b"], [0, 1, 2, 3]
    >>> round(rand_index(classes, clusters), 6), round(chance_rand_index(classes, clusters), 6)
    (0.666667, 0.666667)
    >>> round(chance_rand_index(["a", "a", "b", "b"], [0, 0, 1, 1]), 6)  # a = b = 1/3
    0.555556
    """
    matrix, _, _ = contingency(labels_true, labels_pred)
    n = int(matrix.sum())
    if n == 1:
        return 1.0
    a, b = (float((sizes * (sizes - 1)).sum()) / (n * (n - 1)) for sizes in (matrix.sum(axis=0), matrix.sum(axis=1)))
    return 1.0 - a - b + 2.0 * a * b


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


def total_cluster_label_entropy(labels_true: Any, labels_pred: Any) -> float:
    """Entropy of the classes inside a cluster, summed over the clusters without weights.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        Classes.
    labels_pred : array-like of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        E of the paper in nats: 0 if every cluster holds one class only, at most K ln C for K
        clusters and C classes. It grows with K, and a cluster of two rows counts as much as one of
        a thousand: compare only clusterings with the same number of clusters.
        `cluster_label_entropy` is the mean weighted by size.

    Raises
    ------
    ValueError
        If labels are missing, are neither strings nor integers, or the two lengths differ.

    References
    ----------
    Sahoo & Chakraborty, "Graph Spectral Feature Learning for Mixed Data of Categorical and
    Numerical Type", arXiv 2005.02817, 2020, Tables I-IV.

    Examples
    --------
    >>> from craftc.metrics import total_cluster_label_entropy
    >>> total_cluster_label_entropy(["a", "a", "b", "b"], [0, 0, 1, 1])
    0.0
    >>> round(total_cluster_label_entropy(["a", "b", "b", "b"], [0, 0, 1, 1]), 6)  # log 2 + 0
    0.693147
    """
    matrix, _, _ = contingency(labels_true, labels_pred)
    rows, columns = np.nonzero(matrix)
    counts, sizes = matrix[rows, columns], matrix.sum(axis=0)[columns]
    return float((counts / sizes * np.log(sizes / counts)).sum())


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

    References
    ----------
    Manning, Raghavan & Schuetze, "Introduction to Information Retrieval", 2008, sections 8.3 and
    13.6.

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


def eigen_diffusion(features: Any) -> float:
    """How slowly the eigenvalues of the covariance of features fall: alpha of lambda_k ~ alpha^k.

    The eigenvalues are sorted downwards and those below 1e-12 of the largest are left out as
    rounding. The straight line through ln lambda_k over k by least squares has slope ln alpha. The
    paper's printed formula was not at hand: this is our reading, which depends on the features
    alone and falls when the spectrum falls faster. Its values need not be those of the paper.

    Parameters
    ----------
    features : array-like or data frame of shape (n_samples, n_features)
        Finite numbers of any type; computed in float64.

    Returns
    -------
    float
        alpha in (0, 1]. At 1 all eigenvalues are equal, and no direction matters more than another;
        at 0.5 each is about half of the one before; near 0 a single direction holds nearly all
        variance. A shift, a rotation or another scale common to all features does not change it.

    Raises
    ------
    ValueError
        If `features` is not two-dimensional, has fewer than two rows, or holds anything but finite
        numbers; and if fewer than two eigenvalues are beyond rounding: a single component has no
        next one to fall to, so no number would be right for it.

    Notes
    -----
    Compare alpha only at equal numbers of features. An alpha below that of principal components is
    no evidence for a learned graph, as random graphs give it too: a reference implementation with
    the printed formula found it in 21 of 24 runs with random graphs on the paper's four data sets,
    and in 78 of 96 with learned ones.

    References
    ----------
    Sahoo & Chakraborty, "Graph Spectral Feature Learning for Mixed Data of Categorical and
    Numerical Type", arXiv 2005.02817, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.metrics import eigen_diffusion
    >>> cross = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> round(eigen_diffusion(cross), 12)  # variances 8/3 and 2/3
    0.25
    """
    centred = _centred(_features(features))
    values = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    logs = np.log(values[values > _ROUNDING * values[0]])
    if len(logs) < 2:
        raise ValueError(
            f"alpha needs at least two eigenvalues of the covariance beyond rounding, got {len(logs)} from features of shape "
            f"{centred.shape}; pass features that vary in two directions or more."
        )
    steps = np.arange(len(logs)) - (len(logs) - 1) / 2.0
    return min(float(np.exp(steps @ logs / (steps @ steps))), 1.0)


def separability(features: Any, labels: Any) -> float:
    """How far clusters lie apart for their width: J = tr(S_w^+ S_b).

    S_w is the mean scatter of the rows about the mean of their cluster, S_b that of these means
    about the mean of all rows, every row with weight 1/n. S_w^+ is the inverse of S_w, or its
    pseudo-inverse where S_w is singular. The paper's printed formula was not at hand: this is the
    usual criterion of that name. Its values need not be those of the paper.

    Parameters
    ----------
    features : array-like or data frame of shape (n_samples, n_features)
        Finite numbers of any type; computed in float64.
    labels : array-like of shape (n_samples,)
        Clusters or classes: strings or integers.

    Returns
    -------
    float
        J >= 0, and 0 if all clusters have one mean; larger is better separated. A shift, a rotation
        or another scale common to all features does not change it, and neither does any other
        invertible linear map while S_w is regular.

    Raises
    ------
    ValueError
        If `features` is not two-dimensional, has fewer than two rows, or holds anything but finite
        numbers; if labels are missing or neither strings nor integers; if the two lengths differ.

    Notes
    -----
    Directions in which no cluster has any width (eigenvalues of S_w below 1e-12 of the largest) are
    left out, however far apart the clusters lie in them: clusters that are single points give 0.
    Bring features to similar scales first, or narrow ones are lost in this way.

    J never falls when a feature is added, while S_w stays regular: compare only equal numbers of
    features. A J above that of principal components is weak evidence for a learned graph: a
    reference implementation with the printed formula found it in 236 of 288 runs with learned
    graphs on the paper's four data sets, and in 39 of 72 with random ones. The formula here gave 47
    of 288 and 7 of 480 (docs/spectral.md), so the paper's J is probably another.

    References
    ----------
    Sahoo & Chakraborty, "Graph Spectral Feature Learning for Mixed Data of Categorical and
    Numerical Type", arXiv 2005.02817, 2020. Fukunaga, "Introduction to Statistical Pattern
    Recognition", 2nd edition, 1990, section 10.2.

    Examples
    --------
    >>> import numpy as np
    >>> from craftc.metrics import separability
    >>> features = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> round(separability(features, ["a", "a", "b", "b"]), 12)  # S_w = 1, S_b = 25
    25.0
    >>> round(separability(features, ["a", "b", "b", "a"]), 12)  # both means are 6
    0.0
    """
    values, names = _features(features), _labels(labels, "labels")
    if len(values) != len(names):
        raise ValueError(f"features has {len(values)} rows and labels has {len(names)} labels; pass one label per row.")
    centred = _centred(values)
    _, first, codes, sizes = np.unique(names, return_index=True, return_inverse=True, return_counts=True)
    # less the first row of the own cluster first: a cluster of one repeated row has width exactly 0
    away = centred - centred[first][codes]
    shift = np.column_stack([np.bincount(codes, column) for column in away.T]) / sizes[:, None]
    away -= shift[codes]
    means = centred[first] + shift
    within, between = away.T @ away, means.T @ (means * sizes[:, None])
    widths, directions = np.linalg.eigh(within)
    wide = widths > max(_ROUNDING * widths[-1], _REPEATED * (np.trace(within) + np.trace(between)))
    along = directions[:, wide]
    return float((((between @ along) * along).sum(axis=0) / widths[wide]).sum())
