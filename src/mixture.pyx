"""Mixture with feature selection: the E-step, one pass over the rows that computes responsibilities and their sufficient statistics.

The pass itself is C (_mixture_rows.h: SIMD over rows and columns); here is what surrounds it: the present q as lists of selected columns,
segments of rows, their partial sums, and whole sweeps.
"""

import numpy as np

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.string cimport memset

from craftc._kernels._common cimport check, check_indices, check_threads, doubles_in, doubles_out, omp_get_thread_num
from craftc._kernels.mixture_moves cimport sort_by_size
from craftc._kernels.mixture_updates cimport (
    Mixture, Model, evidence_lower_bound, update_components, update_masks, update_noise, update_shares, update_sticks)

cdef extern from "_mixture.h":
    enum:
        MX_COLUMNS, MX_TILE

    ctypedef struct mx_table:
        const void *X
        int single, all
        Py_ssize_t width, D, stride
        const int32_t *column
        const double *centre
        const double *scale
        const double *exposure
        const double *weight
        int missing

    ctypedef struct mx_lists:
        Py_ssize_t K
        int32_t *component
        Py_ssize_t *first
        uint32_t *place
        double *linear
        double *square
        double *constant
        double *reach
        double *missing

    ctypedef struct mx_sums:
        double *size
        double *reach
        double *entropy
        double *s1
        double *s2
        double *missing

    ctypedef struct mx_scratch:
        double *z
        double *tile
        double *r
        double *weight
        int32_t *row
        int64_t *missing

    ctypedef struct mx_request:
        int hard
        const double *given
        double *proba
        int32_t *label
        double *evidence

    Py_ssize_t mx_stride(Py_ssize_t) noexcept nogil
    Py_ssize_t mx_block(Py_ssize_t) noexcept nogil
    Py_ssize_t mx_runs(Py_ssize_t) noexcept nogil
    void mx_rows(const mx_table *, const mx_lists *, const mx_request *, Py_ssize_t, int, Py_ssize_t, Py_ssize_t, mx_sums *,
                 mx_scratch *) noexcept nogil

cdef enum:
    FEW_ROWS = 512              # of a segment, at least; every segment has its own partial sums
    ROWS_PER_COMPONENT = 96     # of a segment, at least, so that partial sums stay small compared with the table
    MOST_SEGMENTS = 256


