"""Mixture with feature selection: the E-step, one pass over the rows that computes responsibilities and their
sufficient statistics.

The pass itself is C (_mixture_rows.h: SIMD over rows and columns), and the present q is a list of selected
columns (mixture_scores.pyx). Here is what surrounds them: segments of rows, their partial sums, and whole
sweeps. A team of threads shares out the segments: that of the `Rows`, or one that is woken once for many
sweeps.
"""

import numpy as np

from cython.parallel cimport parallel
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.string cimport memcmp, memcpy, memset

from craftc._kernels._common cimport (
    check, check_indices, check_threads, doubles_in, doubles_out, omp_get_thread_num,
)
from craftc._kernels._team cimport team, team_end, team_help, team_start, team_step
from craftc._kernels.mixture_moves cimport sort_by_size
from craftc._kernels.mixture_scores cimport (
    MX_COLUMNS, MX_PAD, MX_TILE, Scores, ScoreTables, list_columns, list_components, measure_rounding,
    mx_bounds, mx_lists, mx_stride, sort_slots)
from craftc._kernels.mixture_updates cimport (
    GAUSSIAN, Mixture, Model, evidence_lower_bound, update_component, update_components, update_masks,
    update_masks_of, update_noise, update_shares, update_sticks)
from craftc._kernels.team cimport Team

cdef extern from "mixture/_mixture.h":
    enum:
        MX_MOST_ROWS

    ctypedef struct mx_table:
        const void *X
        int single, all
        Py_ssize_t width, D, stride
        const int32_t *column
        const double *centre
        const double *scale
        const double *exposure
        const double *weight
        const int32_t *order
        const double *kept
        int missing

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
        int32_t *live
        uint32_t *tiles
        int64_t *missing

    ctypedef struct mx_request:
        int hard
        const double *given
        double *proba
        int32_t *label
        int32_t *second
        double *evidence

    Py_ssize_t mx_block(Py_ssize_t) noexcept nogil
    void mx_keep(const mx_table *, Py_ssize_t, double *) noexcept nogil
    void mx_rows(const mx_table *, const mx_lists *, const mx_bounds *, const mx_request *, Py_ssize_t, int,
                 Py_ssize_t, Py_ssize_t, mx_sums *, mx_scratch *) noexcept nogil

cdef extern from "common/_simd.h":
    Py_ssize_t simd_lines(Py_ssize_t) noexcept nogil

cdef enum:
    FEW_ROWS = 512              # of a segment, at least; every segment has its own partial sums
    # of a segment, at least, so that partial sums stay small compared with the table
    ROWS_PER_COMPONENT = 96
    MOST_SEGMENTS = 256
    # of a smaller table, at most: of at least LEAST_ROWS, with LEAST_SUMS numbers together
    FEW_SEGMENTS = 16
    LEAST_ROWS = 128
    LEAST_SUMS = 131072
    # of a smaller table, at most, z is kept from pass to pass: it stays in a cache
    KEPT_CELLS = 65536


cdef struct Pass:               # over all rows
    mx_table t
    Scores *scores
    Model *m
    double *pooled
    const mx_request *request
    bint linear, gather
    Py_ssize_t n, K             # rows, components there is room for
    Py_ssize_t rows, segments   # rows of a segment, number of segments
    double *sums                # (segments, size)
    Py_ssize_t size
    double *scratch             # (threads, room)
    Py_ssize_t room
    team *threads


