"""Expected statistics of the pseudo-likelihood gradient of a mixed table, and sweeps of a nonnegative factorisation (HALS).

The states of a categorical variable are its levels and, after them, the missing state: state ``first_state[v] + code`` belongs to the code
``code`` of variable v. Sums over rows belong to fixed runs of rows and are added in order.
"""

import math

import numpy as np

from cython.parallel cimport prange, threadid
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from craftc._kernels._common cimport check, check_threads, doubles_in, doubles_out

cdef extern from "_mixed_rows.h":
    ctypedef struct mixed_rows:
        const void *numeric
        const void *codes
        Py_ssize_t width, q
        int single, wide
        Py_ssize_t p1, P, C
        const Py_ssize_t *column
        const Py_ssize_t *variable
        const Py_ssize_t *first_state

cdef extern from "_spectral.h":
    enum:
        SP_LANES, SP_MISSING, SP_ROOM, SP_SLOTS
    const double SP_LARGE

    ctypedef struct sp_scale:
        const double *size
        const double *inverse
        const double *sign
        Py_ssize_t width, stride

    ctypedef struct sp_table:
        mixed_rows rows
        Py_ssize_t p2, seen
        int softmax
        double eps
        const double *centre
        const double *scale
        const Py_ssize_t *first
        Py_ssize_t J, R
        const Py_ssize_t *joint
        const Py_ssize_t *stride
        const Py_ssize_t *first_row
        const Py_ssize_t *indicator
        const double *low_rank
        Py_ssize_t M, shared
        const Py_ssize_t *first_node
        const Py_ssize_t *n_nodes
        Py_ssize_t slots
        sp_scale grid, minus, plus

    ctypedef struct sp_weights:
        const double *unary
        const double *pair
        const double *node_table
        const double *bias
        const double *bias_table
        const double *cross

    ctypedef struct sp_sums:
        double *log_z
        double *node
        double *pair
        double *node_table
        double *bias_table
        double *cross

    ctypedef struct sp_scratch:
        double *pair
        double *cross
        double *pair_number
        double *cross_number
        const double **similar
        const double **change
        double *grid
        double *largest
        double *energy
        double *shift
        double *x
        Py_ssize_t *state
        Py_ssize_t *row
        Py_ssize_t *known

    ctypedef struct sp_terms:
        const Py_ssize_t *start
        const Py_ssize_t *term
        const double *off
        const double *rise

    Py_ssize_t sp_padded(Py_ssize_t) noexcept nogil
    void sp_rows(const sp_table *, const sp_weights *, Py_ssize_t, Py_ssize_t, sp_sums *, sp_scratch *) noexcept nogil
    void sp_observe(const sp_table *, Py_ssize_t, Py_ssize_t, double *, double *, sp_scratch *) noexcept nogil
    void sp_combine(const sp_table *, const sp_terms *, const double *, double *, double *) noexcept nogil
    void sp_visited(const sp_table *, const sp_terms *, const double *, double *, double *) noexcept nogil

cdef extern from "_spectral_factor.h":
    ctypedef struct nf_table:
        mixed_rows rows
        Py_ssize_t k, width
        const double *low
        const double *scale
        const double *fill

    Py_ssize_t nf_padded(Py_ssize_t) noexcept nogil
    Py_ssize_t nf_scratch(Py_ssize_t, Py_ssize_t) noexcept nogil
    void nf_rows(const nf_table *, const double *, const double *, const double *, Py_ssize_t, Py_ssize_t, double *, double *, double *,
                 double *, double *) noexcept nogil
    void nf_loadings(Py_ssize_t, Py_ssize_t, const double *, const double *, double *, double *) noexcept nogil

MISSING = SP_MISSING    # `indicator` of a missing state
CUT = SP_LARGE          # energies are clipped to +-CUT
cdef enum:
    PARALLEL_ADDITIONS = 1 << 19                # of the sums of runs, below which a parallel loop costs more than it saves

LANES = SP_LANES        # tables over the nodes of the grid, and over indicators, are padded to a multiple of LANES


cdef const Py_ssize_t *numbers(array) except? NULL:
    cdef const Py_ssize_t[::1] flat = array
    return &flat[0] if flat.shape[0] else NULL


