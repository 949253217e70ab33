"""The mixture with feature selection: the updates of q, and one pass over the rows."""

import numpy as np

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.string cimport memset

from craftc._kernels._common cimport doubles_in, doubles_out, omp_get_thread_num

cdef extern from "_mixture.h":
    enum:
        MX_COLUMNS, MX_TILE

    ctypedef struct mx_prior:
        double k0, a0
        const double *b0
        const double *value

    ctypedef struct mx_density:
        double *constant
        double *linear
        double *square

    ctypedef struct mx_beta:
        double *a
        double *b
        double *log_mean
        double *log_rest
        double *value

    ctypedef struct mx_model:
        Py_ssize_t K, D
        int counts, own_noise, tied
        double concentration, share_a, share_b
        mx_prior prior, noise_prior
        double *size
        double *reach
        double *s1
        double *s2
        double *entropy
        mx_density own, noise
        double *divergence
        double *noise_divergence
        double *p
        double *mask_entropy
        mx_beta share, stick
        double *weight

    ctypedef struct mx_table:
        const void *X
        int single, all
        Py_ssize_t width, D, stride
        const int32_t *column
        const double *centre
        const double *scale
        const double *exposure
        int holes

    ctypedef struct mx_lists:
        Py_ssize_t K
        int32_t *component
        Py_ssize_t *first
        uint32_t *place
        double *linear
        double *square
        double *constant
        double *reach
        double *hole

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
        int64_t *hole

    ctypedef struct mx_asked:
        int hard
        const double *given
        double *proba
        int32_t *label
        double *evidence

    double log_gamma(double) noexcept nogil
    Py_ssize_t mx_stride(Py_ssize_t) noexcept nogil
    Py_ssize_t mx_block(Py_ssize_t) noexcept nogil
    Py_ssize_t mx_runs(Py_ssize_t) noexcept nogil
    void mx_components(mx_model *) noexcept nogil
    void mx_noise(mx_model *, double *) noexcept nogil
    double mx_gain(const mx_model *, Py_ssize_t, Py_ssize_t) noexcept nogil
    void mx_masks(mx_model *) noexcept nogil
    void mx_shares(mx_model *) noexcept nogil
    void mx_sticks(mx_model *) noexcept nogil
    int mx_sort(mx_model *, Py_ssize_t *, double *) noexcept nogil
    double mx_bound(const mx_model *) noexcept nogil
    void mx_list(const mx_model *, int, mx_lists *) noexcept nogil
    void mx_rows(const mx_table *, const mx_lists *, const mx_asked *, Py_ssize_t, int, Py_ssize_t, Py_ssize_t, mx_sums *,
                 mx_scratch *) noexcept nogil

cdef extern from "_mixture_moves.h" nogil:
    Py_ssize_t mx_release(mx_model *, double, double *) noexcept
    int mx_order(const mx_model *, Py_ssize_t *) noexcept
    double mx_join_value(const mx_model *, Py_ssize_t, Py_ssize_t, const Py_ssize_t *, double *) noexcept
    void mx_pair_gains(const mx_model *, Py_ssize_t *, double *, double *) noexcept

cdef enum:
    FEW_ROWS = 512              # of a segment at least: sums of a segment are one partial sum
    ROWS_PER_COMPONENT = 96     # so that partial sums stay small beside the table
    MOST_SEGMENTS = 256