cdef Py_ssize_t rows_of_segment(Py_ssize_t n, Py_ssize_t K, Py_ssize_t size) noexcept nogil:
    """Rows of a segment, at least one tile, whose sums are `size` numbers; small tables have a few segments,
    too, for several threads.
    """
    cdef Py_ssize_t rows = max(FEW_ROWS, ROWS_PER_COMPONENT * K, (n + MOST_SEGMENTS - 1) // MOST_SEGMENTS)
    cdef Py_ssize_t few = max(1, min(FEW_SEGMENTS, n // LEAST_ROWS, LEAST_SUMS // size))
    return min((rows + MX_TILE - 1) // MX_TILE * MX_TILE,
               (max(n, 1) + few * MX_TILE - 1) // (few * MX_TILE) * MX_TILE)


cdef object cache_lines(Py_ssize_t rows, Py_ssize_t size):
    """Doubles in rows of whole cache lines, with room to start at `at_line`; vectors then never cross two
    lines.
    """
    return np.zeros((rows + 1, simd_lines(size)))


cdef double *at_line(array) except? NULL:
    """The first element at the start of a cache line."""
    return <double *> ((<uintptr_t> doubles_out(array) + 63) & ~<uintptr_t> 63)


cdef void places(const Pass *p, double *sums, mx_sums *out) noexcept nogil:
    cdef Py_ssize_t table = p.K * p.t.stride
    out.s1, out.s2 = sums, sums + table
    out.size = sums + 2 * table
    out.reach, out.entropy, out.missing = out.size + p.K, out.size + 2 * p.K, out.size + 2 * p.K + 1


cdef void segment_sums(void *context, int segment, int thread) noexcept nogil:
    """One segment of a `Pass`."""
    cdef Pass *p = <Pass *> context
    cdef double *sums
    cdef mx_sums out
    cdef mx_scratch s
    cdef Py_ssize_t start = segment * p.rows, block = mx_block(p.t.D)
    s.z = p.scratch + thread * p.room
    s.tile = s.z + block * p.t.stride
    s.r = s.tile + MX_COLUMNS * MX_TILE
    s.weight = s.r + block * p.K
    s.row = <int32_t *> (s.weight + block)
    s.live = <int32_t *> (s.weight + 2 * block)
    s.tiles = <uint32_t *> (s.live + MX_MOST_ROWS // MX_TILE * p.K)
    s.missing = <int64_t *> (s.weight + 2 * block + MX_MOST_ROWS // MX_TILE * p.K)
    if p.gather:
        sums = p.sums + segment * p.size
        places(p, sums, &out)
        memset(out.size, 0, (p.size - (out.size - sums)) * sizeof(double))
    mx_rows(&p.t, &p.scores.lists, &p.scores.bounds if p.scores.bounded else NULL, p.request, p.K, p.linear,
            start, min(start + p.rows, p.n), &out if p.gather else NULL, &s)


cdef void add_segments(void *context, int k, int thread) noexcept nogil:
    """The sums of all rows for one component, added in the order of the segments, go to the mixture."""
    cdef const Pass *p = <const Pass *> context
    cdef Model *m = p.m
    cdef Py_ssize_t D = m.D, stride = p.t.stride, segment, d
    cdef double *s1 = m.s1 + k * D
    cdef double *s2 = m.s2 + k * D
    cdef double *reach = m.reach + k * D
    cdef double total = 0.0
    cdef mx_sums part
    m.size[k] = 0.0
    for d in range(D):
        s1[d] = s2[d] = reach[d] = 0.0
    for segment in range(p.segments):
        places(p, p.sums + segment * p.size, &part)
        if part.size[k] == 0.0:
            continue
        m.size[k] += part.size[k]
        total += part.reach[k]
        for d in range(D):
            s1[d] += part.s1[k * stride + d]
            s2[d] += part.s2[k * stride + d]
        if p.t.missing:
            for d in range(D):
                reach[d] += part.missing[k * stride + d]
    for d in range(D):
        reach[d] = max(0.0, total - reach[d])


cdef void all_rows(Pass *p) noexcept nogil:
    """The E-step: columns and sums are shared out by component, rows by segment."""
    cdef Py_ssize_t segment
    cdef mx_sums part
    list_components(p.scores, p.m)
    team_step(p.threads, list_columns, p.scores, <int> p.scores.lists.K)
    if p.scores.bounded:
        measure_rounding(p.scores)
    team_step(p.threads, segment_sums, p, <int> p.segments)
    if p.gather:
        team_step(p.threads, add_segments, p, <int> p.K)
        p.m.entropy[0] = 0.0
        for segment in range(p.segments):
            places(p, p.sums + segment * p.size, &part)
            p.m.entropy[0] += part.entropy[0]


cdef inline double cell(const mx_table *t, Py_ssize_t i, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t at = i * t.width + t.column[d]
    return ((<const float *> t.X)[at] - t.centre[d] if t.single else (<const double *> t.X)[at]
            - t.centre[d]) * t.scale[d]


cdef void set_centres(Model *m) noexcept nogil:
    """Scores of a row that are largest under the centre closest to it, the mean of a component's rows."""
    cdef Py_ssize_t at
    for at in range(m.K * m.D):
        if m.reach[at] > 0.0:
            m.own.linear[at] = m.s1[at] / m.reach[at]
        m.own.constant[at] = -0.5 * m.own.linear[at] * m.own.linear[at]


cdef void improve_centres(Pass *p, Mixture mixture, Py_ssize_t passes, bint *changed) noexcept nogil:
    """Run at most `passes` passes of k-means, until no sum changes; returns whether the last changed any."""
    cdef Model *m = p.m
    cdef size_t size = sizeof(double) * m.K * m.D
    cdef Py_ssize_t made = 0
    while made < passes and changed[0]:
        if m.kind == GAUSSIAN:
            set_centres(m)
        else:
            update_components(m)
        if size:        # no column may vary
            memcpy(mixture.work, m.s1, size)
        all_rows(p)
        changed[0] = size > 0 and memcmp(mixture.work, m.s1, size) != 0
        made += 1


cdef void fit_component(void *context, int k, int thread) noexcept nogil:
    """q(theta) and, where it has masks of its own, q(y) of one component."""
    cdef Model *m = (<Pass *> context).m
    update_component(m, k)
    if not m.tied:
        update_masks_of(m, k)


cdef void fit_shared(void *context, int part, int thread) noexcept nogil:
    """One of the factors that all components share and that do not depend on each other: the noise,
    q(lambda), q(v).
    """
    cdef Pass *p = <Pass *> context
    if part == 0:
        update_noise(p.m, p.pooled)
    elif part == 1:
        update_shares(p.m)
    else:
        update_sticks(p.m)


cdef void ascend(
    Pass *p, Mixture mixture, double before, double least, double *elbo, Py_ssize_t most, Py_ssize_t *made,
) noexcept nogil:
    """Run sweeps until one raises the ELBO by no more than `least`; returns their number."""
    cdef Model *m = &mixture.m
    cdef double gain = INFINITY
    while made[0] < most and gain > least:
        team_step(p.threads, fit_component, p, <int> m.K)
        if m.tied:
            update_masks(m)
        team_step(p.threads, fit_shared, p, 3)
        all_rows(p)
        if sort_by_size(m, mixture.order, mixture.work):
            sort_slots(p.scores, mixture.order)
        elbo[made[0]] = evidence_lower_bound(m)
        gain = elbo[made[0]] - before
        before = elbo[made[0]]
        made[0] += 1


cdef class Rows:
    """The table in the model's units, (x - centre) * scale of some columns. Every segment of rows has its own
    sums, added in their order.

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

    Attributes
    ----------
    team : Team or None
        Threads that help all calls; they have no `n_threads` of their own then.
    order : ndarray (n,) of int32 or None
        In which passes visit the rows, after `visit`.
    """

    cdef Pass p
    cdef team woken             # for one call
    cdef int threads
    cdef public Team team  # type: Team | None
    cdef readonly object X  # type: Array
    cdef readonly object column  # type: Integers32
    cdef readonly object centre, scale  # type: Floats
    cdef readonly object exposure, weight  # type: Floats | None
    cdef readonly object order  # type: Integers32 | None
    cdef ScoreTables scores
    cdef object sums, scratch, kept

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
        self.p.n, self.p.K, self.p.t.D = len(X), K, len(column)
        self.p.t.width, self.p.t.stride = X.shape[1], mx_stride(len(column))
        self.p.t.single, self.p.t.missing = X.dtype == np.float32, missing
        self.p.t.all = len(column) == X.shape[1]
        if self.p.t.single:
            single = X
            self.p.t.X = &single[0, 0] if X.size else NULL
        else:
            double_ = X
            self.p.t.X = &double_[0, 0] if X.size else NULL
        self.p.t.column = &columns[0] if len(column) else NULL
        self.p.t.centre, self.p.t.scale = doubles_in(centre), doubles_in(scale)
        if exposure is not None:
            exposures = exposure
            self.p.t.exposure = &exposures[0] if self.p.n else NULL
        if weight is not None:
            weights = weight
            if weights.shape[0] != self.p.n:
                raise ValueError(f"weight must have one entry for every row, got {weights.shape[0]} for "
                                 f"{self.p.n} rows")
            self.p.t.weight = &weights[0] if self.p.n else NULL
        self.p.size = simd_lines((3 if missing else 2) * K * self.p.t.stride + 2 * K + 1)
        self.p.rows = rows_of_segment(self.p.n, K, self.p.size)
        self.p.segments = (self.p.n + self.p.rows - 1) // self.p.rows
        self.scores = ScoreTables(K, self.p.t.D, missing)
        self.p.scores = &self.scores.t

    cdef int _prepare(
        self, Mixture mixture, const mx_request *request, bint linear, bint gather, int n_threads,
    ) except -1:
        """What passes need: partial sums of all segments, scratch for the threads; raises if the mixture has
        another shape.
        """
        cdef Py_ssize_t block = mx_block(self.p.t.D)
        check_threads(n_threads)
        check(self.team is None or n_threads == 1, "n_threads")
        check(mixture.m.K == self.p.K and mixture.m.D == self.p.t.D, "mixture")
        if gather and self.sums is None:
            self.sums = cache_lines(self.p.segments, self.p.size)
            self.p.sums = at_line(self.sums)
        n_threads = n_threads if self.team is None else self.team.n_threads
        if n_threads > self.threads:
            self.scratch = cache_lines(
                n_threads, block * (self.p.t.stride + self.p.K + 2 + (self.p.t.D if self.p.t.missing else 0))
                + MX_COLUMNS * MX_TILE
                + MX_MOST_ROWS // MX_TILE * self.p.K)
            self.p.scratch, self.p.room = at_line(self.scratch), self.scratch.shape[1]
            self.threads = n_threads
        self.p.m, self.p.pooled, self.p.request = &mixture.m, mixture.pooled, request
        self.p.linear, self.p.gather = linear, gather
        self.p.scores.bounded = False
        team_start(&self.woken)
        self.p.threads = &self.woken if self.team is None else self.team.lead()
        return 0

    cdef int _keep(self) except -1:
        """The passes to come read the cells of a small table in the model's units, without missing ones."""
        if self.p.t.missing or self.p.t.kept != NULL or not 0 < self.p.n * self.p.t.stride <= KEPT_CELLS:
            return 0
        if self.kept is None:
            self.kept = cache_lines(self.p.n, self.p.t.stride)
        mx_keep(&self.p.t, self.p.n, at_line(self.kept))
        self.p.t.kept = at_line(self.kept)
        return 0

    cdef void _rest(self) noexcept:
        """After the passes."""
        if self.team is not None:
            self.team.rest()

    def __len__(self) -> int:
        return self.p.n

    cdef int _check_rows(self, const Py_ssize_t[::1] index) except -1:
        cdef Py_ssize_t i
        for i in range(index.shape[0]):
            check(0 <= index[i] < self.p.n, "index")
        return 0

    def cells(self, const Py_ssize_t[::1] index not None) -> Floats:
        """Cells of some rows, transposed.

        Parameters
        ----------
        index : ndarray (m,) of intp  # IN

        Returns
        -------
        ndarray (D, m) of float64
            NaN where a cell is missing.
        """
        cdef Py_ssize_t line, d, i
        out = np.empty((self.p.t.D, index.shape[0]))
        cdef double[:, ::1] out_ = out
        self._check_rows(index)
        with nogil:
            for line in range((index.shape[0] + MX_PAD - 1) // MX_PAD):  # whole cache lines of some rows
                for d in range(self.p.t.D):
                    for i in range(line * MX_PAD, min((line + 1) * MX_PAD, index.shape[0])):
                        out_[d, i] = cell(&self.p.t, index[i], d)
        return out

    def start(self, Mixture mixture not None, const Py_ssize_t[::1] index not None):
        """The first components have one row each, the others none; all select every column.

        Parameters
        ----------
        mixture : Mixture
        index : ndarray (at most K,) of intp  # IN
        """
        cdef Model *m = &mixture.m
        cdef Py_ssize_t some = index.shape[0], k, d, at
        cdef double z
        check(m.K == self.p.K and m.D == self.p.t.D, "mixture")
        self._check_rows(index)
        check(some <= m.K, "index")
        mixture.p[...] = 1.0
        mixture.size[...] = mixture.reach[...] = mixture.s1[...] = 0.0
        for k in range(some):
            m.size[k] = 1.0
            for d in range(m.D):
                at = k * m.D + d
                z = cell(&self.p.t, index[k], d)
                if m.kind == GAUSSIAN:
                    m.reach[at] = 1.0  # a missing cell of a centre is that of the mean row
                elif z == z:
                    m.reach[at] = self.p.t.exposure[index[k]] if self.p.t.exposure != NULL else 1.0
                m.s1[at] = z if z == z else 0.0

    def visit(self, const int32_t[::1] order not None):
        """Passes visit the rows in another order: tiles of near rows have few components. Nothing else
        changes.

        Parameters
        ----------
        order : ndarray (n,) of int32
            Every row once.
        """
        check(order.shape[0] == self.p.n, "order")
        check_indices(order, 0, self.p.n, "order")
        self.order = order.base
        self.p.t.order = &order[0] if self.p.n else NULL
        self.p.t.kept = NULL
        self.scores.bounds = None  # other tiles

    def behind(self) -> Floats32 | None:
        """How far components are at least behind the best one, for all rows of a tile, in the last sweep.

        Returns
        -------
        ndarray (tiles, K) of float32, or None
            In nats; a tile is MX_TILE rows in their `order`. None if no sweep has kept bounds: cells are
            missing, or rows have exposures.
        """
        if self.scores.bounds is None:
            return None
        slot, behind = self.scores.bounds[:2]
        return behind[:, slot[0]]

    def e_step(self, Mixture mixture not None, int n_threads, *, bint gather=True, bint hard=False,
               given: Floats | None = None, proba: Floats | None = None, label: Integers32 | None = None,
               evidence: Floats | None = None, bint linear=False):
        """Responsibilities of all rows and, with `gather`, their sufficient statistics, which go to the
        mixture.

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
        check(given is None or given.shape == (self.p.n, mixture.m.K), "given")
        check(proba is None or proba.shape == (self.p.n, np.count_nonzero(mixture.size > 0.0)), "proba")
        check(label is None or label.shape == (self.p.n,), "label")
        check(evidence is None or evidence.shape == (self.p.n,), "evidence")
        if given is not None:
            request.given = doubles_in(given)
        if proba is not None:
            request.proba = doubles_out(proba)
        if evidence is not None:
            request.evidence = doubles_out(evidence)
        if label is not None:
            labels = label
            request.label = &labels[0]
        self._prepare(mixture, &request, linear, gather, n_threads)
        with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
            if omp_get_thread_num() == 0:
                all_rows(&self.p)
                team_end(&self.woken)
            else:
                team_help(&self.woken, omp_get_thread_num())
        self._rest()

    def kmeans(
        self, Mixture mixture not None, Py_ssize_t passes, int n_threads, int32_t[::1] label=None,
        int32_t[::1] second=None,
    ) -> bool:
        """Run at most `passes` passes of k-means from the sums of the first centres; centres of counts and
        indicators are the likeliest rates.

        Parameters
        ----------
        mixture : Mixture
            Every column is selected, p = 1.
        passes : int
        n_threads : int
        label : ndarray (n,) of int32, optional
            OUT the component of every row, its index among the components not empty before the last pass.
        second : ndarray (n,) of int32, optional
            OUT its second-best component; the only one if there are no others.

        Returns
        -------
        bool
            Whether the last pass changed a sum.
        """
        cdef mx_request request
        cdef bint changed = True
        memset(&request, 0, sizeof(request))
        request.hard = True
        check(label is None or label.shape[0] == self.p.n, "label")
        check(second is None or second.shape[0] == self.p.n, "second")
        if label is not None and self.p.n:
            request.label = &label[0]
        if second is not None and self.p.n:
            request.second = &second[0]
        self._prepare(mixture, &request, True, True, n_threads)
        self._keep()
        with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
            if omp_get_thread_num() == 0:
                improve_centres(&self.p, mixture, passes, &changed)
                team_end(&self.woken)
            else:
                team_help(&self.woken, omp_get_thread_num())
        self._rest()
        return changed

    def sweep(
        self, Mixture mixture not None, double before, double least, double[::1] elbo not None, bint linear,
        int n_threads,
    ) -> int:
        """Sweeps until one raises the ELBO by no more than `least`: q(theta), q(y), the noise, q(lambda),
        q(v), q(z), order of sizes.

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
        cdef Py_ssize_t made = 0, most = elbo.shape[0]
        memset(&request, 0, sizeof(request))
        self._prepare(mixture, &request, linear, True, n_threads)
        self._keep()
        if self.p.t.D > 0 and not self.p.t.missing and self.p.t.exposure == NULL:
            self.scores.keep_bounds((self.p.n + MX_TILE - 1) // MX_TILE)
        with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
            if omp_get_thread_num() == 0:
                ascend(&self.p, mixture, before, least, &elbo[0] if most else NULL, most, &made)
                team_end(&self.woken)
            else:
                team_help(&self.woken, omp_get_thread_num())
        self._rest()
        return made
