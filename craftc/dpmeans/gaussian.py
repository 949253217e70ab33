"""DP-means with a covariance for every cluster (MAD-Bayes, Appendix E): a local method that starts from
labels.

    sum_k [ sum_n (x_n - mu_k)' Sigma_k^-1 (x_n - mu_k) + lambda^2 log|Sigma_k| + phi tr Sigma_k^-1 ]

Without the phi term of an inverse Wishart prior the objective has no minimum: a cluster of at most D rows has
log|Sigma_k| = -inf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, solve_triangular

from craftc._common.convergence import State, iterate_until_converged
from craftc._common.estimator import FitResult
from craftc._common.labels import compact
from craftc._common.messages import numbers_of, shown
from craftc._common.typing import Floats, Labels

_FARTHEST = 1e150  # standard deviations from the mean; squares of more overflow
_DISTANCE_ROWS = 4096  # rows whose distances are computed at a time; bounds memory
_LIGHTEST = 1e-100  # weight below which a cluster is empty
_TRIALS = 8  # removals, and splits that do not pay at first sight, whose descent is tried
MOST_VARIED = 128  # clusters of `vary` where no maximum is given


class SingularCovarianceError(ValueError):
    """A cluster has too few rows for a covariance."""


@dataclass
class Gaussian:
    """The model: weights of the terms of the objective, and known covariances."""

    penalty: float  # lambda^2
    phi: float  # prior scatter, squared units of the table
    # count n_k log|Sigma_k| instead of log|Sigma_k|: every row pays (classification EM), so that small
    # clusters have no advantage
    sized: bool
    known: NDArray[np.float64] | None  # (K, D, D) given covariances, which are not fitted


@dataclass
class ClusterShapes:
    """Means, covariances and their Cholesky factors; an empty cluster has size 0."""

    sizes: Floats
    means: Floats
    covariances: NDArray[np.float64]
    factors: NDArray[np.float64]
    log_det: Floats


class Split(NamedTuple):
    """A cluster in two."""

    gain: float  # what it lowers the objective
    second: NDArray[np.intp]  # rows of the second part


@dataclass
class GaussianFit(FitResult):
    """Result of the descent."""

    labels: Labels
    shapes: ClusterShapes
    model: Gaussian


def model_of(covariance: str | NDArray[np.float64], penalty: float, prior: float, K: int, D: int) -> Gaussian:
    """The model for a `covariance` of DPMeans and K clusters in D columns; raise unless they fit."""
    known = None
    if not isinstance(covariance, str):
        known = numbers_of("covariance", covariance, f"of shape ({D}, {D}) or ({K}, {D}, {D})")
        if (
            known.shape != (K, D, D)
            or not np.isfinite(known).all()
            or not np.allclose(known, known.swapaxes(1, 2))
        ):
            raise ValueError(
                f"covariance must be finite and symmetric, of shape ({D}, {D}) or (K, {D}, {D}) with K = "
                f"{K}, the clusters of the spherical fit; got shape {known.shape}. Pass labels as init to "
                "fix K."
            )
    if not 0 < penalty < np.inf:
        equal = ", which is lambda^2 where all rows are equal" if penalty == 0 else ""
        raise ValueError(
            f"Full covariances need 0 < cluster_penalty < inf (Sigma = scatter / lambda^2), got {penalty}"
            f"{equal}."
        )
    return Gaussian(penalty, prior, known is None and covariance == "full-sized", known)


def descend(
    X: NDArray[Any], weight: Floats | None, labels: Labels, model: Gaussian, max_iter: int
) -> GaussianFit:
    """Alternate shapes and labels until no row moves. `labels` (0..K-1, none empty) are updated in place."""
    w = np.ones(len(X)) if weight is None else weight
    K = int(labels.max()) + 1
    shapes = _shapes(X, w, labels, K, model, None)
    distance = _own(X, labels, shapes)

    def step() -> tuple[State, float]:
        nonlocal shapes, distance
        moved = _assign(X, w, labels, shapes, model)
        shapes = _shapes(X, w, labels, K, model, shapes)
        distance = _own(X, labels, shapes)
        return "moving" if moved else "converged", objective(w, distance, shapes, model)

    path: list[float] = []
    n_iter, converged = iterate_until_converged(
        step, path, max_iter, slack=lambda J: 1e-9 * (1.0 + abs(J) + float(w @ distance))
    )
    return GaussianFit(path[-1], path, n_iter, converged, labels, shapes, model)


def vary(
    X: NDArray[Any], weight: Floats | None, fit: GaussianFit, price: float, most: int, max_iter: int
) -> GaussianFit:
    """Remove and split clusters as long as the objective + price (K - 1) falls, K at most `most`.

    A split cluster is cut at its mean, across its longest axis, and a descent of the two parts alone
    follows. A removed cluster leaves its rows to the nearest others. All splits that gain more than the price
    are made at once; where the objective does not fall then, the better half of them, and so on; removals in
    the same way. Other moves are tried one by one, the most promising first. Every trial ends with a
    descent of all rows.
    """

    def total(one: GaussianFit) -> float:
        return one.objective + price * (len(one.shapes.sizes) - 1)

    path, n_iter = [J + price * (len(fit.shapes.sizes) - 1) for J in fit.path], fit.n_iter
    halves: dict[bytes, Split | None] = {}  # a move changes few of the clusters
    while True:
        enough = total(fit) - 1e-9 * (1.0 + abs(total(fit)))
        for labels in _moves(X, weight, fit, price, most, max_iter, halves):
            moved = _descended(X, weight, labels, fit.model, max_iter)
            if moved is not None and total(moved) < enough:
                fit, path, n_iter = moved, [*path, total(moved)], n_iter + moved.n_iter
                break
        else:
            return replace(fit, objective=total(fit), path=path, n_iter=n_iter)


def _descended(
    X: NDArray[Any], weight: Floats | None, labels: Labels, model: Gaussian, max_iter: int
) -> GaussianFit | None:
    """The descent from labels; None where a covariance has no determinant."""
    try:
        return descend(X, weight, labels, model, max_iter)
    except SingularCovarianceError:
        return None


def _moves(
    X: NDArray[Any],
    weight: Floats | None,
    fit: GaussianFit,
    price: float,
    most: int,
    max_iter: int,
    halves: dict[bytes, Split | None],
) -> Iterator[Labels]:
    """Labels after several splits or removals, then after one, the most promising first."""
    room = most - len(fit.shapes.sizes)
    splits = _splits(X, weight, fit, max_iter, halves) if room > 0 else []
    paying = [second for gain, second in splits if gain > price][:room]
    while paying:
        yield _with_parts(fit.labels, paying)
        paying = paying[: len(paying) // 2]
    removals = _removals(X, weight, fit)
    needless = [k for gain, k in removals if gain + price > 0][: len(removals) - 1]
    while len(needless) > 1:
        yield _without(X, fit, needless)
        needless = needless[: len(needless) // 2]
    trials = [(gain + price, _without(X, fit, [k])) for gain, k in removals[:_TRIALS]]
    trials += [
        (gain - price, _with_parts(fit.labels, [second]))
        for gain, second in splits[:_TRIALS]
        if gain <= price
    ]
    yield from (labels for _, labels in sorted(trials, key=lambda trial: -trial[0]))


def _with_parts(labels: Labels, parts: list[NDArray[np.intp]]) -> Labels:
    """Labels in which some rows of clusters form clusters of their own."""
    labels, K = labels.copy(), int(labels.max()) + 1
    for k, rows in enumerate(parts, K):
        labels[rows] = k
    return compact(labels)


def _splits(
    X: NDArray[Any],
    weight: Floats | None,
    fit: GaussianFit,
    max_iter: int,
    halves: dict[bytes, Split | None],
) -> list[Split]:
    """Splits of the clusters into two, the largest gain first.

    `halves`: the splits of clusters that have been tried, by the bytes of their rows; updated in place.
    """
    tried = dict(halves)
    halves.clear()
    for k in range(len(fit.shapes.sizes)):
        rows = np.flatnonzero(fit.labels == k)
        key = rows.tobytes()
        halves[key] = tried[key] if key in tried else _split(X, weight, fit, k, rows, max_iter)
    return sorted((split for split in halves.values() if split is not None), key=lambda one: -one[0])


def _split(
    X: NDArray[Any],
    weight: Floats | None,
    fit: GaussianFit,
    k: int,
    rows: NDArray[np.intp],
    max_iter: int,
) -> Split | None:
    """The split of cluster k, which has these rows; None where there is none."""
    if len(rows) < 2:
        return None
    axis = np.linalg.eigh(fit.shapes.covariances[k])[1][:, -1]
    side = ((X[rows] - fit.shapes.means[k]) @ axis > 0).astype(np.int32)
    if not 0 < side.sum() < len(rows):
        return None
    own, share = X[rows], None if weight is None else weight[rows]
    whole = _descended(own, share, np.zeros(len(rows), np.int32), fit.model, 1)
    parts = _descended(own, share, side, fit.model, max_iter)
    if whole is None or parts is None or not 0 < (parts.labels == 1).sum() < len(rows):
        return None
    return Split(whole.objective - parts.objective, rows[parts.labels == 1])


def _removals(X: NDArray[Any], weight: Floats | None, fit: GaussianFit) -> list[tuple[float, int]]:
    """What the removal of every cluster lowers the objective, at the shapes of the others; largest first."""
    K = len(fit.shapes.sizes)
    if K == 1:
        return []
    gains = np.zeros(K)
    for first in range(0, len(X), _DISTANCE_ROWS):
        rows = slice(first, min(first + _DISTANCE_ROWS, len(X)))
        cost, label = costs(X[rows], fit.shapes, fit.model), fit.labels[rows]
        own = np.arange(len(label)), label
        now = cost[own]
        cost[own] = np.inf
        share = np.ones(len(label)) if weight is None else weight[rows]
        counted = share > 0
        gains += np.bincount(label[counted], (share * (now - cost.min(axis=1)))[counted], K)
    if not fit.model.sized:
        alive = np.isfinite(fit.shapes.log_det)
        gains[alive] += fit.model.penalty * fit.shapes.log_det[alive]
    return sorted(zip(gains.tolist(), range(K), strict=True), key=lambda one: -one[0])


def _without(X: NDArray[Any], fit: GaussianFit, clusters: list[int]) -> Labels:
    """Labels without some clusters, whose rows go to the nearest others."""
    rows = np.flatnonzero(np.isin(fit.labels, clusters))
    cost = costs(X[rows], fit.shapes, fit.model)
    cost[:, clusters] = np.inf
    labels = fit.labels.copy()
    labels[rows] = cost.argmin(axis=1)
    return compact(labels)


def objective(w: Floats, distance: Floats, shapes: ClusterShapes, model: Gaussian) -> float:
    """The objective of the shapes and the rows' Mahalanobis distances."""
    alive = np.isfinite(shapes.log_det)
    counted = shapes.sizes if model.sized else np.ones_like(shapes.sizes)
    total = float(w @ distance) + model.penalty * float(counted[alive] @ shapes.log_det[alive])
    if model.known is None:
        total += model.phi * sum(_trace_of_inverse(factor) for factor in shapes.factors[alive])
    return total


