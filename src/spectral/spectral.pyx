"""Expected statistics of the pseudo-likelihood gradient of a mixed table.

The states of a categorical variable are its levels and, after them, the missing state: state ``first_state[v]
+ code`` belongs to the code ``code`` of variable v. Sums over rows belong to fixed runs of rows and are added
in order. A team of threads shares out the runs, and the steps before and after them.
"""

import math

import numpy as np

from cython.parallel cimport parallel
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from craftc._kernels._common cimport check, check_threads, doubles_in, doubles_out, omp_get_thread_num
from craftc._kernels._team cimport team, team_end, team_help, team_start, team_step

cdef extern from "spectral/_spectral.h":
    enum:
        SP_MISSING, SP_ROOM, SP_SLOTS
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
    void sp_rows(const sp_table *, const sp_weights *, Py_ssize_t, Py_ssize_t, sp_sums *,
                 sp_scratch *) noexcept nogil
    void sp_observe(const sp_table *, Py_ssize_t, Py_ssize_t, double *, double *, sp_scratch *) noexcept nogil
    void sp_combine(const sp_table *, const sp_terms *, Py_ssize_t, const double *, double *,
                    double *) noexcept nogil
    void sp_visited(const sp_table *, const sp_terms *, Py_ssize_t, const double *, double *,
                    double *) noexcept nogil

MISSING = SP_MISSING    # `indicator` of a missing state
CUT = SP_LARGE          # energies are clipped to +-CUT  # type: float
# tables over the nodes of the grid, and over indicators, are padded to a multiple of LANES
LANES = SP_LANES


cdef const Py_ssize_t *numbers(array) except? NULL:
    cdef const Py_ssize_t[::1] flat = array
    return &flat[0] if flat.shape[0] else NULL


cdef double *line_start(double *room) noexcept nogil:
    """The start of the first cache line from `room` on."""
    return <double *> ((<uintptr_t> room + 63) & ~<uintptr_t> 63)


cdef int check_positions(const Py_ssize_t[::1] positions, Py_ssize_t stop, str name) except -1:
    """Raise unless all are from 0 to stop - 1."""
    cdef Py_ssize_t i
    for i in range(positions.shape[0]):
        check(0 <= positions[i] < stop, name)
    return 0


cdef int read_rows(mixed_rows *t, numeric, column, codes, variable, first_state, Py_ssize_t C) except -1:
    """Point to the two blocks of a table and the columns used; raise unless dtypes, layout and lengths fit.
    """
    for name, array, types in (("numeric", numeric, (np.float64, np.float32)),
                               ("codes", codes, (np.uint8, np.uint16))):
        if array.dtype not in types:
            raise TypeError(f"{name} must be {types[0].__name__} or {types[1].__name__}, got {array.dtype}")
        if array.ndim != 2 or not array.flags.c_contiguous:
            raise ValueError(f"{name} must be two-dimensional and C-contiguous, got shape {array.shape} with "
                             f"strides {array.strides}")
    if len(numeric) != len(codes):
        raise ValueError(f"numeric and codes must have equally many rows, got {len(numeric)} and "
                         f"{len(codes)}")
    if len(first_state) != len(variable):
        raise ValueError(f"first_state must have one entry per variable, got {len(first_state)} for "
                         f"{len(variable)}")
    t.numeric = <const void *> <uintptr_t> numeric.ctypes.data
    t.codes = <const void *> <uintptr_t> codes.ctypes.data
    t.single, t.wide = numeric.dtype == np.float32, codes.dtype == np.uint16
    t.width, t.q, t.p1, t.P, t.C = numeric.shape[1], codes.shape[1], len(column), len(variable), C
    check_positions(column, numeric.shape[1], "column")
    check_positions(variable, codes.shape[1], "variable")
    check_positions(first_state, C, "first_state")
    t.column, t.variable, t.first_state = numbers(column), numbers(variable), numbers(first_state)
    return 0


