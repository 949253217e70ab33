"""DP-means word for word: the reference implementation of the kernels.

Kulis & Jordan, "Revisiting k-means", ICML 2012; Broderick, Kulis & Jordan, "MAD-Bayes:
MAP-based Asymptotic Derivations from Bayes", ICML 2013, sections 2 and 5 and appendix E.
Nothing here is fast: rows and clusters are Python loops, distances are sums of squared
differences, means and objectives are taken from scratch.

The objective of a partition of the rows x_n of weight w_n into K clusters with means mu_k is

    J = sum_n w_n |x_n - mu_{z_n}|^2 + (K - 1) penalty

and the penalty is compared with squared distances. A cluster is opened only if the squared
distance is larger than the penalty; among equal distances the row's present cluster wins, then
the lowest index. Opening pays if u d2 > penalty with u = min(w, 1): a row of weight w stands
for w copies, and the first copy decides whether they open a cluster.
"""

from __future__ import annotations

from math import fsum, inf, log
from sys import float_info
from types import SimpleNamespace

import numpy as np

MONOTONE = 1e-12  # relative rise of J that rounding may cause
COLLAPSED_SLACK = 1e-12  # of the SSE about the grand mean: a smaller fall of J moves no row


# ----------------------------------------------------------------------------------------
# Rows, weights, labels
# ----------------------------------------------------------------------------------------


def as_table(X, weight=None):
    """Rows (N, D) and weights (N,), both float64."""
    X = np.asarray(X, dtype=np.float64)
    w = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)
    if X.ndim != 2 or w.shape != (len(X),) or len(X) == 0 or not (w > 0.0).all():
        raise ValueError("needs a table of at least one row and one positive weight per row")
    return X, w


def compact(labels):
    """Labels 0..K-1 in the order of their values: empty clusters are dropped."""
    values = sorted({int(label) for label in labels})
    return [values.index(int(label)) for label in labels]


def first_appearance(labels):
    """The old labels in the order in which the rows show them."""
    return list(dict.fromkeys(labels))


# ----------------------------------------------------------------------------------------
# Distances, means, objective
# ----------------------------------------------------------------------------------------


def distance2(x, mu):
    """|x - mu|^2."""
    return float(((x - mu) ** 2).sum())


def mean_of(X, w, members):
    """Weighted mean of some rows.

    Taken about the first of them, so that the mean of equal rows is that row to the last bit: with
    penalty 0 a mean that is off by rounding would open a cluster at every sweep.
    """
    first = X[members[0]]
    total = fsum(w[n] for n in members)
    return np.array(
        [first[d] + fsum(w[n] * (X[n, d] - first[d]) for n in members) / total for d in range(X.shape[1])]
    )


def means(X, w, labels):
    """Means of the clusters 0..K-1, none of them empty."""
    return [mean_of(X, w, [n for n in range(len(X)) if labels[n] == k]) for k in range(max(labels) + 1)]


def sse(X, w, labels):
    """Sum of the weighted squared distances of the rows from the means of their clusters."""
    centers = means(X, w, labels)
    return fsum(float(w[n]) * distance2(X[n], centers[labels[n]]) for n in range(len(X)))


def objective(X, labels, penalty, weight=None):
    """J of a partition, from scratch; one cluster pays nothing, even at an infinite penalty."""
    X, w = as_table(X, weight)
    labels = compact(labels)
    K = max(labels) + 1
    return sse(X, w, labels) + (float(penalty) * (K - 1) if K > 1 else 0.0)


def check_falls(new, old, scale=None):
    """J never rises."""
    assert new <= old + MONOTONE * abs(old if scale is None else scale), (
        f"the objective rises from {old!r} to {new!r}"
    )


# ----------------------------------------------------------------------------------------
# Sweeps
# ----------------------------------------------------------------------------------------


def nearest(x, centers, present):
    """(squared distance, index) of the nearest centre; the present one wins a tie, then the lowest index."""
    d2 = [distance2(x, mu) for mu in centers]
    smallest = min(d2)
    return smallest, present if d2[present] == smallest else d2.index(smallest)