cdef inline double *line_start(double *room) noexcept nogil:
    """The start of the first cache line from `room` on."""
    return <double *> ((<uintptr_t> room + 63) & ~<uintptr_t> 63)


cdef int check_positions(const Py_ssize_t[::1] positions, Py_ssize_t stop, str name) except -1:
    """Raise unless all are from 0 to stop - 1."""
    cdef Py_ssize_t i
    for i in range(positions.shape[0]):
        check(0 <= positions[i] < stop, name)
    return 0


cdef int read_rows(mixed_rows *t, numeric, column, codes, variable, first_state, Py_ssize_t C) except -1:
    """Point to the two blocks of a table and the columns used; raise unless dtypes, layout and lengths fit."""
    for name, array, types in (("numeric", numeric, (np.float64, np.float32)), ("codes", codes, (np.uint8, np.uint16))):
        if array.dtype not in types:
            raise TypeError(f"{name} must be {types[0].__name__} or {types[1].__name__}, got {array.dtype}")
        if array.ndim != 2 or not array.flags.c_contiguous:
            raise ValueError(f"{name} must be two-dimensional and C-contiguous, got shape {array.shape} with strides {array.strides}")
    if len(numeric) != len(codes):
        raise ValueError(f"numeric and codes must have equally many rows, got {len(numeric)} and {len(codes)}")
    if len(first_state) != len(variable):
        raise ValueError(f"first_state must have one entry per variable, got {len(first_state)} for {len(variable)}")
    t.numeric, t.codes = <const void *> <uintptr_t> numeric.ctypes.data, <const void *> <uintptr_t> codes.ctypes.data
    t.single, t.wide = numeric.dtype == np.float32, codes.dtype == np.uint16
    t.width, t.q, t.p1, t.P, t.C = numeric.shape[1], codes.shape[1], len(column), len(variable), C
    check_positions(column, numeric.shape[1], "column")
    check_positions(variable, codes.shape[1], "variable")
    check_positions(first_state, C, "first_state")
    t.column, t.variable, t.first_state = numbers(column), numbers(variable), numbers(first_state)
    return 0