cdef struct Pass:               # over all rows
    sp_table t
    sp_weights w
    sp_terms c
    # (p1, p2) weights of the tables of the numeric nodes, NULL if there are none to make
    const double *mixed
    double *node_table          # OUT of them
    Py_ssize_t n, runs
    double *sums                # (runs, room)
    Py_ssize_t size, room
    Py_ssize_t[7] place         # of each of the sums
    double *total               # (size) OUT
    Py_ssize_t pieces           # in which the sums of the runs are added
    double *known               # (p1, P, M) what indicators that are off add to the nodes, or take
    double *lanes               # (p1, p2, LANES)
    double *scratch             # (threads, scratch_size)
    Py_ssize_t *whole           # (threads, scratch_whole)
    Py_ssize_t scratch_size, scratch_whole
    team threads


cdef void scratch_of(const Pass *p, int thread, sp_scratch *s) noexcept nogil:
    cdef Py_ssize_t M = p.t.M, L = p.t.plus.width, p1 = p.t.rows.p1, slots = p.t.slots
    s.pair = line_start(p.scratch + thread * p.scratch_size)
    s.cross = s.pair + (p.t.seen * slots * p.t.grid.width if slots else p.t.seen * M)
    s.grid = s.cross + p1 * L * (slots if slots else 1)
    s.largest = s.grid + p1 * M
    s.energy = s.largest + sp_padded(p1)
    s.shift = s.energy + L
    s.x = s.shift + L
    s.pair_number = s.x + sp_padded(p1 + p.t.seen)
    s.cross_number = s.pair_number + p.t.seen * slots
    s.state = p.whole + thread * p.scratch_whole
    s.row = s.state + p.t.rows.P
    s.known = s.row + p.t.J
    s.similar = <const double **> (s.known + p.t.seen)
    s.change = s.similar + p.t.seen


cdef void combine_column(void *context, int s, int thread) noexcept nogil:
    """The tables of the nodes of a numeric column."""
    cdef Pass *p = <Pass *> context
    sp_combine(&p.t, &p.c, s, p.mixed, p.known + s * p.t.rows.P * p.t.M, p.node_table)


