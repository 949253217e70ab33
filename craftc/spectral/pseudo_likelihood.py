"""The node-wise pseudo-likelihood of a mixed table with its gradient, and the objective of a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from craftc._common.labels import chunks
from craftc._common.threads import aligned, parallel_map, threads_for
from craftc._common.typing import Floats, Ints
from craftc._kernels import spectral as _kernel
from craftc.spectral.encoding import Encoding
from craftc.spectral.factorization import Approximation, runs_of
from craftc.table import MixedTable

UNARY_RIDGE = 1e-4  # penalty of squared unary terms
_ROOM = 2**23  # most numbers in the sums of all runs
_COMBINATIONS = 64  # most rows of a table that variables share
_PER_INTERVAL = 4  # nodes of the refined grid between two nodes of the grid


class Parameters(NamedTuple):
    """Weights of the edges (p, p), and unary terms: b (p2,) of indicators, c (p1, B) of numeric columns."""

    theta: Floats
    b: Floats
    c: Floats


class ExpectedStatistics(NamedTuple):
    """Sums over rows, expected under the conditionals at some parameters."""

    log_z: Floats  # (1,) sum of the log-normalisers of observed cells
    node: Floats  # (p1, M) expected visits of the nodes of the grid
    pair: Floats  # (p1, seen, LANES) expected similarities to the numbers seen, to be summed over lanes
    node_table: Floats  # (R, p1, M) expected visits by combination of states
    bias: Floats  # (L,) residuals y - q of the indicators
    bias_table: Floats  # (R, L) residuals by combination
    cross: Floats  # (p1, L) residuals times the change of similarity to the numeric columns
    mixed: Floats | None = None  # (p1, p2) expected similarities of indicators and numbers, unless "dense"


class Grid(NamedTuple):
    """Nodes and weights that integrate over [-beta, beta]."""

    nodes: Floats
    weights: Floats


def log_grid(beta: float, eps: float, m: int) -> Grid:
    """u = 0 with weight 2 eps, and m Gauss-Legendre nodes in ln|u| on either side, ascending."""
    z, w = np.polynomial.legendre.leggauss(m)
    half = np.log(beta / eps) / 2.0
    u = np.exp(np.log(eps) + half * (1.0 + z))
    return Grid(
        np.concatenate([-u[::-1], [0.0], u]),
        np.concatenate([(half * w * u)[::-1], [2.0 * eps], half * w * u]),
    )


def refined(grid: Grid, beta: float, eps: float) -> Grid:
    """The grid for functions linear in ln|u| between its nodes: Gauss-Legendre on every interval."""
    z, w = np.polynomial.legendre.leggauss(_PER_INTERVAL)
    ends = np.log(np.concatenate([[eps], grid.nodes[grid.nodes > 0.0], [beta]]))
    half = np.diff(ends)[:, None] / 2.0
    u = np.exp(ends[:-1, None] + half * (1.0 + z))
    side, weights = u.ravel(), (half * w * u).ravel()
    return Grid(
        np.concatenate([-side[::-1], [0.0], side]), np.concatenate([weights[::-1], [2.0 * eps], weights])
    )


class QuadraticBasis:
    """Unary terms c1 x + c2 x^2: a Gaussian log density."""

    size = 2

    def __call__(self, x: Floats) -> Floats:
        """(n, 2) values at x (n,)."""
        return np.stack([x, x**2], axis=1)

    def sums(self, x: Floats) -> Floats:
        """(2,) sums of the values at x (n,)."""
        return np.asarray(self(x).sum(axis=0))


class HatBasis:
    """Linear splines in ln|x|: one hat function per node of the grid, 1 at the node and 0 at its neighbours.

    All numbers from -eps to eps count as the node at 0.
    """

    def __init__(self, grid: Grid, eps: float) -> None:
        self._places, self._eps = self._place(grid.nodes, eps), eps
        self.size = len(grid.nodes)

    @staticmethod
    def _place(x: Floats, eps: float) -> Floats:
        return np.asarray(np.sign(x) * np.log(np.maximum(np.abs(x), eps) / eps))

    def _hats(self, x: Floats) -> tuple[Ints, Floats]:
        """The node right of every x (n,), and its value there; the left node has the rest of 1."""
        places = self._places
        at = np.clip(self._place(x, self._eps), places[0], places[-1])
        right = np.clip(np.searchsorted(places, at), 1, len(places) - 1)
        return right, (at - places[right - 1]) / (places[right] - places[right - 1])

    def __call__(self, x: Floats) -> Floats:
        """(n, M) values at x (n,)."""
        right, share = self._hats(x)
        out = np.zeros((len(x), self.size))
        out[np.arange(len(x)), right - 1] = 1.0 - share
        out[np.arange(len(x)), right] = share
        return out

    def sums(self, x: Floats) -> Floats:
        """(M,) sums of the values at x (n,)."""
        right, share = self._hats(x)
        left = np.bincount(right - 1, 1.0 - share, self.size)
        return np.asarray(np.bincount(right, share, self.size) + left, np.float64)


def similarity(u: Floats, a: Floats, eps: float) -> Floats:
    """g(u, a) = +-min(U, A) / max(U, A), U = max(|u|, eps); the sign of u a if both exceed eps, else +."""
    U, A = np.maximum(np.abs(u), eps), np.maximum(np.abs(a), eps)
    opposite = (np.abs(u) > eps) & (np.abs(a) > eps) & ((u > 0.0) != (a > 0.0))
    return np.asarray(np.where(opposite, -1.0, 1.0) * np.minimum(U / A, A / U))


def _padded(n: int) -> int:
    return -(-max(n, 1) // _kernel.LANES) * _kernel.LANES


def _scale(values: Floats, eps: float, width: int) -> Floats:
    """A row of numbers as the kernel compares with: sizes, inverses, and signs towards numbers below -eps,
    near 0, above eps; zeros for padding and NaN.
    """
    out = aligned((5, width))
    out[:] = 0.0
    size = np.maximum(np.abs(values), eps)
    below, above = (np.where(side * values > eps, -1.0, 1.0) for side in (1.0, -1.0))
    rows = size, 1.0 / size, below, np.ones(len(values)), above
    out[:, : len(values)] = np.where(np.isnan(values), 0.0, rows)
    return out


class Joints:
    """Variables of few states share a table whose rows are the combinations of their states, so that a row of
    data reads fewer tables. `terms` are the terms of the combinations, for `Conditionals.combine`.
    """

    def __init__(self, encoding: Encoding, table: MixedTable) -> None:
        e = encoding
        sizes = [int(table.codes[:, d].max(initial=0)) + 1 for d in e.variable]
        self.joint, self.stride = np.zeros((2, len(sizes)), np.intp)
        rooms: list[int] = []
        for v in sorted(range(len(sizes)), key=lambda v: -sizes[v]):
            j = next((j for j, room in enumerate(rooms) if room * sizes[v] <= _COMBINATIONS), len(rooms))
            if j == len(rooms):
                rooms.append(1)
            self.joint[v], self.stride[v] = j, rooms[j]
            rooms[j] *= sizes[v]
        self.first_row = np.concatenate([[0], np.cumsum(rooms)]).astype(np.intp)
        row, state = [], []
        for v, (size, j) in enumerate(zip(sizes, self.joint, strict=True)):
            combination = np.arange(rooms[j])
            row.append(self.first_row[j] + combination)
            state.append(e.first_state[v] + combination // self.stride[v] % size)
        rows, states = (np.concatenate(row), np.concatenate(state)) if sizes else (np.empty(0, np.intp),) * 2
        indicator = e.indicator_of_state[states]
        known, on = indicator != _kernel.MISSING, indicator >= 0
        terms = np.concatenate([e.state_owner[states[known]], len(sizes) + indicator[on]])
        rows = np.concatenate([rows[known], rows[on]])
        start = np.searchsorted(np.sort(rows), np.arange(self.first_row[-1] + 1))
        self.terms = start, terms[np.argsort(rows, kind="stable")]


class PseudoLikelihood:
    """Sum over the columns of ln p(column | the others), per row; a missing cell has none, and enters none.

    Numeric columns lie in [-beta, beta], and see an indicator that is off or on by its `codes` (p2, 2);
    with `low_rank`, columns see the approximations of columns of the other kind. `softmax` normalises the
    indicators of a variable together. `free` unary terms use the `HatBasis`, others the `QuadraticBasis`; a
    column with few values then has one term per value, and a probability instead of a density. `refine`
    normalises the interpolated log density on the refined grid, so that it integrates to 1.
    """

    def __init__(
        self,
        encoding: Encoding,
        table: MixedTable,
        codes: Floats,
        *,
        beta: float,
        eps: float,
        grid_size: int,
        softmax: bool,
        low_rank: Approximation | None,
        n_threads: int,
        free: bool = False,
        refine: bool = False,
    ) -> None:
        e = self.encoding = encoding
        self.n, self.codes, self._joints = table.n_rows, codes, Joints(encoding, table)
        R = int(self._joints.first_row[-1])
        self.grid = log_grid(beta, eps, grid_size)
        self.unary_basis = HatBasis(self.grid, eps) if free else QuadraticBasis()
        if refine:
            self.grid = refined(self.grid, beta, eps)
        self._basis_at_nodes = self.unary_basis(self.grid.nodes)
        columns = zip(e.values, e.centre, e.scale, strict=True)
        self._values = [(values - centre) * scale for values, centre, scale in columns]
        # columns that are normalised on the grid
        self._spread = np.array([not len(values) for values in self._values], dtype=bool)
        self._few = np.flatnonzero(~self._spread)
        shared = _padded(len(self.grid.nodes))
        n_nodes = np.array([_padded(len(v)) if len(v) else shared for v in self._values], np.intp)
        first_node = np.zeros(e.p1, np.intp)
        first_node[self._few] = shared + np.cumsum(n_nodes[self._few]) - n_nodes[self._few]
        nodes = np.full(shared + n_nodes[self._few].sum(), np.nan)
        for s, first in enumerate(first_node):
            at = self.support(s).nodes
            nodes[first : first + len(at)] = at
        self._M, self._L = int(n_nodes.max(initial=0)), _padded(e.p2)
        size = self._M * e.p1 * (1 + R) + self._L * (1 + R + e.p1)
        runs = runs_of(self.n, max(1, _ROOM // size))
        joints = self._joints
        cells = table.numeric, e.column, e.centre, e.scale, table.codes, e.variable, e.first_state, e.first
        joint = joints.joint, joints.stride, joints.first_row, e.indicator_of_state
        approximation = None if low_rank is None else low_rank.table()
        grid = _scale(nodes, eps, len(nodes))
        minus, plus = (_scale(code, eps, self._L) for code in codes.T)
        self._conditionals = _kernel.Conditionals(
            *cells, *joint, approximation, first_node, n_nodes, grid, minus, plus, eps, softmax, runs
        )
        base = 6 + len(e.variable)
        per_row = e.p1 * self._M * (base + self._conditionals.seen) + self._L * (base + 3 * e.p1)
        self.n_threads = threads_for(n_threads, self.n * per_row / _kernel.LANES)
        self._dense = low_rank is not None
        off, on = (np.nan_to_num(similarity(nodes, code[:, None], eps), nan=0.0) for code in codes.T)
        self._off, self._rise = off, on - off
        # side by side: the kernel does not hold the interpreter's lock
        works: list[Callable[[], tuple[Floats, ...]]] = [
            lambda: self._conditionals.observed(self.n_threads),
            lambda: (self._sums_of_basis(table),) if free else (),
        ]
        (powers, self._own), sums = parallel_map(lambda work: work(), works, self.n_threads)
        self._basis_sums = sums[0] if sums else powers[:, 1:]
        self._unary = aligned((e.p1, self._M))
        self._node_table = aligned((R, e.p1, self._M))
        self._bias, self._bias_table = aligned((self._L,)), aligned((R, self._L))
        self._cross = aligned((e.p1, self._L))
        for room in (self._node_table, self._bias, self._bias_table, self._cross):
            room[:] = 0.0
        self._unary[:] = -np.inf

    def __call__(self, at: Parameters) -> tuple[float, Parameters]:
        """The value per row, and its gradient: R + R' for theta, row s of R from the conditional of s."""
        e, p1, n = self.encoding, self.encoding.p1, self.n
        theta, b, c = at
        u = self.grid.nodes
        if self._spread.any():
            log_density = c[self._spread] @ self._basis_at_nodes.T
            self._unary[self._spread, : len(u)] = np.log(self.grid.weights) + log_density
        for s in self._few:
            self._unary[s, : len(self._values[s])] = c[s, : len(self._values[s])]
        mixed = np.ascontiguousarray(theta[:p1, p1:])
        self._bias[: e.p2] = b
        if e.p2:
            twice = 2.0 * theta[p1:, p1:]
            by_term = np.concatenate([-np.add.reduceat(twice, e.first[:-1], axis=0), 2.0 * twice])
            self._conditionals.spread(*self._joints.terms, by_term, self._bias_table)
        self._cross[:, : e.p2] = mixed
        pair = np.ascontiguousarray(theta[:p1] if self._dense else theta[:p1, :p1])
        node_table = None if self._dense else self._node_table
        terms = None if self._dense else (*self._joints.terms, self._off, self._rise, mixed)
        sums = self._conditionals.sums(
            self._unary, pair, node_table, self._bias, self._bias_table, self._cross, self.n_threads, terms
        )
        expected = ExpectedStatistics(*sums)
        value = float((self._own * theta[:p1]).sum() + (c * self._basis_sums).sum() - expected.log_z[0])
        R = np.zeros_like(theta)
        R[:p1] = self._own
        R[:p1, : self._conditionals.seen] -= expected.pair.sum(axis=2)
        if expected.mixed is not None:
            R[:p1, p1:] -= expected.mixed
        R[p1:, :p1] = expected.cross[:, : e.p2].T
        residuals = self._conditionals.collect(*self._joints.terms, expected.bias_table)[:, : e.p2]
        known, on = np.split(residuals, [len(e.variable)])
        R[p1:, p1:] = (4.0 * on - 2.0 * known[e.owner]).T
        dc = self._basis_sums.copy()
        if self._spread.any():
            dc[self._spread] -= expected.node[self._spread, : len(u)] @ self._basis_at_nodes
        for s in self._few:
            dc[s, : len(self._values[s])] -= expected.node[s, : len(self._values[s])]
        return value / n, Parameters((R + R.T) / n, expected.bias[: e.p2] / n, dc / n)

    def support(self, s: int) -> Grid:
        """Nodes and weights that normalise a numeric column: the grid, or its values with weight 1."""
        values = self._values[s]
        return Grid(values, np.ones(len(values))) if len(values) else self.grid

    def n_terms(self) -> Ints:
        """(p1,) number of unary terms of every numeric column."""
        return np.array([len(values) or self.unary_basis.size for values in self._values], np.intp)

    def basis_sums(self, s: int, x: Floats) -> Floats:
        """Sums over x (n,) of the unary basis of a numeric column; NaN: missing."""
        seen, values = x[~np.isnan(x)], self._values[s]
        if not len(values):
            return self.unary_basis.sums(seen)
        return np.bincount(np.searchsorted(values, seen), minlength=len(values)).astype(np.float64)

    def _sums_of_basis(self, table: MixedTable) -> Floats:
        """(p1, B) sums of the unary basis over the observed cells."""
        out, n_terms = np.zeros((self.encoding.p1, self.unary_basis.size)), self.n_terms()
        for rows in chunks(self.n):
            for s, x in enumerate(self.encoding.scaled(table.take(rows)).T):
                out[s, : n_terms[s]] += self.basis_sums(s, x)
        return out