cdef object cache_lines(Py_ssize_t rows, Py_ssize_t size):
    """A table of doubles whose rows start a cache line once `at_line` has found the first; vectors then never lie across two."""
    return np.zeros((rows + 1, (size + 7) // 8 * 8))


cdef double *at_line(array) except? NULL:
    return <double *> ((<uintptr_t> doubles_out(array) + 63) & ~<uintptr_t> 63)


cdef class Mixture:
    """q(z, v, y, theta, lambda, noise) but for the responsibilities, of which only sums are kept. Arrays are public and live.

    Parameters
    ----------
    K, D : int
        Components there is room for, columns.
    prior, noise_prior : (float, float, ndarray (D,))
        k0, a0, b0 of a component's columns and of the noise; isotropic noise reads b0 of the first column.
    concentration : float
        alpha.
    counts : bool
        Poisson columns, otherwise Gaussian.
    own_noise : bool
        Every column has a noise precision of its own, otherwise all share one.
    tied : bool
        One y_d for all components.
    """

    cdef mx_model m
    cdef readonly object size, reach, s1, s2, entropy, own, noise, divergence, noise_divergence, p, mask_entropy, share, stick, weight
    cdef readonly object priors
    cdef object places
    cdef Py_ssize_t *order
    cdef double *work
    cdef double *pooled

    def __init__(self, Py_ssize_t K, Py_ssize_t D, prior, noise_prior, double concentration, *, bint counts, bint own_noise, bint tied):
        cdef mx_model *m = &self.m
        self.size, self.weight = np.zeros(K), np.zeros(K)
        self.reach, self.s1, self.s2, self.p, self.divergence = np.zeros((5, K, D))
        self.own, self.noise = np.zeros((3, K, D)), np.zeros((3, D))
        self.share, self.stick = np.ones((5, D)), np.zeros((5, K))
        self.entropy, self.noise_divergence, self.mask_entropy = np.zeros((3, 1))
        values = [a0 * np.log(b0) - log_gamma(a0) for _, a0, b0 in (prior, noise_prior)]
        self.priors = (prior, noise_prior, values)
        m.K, m.D, m.counts, m.own_noise, m.tied, m.concentration = K, D, counts, own_noise, tied, concentration
        m.prior.k0, m.prior.a0, m.prior.b0, m.prior.value = prior[0], prior[1], doubles_in(prior[2]), doubles_out(values[0])
        m.noise_prior.k0, m.noise_prior.a0 = noise_prior[0], noise_prior[1]
        m.noise_prior.b0, m.noise_prior.value = doubles_in(noise_prior[2]), doubles_out(values[1])
        m.size, m.reach, m.s1, m.s2, m.entropy = (
            doubles_out(self.size), doubles_out(self.reach), doubles_out(self.s1), doubles_out(self.s2), doubles_out(self.entropy))
        m.own.constant, m.own.linear, m.own.square = doubles_out(self.own[0]), doubles_out(self.own[1]), doubles_out(self.own[2])
        m.noise.constant, m.noise.linear = doubles_out(self.noise[0]), doubles_out(self.noise[1])
        m.noise.square = doubles_out(self.noise[2])
        m.divergence, m.noise_divergence = doubles_out(self.divergence), doubles_out(self.noise_divergence)
        m.p, m.mask_entropy, m.weight = doubles_out(self.p), doubles_out(self.mask_entropy), doubles_out(self.weight)
        self._beta(&m.share, self.share)
        self._beta(&m.stick, self.stick)
        m.share_a = m.share_b = 1.0
        order, work, pooled = np.empty(K, np.intp), np.empty(K * D + 2 * K), np.empty(3 * D)
        self.places = (order, work, pooled)
        cdef Py_ssize_t[::1] order_ = order
        self.order, self.work, self.pooled = &order_[0], doubles_out(work), doubles_out(pooled)

    cdef int _beta(self, mx_beta *q, array) except -1:
        q.a, q.b, q.log_mean, q.log_rest, q.value = (
            doubles_out(array[0]), doubles_out(array[1]), doubles_out(array[2]), doubles_out(array[3]), doubles_out(array[4]))
        return 0

    @property
    def share_prior(self):
        """Shapes of the Beta prior of lambda_d: m kappa, (1 - m) kappa."""
        return self.m.share_a, self.m.share_b

    @share_prior.setter
    def share_prior(self, shapes):
        self.m.share_a, self.m.share_b = shapes

    def state(self):
        """Copies for `restore`: the sums, and what one sweep hands to the next."""
        return [array.copy() for array in self._handed_on()]

    def restore(self, state):
        """Go back to a `state`; q(theta) and q(v) are those of the next update."""
        for array, kept in zip(self._handed_on(), state, strict=True):
            array[...] = kept

    def _handed_on(self):
        return self.size, self.reach, self.s1, self.s2, self.entropy, self.p, self.noise, self.share

    def components(self):
        """q(theta | y = 1) from the sums."""
        with nogil:
            mx_components(&self.m)

    def masks(self):
        """q(y): the evidence of each column against the noise."""
        with nogil:
            mx_masks(&self.m)

    def noises(self):
        """The noise, from the cells that nobody selects."""
        with nogil:
            mx_noise(&self.m, self.pooled)

    def shares(self):
        """q(lambda): how often a column is selected."""
        with nogil:
            mx_shares(&self.m)

    def sticks(self):
        """q(v) and E ln pi from the sizes."""
        with nogil:
            mx_sticks(&self.m)

    def gains(self):
        """(K, D) what each component gains by selecting each column, in nats."""
        cdef Py_ssize_t k, d
        out = np.empty((self.m.K, self.m.D))
        cdef double[:, ::1] o = out
        for k in range(self.m.K):
            for d in range(self.m.D):
                o[k, d] = mx_gain(&self.m, k, d)
        return out

    def bound(self):
        """The evidence lower bound in nats, but for ln x! and x ln e of counts."""
        cdef double bound
        with nogil:
            bound = mx_bound(&self.m)
        return bound

    def sort(self):
        """Components by falling size, where that raises the bound; returns their order, None where it is as it was."""
        cdef int other
        with nogil:
            other = mx_sort(&self.m, self.order, self.work)
        return self.places[0].copy() if other else None

    def pair_gains(self):
        """(K, K), upper triangle: what joining two components should give to the bound, theta and y refitted, the labels as they are.

        It leaves out the entropy of labels the two share, so it may be too high.
        """
        gain = np.empty((self.m.K, self.m.K))
        cdef double *g = doubles_out(gain)
        with nogil:
            mx_pair_gains(&self.m, self.order, self.work, g)
        return gain

    def release(self, double margin):
        """Columns that every component selects: where the bound wins more than `margin` by it, one component (tied: all) lets go.

        Returns how many columns did; all factors but that of the labels are then fitted anew.
        """
        cdef Py_ssize_t released
        with nogil:
            released = mx_release(&self.m, margin, self.pooled)
        return released

    def join_value(self, Py_ssize_t i, Py_ssize_t j):
        """What the sizes alone win where two components are joined."""
        mx_order(&self.m, self.order)
        return mx_join_value(&self.m, i, j, self.order, self.work)

    def join(self, Py_ssize_t i, Py_ssize_t j):
        """The rows of component j become i's: their sums."""
        for sums in (self.size, self.reach, self.s1, self.s2):
            sums[i] += sums[j]
            sums[j] = 0.0


cdef class Rows:
    """A table as the mixture sees it: (x - centre) * scale of some columns. Sums belong to segments of rows and are added in their order.

    Parameters
    ----------
    X : ndarray (n, width) of float32 or float64, contiguous
    column : ndarray (D,) of int32
        Columns of the model, ascending.
    centre, scale : ndarray (D,) of float64
    exposure : ndarray (n,) of float64 or None
        What a cell's rate is multiplied with (counts).
    holes : bool
        Whether there may be NaN: missing cells.
    K : int
        Components there is room for.
    """

    cdef mx_table t
    cdef mx_lists lists
    cdef Py_ssize_t n, K, rows, segments, size, room
    cdef int threads
    cdef double *sums_
    cdef double *scratch_
    cdef readonly object X, column, centre, scale, exposure
    cdef object sums, arrays, scratch

    def __init__(self, X, column, centre, scale, exposure, bint holes, Py_ssize_t K):
        cdef const float[:, ::1] single
        cdef const double[:, ::1] double_
        cdef const int32_t[::1] columns = column
        cdef const double[::1] exposures
        self.X, self.column, self.centre, self.scale, self.exposure = X, column, centre, scale, exposure
        self.n, self.K, self.t.D = len(X), K, len(column)
        self.t.width, self.t.stride, self.t.single, self.t.holes = X.shape[1], mx_stride(len(column)), X.dtype == np.float32, holes
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
        self.rows = max(FEW_ROWS, ROWS_PER_COMPONENT * K, (self.n + MOST_SEGMENTS - 1) // MOST_SEGMENTS)
        self.segments = (self.n + self.rows - 1) // self.rows
        entries = K * self.t.D
        component, first, places = np.empty(K, np.int32), np.empty(mx_runs(self.t.D) * K + 1, np.intp), np.empty(entries, np.uint32)
        entry, each, hole = np.empty((2, entries)), np.empty((2, K)), np.empty(entries if holes else 0)
        self.arrays = (component, first, places, entry, each, hole)
        cdef int32_t[::1] components = component
        cdef uint32_t[::1] places_ = places
        cdef Py_ssize_t[::1] firsts = first
        self.lists.component, self.lists.first, self.lists.place = &components[0], &firsts[0], &places_[0] if entries else NULL
        self.lists.linear, self.lists.square = doubles_out(entry[0]), doubles_out(entry[1])
        self.lists.constant, self.lists.reach, self.lists.hole = doubles_out(each[0]), doubles_out(each[1]), doubles_out(hole)

    cdef int _make_room(self, bint gather, int n_threads) except -1:
        """Partial sums of all segments, and scratch for the threads."""
        cdef Py_ssize_t block = mx_block(self.t.D), table = self.K * self.t.stride
        if gather and self.sums is None:
            self.sums = cache_lines(self.segments, (3 if self.t.holes else 2) * table + 2 * self.K + 1)
            self.sums_, self.size = at_line(self.sums), self.sums.shape[1]
        if n_threads > self.threads:
            self.scratch = cache_lines(
                n_threads, block * (self.t.stride + self.K + 2 + (self.t.D if self.t.holes else 0)) + MX_COLUMNS * MX_TILE)
            self.scratch_, self.room, self.threads = at_line(self.scratch), self.scratch.shape[1], n_threads
        return 0

    def __len__(self):
        return self.n

    def visit(self, Mixture mixture not None, int n_threads, *, bint gather=True, bint hard=False, given=None, proba=None, label=None,
              evidence=None, bint linear=False):
        """One pass: responsibilities of all rows and, if asked to `gather`, their sums, which go to the mixture.

        Components of size 0 are skipped.

        Parameters
        ----------
        mixture : Mixture
        n_threads : int
        gather : bool
        hard : bool
            Each row goes to its best component wholly.
        given : ndarray (n, K) of float64, contiguous, optional
            Responsibilities, in place of new ones.
        proba : ndarray (n, components not empty) of float64, optional
            OUT responsibilities.
        label : ndarray (n,) of int32, optional
            OUT the best component: its place among those not empty.
        evidence : ndarray (n,) of float64, optional
            OUT ln of the sum of exp of what the row owes to the components.
        linear : bool
            No component has squares: counts, centres.
        """
        cdef mx_asked asked
        cdef int32_t[::1] labels
        memset(&asked, 0, sizeof(asked))
        asked.hard = hard
        if given is not None:
            asked.given = doubles_in(given)
        if proba is not None:
            asked.proba = doubles_out(proba)
        if evidence is not None:
            asked.evidence = doubles_out(evidence)
        if label is not None:
            labels = label
            asked.label = &labels[0]
        self._make_room(gather, n_threads)
        with nogil:
            self._pass(&mixture.m, &asked, linear, gather, n_threads)

    def climb(self, Mixture mixture not None, double before, double least, double[::1] bounds not None, bint linear, int n_threads):
        """Sweeps until the bound rises by no more than `least` in one: q(theta), q(y), the noise, q(lambda), q(v), q(z), order of sizes.

        Parameters
        ----------
        mixture : Mixture
        before : float
            The bound at the start.
        least : float
        bounds : ndarray (most,) of float64
            OUT the bound after every sweep; there are no more sweeps than it holds.
        linear : bool
            No component has squares: counts.
        n_threads : int

        Returns
        -------
        int
            Sweeps made.
        """
        cdef mx_asked asked
        cdef Py_ssize_t sweep
        cdef mx_model *m = &mixture.m
        memset(&asked, 0, sizeof(asked))
        self._make_room(True, n_threads)
        with nogil:
            for sweep in range(bounds.shape[0]):
                mx_components(m)
                mx_masks(m)
                mx_noise(m, mixture.pooled)
                mx_shares(m)
                mx_sticks(m)
                self._pass(m, &asked, linear, True, n_threads)
                mx_sort(m, mixture.order, mixture.work)
                bounds[sweep] = mx_bound(m)
                if bounds[sweep] - (bounds[sweep - 1] if sweep else before) <= least:
                    break
        return min(sweep + 1, bounds.shape[0])

    cdef void _pass(self, mx_model *m, const mx_asked *asked, int linear, bint gather, int n_threads) noexcept nogil:
        cdef Py_ssize_t segment, s
        cdef bint many = n_threads > 1
        mx_list(m, self.t.holes, &self.lists)
        for segment in prange(self.segments, num_threads=n_threads, use_threads_if=many, schedule="dynamic"):
            self._segment(asked, linear, segment, self.sums_ + segment * self.size if gather else NULL,
                          self.scratch_ + (omp_get_thread_num() if many else 0) * self.room)
        if gather:
            for s in range(1, self.segments):
                for segment in range(self.size):
                    self.sums_[segment] += self.sums_[s * self.size + segment]
            self._hand_over(m)

    cdef void _places(self, double *sums, mx_sums *out) noexcept nogil:
        cdef Py_ssize_t table = self.K * self.t.stride
        out.s1, out.s2 = sums, sums + table
        out.size = sums + 2 * table
        out.reach, out.entropy, out.missing = out.size + self.K, out.size + 2 * self.K, out.size + 2 * self.K + 1

    cdef void _segment(self, const mx_asked *asked, int linear, Py_ssize_t segment, double *sums, double *scratch) noexcept nogil:
        cdef mx_sums places
        cdef mx_scratch s
        cdef Py_ssize_t start = segment * self.rows, block = mx_block(self.t.D)
        s.z = scratch
        s.tile = s.z + block * self.t.stride
        s.r = s.tile + MX_COLUMNS * MX_TILE
        s.weight = s.r + block * self.K
        s.row = <int32_t *> (s.weight + block)
        s.hole = <int64_t *> (s.weight + 2 * block)
        if sums != NULL:
            memset(sums, 0, self.size * sizeof(double))
            self._places(sums, &places)
        mx_rows(&self.t, &self.lists, asked, self.K, linear, start, min(start + self.rows, self.n), &places if sums != NULL else NULL, &s)

    cdef void _hand_over(self, mx_model *m) noexcept nogil:
        """Sums of all rows, where the mixture keeps them."""
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
                if self.t.holes:
                    m.reach[k * m.D + d] = max(0.0, all.reach[k] - all.missing[k * self.t.stride + d])