cdef class Conditionals:
    """The conditionals of all columns of a table, each given the others; arrays are kept, not copied.

    Parameters
    ----------
    numeric : ndarray (n, width) of float32 or float64, contiguous
        NaN: missing.
    column : ndarray (p1,) of intp
        Its columns in use.
    centre, scale : ndarrays (p1,)
        They are scaled to (x - centre) * scale.
    codes : ndarray (n, q) of uint8 or uint16, contiguous
    variable : ndarray (P,) of intp
        Its columns in use.
    first_state, first : ndarrays (P,) and (P + 1,) of intp
        First state and first indicator of every variable.
    joint, stride : ndarrays (P,) of intp
        The joint a variable belongs to, and the rows of the tables from one of its states to the next.
    first_row : ndarray (J + 1,) of intp
        First rows of the joints, and the number of all rows, R.
    indicator : ndarray (C,) of intp
        Indicator that a state switches on, -1: none, `MISSING`: a missing state.
    low_rank : ndarray (n, p) of float64 or None
        Low-rank approximation of the encoded table, which other columns see; None: they see codes of the indicators.
    first_node, n_nodes : ndarrays (p1,) of intp
        The nodes in `grid` of every numeric column; those from 0 on are shared by columns. Their number is a multiple of `LANES`;
        the largest is M.
    grid, minus, plus : ndarrays (5, width), (5, L), (5, L)
        Size, its inverse, and the signs towards numbers below -eps, near 0, above eps: of nodes, and of codes of indicators off and on.
        They are padded with columns of zeros: the nodes of every column, and L, to a multiple of `LANES`.
    eps : float
    softmax : bool
        Indicators of a variable are normalised together, otherwise one by one.
    runs : int
        Number of runs of rows, each with its own sums.
    """

    cdef sp_table t
    cdef readonly Py_ssize_t n, runs, seen
    cdef readonly object shapes
    cdef object arrays, room, scratch_room
    cdef Py_ssize_t size, scratch_size, scratch_whole
    cdef Py_ssize_t[7] place

    def __init__(self, numeric, column, centre, scale, codes, variable, first_state, first, joint, stride, first_row, indicator, low_rank,
                 first_node, n_nodes, grid, minus, plus, double eps, bint softmax, Py_ssize_t runs):
        cdef sp_table *t = &self.t
        check(all(np.ndim(array) == 2 and len(array) == 5 for array in (grid, minus, plus)), "grid, minus or plus")
        check(np.ndim(first) == 1 and len(first) >= 1 and np.ndim(first_row) == 1 and len(first_row) >= 1, "first or first_row")
        cdef Py_ssize_t width = grid.shape[1], L = plus.shape[1], p1, R, i, M = 0
        self.arrays = (numeric, column, centre, scale, codes, variable, first_state, first, joint, stride, first_row, indicator, low_rank,
                       first_node, n_nodes, grid, minus, plus)
        if width % SP_LANES or L % SP_LANES or minus.shape[1] != L:
            raise ValueError(f"grid, minus and plus must be padded to multiples of {SP_LANES}")
        read_rows(&t.rows, numeric, column, codes, variable, first_state, len(indicator))
        p1, R, t.p2 = len(column), first_row[len(first_row) - 1], first[len(first) - 1]
        t.seen = p1 if low_rank is None else p1 + t.p2
        if L < t.p2 or len(centre) != p1 or len(scale) != p1 or len(first) != len(variable) + 1 or len(joint) != len(variable) \
                or len(stride) != len(variable):
            raise ValueError("the arrays of columns, variables and indicators do not fit each other")
        if len(first_node) != p1 or len(n_nodes) != p1:
            raise ValueError(f"first_node and n_nodes must have one entry per numeric column, got {len(first_node)} and {len(n_nodes)}")
        check(runs >= 1, "runs")
        check(0 <= t.p2 and R >= 0, "first or first_row")
        check_positions(first, t.p2 + 1, "first")
        check_positions(first_row, R + 1, "first_row")
        check_positions(joint, max(len(first_row) - 1, 0), "joint")
        check(all(-1 <= i < t.p2 or i == SP_MISSING for i in indicator), "indicator")
        t.first_node, t.n_nodes = numbers(first_node), numbers(n_nodes)
        for i in range(p1):
            if t.n_nodes[i] <= 0 or t.n_nodes[i] % SP_LANES or t.first_node[i] < 0 or t.first_node[i] % SP_LANES \
                    or t.first_node[i] + t.n_nodes[i] > width:
                raise ValueError(f"the nodes of a numeric column must be multiples of {SP_LANES} within the grid, got "
                                 f"{t.n_nodes[i]} from {t.first_node[i]}")
            M = max(M, t.n_nodes[i])
            if not t.first_node[i]:
                t.shared = max(t.shared, t.n_nodes[i])
        t.M = M
        if low_rank is not None and low_rank.shape != (len(numeric), p1 + t.p2):
            raise ValueError(f"low_rank must have shape ({len(numeric)}, {p1 + t.p2}), that of the encoded table, got {low_rank.shape}")
        t.softmax, t.eps, t.J, t.R = softmax, eps, len(first_row) - 1, R
        t.joint, t.stride, t.first_row = numbers(joint), numbers(stride), numbers(first_row)
        t.centre, t.scale, t.first, t.indicator = doubles_in(centre), doubles_in(scale), numbers(first), numbers(indicator)
        if low_rank is not None:
            t.low_rank = doubles_in(low_rank)
        self._scale(&t.grid, grid)
        self._scale(&t.minus, minus)
        self._scale(&t.plus, plus)
        self.n, self.runs, self.seen = len(numeric), runs, t.seen
        self.shapes = ((1,), (p1, M), (p1, t.seen, SP_LANES), (R, p1, M), (R, L), (p1, L))
        at = np.concatenate([[0], np.cumsum([sp_padded(int(np.prod(shape))) for shape in self.shapes])])
        for i in range(7):
            self.place[i] = at[i]
        self.size = at[6]
        t.slots = SP_SLOTS
        while t.slots * (t.seen * width + p1 * L) > SP_ROOM:
            t.slots //= 2
        if t.slots:
            self.scratch_size = t.slots * (t.seen * (width + 1) + p1 * (L + 1))
        else:
            self.scratch_size = t.seen * M + p1 * L
        # threads are whole pairs of cache lines apart
        self.scratch_size += 6 * SP_LANES + p1 * M + sp_padded(p1) + 2 * L + sp_padded(p1 + t.seen)
        self.scratch_whole = t.rows.P + t.J + 2 * t.seen + p1 + 8 * SP_LANES

    cdef int _scale(self, sp_scale *out, array) except -1:
        out.size, out.inverse, out.sign = doubles_in(array[0]), doubles_in(array[1]), doubles_in(array[2:])
        out.width = out.stride = array.shape[1]
        return 0

    cdef object _rooms(self, Py_ssize_t size, int n_threads):
        return (np.empty((self.runs, size + SP_LANES)), np.full((n_threads, self.scratch_size), np.nan),
                np.empty((n_threads, self.scratch_whole), np.intp))

    cdef void _scratch(self, sp_scratch *s, double *room, Py_ssize_t *whole) noexcept nogil:
        cdef Py_ssize_t M = self.t.M, L = self.t.plus.width, p1 = self.t.rows.p1, slots = self.t.slots
        room = line_start(room)
        s.pair = room
        s.cross = s.pair + (self.t.seen * slots * self.t.grid.width if slots else self.t.seen * M)
        s.grid = s.cross + p1 * L * (slots if slots else 1)
        s.largest = s.grid + p1 * M
        s.energy = s.largest + sp_padded(p1)
        s.shift = s.energy + L
        s.x = s.shift + L
        s.pair_number = s.x + sp_padded(p1 + self.t.seen)
        s.cross_number = s.pair_number + self.t.seen * slots
        s.state = whole
        s.row = whole + self.t.rows.P
        s.known = s.row + self.t.J
        s.similar = <const double **> (s.known + self.t.seen)
        s.change = s.similar + self.t.seen

    cdef void _run(self, const sp_weights *w, Py_ssize_t run, double *room, double *numbers, Py_ssize_t *whole) noexcept nogil:
        cdef sp_sums sums
        cdef sp_scratch scratch
        self._scratch(&scratch, numbers, whole)
        room = line_start(room)
        memset(room, 0, sizeof(double) * self.size)
        sums.log_z, sums.node, sums.pair, sums.node_table = room, room + self.place[1], room + self.place[2], room + self.place[3]
        sums.bias_table, sums.cross = room + self.place[4], room + self.place[5]
        sp_rows(&self.t, w, self.n * run // self.runs, self.n * (run + 1) // self.runs, &sums, &scratch)

    def sums(self, unary, pair, node_table, bias, bias_table, cross, int n_threads):
        """One pass over the rows: log-normalisers, and the expected statistics of the pseudo-likelihood gradient.

        Parameters
        ----------
        unary : ndarray (p1, M)
            ln of the weight of a node plus its unary energy; -inf in the padding.
        pair : ndarray (p1, seen)
            Weights between numeric columns and the numbers they see; a column does not see its own.
        node_table : ndarray (R, p1, M) or None
            Energies of the numeric nodes under a combination of states.
        bias, bias_table, cross : ndarrays (L,), (R, L), (p1, L)
            Of the indicators: unary terms, what a combination adds, weights to numeric columns.
        n_threads : int

        Returns
        -------
        tuple of seven arrays
            log_z, sum of log-normalisers of observed cells (1,); node, expected visits of the nodes (p1, M); pair, expected similarities
            (p1, seen, LANES), to be summed over lanes; node_table, visits by combination (R, p1, M); bias, residuals y - q of the
            indicators (L,), bias_table, by combination (R, L), and cross, times the change of similarity (p1, L).
        """
        check_threads(n_threads)
        cdef sp_weights w
        cdef Py_ssize_t run, size = self.size, pieces
        cdef double[:, ::1] rooms, scratch
        cdef Py_ssize_t[:, ::1] whole
        cdef double[::1] out
        wanted = (self.shapes[1], self.shapes[2][:2], self.shapes[3], self.shapes[4][1:], self.shapes[4], self.shapes[5])
        for array, shape in zip((unary, pair, node_table, bias, bias_table, cross), wanted, strict=True):
            if array is not None and array.shape != shape:
                raise ValueError(f"weights must have shape {shape}, got {array.shape}")
        w.unary, w.pair, w.node_table = doubles_in(unary), doubles_in(pair), NULL
        if node_table is not None:
            w.node_table = doubles_in(node_table)
        w.bias, w.bias_table, w.cross = doubles_in(bias), doubles_in(bias_table), doubles_in(cross)
        if self.room is None or len(self.room[1]) < n_threads:
            self.room = self._rooms(size, n_threads)
        rooms, scratch, whole = self.room
        total = np.empty(size)
        out = total
        if n_threads == 1:
            with nogil:
                for run in range(self.runs):
                    self._run(&w, run, &rooms[run, 0], &scratch[0, 0], &whole[0, 0])
        else:
            for run in prange(self.runs, nogil=True, schedule="dynamic", num_threads=n_threads):
                self._run(&w, run, &rooms[run, 0], &scratch[threadid(), 0], &whole[threadid(), 0])
        pieces = n_threads if size * self.runs >= PARALLEL_ADDITIONS else 1
        if pieces == 1:
            add_runs(rooms, self.runs, 0, size, out)
        else:
            for run in prange(pieces, nogil=True, schedule="static", num_threads=pieces):
                add_runs(rooms, self.runs, size * run // pieces, size * (run + 1) // pieces, out)
        log_z, node, pairs, visits, residuals, crosses = (
            total[self.place[j]:self.place[j] + math.prod(shape)].reshape(shape) for j, shape in enumerate(self.shapes)
        )
        # every row is in one row of the first joint's table
        if self.t.J and node_table is not None:
            node = visits[self.t.first_row[0]:self.t.first_row[1]].sum(axis=0)
        left = residuals[self.t.first_row[0]:self.t.first_row[1]].sum(axis=0) if self.t.J else np.zeros(self.t.plus.width)
        return log_z, node, pairs, visits, left, residuals, crosses

    def observed(self, int n_threads):
        """The statistics of the data, which do not depend on the parameters.

        Returns
        -------
        powers : ndarray (p1, 3)
            Count, sum and sum of squares of the observed numbers of a numeric column.
        own : ndarray (p1, p1 + p2)
            Sums of the similarity between a row's own number and what it sees.
        """
        check_threads(n_threads)
        cdef Py_ssize_t run, p = self.t.rows.p1 + self.t.p2, size = self.t.rows.p1 * (3 + p), runs = self.runs, i
        cdef double[:, ::1] rooms = np.zeros((runs, size + 1)), scratch
        cdef Py_ssize_t[:, ::1] whole
        cdef double[::1] out
        total = np.zeros(size + 1)
        out = total
        _, scratch, whole = self._rooms(0, n_threads)
        for run in prange(runs, nogil=True, schedule="dynamic", num_threads=n_threads):
            self._observe(run, &rooms[run, 0], &scratch[threadid(), 0], &whole[threadid(), 0])
        for run in range(runs):
            for i in range(size):
                out[i] += rooms[run, i]
        return total[:3 * self.t.rows.p1].reshape(self.t.rows.p1, 3), total[3 * self.t.rows.p1:size].reshape(self.t.rows.p1, p)

    cdef int _check_terms(self, const Py_ssize_t[::1] start, const Py_ssize_t[::1] term) except -1:
        """Raise unless the terms of combinations fit the table."""
        cdef Py_ssize_t r, R = self.t.R
        check(start.shape[0] == R + 1 and start[0] == 0 and start[R] == term.shape[0], "start")
        for r in range(R):
            check(start[r] <= start[r + 1], "start")
        return check_positions(term, self.t.rows.P + self.t.p2, "term")

    cdef int _terms(self, sp_terms *out, start, term, off, rise) except -1:
        self._check_terms(start, term)
        check(np.shape(off) == np.shape(rise) == (self.t.p2, self.t.grid.width), "off or rise")
        out.start, out.term, out.off, out.rise = numbers(start), numbers(term), doubles_in(off), doubles_in(rise)
        return 0

    def combine(self, start, term, off, rise, weight, out):
        """out (R, p1, M) = energies of the numeric nodes under every combination of states, by weights (p1, p2).

        Parameters
        ----------
        start, term : ndarrays (R + 1,) and (T,) of intp
            Terms of a combination: v for every variable that is not missing, and P + l for every indicator l that is on.
        off, rise : ndarrays (p2, width)
            Similarities of all nodes of the grid to an indicator that is off, and their change when it is on.
        """
        cdef sp_terms c
        self._terms(&c, start, term, off, rise)
        check(np.shape(weight) == (self.t.rows.p1, self.t.p2), "weight")
        check(np.shape(out) == self.shapes[3], "out")
        room = np.empty((self.t.rows.P, self.t.rows.p1, self.t.M))
        sp_combine(&self.t, &c, doubles_in(weight), doubles_out(room), doubles_out(out))

    def visited(self, start, term, off, rise, visits):
        """(p1, p2) similarities of the indicators to the nodes of the numeric columns, times visits (R, p1, M); others as in `combine`."""
        cdef sp_terms c
        self._terms(&c, start, term, off, rise)
        check(np.shape(visits) == self.shapes[3], "visits")
        room, lanes = np.zeros((self.t.rows.P, self.t.rows.p1, self.t.M)), np.zeros((self.t.rows.p1, self.t.p2, SP_LANES))
        sp_visited(&self.t, &c, doubles_in(visits), doubles_out(room), doubles_out(lanes))
        return lanes.sum(axis=2)

    def spread(self, start, term, const double[:, ::1] by_term not None, double[:, ::1] out not None):
        """out (R, :width) = sums of rows of `by_term` (P + p2, width) over the terms of every combination; terms as in `combine`."""
        cdef const Py_ssize_t[::1] first = start, index = term
        cdef Py_ssize_t r, i, j, width = by_term.shape[1]
        self._check_terms(start, term)
        check(by_term.shape[0] == self.t.rows.P + self.t.p2, "by_term")
        check(out.shape[0] == self.t.R and out.shape[1] >= width, "out")
        with nogil:
            for r in range(self.t.R):
                for j in range(width):
                    out[r, j] = 0.0
                for i in range(first[r], first[r + 1]):
                    for j in range(width):
                        out[r, j] += by_term[index[i], j]

    def collect(self, start, term, const double[:, ::1] by_row not None):
        """(P + p2, width) sums of rows (R, width) over the combinations that have a term: the transpose of `spread`."""
        cdef const Py_ssize_t[::1] first = start, index = term
        cdef Py_ssize_t r, i, j, width = by_row.shape[1]
        self._check_terms(start, term)
        check(by_row.shape[0] == self.t.R, "by_row")
        sums = np.zeros((self.t.rows.P + self.t.p2, width))
        cdef double[:, ::1] out = sums
        with nogil:
            for r in range(self.t.R):
                for i in range(first[r], first[r + 1]):
                    for j in range(width):
                        out[index[i], j] += by_row[r, j]
        return sums

    cdef void _observe(self, Py_ssize_t run, double *room, double *numbers, Py_ssize_t *whole) noexcept nogil:
        cdef sp_scratch scratch
        self._scratch(&scratch, numbers, whole)
        sp_observe(&self.t, self.n * run // self.runs, self.n * (run + 1) // self.runs, room, room + 3 * self.t.rows.p1, &scratch)


cdef void add_runs(double[:, ::1] rooms, Py_ssize_t runs, Py_ssize_t start, Py_ssize_t stop, double[::1] out) noexcept nogil:
    """out[start:stop] = the sums of the runs, added in order."""
    cdef Py_ssize_t run, j
    cdef const double *room
    for run in range(runs):
        room = line_start(&rooms[run, 0])
        for j in range(start, stop):
            out[j] = room[j] if run == 0 else out[j] + room[j]


def hals_rows(
    numeric,                                # IN  (n, width) float32 or float64, NaN: missing
    column,                                 # IN  (p1,) of it
    low,                                    # IN  (p1,)
    scale,                                  # IN  (p1,) columns are factorised as (x - low) * scale
    fill,                                   # IN  (p1,) what a missing number is factorised as
    codes,                                  # IN  (n, q) uint8 or uint16
    variable,                               # IN  (P,) of it
    first_state,                            # IN  (P,)
    loading,                                # IN  (p1, k) of the numeric columns
    state_loading,                          # IN  (C, k) loadings of a state's indicators
    const double[:, ::1] gram not None,     # IN  (k, k) of all loadings
    double[:, ::1] scores not None,         # IN/OUT (n, k) >= 0
    double[:, ::1] sums not None,           # OUT (k + p1 + C, k) scores' Gram, and their sums with the columns and by state
    Py_ssize_t runs,                        # of rows, each with its own sums, which are added in order
    int n_threads,
):
    """The scores' half of a HALS sweep, and the sums for its other half, the update of the loadings."""
    check_threads(n_threads)
    check(codes.ndim == 2 and codes.shape[0] == scores.shape[0], "codes")
    check(gram.shape[1] == gram.shape[0], "gram")
    check(scores.shape[1] == gram.shape[0], "scores")
    cdef nf_table t
    cdef Py_ssize_t n = scores.shape[0], p1 = len(column), k = gram.shape[0], run, i, j, C, size
    check(np.shape(low) == np.shape(scale) == np.shape(fill) == (p1,), "low, scale or fill")
    check(np.shape(loading) == (p1, k), "loading")
    check(np.ndim(state_loading) == 2 and state_loading.shape[1] == k, "state_loading")
    check(sums.shape[0] == k + p1 + len(state_loading) and sums.shape[1] == k, "sums")
    check(runs >= 1, "runs")
    C = len(state_loading)
    read_rows(&t.rows, numeric, column, codes, variable, first_state, C)
    t.k, t.width, t.low, t.scale, t.fill = k, nf_padded(k), doubles_in(low), doubles_in(scale), doubles_in(fill)
    size = (k + p1 + C) * t.width
    cdef double *score = doubles_out(np.asarray(scores))      # NULL where there are no rows
    # rows of factors are padded and start at cache lines; runs, of different threads, are a pair of lines apart
    cdef double[::1] loadings = np.zeros((p1 + C) * t.width + SP_LANES)
    cdef double[:, ::1] rooms = np.zeros((runs, size + nf_scratch(t.width, p1) + 3 * SP_LANES))
    cdef double *by_column = line_start(&loadings[0])
    cdef double *room
    cdef const double *of_column = doubles_in(loading)
    cdef const double *of_state = doubles_in(state_loading)
    for i in range(p1 + C):
        for j in range(k):
            by_column[i * t.width + j] = of_column[i * k + j] if i < p1 else of_state[(i - p1) * k + j]
    for run in prange(runs, nogil=True, schedule="static", num_threads=n_threads):
        room = line_start(&rooms[run, 0])
        nf_rows(&t, by_column, by_column + p1 * t.width, &gram[0, 0], n * run // runs, n * (run + 1) // runs, score, room,
                room + k * t.width, room + (k + p1) * t.width, room + size)
    with nogil:
        sums[:] = 0.0
        for run in range(runs):
            room = line_start(&rooms[run, 0])
            for i in range(sums.shape[0]):
                for j in range(k):
                    sums[i, j] += room[i * t.width + j]


def hals_loadings(
    const double[:, ::1] product not None,  # IN  (p, k) columns of the table times scores
    const double[:, ::1] gram not None,     # IN  (k, k) of the scores
    double[:, ::1] loadings not None,       # IN/OUT (p, k) >= 0
):
    """The loadings' half of a HALS sweep: every factor's are optimal given the others."""
    cdef Py_ssize_t p = loadings.shape[0], k = loadings.shape[1]
    check(product.shape[0] == p and product.shape[1] == k, "product")
    check(gram.shape[0] == k and gram.shape[1] == k, "gram")
    cdef double[::1] scratch = np.empty(2 * k * SP_LANES + 1)
    if p and k:
        nf_loadings(p, k, &product[0, 0], &gram[0, 0], &loadings[0, 0], &scratch[0])
