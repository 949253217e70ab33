"""The node-wise pseudo-likelihood of a mixed table: its value and gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from craftc._common.labels import chunks
from craftc._common.threads import aligned, threads_for
from craftc._common.typing import Floats
from craftc._kernels import spectral as _kernel
from craftc.spectral.encoding import Encoding
from craftc.spectral.factorization import Approximation
from craftc.table import MixedTable

_RUNS, _RUN = 16, 512  # runs of rows with sums of their own, at most, and rows of a run, at least
_ROOM = 2**23  # numbers that the sums of all runs may take
_COMBINATIONS = 64  # rows of a table that variables share, at most


class Parameters(NamedTuple):
    """Weights of the edges (p, p), symmetric, and unary terms: b (p2,) of indicators, c (p1, B) of the shapes of numeric columns."""

    theta: Floats
    b: Floats
    c: Floats


class Grid(NamedTuple):
    """Nodes and weights that integrate over [-beta, beta]."""

    nodes: Floats
    weights: Floats


def log_grid(beta: float, eps: float, m: int) -> Grid:
    """u = 0 with weight 2 eps, and m Gauss-Legendre nodes in ln|u| on either side, ascending."""
    z, w = np.polynomial.legendre.leggauss(m)
    half = np.log(beta / eps) / 2.0
    u = np.exp(np.log(eps) + half * (1.0 + z))
    return Grid(np.concatenate([-u[::-1], [0.0], u]), np.concatenate([(half * w * u)[::-1], [2.0 * eps], half * w * u]))


class Powers:
    """Shapes x and x^2."""

    size = 2

    def __call__(self, x: Floats) -> Floats:
        """(n, 2) values at x (n,)."""
        return np.stack([x, x**2], axis=1)


class Hats:
    """Shapes that let the log density of a column be anything: one for every node of the grid, 1 there and falling to 0 at the next ones.

    They fall as ln|x| goes; from -eps to eps all numbers are the node at 0.
    """

    def __init__(self, grid: Grid, eps: float) -> None:
        self._places, self._eps = self._place(grid.nodes, eps), eps
        self.size = len(grid.nodes)

    @staticmethod
    def _place(x: Floats, eps: float) -> Floats:
        return np.asarray(np.sign(x) * np.log(np.maximum(np.abs(x), eps) / eps))

    def __call__(self, x: Floats) -> Floats:
        """(n, M) values at x (n,)."""
        places = self._places
        at = np.clip(self._place(x, self._eps), places[0], places[-1])
        right = np.clip(np.searchsorted(places, at), 1, len(places) - 1)
        share = (at - places[right - 1]) / (places[right] - places[right - 1])
        out = np.zeros((len(x), len(places)))
        out[np.arange(len(x)), right - 1] = 1.0 - share
        out[np.arange(len(x)), right] = share
        return out


def similarity(u: Floats, a: Floats, eps: float) -> Floats:
    """g(u, a) = sign min(U, A) / max(U, A), U = max(|u|, eps), A = max(|a|, eps); the sign of u a where both are beyond eps, else +."""
    U, A = np.maximum(np.abs(u), eps), np.maximum(np.abs(a), eps)
    opposite = (np.abs(u) > eps) & (np.abs(a) > eps) & ((u > 0.0) != (a > 0.0))
    return np.asarray(np.where(opposite, -1.0, 1.0) * np.minimum(U / A, A / U))


def _padded(n: int, lanes: int) -> int:
    return -(-max(n, 1) // lanes) * lanes


def _scale(values: Floats, eps: float, width: int) -> Floats:
    """What the kernel compares numbers with: sizes, their inverses, and the signs towards numbers below -eps, near 0, above eps."""
    out = aligned((5, width))
    out[:] = 0.0
    size = np.maximum(np.abs(values), eps)
    beyond = np.abs(values) > eps
    rows = size, 1.0 / size, np.where(beyond & (values > 0), -1.0, 1.0), np.ones(len(values)), np.where(beyond & (values < 0), -1.0, 1.0)
    out[:, : len(values)] = rows
    return out


class Joints:
    """Variables of few cells share a table: its rows are the combinations of their cells, so that a row of data reads fewer tables.

    Parameters
    ----------
    encoding : Encoding
    table : MixedTable
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
        row, cell = [], []
        for v, size in enumerate(sizes):
            j = self.joint[v]
            combination = np.arange(rooms[j])
            row.append(self.first_row[j] + combination)
            cell.append(e.first_cell[v] + combination // self.stride[v] % size)
        entries = (np.concatenate(row), np.concatenate(cell)) if sizes else (np.empty(0, np.intp),) * 2
        self._members = csr_array((np.ones(len(entries[0])), entries), shape=(self.first_row[-1], len(e.hit)))
        self._of_cell = self._members.T.tocsr()

    def sum(self, by_cell: Floats) -> Floats:
        """(R, ...) sums of (C, ...) over the cells of a combination."""
        return self._times(self._members, by_cell)

    def gather(self, by_row: Floats) -> Floats:
        """(C, ...) sums of (R, ...) over the combinations that a cell is in."""
        return self._times(self._of_cell, by_row)

    @staticmethod
    def _times(matrix: csr_array, values: Floats) -> Floats:
        flat = values.reshape(len(values), math.prod(values.shape[1:]))
        return np.asarray(matrix @ flat).reshape(matrix.shape[0], *values.shape[1:])


class PseudoLikelihood:
    """Sum over the columns of ln p(column | the others), per row; a missing cell has no term, and none in those of the others.

    Parameters
    ----------
    encoding : Encoding
    table : MixedTable
    codes : ndarray (p2, 2)
        What an indicator that is off, and on, is to a numeric column.
    beta, eps : float
        Numeric columns lie in [-beta, beta]; numbers below eps are alike.
    grid_size : int
        Nodes of the normaliser on either side of 0.
    softmax : bool
        The indicators of a variable are normalised together.
    hat : Approximation or None
        "dense": a numeric column sees the others' approximations, and an indicator those of the numeric columns.
    n_threads : int
    free : bool
        Unary terms of numeric columns are `Hats`, otherwise `Powers`.
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
        hat: Approximation | None,
        n_threads: int,
        free: bool = False,
    ) -> None:
        e = self.encoding = encoding
        self.n, self.codes, self._joints = table.n_rows, codes, Joints(encoding, table)
        R = int(self._joints.first_row[-1])
        self.grid = log_grid(beta, eps, grid_size)
        self.shapes = Hats(self.grid, eps) if free else Powers()
        self._at_nodes = self.shapes(self.grid.nodes)
        self._M, self._L = _padded(2 * grid_size + 1, _kernel.TILE), _padded(e.p2, _kernel.LANES)
        size = self._M * e.p1 * (1 + R) + self._L * (1 + R + e.p1)
        runs = int(np.clip(self.n // _RUN, 1, min(_RUNS, max(1, _ROOM // size))))
        self._conditionals = _kernel.Conditionals(
            table.numeric, e.column, e.centre, e.scale, table.codes, e.variable, e.first_cell, e.first,
            self._joints.joint, self._joints.stride, self._joints.first_row, e.hit, None if hat is None else hat.table(),
            _scale(self.grid.nodes, eps, self._M), _scale(codes[:, 0], eps, self._L), _scale(codes[:, 1], eps, self._L),
            eps, softmax, runs,
        )  # fmt: skip
        per_row = e.p1 * self._M * (6 + len(e.variable) + self._conditionals.seen) + self._L * (6 + len(e.variable) + 3 * e.p1)
        self.n_threads = threads_for(n_threads, self.n * per_row / _kernel.LANES)
        self._dense = hat is not None
        self._off = np.zeros((e.p2, self._M))
        self._rise = np.zeros((e.p2, self._M))
        nodes = self.grid.nodes
        self._off[:, : len(nodes)] = similarity(nodes, codes[:, :1], eps)
        self._rise[:, : len(nodes)] = similarity(nodes, codes[:, 1:], eps) - self._off[:, : len(nodes)]
        powers, self._own = self._conditionals.observed(self.n_threads)
        self._shapes = self._sums_of_shapes(table) if free else powers[:, 1:]
        self._on = np.flatnonzero(e.hit >= 0)
        self._known = np.flatnonzero(e.hit != _kernel.HOLE)
        self._unary = aligned((e.p1, self._M))
        self._table = aligned((R, e.p1, self._M))
        self._bias, self._cell, self._lift = aligned((self._L,)), aligned((R, self._L)), aligned((e.p1, self._L))
        for room in (self._table, self._bias, self._cell, self._lift):
            room[:] = 0.0
        self._unary[:] = -np.inf

    def __call__(self, at: Parameters) -> tuple[float, Parameters]:
        """The value per row, and its gradient: R + R' for theta, where R is what the conditionals of the rows of theta want."""
        e, p1, n = self.encoding, self.encoding.p1, self.n
        theta, b, c = at
        u = self.grid.nodes
        self._unary[:, : len(u)] = np.log(self.grid.weights) + c @ self._at_nodes.T
        mixed = theta[:p1, p1:]
        if not self._dense:
            self._table[:] = self._joints.sum(self._by_code(mixed))
        self._bias[: e.p2] = b
        self._cell[:, : e.p2] = self._joints.sum(self._over_cells(2.0 * theta[p1:, p1:]))
        self._lift[:, : e.p2] = mixed
        near = np.ascontiguousarray(theta[:p1] if self._dense else theta[:p1, :p1])
        log_z, node, seen, table, bias, cell, lift = self._conditionals.sums(
            self._unary, near, None if self._dense else self._table, self._bias, self._cell, self._lift, self.n_threads
        )
        value = float((self._own * theta[:p1]).sum() + (c * self._shapes).sum() - log_z[0])
        R = np.zeros_like(theta)
        R[:p1] = self._own
        R[:p1, : self._conditionals.seen] -= seen.sum(axis=2)
        if not self._dense and e.p2:
            R[:p1, p1:] -= self._expected(self._joints.gather(table))
        R[p1:, :p1] = lift[:, : e.p2].T
        R[p1:, p1:] = self._by_indicator(self._joints.gather(cell[:, : e.p2])).T
        dc = self._shapes - node[:, : len(u)] @ self._at_nodes
        return value / n, Parameters((R + R.T) / n, bias[: e.p2] / n, dc / n)

    def _sums_of_shapes(self, table: MixedTable) -> Floats:
        """(p1, B) sums of the shapes over the cells that are there."""
        out = np.zeros((self.encoding.p1, self.shapes.size))
        for rows in chunks(self.n):
            for s, x in enumerate(self.encoding.scaled(table.take(rows)).T):
                out[s] += self.shapes(x[~np.isnan(x)]).sum(axis=0)
        return out

    def _over_cells(self, weight: Floats) -> Floats:
        """(C, ...) sums over the indicators of a cell's variable of +-1 times weight (p2, ...); 0 for holes."""
        e = self.encoding
        out = np.zeros((len(e.hit), *weight.shape[1:]))
        if e.p2:
            out[self._known] = -np.add.reduceat(weight, e.first[:-1], axis=0)[e.cell_owner[self._known]]
            out[self._on] += 2.0 * weight[e.hit[self._on]]
        return out

    def _by_indicator(self, sums: Floats) -> Floats:
        """(p2, ...) sums over the cells of an indicator's variable of 2 * +-1 times sums (C, ...)."""
        e = self.encoding
        if not e.p2:
            return sums[:0]
        known = np.where((e.hit == _kernel.HOLE)[:, None], 0.0, sums)
        return np.asarray(4.0 * sums[e.cell_of] - 2.0 * np.add.reduceat(known, e.first_cell, axis=0)[e.owner])

    def _by_code(self, mixed: Floats) -> Floats:
        """(C, p1, M) what a cell adds to the energies of the numeric columns."""
        e = self.encoding
        out = np.zeros((len(e.hit), e.p1, self._M))
        if e.p2:
            weight = mixed.T[:, :, None]
            out[self._known] = np.add.reduceat(weight * self._off[:, None], e.first[:-1], axis=0)[e.cell_owner[self._known]]
            on = e.hit[self._on]
            out[self._on] += weight[on] * self._rise[on][:, None]
        return out

    def _expected(self, visits: Floats) -> Floats:
        """(p1, p2) expected similarities of the numeric columns to the codes, from visits (C, p1, M) of the grid by cell."""
        e = self.encoding
        known = np.where((e.hit == _kernel.HOLE)[:, None, None], 0.0, visits)
        total = np.add.reduceat(known, e.first_cell, axis=0)[e.owner]
        out = (total @ self._off[:, :, None] + visits[e.cell_of] @ self._rise[:, :, None])[:, :, 0]
        return np.asarray(out.T)