cdef void sum_run(void *context, int run, int thread) noexcept nogil:
    cdef Pass *p = <Pass *> context
    cdef double *room = line_start(p.sums + run * p.room)
    cdef sp_sums sums
    cdef sp_scratch scratch
    scratch_of(p, thread, &scratch)
    memset(room, 0, sizeof(double) * p.size)
    sums.log_z, sums.node = room, room + p.place[1]
    sums.pair, sums.node_table = room + p.place[2], room + p.place[3]
    sums.bias_table, sums.cross = room + p.place[4], room + p.place[5]
    sp_rows(&p.t, &p.w, p.n * run // p.runs, p.n * (run + 1) // p.runs, &sums, &scratch)


cdef void add_runs(void *context, int piece, int thread) noexcept nogil:
    """A piece of the sums of the runs, added in order."""
    cdef Pass *p = <Pass *> context
    cdef Py_ssize_t run, j
    cdef const double *room
    for run in range(p.runs):
        room = line_start(p.sums + run * p.room)
        for j in range(p.size * piece // p.pieces, p.size * (piece + 1) // p.pieces):
            p.total[j] = room[j] if run == 0 else p.total[j] + room[j]


cdef void visit_column(void *context, int s, int thread) noexcept nogil:
    """Similarities of the indicators to the nodes of a numeric column, times their visits."""
    cdef Pass *p = <Pass *> context
    cdef double *known = p.known + s * p.t.rows.P * p.t.M
    memset(known, 0, sizeof(double) * p.t.rows.P * p.t.M)
    sp_visited(&p.t, &p.c, s, p.total + p.place[3], known, p.lanes)


cdef void all_rows(Pass *p) noexcept nogil:
    """Tables of the nodes are shared out by column, rows by run, additions in pieces."""
    if p.mixed != NULL:
        team_step(&p.threads, combine_column, p, <int> p.t.rows.p1)
    team_step(&p.threads, sum_run, p, <int> p.runs)
    team_step(&p.threads, add_runs, p, <int> p.pieces)
    if p.mixed != NULL:
        team_step(&p.threads, visit_column, p, <int> p.t.rows.p1)


cdef void observe_run(void *context, int run, int thread) noexcept nogil:
    cdef Pass *p = <Pass *> context
    cdef double *room = line_start(p.sums + run * p.room)
    cdef sp_scratch scratch
    scratch_of(p, thread, &scratch)
    memset(room, 0, sizeof(double) * p.size)
    sp_observe(&p.t, p.n * run // p.runs, p.n * (run + 1) // p.runs, room, room + 3 * p.t.rows.p1, &scratch)


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
        Low-rank approximation of the encoded table, which other columns see; None: they see codes of the
        indicators.
    first_node, n_nodes : ndarrays (p1,) of intp
        The nodes in `grid` of every numeric column; those from 0 on are shared by columns. Their number is a
        multiple of `LANES`; the largest is M.
    grid, minus, plus : ndarrays (5, width), (5, L), (5, L)
        Size, its inverse, and the signs towards numbers below -eps, near 0, above eps: of nodes, and of codes
        of indicators off and on. They are padded with columns of zeros: the nodes of every column, and L, to
        a multiple of `LANES`.
    eps : float
    softmax : bool
        Indicators of a variable are normalised together, otherwise one by one.
    runs : int
        Number of runs of rows, each with its own sums.
    """

    cdef Pass p
    cdef readonly Py_ssize_t n, runs, seen
    cdef readonly object shapes  # type: tuple[tuple[int, ...], ...]
    cdef object arrays, rooms, scratch

    def __init__(self, numeric: Array, column: Positions, centre: Floats, scale: Floats, codes,
                 variable: Positions, first_state: Positions, first: Positions, joint: Positions,
                 stride: Positions, first_row: Positions, indicator: Positions, low_rank: Floats | None,
                 first_node: Positions, n_nodes: Positions, grid: Floats, minus: Floats, plus: Floats,
                 double eps, bint softmax, Py_ssize_t runs):
        cdef sp_table *t = &self.p.t
        check(all([np.ndim(array) == 2 and len(array) == 5 for array in (grid, minus, plus)]),
              "grid, minus or plus")
        check(np.ndim(first) == 1 and len(first) >= 1 and np.ndim(first_row) == 1 and len(first_row) >= 1,
              "first or first_row")
        cdef Py_ssize_t width = grid.shape[1], L = plus.shape[1], p1, R, i, M = 0
        self.arrays = (numeric, column, centre, scale, codes, variable, first_state, first, joint, stride,
                       first_row, indicator, low_rank, first_node, n_nodes, grid, minus, plus)
        if width % SP_LANES or L % SP_LANES or minus.shape[1] != L:
            raise ValueError(f"grid, minus and plus must be padded to multiples of {SP_LANES}")
        read_rows(&t.rows, numeric, column, codes, variable, first_state, len(indicator))
        p1, R, t.p2 = len(column), first_row[len(first_row) - 1], first[len(first) - 1]
        t.seen = p1 if low_rank is None else p1 + t.p2
        if (L < t.p2 or len(centre) != p1 or len(scale) != p1 or len(first) != len(variable) + 1
                or len(joint) != len(variable)
                or len(stride) != len(variable)):
            raise ValueError("the arrays of columns, variables and indicators do not fit each other")
        if len(first_node) != p1 or len(n_nodes) != p1:
            raise ValueError("first_node and n_nodes must have one entry per numeric column, got "
                             f"{len(first_node)} and {len(n_nodes)}")
        check(1 <= runs <= max(len(numeric), 1), "runs")
        check(0 <= t.p2 and R >= 0, "first or first_row")
        check_positions(first, t.p2 + 1, "first")
        check_positions(first_row, R + 1, "first_row")
        check_positions(joint, max(len(first_row) - 1, 0), "joint")
        check(all([-1 <= i < t.p2 or i == SP_MISSING for i in indicator]), "indicator")
        t.first_node, t.n_nodes = numbers(first_node), numbers(n_nodes)
        for i in range(p1):
            if (t.n_nodes[i] <= 0 or t.n_nodes[i] % SP_LANES or t.first_node[i] < 0
                    or t.first_node[i] % SP_LANES
                    or t.first_node[i] + t.n_nodes[i] > width):
                raise ValueError(f"the nodes of a numeric column must be multiples of {SP_LANES} within the "
                                 "grid, got "
                                 f"{t.n_nodes[i]} from {t.first_node[i]}")
            M = max(M, t.n_nodes[i])
            if not t.first_node[i]:
                t.shared = max(t.shared, t.n_nodes[i])
        t.M = M
        if low_rank is not None and low_rank.shape != (len(numeric), p1 + t.p2):
            raise ValueError(f"low_rank must have shape ({len(numeric)}, {p1 + t.p2}), that of the encoded "
                             f"table, got {low_rank.shape}")
        t.softmax, t.eps, t.J, t.R = softmax, eps, len(first_row) - 1, R
        t.joint, t.stride, t.first_row = numbers(joint), numbers(stride), numbers(first_row)
        t.centre, t.scale = doubles_in(centre), doubles_in(scale)
        t.first, t.indicator = numbers(first), numbers(indicator)
        if low_rank is not None:
            t.low_rank = doubles_in(low_rank)
        self._scale(&t.grid, grid)
        self._scale(&t.minus, minus)
        self._scale(&t.plus, plus)
        self.n, self.runs, self.seen = len(numeric), runs, t.seen
        self.shapes = ((1,), (p1, M), (p1, t.seen, SP_LANES), (R, p1, M), (R, L), (p1, L))
        at = np.concatenate([[0], np.cumsum([sp_padded(int(np.prod(shape))) for shape in self.shapes])])
        for i in range(7):
            self.p.place[i] = at[i]
        self.p.n, self.p.runs = self.n, runs
        t.slots = SP_SLOTS
        while t.slots * (t.seen * width + p1 * L) > SP_ROOM:
            t.slots //= 2
        similar = t.slots * (t.seen * (width + 1) + p1 * (L + 1)) if t.slots else t.seen * M + p1 * L
        # threads are whole pairs of cache lines apart
        self.p.scratch_size = similar + 6 * SP_LANES + p1 * M + sp_padded(p1) + 2 * L + sp_padded(p1 + t.seen)
        self.p.scratch_whole = t.rows.P + t.J + 2 * t.seen + p1 + 8 * SP_LANES

    cdef int _scale(self, sp_scale *out, array) except -1:
        out.size, out.inverse, out.sign = doubles_in(array[0]), doubles_in(array[1]), doubles_in(array[2:])
        out.width = out.stride = array.shape[1]
        return 0

    cdef int _prepare(self, Py_ssize_t size, int n_threads) except -1:
        """Sums of all runs, scratch for the threads."""
        cdef double[:, ::1] rooms, scratch
        cdef Py_ssize_t[:, ::1] whole
        check_threads(n_threads)
        if self.rooms is None or self.rooms.shape[1] < size + SP_LANES:
            self.rooms = np.empty((self.runs, size + SP_LANES))
        if self.scratch is None or len(self.scratch[0]) < n_threads:
            self.scratch = (np.full((n_threads, self.p.scratch_size), np.nan),
                            np.empty((n_threads, self.p.scratch_whole), np.intp))
        rooms, (scratch, whole) = self.rooms, self.scratch
        self.p.sums, self.p.room, self.p.size = &rooms[0, 0], rooms.shape[1], size
        self.p.scratch, self.p.whole, self.p.pieces = &scratch[0, 0], &whole[0, 0], n_threads
        team_start(&self.p.threads)
        return 0

    def sums(
        self, unary: Floats, pair: Floats, node_table: Floats | None, bias: Floats, bias_table: Floats,
        cross: Floats, int n_threads,
        terms: tuple[Positions, Positions, Floats, Floats, Floats] | None = None,
    ) -> tuple[Floats, ...]:
        """One pass over the rows: log-normalisers, and the expected statistics of the pseudo-likelihood
        gradient.

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
        terms : tuple (start, term, off, rise, mixed), optional
            Of these node_table is made: OUT, energies under a combination of states by the weights mixed (p1,
            p2) between numeric columns and indicators. start, term, ndarrays (R + 1,) and (T,) of intp: terms
            of a combination, v for every variable that is not missing, and P + l for every indicator l that
            is on; off, rise, ndarrays (p2, width): similarities of all nodes to an indicator that is off, and
            their change when it is on.

        Returns
        -------
        tuple of seven arrays, with terms of eight
            log_z, sum of log-normalisers of observed cells (1,); node, expected visits of the nodes (p1, M);
            pair, expected similarities (p1, seen, LANES), to be summed over lanes; node_table, visits by
            combination (R, p1, M); bias, residuals y - q of the indicators (L,), bias_table, by combination
            (R, L), and cross, times the change of similarity (p1, L); mixed, similarities of the indicators
            to the nodes of the numeric columns, times their visits (p1, p2).
        """
        cdef double[::1] out
        cdef Pass *p = &self.p
        cdef sp_weights *w = &p.w
        wanted = (self.shapes[1], self.shapes[2][:2], self.shapes[3], self.shapes[4][1:], self.shapes[4],
                  self.shapes[5])
        for array, shape in zip((unary, pair, node_table, bias, bias_table, cross), wanted, strict=True):
            if array is not None and array.shape != shape:
                raise ValueError(f"weights must have shape {shape}, got {array.shape}")
        self._prepare(p.place[6], n_threads)
        w.unary, w.pair, w.bias = doubles_in(unary), doubles_in(pair), doubles_in(bias)
        w.bias_table, w.cross = doubles_in(bias_table), doubles_in(cross)
        total = np.empty(p.size)
        out = total
        p.total = &out[0]
        w.node_table, p.mixed, mixed = NULL, NULL, None
        if node_table is not None:
            w.node_table = doubles_in(node_table)
        if terms is not None:
            mixed = self._terms(terms, node_table)
        with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
            if omp_get_thread_num() == 0:
                all_rows(p)
                team_end(&p.threads)
            else:
                team_help(&p.threads, omp_get_thread_num())
        log_z, node, pairs, visits, residuals, crosses = [
            total[p.place[j]:p.place[j] + math.prod(shape)].reshape(shape) for j,
            shape in enumerate(self.shapes)
        ]
        # every row is in one row of the first joint's table
        if p.t.J and node_table is not None:
            node = visits[p.t.first_row[0]:p.t.first_row[1]].sum(axis=0)
        left = residuals[p.t.first_row[0]:p.t.first_row[1]].sum(axis=0) if p.t.J else np.zeros(p.t.plus.width)
        found = log_z, node, pairs, visits, left, residuals, crosses
        return found if mixed is None else (*found, mixed[1].sum(axis=2))

    def observed(self, int n_threads) -> tuple[Floats, Floats]:
        """The statistics of the data, which do not depend on the parameters.

        Returns
        -------
        powers : ndarray (p1, 3)
            Count, sum and sum of squares of the observed numbers of a numeric column.
        own : ndarray (p1, p1 + p2)
            Sums of the similarity between a row's own number and what it sees.
        """
        cdef Py_ssize_t p1 = self.p.t.rows.p1, p = p1 + self.p.t.p2
        cdef double[::1] out
        self._prepare(p1 * (3 + p), n_threads)
        total = np.zeros(self.p.size + 1)
        out = total
        self.p.total = &out[0]
        with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
            if omp_get_thread_num() == 0:
                team_step(&self.p.threads, observe_run, &self.p, <int> self.runs)
                team_step(&self.p.threads, add_runs, &self.p, <int> self.p.pieces)
                team_end(&self.p.threads)
            else:
                team_help(&self.p.threads, omp_get_thread_num())
        return total[:3 * p1].reshape(p1, 3), total[3 * p1:self.p.size].reshape(p1, p)

    cdef int _check_terms(self, const Py_ssize_t[::1] start, const Py_ssize_t[::1] term) except -1:
        """Raise unless the terms of combinations fit the table."""
        cdef Py_ssize_t r, R = self.p.t.R
        check(start.shape[0] == R + 1 and start[0] == 0 and start[R] == term.shape[0], "start")
        for r in range(R):
            check(start[r] <= start[r + 1], "start")
        return check_positions(term, self.p.t.rows.P + self.p.t.p2, "term")

    cdef object _terms(self, terms, node_table):
        """Point to the terms of the tables of the nodes; returns the room that is needed for them."""
        start, term, off, rise, mixed = terms
        cdef Pass *p = &self.p
        cdef sp_terms *c = &p.c
        self._check_terms(start, term)
        check(np.shape(off) == np.shape(rise) == (p.t.p2, p.t.grid.width), "off or rise")
        check(np.shape(mixed) == (p.t.rows.p1, p.t.p2), "mixed")
        check(node_table is not None, "node_table")
        c.start, c.term, c.off, c.rise = numbers(start), numbers(term), doubles_in(off), doubles_in(rise)
        known, lanes = np.empty((p.t.rows.p1, p.t.rows.P, p.t.M)), np.zeros((p.t.rows.p1, p.t.p2, SP_LANES))
        p.mixed, p.node_table = doubles_in(mixed), doubles_out(node_table)
        p.known, p.lanes = doubles_out(known), doubles_out(lanes)
        return known, lanes

    def spread(
        self, start: Positions, term: Positions, const double[:, ::1] by_term not None,
        double[:, ::1] out not None,
    ):
        """out (R, :width) = sums of rows of `by_term` (P + p2, width) over the terms of every combination;
        terms as in `combine`.
        """
        cdef const Py_ssize_t[::1] first = start, index = term
        cdef Py_ssize_t r, i, j, width = by_term.shape[1]
        self._check_terms(start, term)
        check(by_term.shape[0] == self.p.t.rows.P + self.p.t.p2, "by_term")
        check(out.shape[0] == self.p.t.R and out.shape[1] >= width, "out")
        with nogil:
            for r in range(self.p.t.R):
                for j in range(width):
                    out[r, j] = 0.0
                for i in range(first[r], first[r + 1]):
                    for j in range(width):
                        out[r, j] += by_term[index[i], j]

    def collect(self, start: Positions, term: Positions, const double[:, ::1] by_row not None) -> Floats:
        """(P + p2, width) sums of rows (R, width) over the combinations that have a term: the transpose of
        `spread`.
        """
        cdef const Py_ssize_t[::1] first = start, index = term
        cdef Py_ssize_t r, i, j, width = by_row.shape[1]
        self._check_terms(start, term)
        check(by_row.shape[0] == self.p.t.R, "by_row")
        sums = np.zeros((self.p.t.rows.P + self.p.t.p2, width))
        cdef double[:, ::1] out = sums
        with nogil:
            for r in range(self.p.t.R):
                for i in range(first[r], first[r + 1]):
                    for j in range(width):
                        out[index[i], j] += by_row[r, j]
        return sums
