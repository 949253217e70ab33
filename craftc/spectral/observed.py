"""The paper's objective as printed, equations (5) to (7), and the graph of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from craftc._common.messages import array_of, shown
from craftc._common.threads import effective_n_threads, one_blas_thread
from craftc._common.typing import ColumnSelection, Floats, RandomStateInput, TableInput
from craftc._common.validation import Constraint, Number, RandomState
from craftc.spectral.encoding import SHARED, Encoding, Prepared, eps_of
from craftc.spectral.factorization import approximation_of
from craftc.spectral.pseudo_likelihood import similarity
from craftc.table import MixedTable

RATES, STEPS = {-1: 1.0, 1: 0.5}, {-1: 20, 1: 50}  # by the sign of the step
_ROWS = 512  # rows of a block
_LARGEST = 1e100  # absolute weight of an edge: sums of weights do not overflow
_ROUNDING = 1e-12  # asymmetry, relative to the largest weight, that is averaged away
_CONSTRAINTS: Mapping[str, Constraint] = {
    **SHARED,
    "theta0": Number(),
    "rate": Number(above=0, optional=True),
    "n_steps": Number(least=0, whole=True, optional=True),
    "random_state": RandomState(),
}


@dataclass(frozen=True, eq=False)
class ObservedGraph:
    """A graph of the encoded columns of a table, as `observed_graph` returns it."""

    weights: Floats  # (p, p), symmetric, 0 on the diagonal and between levels of one variable
    names: tuple[str, ...]  # the p encoded columns, as in ``GraphSpectralFeatures.encoded_names_``
    objective: float  # -(log L / n + log n) of the weights, in nats
    objective_path: Floats  # (n_steps,) the same after every step, before the weights are rescaled


def observed_graph(
    X: TableInput,
    *,
    sign: Literal[-1, 1] = -1,
    theta0: float = 1.0,
    rate: float | None = None,
    n_steps: int | None = None,
    categorical: ColumnSelection = "auto",
    missing: str = "ignore",
    scaling: str = "range",
    beta: float = 2.0,
    eps: float | None = None,
    factorization: str = "hals",
    n_factors: int | None = None,
    indicator_weight: float = 1.0,
    random_state: RandomStateInput = None,
    n_threads: int | None = None,
) -> ObservedGraph:
    """The graph after a number of gradient steps on the paper's likelihood, its equations (5) to (7).

    It serves comparisons with the paper. The likelihood is largest at weights of zero, so the result depends
    on the start and the number of steps, and is not an estimate. `GraphSpectralFeatures` takes it as
    ``graph=``; without ``graph=`` the class learns a graph by pseudo-likelihood.

    Parameters
    ----------
    X : data frame, array or MixedTable (n, D), n >= 2
        At least two columns must vary; constant columns are left out with a warning.
    sign : {-1, 1}, default=-1
        -1: steps downhill, as printed; 1: uphill.
    theta0 : float, default=1.0
        Initial value of all weights, not 0.
    rate : float, optional
        Step size relative to the gradient per row; None: 1.0 downhill, 0.5 uphill.
    n_steps : int, optional
        Number of steps; None: 20 downhill, 50 uphill.
    categorical, missing, scaling, beta, eps, factorization, n_factors, indicator_weight
        As in `GraphSpectralFeatures`. Pass the same `categorical`, `missing`, `scaling` and `beta` to both.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the nonnegative factorisation.
    n_threads : int, optional
        Threads; None: OMP_NUM_THREADS or all processors of this process. The result does not depend on it.

    Returns
    -------
    ObservedGraph
        `weights` (p, p), rescaled to the norm of the start, and `names` (p,) of the encoded columns;
        `objective`, -(log L / n + log n) in nats, and `objective_path` (n_steps,) before the rescaling.

    Raises
    ------
    TypeError, ValueError
        A parameter or a column is not allowed, or fewer than two columns vary.

    References
    ----------
    S. Sahoo, S. Chakraborty: Graph Spectral Feature Learning for Mixed Data of Categorical and Numerical
    Type. arXiv 2005.02817.

    Examples
    --------
    >>> from craftc import GraphSpectralFeatures
    >>> from craftc.datasets import load_heart
    >>> from craftc.spectral import observed_graph
    >>> heart = load_heart().data
    >>> graph = observed_graph(heart, random_state=0)
    >>> graph.weights.shape, graph.names[:2]
    ((22, 22), ('age', 'rest_bp'))
    >>> GraphSpectralFeatures(3, graph=graph).fit_transform(heart).shape
    (270, 3)
    """
    # in the order of the constraints
    given = scaling, factorization, beta, indicator_weight, n_factors, theta0, rate, n_steps, random_state
    for (name, constraint), value in zip(_CONSTRAINTS.items(), given, strict=True):
        constraint.check(name, value)
    radius = eps_of(eps, beta)
    if isinstance(sign, bool) or sign not in (-1, 1):
        raise ValueError(f"sign must be -1 (as printed) or 1 (uphill), got {shown(sign)}.")
    if theta0 == 0:
        raise ValueError("theta0 must not be 0, got 0: the gradient is 0 there; pass another number.")
    threads = effective_n_threads(n_threads)
    prepared = Prepared.of(X, categorical, missing, scaling, float(beta))
    encoding = prepared.encoding
    # small products: one BLAS thread, so that the bits do not depend on their number
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        low_rank = approximation_of(
            prepared, factorization, n_factors, indicator_weight, random_state, threads
        )
        observed = Observed(encoding, prepared.table, low_rank.table(), radius)
        size = sign * (RATES[sign] if rate is None else float(rate))
        steps = STEPS[sign] if n_steps is None else int(n_steps)
        weights, path = observed.gradient_path(float(theta0), size, steps)
        objective = -observed(weights)[0]
    if not (np.isfinite(weights).all() and np.isfinite([objective, *path]).all()):
        raise ValueError(f"The steps overflow at theta0={theta0:g} and rate={rate}; pass smaller numbers.")
    return ObservedGraph(weights, encoding.names, objective, -path[1:])


def given_weights(graph: ArrayLike | ObservedGraph, names: tuple[str, ...]) -> Floats:
    """The weights (p, p) that a user passes for these encoded columns, with a zero diagonal, checked."""
    p, wanted = len(names), "a symmetric array of numbers, with a row and a column for every encoded column"
    if isinstance(graph, ObservedGraph):
        labels, matrix = list(graph.names), graph.weights
    else:
        labels, matrix = list(getattr(graph, "columns", names)), array_of("graph", graph, wanted)
    if matrix.shape != (p, p):
        raise ValueError(f"graph must have shape ({p}, {p}), {wanted}, got {matrix.shape}.")
    for j, (label, name) in enumerate(zip(labels, names, strict=True)):
        if label != name:
            raise ValueError(
                f"graph must have the encoded columns of the table in their order, got {shown(label)} at "
                f"position {j}, where the table has {name!r}."
            )
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"graph must be {wanted}, got {matrix.dtype}.")
    weights = np.array(matrix, np.float64, order="C")  # the bits of the spectrum depend on the layout
    np.fill_diagonal(weights, 0.0)
    largest = float(np.abs(weights).max())
    if not largest <= _LARGEST:
        raise ValueError(f"graph must have finite weights of at most {_LARGEST:g} in size, got {largest:g}.")
    difference = float(np.abs(weights - weights.T).max())
    if difference > _ROUNDING * largest:
        raise ValueError(
            f"graph must be symmetric, got a difference of {difference:.3g} to its transpose; pass "
            "(graph + graph.T) / 2."
        )
    return weights if difference == 0.0 else (weights + weights.T) / 2


class Observed:
    """f = log L / n + log n of equation (5), a function of the weights of the edges; 0, its maximum, at 0.

    Similarities are g(x_s, x_t) of two numeric columns, x_s x_t of two indicators, g(x_hat_s, x_hat_t) of a
    numeric column and an indicator, and 0 if a cell is missing. x_hat is the low-rank approximation (n, p).
    """

    def __init__(self, encoding: Encoding, table: MixedTable, low_rank: Floats, eps: float) -> None:
        self.encoding, self.low_rank, self.eps, self.n = encoding, low_rank, eps, table.n_rows
        self._numbers = encoding.scaled(table)
        self._states = encoding.first_state + table.codes[:, encoding.variable].astype(np.intp)
        self._signs = encoding.indicators()
        self._signs[encoding.missing_state] = 0.0
        self.edges = encoding.edges()

    def _blocks(self) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Rows, and their similarities: numeric (m, p1, p1), mixed (m, p1, p2), indicators (m, p2)."""
        p1 = self.encoding.p1
        for start in range(0, self.n, _ROWS):
            rows = slice(start, start + _ROWS)
            x, low_rank = self._numbers[rows], self.low_rank[rows]
            signs = self._signs[self._states[rows]].sum(axis=1)
            known = ~np.isnan(x)
            x = np.where(known, x, 0.0)
            both, one = known[:, :, None] & known[:, None, :], known[:, :, None] & (signs != 0.0)[:, None, :]
            numeric = similarity(x[:, :, None], x[:, None, :], self.eps) * both
            mixed = similarity(low_rank[:, :p1, None], low_rank[:, None, p1:], self.eps) * one
            yield rows, numeric, mixed, signs

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """f and its gradient, mean(h) - sum_i softmax_i h_i, for weights (p, p) that are 0 off the edges."""
        p1 = self.encoding.p1
        energy = np.empty(self.n)
        numeric_weight, mixed_weight, indicator_weight = theta[:p1, :p1], theta[:p1, p1:], theta[p1:, p1:]
        for rows, numeric, mixed, signs in self._blocks():
            levels = ((signs @ indicator_weight) * signs).sum(axis=1)
            pairs = (numeric * numeric_weight).sum(axis=(1, 2)) + levels
            energy[rows] = pairs / 2.0 + (mixed * mixed_weight).sum(axis=(1, 2))
        log_sum = float(logsumexp(energy))
        weight = 1.0 / self.n - np.exp(energy - log_sum)
        gradient = np.zeros_like(theta)
        for rows, numeric, mixed, signs in self._blocks():
            gradient[:p1, :p1] += np.tensordot(weight[rows], numeric, 1)
            gradient[:p1, p1:] += np.tensordot(weight[rows], mixed, 1)
            gradient[p1:, p1:] += (signs * weight[rows, None]).T @ signs
        return float(energy.mean()) - log_sum + float(np.log(self.n)), self.symmetric(gradient[self.edges])

    def symmetric(self, values: Floats) -> Floats:
        """(p, p) matrix from one value per edge."""
        out = np.zeros((self.encoding.p, self.encoding.p))
        out[self.edges] = values
        return out + out.T

    def gradient_path(self, theta0: float, rate: float, n_steps: int) -> tuple[Floats, Floats]:
        """Steps theta += rate * gradient; the last theta, in the start's norm, and f on the path."""
        start = theta = self.symmetric(np.full(len(self.edges[0]), theta0))
        path = np.empty(n_steps + 1)
        for step in range(n_steps + 1):
            path[step], gradient = self(theta)
            if step < n_steps:
                theta = theta + rate * gradient
        norm = np.linalg.norm(theta)
        return (theta * np.linalg.norm(start) / norm if norm > 0.0 else theta), path