def serial_sweep(X, labels, centers, penalty, cap=None, order=None, weight=None):
    """Row after row: join the nearest centre, or become a new one that later rows see at once.

    The cap counts all centres, empty ones included.

    Returns
    -------
    labels : list
        Old indices, then the new centres in the order of their births.
    n_births : int
    born : list
        The rows at which the new centres were born.
    """
    X, w = as_table(X, weight)
    labels, centers, born = [int(k) for k in labels], list(centers), []
    for n in range(len(X)) if order is None else order:
        d2, k = nearest(X[n], centers, labels[n])
        if min(w[n], 1.0) * d2 > penalty and (cap is None or len(centers) < cap):
            k = len(centers)
            centers.append(X[n])
            born.append(int(n))
        labels[n] = k
    return labels, len(born), born


def leaders(X, limit, cap, weight=None):
    """The mean, and in order every row whose squared distance to it and to all earlier leaders exceeds the
    limit.
    """
    X, w = as_table(X, weight)
    centers = [mean_of(X, w, np.arange(len(X)))]
    for x, share in zip(X, np.minimum(w, 1.0), strict=True):
        if len(centers) < cap and min(distance2(x, centre) for centre in centers) * share > limit:
            centers.append(x)
    return np.array(centers)


def delayed_sweep(X, labels, centers, penalty, cap=None, weight=None):
    """Assign every row, then open one cluster at the farthest row for which it pays.

    That row moves there now, all others at the next sweep. Returns as `serial_sweep`.
    """
    X, w = as_table(X, weight)
    labels, born, farthest = list(labels), [], 0.0
    for n in range(len(X)):
        d2, labels[n] = nearest(X[n], centers, int(labels[n]))
        if min(w[n], 1.0) * d2 > penalty and d2 > farthest and (cap is None or len(centers) < cap):
            farthest, born = d2, [n]
    for n in born:
        labels[n] = len(centers)
    return labels, len(born), born


def collapsed_sweep(X, labels, penalty, cap=None, order=None, weight=None):
    """Row after row: take it out, put it back where J is smallest; means follow every move.

    Without the row, joining cluster b (weight S, mean mu) costs w S / (S + w) |x - mu|^2 and being
    alone costs the penalty. A row that is alone may always stay so, the cap notwithstanding. Among
    equal costs the present cluster wins, then the lowest index, then a new cluster, which gets the
    highest index.

    Returns
    -------
    labels : list
        Not compacted: indices of emptied clusters are not used again.
    n_moves : int
    """
    X, w = as_table(X, weight)
    labels, n_moves = [int(k) for k in labels], 0
    unused = max(labels) + 1
    slack = COLLAPSED_SLACK * sse(X, w, [0] * len(X))
    for n in range(len(X)) if order is None else order:
        costs = {}
        for b in sorted(set(labels)):
            members = [m for m in range(len(X)) if labels[m] == b and m != n]
            if members:
                S = fsum(w[m] for m in members)
                costs[b] = float(w[n]) * S / (S + float(w[n])) * distance2(X[n], mean_of(X, w, members))
        alone, n_clusters = labels[n] not in costs, len(costs)
        stay = costs.pop(labels[n], float(penalty))
        best, target = min(((cost, b) for b, cost in costs.items()), default=(inf, None))
        if not alone and (cap is None or n_clusters < cap) and penalty < best:
            best, target = float(penalty), unused
        if stay - best > slack:
            labels[n] = target
            n_moves += 1
            unused += target == unused
    return labels, n_moves


# ----------------------------------------------------------------------------------------
# Fit
# ----------------------------------------------------------------------------------------