class Objective:
    """-PL / n + l2 / 2 sum of squared edge weights + 1e-4 / 2 sum of squared unary terms, of one vector: the
    weights of the edges s < t and, with unary terms, b and c.
    """

    def __init__(self, likelihood: PseudoLikelihood, l2: float, unary: bool) -> None:
        self.likelihood, self.unary = likelihood, unary
        e = likelihood.encoding
        self.edges = e.edges()
        self._flat = np.ravel_multi_index(self.edges, (e.p, e.p))
        # number of the edge between two columns; one more than the last: none
        self._number = np.full((e.p, e.p), len(self._flat))
        self._number[self.edges] = self._number.T[self.edges] = np.arange(len(self._flat))
        self.n_basis = likelihood.unary_basis.size
        self.n_edges, self.n_b, self.n_c = len(self.edges[0]), e.p2 * unary, self.n_basis * e.p1 * unary
        self.ridge = np.concatenate([np.full(self.n_edges, l2), np.full(self.n_b + self.n_c, UNARY_RIDGE)])
        # the last vector, its value and gradient: a solver evaluates its result again
        self._last: tuple[Floats, float, Floats] | None = None

    def __len__(self) -> int:
        return len(self.ridge)

    def parameters(self, vector: Floats) -> Parameters:
        """The parameters that a vector contains."""
        edges, b, c = self.parts(vector)
        return Parameters(np.append(edges, 0.0)[self._number], b, c)

    def parts(self, vector: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights of the edges, b (p2,) and c (p1, B) that a vector contains."""
        if not self.unary:
            e = self.likelihood.encoding
            return vector, np.zeros(e.p2), np.zeros((e.p1, self.n_basis))
        edges, b, c = np.split(vector, [self.n_edges, self.n_edges + self.n_b])
        return edges, b, c.reshape(-1, self.n_basis)

    def on_edges(self, theta: Floats) -> Floats:
        """The weights of the edges, in the order of a vector."""
        return np.asarray(theta.take(self._flat))

    def vector(self, at: Parameters) -> Floats:
        """The vector that contains these parameters."""
        return np.concatenate([self.on_edges(at.theta), *([at.b, at.c.ravel()] if self.unary else [])])

    def __call__(self, vector: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        if self._last is None or not np.array_equal(vector, self._last[0]):
            value, gradient = self.likelihood(self.parameters(vector))
            penalised = -value + float((self.ridge * vector**2).sum()) / 2.0
            self._last = vector.copy(), penalised, self.ridge * vector - self.vector(gradient)
        return self._last[1], self._last[2]