def _trace_of_inverse(factor: Floats) -> float:
    inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
    return float((inverse**2).sum())


def _shapes(
    X: NDArray[Any], w: Floats, labels: Labels, K: int, model: Gaussian, before: ClusterShapes | None
) -> ClusterShapes:
    """Exact minimisers given the labels; an empty cluster keeps its mean (sized: it is removed)."""
    D = X.shape[1]
    sizes = np.bincount(labels, w, K).astype(np.float64)
    means = np.zeros((K, D)) if before is None else before.means.copy()
    covariances = np.zeros((K, D, D))
    for k in range(K):
        rows = np.flatnonzero(labels == k)
        if sizes[k] > 0:
            cells, share = X[rows].astype(np.float64), w[rows]
            origin = cells[0]
            means[k] = origin + share @ (cells - origin) / sizes[k]
            step = cells - means[k]
            covariances[k] = (step * share[:, None]).T @ step
        if model.known is not None:
            covariances[k] = model.known[k]
            continue
        covariances[k][np.diag_indices(D)] += model.phi
        covariances[k] /= model.penalty * (max(sizes[k], _LIGHTEST) if model.sized else 1.0)
        if model.phi == 0 and 0 < np.count_nonzero(w[rows]) <= D:
            raise SingularCovarianceError(
                f"Cluster {k} has {len(rows)} rows in {D} dimensions: with covariance_prior=0 its covariance "
                "is singular (no determinant). Set covariance_prior > 0, or raise cluster_penalty for fewer "
                "clusters."
            )
    factors, log_det = np.zeros_like(covariances), np.full(K, np.inf)
    for k in range(K):
        if sizes[k] == 0 and (model.sized or model.phi == 0) and model.known is None:
            continue
        factors[k] = _cholesky(covariances[k], k, model)
        log_det[k] = 2.0 * np.log(np.diag(factors[k])).sum()
    return ClusterShapes(sizes, means, covariances, np.tril(factors), log_det)