cdef object cache_lines(Py_ssize_t rows, Py_ssize_t size):
    """Doubles in rows of whole cache lines, with room to start at `at_line`; vectors then never cross two lines."""
    return np.zeros((rows + 1, (size + 7) // 8 * 8))


cdef double *at_line(array) except? NULL:
    """The first element at the start of a cache line."""
    return <double *> ((<uintptr_t> doubles_out(array) + 63) & ~<uintptr_t> 63)


cdef void fill_lists(const Model *m, bint missing, mx_lists *out) noexcept nogil:
    """The present q as lists of selected columns, component by component within a run of columns; there is room for K D of them."""
    cdef Py_ssize_t at = 0, k, j, d, run, start, stop, cell
    cdef double constant
    out.K = 0
    for k in range(m.K):
        if m.size[k] > 0.0:
            out.component[out.K] = <int32_t> k
            out.constant[out.K] = m.weight[k]
            out.reach[out.K] = 0.0
            out.K += 1
    out.first[0] = 0
    for run in range(mx_runs(m.D)):
        start = run * MX_COLUMNS
        stop = min(start + MX_COLUMNS, m.D)
        for j in range(out.K):
            for d in range(start, stop):
                cell = out.component[j] * m.D + d
                constant = m.p[cell] * (m.own.constant[cell] - m.noise.constant[d])
                if missing:
                    out.missing[d * out.K + j] = constant
                if m.p[cell] == 0.0:
                    continue
                out.place[at] = <uint32_t> ((d - start) * MX_TILE)
                out.linear[at] = m.p[cell] * (m.own.linear[cell] - m.noise.linear[d])
                out.square[at] = m.p[cell] * (m.own.square[cell] - m.noise.square[d])
                out.reach[j] += constant
                at += 1
            out.first[run * out.K + j + 1] = at


cdef class Rows:
    """The table in the model's units, (x - centre) * scale of some columns. Every segment of rows has its own sums, added in their order.

    Parameters
    ----------
    X : ndarray (n, width) of float32 or float64, contiguous
    column : ndarray (D,) of int32
        Columns of the model, ascending.
    centre, scale : ndarray (D,) of float64
    exposure : ndarray (n,) of float64 or None
        Factor of the rates of a row (counts).
    missing : bool
        Whether cells may be missing: NaN.
    K : int
        Components there is room for.
    weight : ndarray (n,) of float64, optional
        Weights of the rows in all sums.
    """

    cdef mx_table t
    cdef mx_lists lists
    cdef Py_ssize_t n, K, rows, segments, size, room
    cdef int threads
    cdef double *sums_
    cdef double *scratch_
    cdef readonly object X, column, centre, scale, exposure, weight
    cdef object sums, arrays, scratch

    def __init__(self, X, column, centre, scale, exposure, bint missing, Py_ssize_t K, weight=None):
        cdef const float[:, ::1] single
        cdef const double[:, ::1] double_
        cdef const int32_t[::1] columns = column
        cdef const double[::1] exposures, weights
        check(X.ndim == 2, "X")
        check_indices(columns, 0, X.shape[1], "columns")
        check(np.shape(centre) == np.shape(scale) == (len(column),), "centre or scale")
        check(exposure is None or np.shape(exposure) == (len(X),), "exposure")
        check(K >= 0, "K")
        self.weight = weight
        self.X, self.column, self.centre, self.scale, self.exposure = X, column, centre, scale, exposure
        self.n, self.K, self.t.D = len(X), K, len(column)
        self.t.width, self.t.stride, self.t.single, self.t.missing = X.shape[1], mx_stride(len(column)), X.dtype == np.float32, missing
        self.t.all = len(column) == X.shape[1]
        if self.t.single:
            single = X
            self.t.X = &single[0, 0]
        else:
            double_ = X
            self.t.X = &double_[0, 0]
        self.t.column = &columns[0] if len(column) else NULL
        self.t.centre, self.t.scale = doubles_in(centre), doubles_in(scale)
        if exposure is not None:
            exposures = exposure
            self.t.exposure = &exposures[0]
        if weight is not None:
            weights = weight
            if weights.shape[0] != self.n:
                raise ValueError(f"weight must have one entry for every row, got {weights.shape[0]} for {self.n} rows")
            self.t.weight = &weights[0]
        self.rows = max(FEW_ROWS, ROWS_PER_COMPONENT * K, (self.n + MOST_SEGMENTS - 1) // MOST_SEGMENTS)
        self.segments = (self.n + self.rows - 1) // self.rows
        entries = K * self.t.D
        component, first, places = np.empty(K, np.int32), np.empty(mx_runs(self.t.D) * K + 1, np.intp), np.empty(entries, np.uint32)
        entry, each, absent = np.empty((2, entries)), np.empty((2, K)), np.empty(entries if missing else 0)
        self.arrays = (component, first, places, entry, each, absent)
        cdef int32_t[::1] components = component
        cdef uint32_t[::1] places_ = places
        cdef Py_ssize_t[::1] firsts = first
        self.lists.component, self.lists.first, self.lists.place = &components[0], &firsts[0], &places_[0] if entries else NULL
        self.lists.linear, self.lists.square = doubles_out(entry[0]), doubles_out(entry[1])
        self.lists.constant, self.lists.reach, self.lists.missing = doubles_out(each[0]), doubles_out(each[1]), doubles_out(absent)

    cdef int _check(self, Mixture mixture, int n_threads) except -1:
        """Raise unless there is room for the mixture, which has the columns of the table."""
        check_threads(n_threads)
        check(mixture.m.K == self.K and mixture.m.D == self.t.D, "mixture")
        return 0

    cdef int _make_room(self, bint gather, int n_threads) except -1:
        """Partial sums of all segments, and scratch for the threads."""
        cdef Py_ssize_t block = mx_block(self.t.D), table = self.K * self.t.stride
        if gather and self.sums is None:
            self.sums = cache_lines(self.segments, (3 if self.t.missing else 2) * table + 2 * self.K + 1)
            self.sums_, self.size = at_line(self.sums), self.sums.shape[1]
        if n_threads > self.threads:
            self.scratch = cache_lines(
                n_threads, block * (self.t.stride + self.K + 2 + (self.t.D if self.t.missing else 0)) + MX_COLUMNS * MX_TILE)
            self.scratch_, self.room, self.threads = at_line(self.scratch), self.scratch.shape[1], n_threads
        return 0

    def __len__(self):
        return self.n

    def e_step(self, Mixture mixture not None, int n_threads, *, bint gather=True, bint hard=False, given=None, proba=None, label=None,
               evidence=None, bint linear=False):
        """Responsibilities of all rows and, with `gather`, their sufficient statistics, which go to the mixture.

        Components of size 0 are skipped.

        Parameters
        ----------
        mixture : Mixture
        n_threads : int
        gather : bool
        hard : bool
            Hard assignment: each row belongs to its best component alone.
        given : ndarray (n, K) of float64, contiguous, optional
            Responsibilities, in place of new ones.
        proba : ndarray (n, components not empty) of float64, optional
            OUT responsibilities.
        label : ndarray (n,) of int32, optional
            OUT the best component: its index among those not empty.
        evidence : ndarray (n,) of float64, optional
            OUT log-sum-exp of the row's scores under the components.
        linear : bool
            No component has squares: counts, centres.
        """
        cdef mx_request request
        cdef int32_t[::1] labels
        memset(&request, 0, sizeof(request))
        request.hard = hard
        self._check(mixture, n_threads)
        check(given is None or given.shape == (self.n, mixture.m.K), "given")
        check(proba is None or proba.shape == (self.n, np.count_nonzero(mixture.size > 0.0)), "proba")
        check(label is None or label.shape == (self.n,), "label")
        check(evidence is None or evidence.shape == (self.n,), "evidence")
        if given is not None:
            request.given = doubles_in(given)
        if proba is not None:
            request.proba = doubles_out(proba)
        if evidence is not None:
            request.evidence = doubles_out(evidence)
        if label is not None:
            labels = label
            request.label = &labels[0]
        self._make_room(gather, n_threads)
        with nogil:
            self._pass(&mixture.m, &request, linear, gather, n_threads)

    def sweep(self, Mixture mixture not None, double before, double least, double[::1] elbo not None, bint linear, int n_threads):
        """Sweeps until one raises the ELBO by no more than `least`: q(theta), q(y), the noise, q(lambda), q(v), q(z), order of sizes.

        Parameters
        ----------
        mixture : Mixture
        before : float
            The ELBO at the start.
        least : float
        elbo : ndarray (max_sweeps,) of float64
            OUT the ELBO after every sweep; its length limits the number of sweeps.
        linear : bool
            No component has squares: counts.
        n_threads : int

        Returns
        -------
        int
            Sweeps made.
        """
        cdef mx_request request
        cdef Py_ssize_t made = 0
        cdef Model *m = &mixture.m
        memset(&request, 0, sizeof(request))
        self._check(mixture, n_threads)
        self._make_room(True, n_threads)
        with nogil:
            while made < elbo.shape[0]:
                update_components(m)
                update_masks(m)
                update_noise(m, mixture.pooled)
                update_shares(m)
                update_sticks(m)
                self._pass(m, &request, linear, True, n_threads)
                sort_by_size(m, mixture.order, mixture.work)
                elbo[made] = evidence_lower_bound(m)
                made += 1
                if elbo[made - 1] - (elbo[made - 2] if made > 1 else before) <= least:
                    break
        return made

    cdef void _pass(self, Model *m, const mx_request *request, int linear, bint gather, int n_threads) noexcept nogil:
        cdef Py_ssize_t segment, s
        cdef bint many = n_threads > 1
        fill_lists(m, self.t.missing, &self.lists)
        for segment in prange(self.segments, num_threads=n_threads, use_threads_if=many, schedule="dynamic"):
            self._segment(request, linear, segment, self.sums_ + segment * self.size if gather else NULL,
                          self.scratch_ + (omp_get_thread_num() if many else 0) * self.room)
        if gather:
            for s in range(1, self.segments):
                for segment in range(self.size):
                    self.sums_[segment] += self.sums_[s * self.size + segment]
            self._store(m)

    cdef void _places(self, double *sums, mx_sums *out) noexcept nogil:
        cdef Py_ssize_t table = self.K * self.t.stride
        out.s1, out.s2 = sums, sums + table
        out.size = sums + 2 * table
        out.reach, out.entropy, out.missing = out.size + self.K, out.size + 2 * self.K, out.size + 2 * self.K + 1

    cdef void _segment(self, const mx_request *request, int linear, Py_ssize_t segment, double *sums, double *scratch) noexcept nogil:
        cdef mx_sums places
        cdef mx_scratch s
        cdef Py_ssize_t start = segment * self.rows, block = mx_block(self.t.D)
        s.z = scratch
        s.tile = s.z + block * self.t.stride
        s.r = s.tile + MX_COLUMNS * MX_TILE
        s.weight = s.r + block * self.K
        s.row = <int32_t *> (s.weight + block)
        s.missing = <int64_t *> (s.weight + 2 * block)
        if sums != NULL:
            memset(sums, 0, self.size * sizeof(double))
            self._places(sums, &places)
        mx_rows(&self.t, &self.lists, request, self.K, linear, start, min(start + self.rows, self.n), &places if sums != NULL else NULL, &s)

    cdef void _store(self, Model *m) noexcept nogil:
        """Copy the sums of all rows to the mixture."""
        cdef mx_sums all
        cdef Py_ssize_t k, d
        self._places(self.sums_, &all)
        m.entropy[0] = all.entropy[0]
        for k in range(m.K):
            m.size[k] = all.size[k]
            for d in range(m.D):
                m.s1[k * m.D + d] = all.s1[k * self.t.stride + d]
                m.s2[k * m.D + d] = all.s2[k * self.t.stride + d]
                m.reach[k * m.D + d] = all.reach[k]
                if self.t.missing:
                    m.reach[k * m.D + d] = max(0.0, all.reach[k] - all.missing[k * self.t.stride + d])