def fit(
    X, penalty, *, mode="serial", labels=None, cap=None, max_iter=1000, order=None, weight=None, polish=False
):
    """Sweeps until one of them changes no label.

    Parameters
    ----------
    X : array (N, D)
    penalty : float
        lambda squared; 0 and infinity are legal.
    mode : {"serial", "delayed", "collapsed"}
    labels : sequence of N ints, optional
        The start, numbered 0..K-1 in order of value; one cluster if not given.
    cap : int, optional
        Most clusters; at this number none is opened.
    order : sequence of N ints, optional
        Order in which the rows are visited (serial, collapsed and polish).
    weight : array (N,), optional
    polish : bool
        Continue with collapsed sweeps until no row moves.

    Returns
    -------
    SimpleNamespace
        ``labels`` (by first appearance), ``centers`` (K, D), ``n_clusters``, ``objective``,
        ``start_objective``, ``path`` (J after every sweep, those of the polish included),
        ``n_iter`` (sweeps without the polish), ``n_polish`` (its sweeps), ``converged``.
    """
    if mode not in ("serial", "delayed", "collapsed"):
        raise ValueError(f"mode {mode!r} is none of serial, delayed, collapsed")
    X, w = as_table(X, weight)
    labels = compact([0] * len(X) if labels is None else labels)
    start_objective = objective(X, labels, penalty, w)

    def sweep(mode, labels):
        if mode == "collapsed":
            return collapsed_sweep(X, labels, penalty, cap, order, w)[0]
        centers = means(X, w, labels)
        if mode == "serial":
            return serial_sweep(X, labels, centers, penalty, cap, order, w)[0]
        return delayed_sweep(X, labels, centers, penalty, cap, w)[0]

    def descend(mode, labels, J, max_iter):
        path, converged = [], False
        while len(path) < max_iter and not converged:
            # a cluster that is opened or emptied changes the label of a row
            moved = sweep(mode, labels)
            converged = moved == labels
            labels = compact(moved)
            path.append(objective(X, labels, penalty, w))
            check_falls(path[-1], path[-2] if len(path) > 1 else J)
        return labels, path, converged

    labels, path, converged = descend(mode, labels, start_objective, max_iter)
    polishing = []
    if polish:
        labels, polishing, _ = descend("collapsed", labels, path[-1] if path else start_objective, inf)
    shown = first_appearance(labels)
    labels = [shown.index(k) for k in labels]
    return SimpleNamespace(
        labels=np.array(labels, dtype=np.int64),
        centers=np.array(means(X, w, labels)),
        n_clusters=len(shown),
        objective=objective(X, labels, penalty, w),
        start_objective=start_objective,
        path=path + polishing,
        n_iter=len(path),
        n_polish=len(polishing),
        converged=converged,
    )


# ----------------------------------------------------------------------------------------
# Choice of the penalty
# ----------------------------------------------------------------------------------------


def farthest_first(X, K, weight=None):
    """Farthest-first traversal from the grand mean: K rows and their squared distances when added."""
    X, w = as_table(X, weight)
    chosen, rows, distances = [mean_of(X, w, range(len(X)))], [], []
    for _ in range(K):
        d2 = [min(distance2(x, c) for c in chosen) for x in X]
        rows.append(d2.index(max(d2)))
        distances.append(max(d2))
        chosen.append(X[rows[-1]])
    return rows, distances


def penalty_path(X, K, weight=None):
    """Penalties for 1..K clusters: the squared distance of the k-th row of the traversal when it is added."""
    return np.array(farthest_first(X, K, weight)[1])


def dimensions(X, labels, weight=None):
    """Dimensions of the scatter within clusters by its eigenvalues: (sum l)^2 / sum l^2; 1 if it is 0."""
    X, w = np.asarray(X, np.float64), np.ones(len(X)) if weight is None else np.asarray(weight, np.float64)
    labels = np.asarray(labels)
    W = np.zeros((X.shape[1],) * 2)
    for k in np.unique(labels[w > 0]):
        rows, weights = X[labels == k], w[labels == k]
        apart = rows - np.average(rows, axis=0, weights=weights)
        W += (weights[:, None] * apart).T @ apart
    values = np.linalg.eigvalsh(W / max(np.abs(W).max(), float_info.min))
    return max(1.0, values.sum() ** 2 / (values**2).sum()) if W.any() else 1.0