def _cholesky(covariance: Floats, k: int, model: Gaussian) -> Floats:
    if not np.isfinite(covariance).all():
        raise ValueError(
            f"The covariance of cluster {k} overflows float64; raise cluster_penalty or lower "
            "covariance_prior."
        )
    try:
        factor: Floats = cho_factor(covariance, lower=True)[0]
    except np.linalg.LinAlgError:
        fix = "raise covariance_prior" if model.known is None else "pass positive definite covariances"
        raise SingularCovarianceError(
            f"The covariance of cluster {k} is not positive definite; {fix}."
        ) from None
    return factor


def mahalanobis(X: NDArray[Any], shapes: ClusterShapes, k: int) -> Floats:
    """(n,) squared Mahalanobis distance of every row to cluster k; its bits depend on the row alone."""
    factor, out = shapes.factors[k], np.zeros(len(X))
    for first in range(0, len(X), _DISTANCE_ROWS):
        rows = slice(first, first + _DISTANCE_ROWS)
        step = np.ascontiguousarray((X[rows].astype(np.float64) - shapes.means[k]).T)
        with np.errstate(over="ignore"):  # what is infinite is clipped
            for d, white in enumerate(step):  # forward substitution
                white /= factor[d, d]
                np.minimum(white, _FARTHEST, out=white)
                np.maximum(white, -_FARTHEST, out=white)
                out[rows] += white * white
                step[d + 1 :] -= factor[d + 1 :, d, None] * white
    return out


def _own(X: NDArray[Any], labels: Labels, shapes: ClusterShapes) -> Floats:
    out = np.zeros(len(X))  # rows of weight 0 in a cluster without weight
    for k in map(int, np.flatnonzero(np.isfinite(shapes.log_det))):
        rows = np.flatnonzero(labels == k)
        out[rows] = mahalanobis(X[rows], shapes, k)
    return out


def costs(X: NDArray[Any], shapes: ClusterShapes, model: Gaussian) -> Floats:
    """(n, K) cost of every row in every cluster."""
    out = np.full((len(X), len(shapes.sizes)), np.inf)
    for k in map(int, np.flatnonzero(np.isfinite(shapes.log_det))):
        out[:, k] = mahalanobis(X, shapes, k) + (model.penalty * shapes.log_det[k] if model.sized else 0.0)
    return out


def _assign(X: NDArray[Any], w: Floats, labels: Labels, shapes: ClusterShapes, model: Gaussian) -> int:
    """Every row to the cluster of least cost, its own if tied; returns the rows of weight > 0 that moved."""
    moved = 0
    for first in range(0, len(X), _DISTANCE_ROWS):
        rows = slice(first, min(first + _DISTANCE_ROWS, len(X)))
        cost = costs(X[rows], shapes, model)
        best = cost.argmin(axis=1).astype(np.int32)
        own = np.arange(len(best)), labels[rows]
        best = np.where(cost[own] <= cost.min(axis=1), labels[rows], best)
        moved += int(np.count_nonzero((best != labels[rows]) & (w[rows] > 0)))
        labels[rows] = best
    return moved


def known_shape(covariance: NDArray[np.float64], D: int) -> tuple[Floats, Floats]:
    """The Cholesky factor L of one known covariance and its inverse; raise unless there is one."""
    if (
        not np.isfinite(covariance).all()
        or not np.allclose(covariance, covariance.T)
        or covariance.shape != (D, D)
    ):
        raise ValueError(
            f"covariance must be finite and symmetric, of shape ({D}, {D}) or (K, {D}, {D}), got "
            f"{shown(covariance)} of shape {covariance.shape}."
        )
    try:
        factor: Floats = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        raise ValueError(
            "The known covariance is not positive definite; pass a positive definite one."
        ) from None
    inverse: Floats = np.tril(solve_triangular(factor, np.eye(D), lower=True))
    return factor, inverse


def multiplied(X: NDArray[Any], factor: Floats) -> NDArray[Any]:
    """Rows times the transpose of a lower triangle; the bits of a row depend on that row alone."""
    out = np.zeros(X.shape)
    for first in range(0, len(X), _DISTANCE_ROWS):
        rows = slice(first, first + _DISTANCE_ROWS)
        for d in range(X.shape[1]):
            out[rows, d:] += X[rows, d, None] * factor[d:, d]
    return out.astype(X.dtype)


def select(shapes: ClusterShapes, clusters: NDArray[np.intp]) -> ClusterShapes:
    """Some clusters, in the given order."""
    return replace(
        shapes,
        **{
            name: getattr(shapes, name)[clusters]
            for name in ("sizes", "means", "covariances", "factors", "log_det")
        },
    )