def icl(X, labels, d, weight=None):
    """Integrated completed likelihood in nats, without its constant; the smallest is chosen.

    Spherical Gaussians of one variance in d dimensions: N d / 2 log(SSE / (N d)) - sum_k n_k log(n_k / N) +
    K (d + 1) / 2 log N with N and n_k sums of weights. An SSE of 0 counts as the smallest normal number.
    """
    X, w = as_table(X, weight)
    labels = compact(labels)
    K, N = max(labels) + 1, fsum(w)
    sizes = [fsum(w[n] for n in range(len(X)) if labels[n] == k) for k in range(K)]
    spread = max(sse(X, w, labels), float_info.min)
    return (
        N * d / 2 * (log(spread) - log(N * d))
        - fsum(n_k * log(n_k / N) for n_k in sizes)
        + K * (d + 1) / 2 * log(N)
    )


# ----------------------------------------------------------------------------------------
# Brute force
# ----------------------------------------------------------------------------------------


def partitions(N):
    """All partitions of N rows, as labels numbered by first appearance."""
    if N == 1:
        yield [0]
        return
    for labels in partitions(N - 1):
        for k in range(max(labels) + 2):
            yield [*labels, k]


def optimum(X, penalty, cap=None, weight=None):
    """The best of all partitions: ``labels``, ``objective`` and ``n_clusters``."""
    if len(X) > 8:
        raise ValueError("brute force is meant for at most 8 rows")
    best = SimpleNamespace(objective=inf, labels=[0] * len(X))
    for labels in partitions(len(X)):
        if cap is None or max(labels) < cap:
            found = SimpleNamespace(objective=objective(X, labels, penalty, weight), labels=labels)
            if found.objective < best.objective:
                best = found
    return SimpleNamespace(
        labels=np.array(best.labels, dtype=np.int64),
        objective=best.objective,
        n_clusters=max(best.labels) + 1,
    )


# ----------------------------------------------------------------------------------------
# Full covariances (appendix E)
# ----------------------------------------------------------------------------------------


def mahalanobis2(x, mean, covariance):
    """(x - mean)' covariance^-1 (x - mean)."""
    return float((x - mean) @ np.linalg.solve(covariance, x - mean))


def log_determinant(covariance):
    """log |covariance|; a matrix that is not positive definite is refused."""
    try:
        return 2.0 * fsum(log(x) for x in np.diag(np.linalg.cholesky(covariance)))
    except np.linalg.LinAlgError:
        raise ValueError("a covariance is not positive definite") from None


def gaussian_parameters(X, w, labels, previous, s):
    """Means and covariances that minimise the objective for these labels.

    Sigma_k = (scatter_k + phi I) / penalty, in the sized form over penalty n_k. An empty cluster
    keeps its mean; its covariance is phi I / penalty, in the sized form infinite: it is gone (None).
    """
    D, clusters = X.shape[1], []
    for k in range(s.K):
        members = [n for n in range(len(X)) if labels[n] == k]
        n_k = fsum(w[n] for n in members)
        mean = mean_of(X, w, members) if members else previous[k].mean
        if s.known is not None:
            covariance = s.known[k]
        elif s.sized and not members:
            covariance = None
        else:
            if s.phi == 0.0 and len(members) <= D:
                raise ValueError(f"with phi = 0 a cluster needs more than {D} rows")
            covariance = s.phi * np.eye(D)
            for n in members:
                covariance = covariance + w[n] * np.outer(X[n] - mean, X[n] - mean)
            covariance = covariance / (s.penalty * (n_k if s.sized else 1.0))
        clusters.append(SimpleNamespace(mean=mean, covariance=covariance, weight=n_k))
    return clusters


def gaussian_label(x, clusters, present, s):
    """Cluster of smallest Mahalanobis distance, plus penalty log |Sigma_k| in the sized form."""
    costs = []
    for k in clusters:
        cost = inf
        if k.covariance is not None:
            cost = mahalanobis2(x, k.mean, k.covariance)
            if s.sized:
                cost += s.penalty * log_determinant(k.covariance)
        costs.append(cost)
    return present if costs[present] == min(costs) else costs.index(min(costs))


def gaussian_terms(X, w, labels, clusters, s):
    """The terms of J = sum_k [ sum_n w_n Mahalanobis^2 + penalty log|Sigma_k| + phi tr Sigma_k^-1 ].

    In the sized form the logarithm counts n_k times; known covariances have no phi term.
    """
    terms = [
        float(w[n]) * mahalanobis2(X[n], clusters[k].mean, clusters[k].covariance)
        for n, k in enumerate(labels)
    ]
    for k in clusters:
        if k.covariance is not None:
            terms.append(s.penalty * (k.weight if s.sized else 1.0) * log_determinant(k.covariance))
            if s.known is None:
                terms.append(s.phi * float(np.trace(np.linalg.inv(k.covariance))))
    return terms


def fit_gaussian(X, labels, penalty, *, phi=None, sized=False, covariances=None, max_iter=1000, weight=None):
    """Clusters with covariances, their number fixed, until the labels do not change.

    Parameters
    ----------
    X : array (N, D)
    labels : sequence of N ints
        The start, numbered 0..K-1 in order of value; with ``covariances`` all of 0..K-1 must occur.
    penalty : float
        lambda squared, positive and finite.
    phi : float, optional
        Prior of the covariances; 1e-3 of the mean variance of the columns if not given.
    sized : bool
        log |Sigma_k| counts n_k times (classification EM) instead of once.
    covariances : array (K, D, D), optional
        Known covariances: only means and labels are fitted.

    Returns
    -------
    SimpleNamespace
        ``labels`` (by first appearance), ``means`` (K, D), ``covariances`` (K, D, D), empty clusters
        last (their covariance infinite if sized and not known), ``n_clusters`` (those with rows),
        ``objective``, ``start_objective``, ``path`` (J after every sweep), ``n_iter``, ``converged``.
    """
    X, w = as_table(X, weight)
    if not 0.0 < penalty < inf:
        raise ValueError("the penalty must be positive and finite")
    if phi is None:
        grand = mean_of(X, w, range(len(X)))
        phi = 1e-3 * fsum(float(w[n]) * distance2(X[n], grand) for n in range(len(X))) / fsum(w) / X.shape[1]
    labels = [int(k) for k in labels] if covariances is not None else compact(labels)
    known = None if covariances is None else np.asarray(covariances, dtype=np.float64)
    s = SimpleNamespace(penalty=float(penalty), phi=float(phi), sized=sized, known=known, K=max(labels) + 1)
    if sorted(set(labels)) != list(range(s.K)) or (known is not None and len(known) != s.K):
        raise ValueError("every known covariance needs rows at the start")

    clusters = gaussian_parameters(X, w, labels, None, s)
    terms = gaussian_terms(X, w, labels, clusters, s)
    start_objective = J = fsum(terms)
    path, converged = [], False
    while len(path) < max_iter and not converged:
        moved = [gaussian_label(X[n], clusters, labels[n], s) for n in range(len(X))]
        converged = moved == labels
        labels, clusters = moved, gaussian_parameters(X, w, moved, clusters, s)
        # terms of both signs: rounding is measured by their sizes
        scale = fsum(abs(x) for x in terms)
        terms = gaussian_terms(X, w, labels, clusters, s)
        path.append(fsum(terms))
        check_falls(path[-1], J, scale)
        J = path[-1]

    shown = first_appearance(labels)
    order = shown + [k for k in range(s.K) if k not in shown]
    gone = np.full((X.shape[1], X.shape[1]), inf)
    return SimpleNamespace(
        labels=np.array([shown.index(k) for k in labels], dtype=np.int64),
        means=np.array([clusters[k].mean for k in order]),
        covariances=np.array(
            [gone if clusters[k].covariance is None else clusters[k].covariance for k in order]
        ),
        n_clusters=len(shown),
        objective=J,
        start_objective=start_objective,
        path=path,
        n_iter=len(path),
        converged=converged,
    )
