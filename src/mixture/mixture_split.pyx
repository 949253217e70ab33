"""Mixture with feature selection: the two halves of every component, and what the ELBO gains by them.

A component is cut along the axis of largest variance of its selected columns. A few sweeps follow over its
own rows only: a mixture of two components under the noise and the lambda of the whole, each row in one of
them. Components are independent and shared among threads.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport fabs, sqrt
from libc.stdint cimport int8_t, int32_t
from libc.string cimport memcpy, memset

from craftc._kernels._common cimport (
    check, check_indices, check_threads, doubles_in, doubles_out, omp_get_thread_num, rows_in,
)
from craftc._kernels._team cimport team, team_step
from craftc._kernels.mixture_moves cimport group_gain, stick_elbo
from craftc._kernels.mixture_updates cimport (
    POISSON, Mixture, Model, update_components, update_masks, update_sticks,
)
from craftc._kernels.team cimport Team

cdef enum:
    TURNS = 3                   # of the power iteration; a rough axis is enough
    SWEEPS = 4                  # over the rows of a component, at most


cdef struct Cells:              # the table in the model's units: (x - centre) * scale of some columns
    const void *X
    bint single                 # float32
    Py_ssize_t width, D
    const int32_t *column
    const double *centre
    const double *scale
    const double *exposure      # or NULL: all 1
    const double *weight        # or NULL: all 1


cdef struct Halves:
    Model m                     # two components; noise, lambda and priors are those of the whole mixture
    double *z                   # (D) cells of a row, missing ones 0
    double *present             # (D) 1 or 0
    double *mean                # (D) of the component
    double *spread              # (D) factor of a column in the axis
    double *turned              # (D)
    # (D) log odds of the second half for a cell: e constant + x linear + x^2 square; first, the axis
    double *constant
    double *linear
    double *square
    double prior                # log odds of any row
    double *sizes               # (K) of all components, the halves among them


cdef Py_ssize_t scratch_size(Py_ssize_t K, Py_ssize_t D) noexcept nogil:
    return 24 * D + K + 20


cdef double *take(double **room, Py_ssize_t size) noexcept nogil:
    room[0] += size
    return room[0] - size


cdef void prepare(Halves *h, const Model *whole, Py_ssize_t k, double *room) noexcept nogil:
    """Two empty components in the place of component k; room (scratch_size)."""
    cdef Model *m = &h.m
    cdef Py_ssize_t D = whole.D, i
    h.m = whole[0]
    m.K = 2
    m.reach, m.s1, m.s2 = take(&room, 2 * D), take(&room, 2 * D), take(&room, 2 * D)
    m.own.constant, m.own.linear, m.own.square = take(&room, 2 * D), take(&room, 2 * D), take(&room, 2 * D)
    m.divergence, m.p = take(&room, 2 * D), take(&room, 2 * D)
    h.z, h.present, h.mean, h.spread = take(&room, D), take(&room, D), take(&room, D), take(&room, D)
    h.turned, h.constant, h.linear, h.square = take(&room, D), take(&room, D), take(&room, D), take(&room, D)
    h.sizes = take(&room, whole.K)
    m.size, m.weight, m.mask_entropy = take(&room, 2), take(&room, 2), take(&room, 2)
    m.stick.a, m.stick.b, m.stick.log_mean = take(&room, 2), take(&room, 2), take(&room, 2)
    m.stick.log_rest, m.stick.value = take(&room, 2), take(&room, 2)
    for i in range(2):
        memcpy(m.p + i * D, whole.p + k * D, sizeof(double) * D)
    if whole.own_fractions:
        m.share.log_mean, m.share.log_rest = take(&room, 2), take(&room, 2)
        for i in range(2):
            m.share.log_mean[i] = whole.share.log_mean[k]
            m.share.log_rest[i] = whole.share.log_rest[k]


# ---- one row ----


cdef inline double exposure_of(const Cells *t, Py_ssize_t i) noexcept nogil:
    return t.exposure[i] if t.exposure != NULL else 1.0


cdef inline double weight_of(const Cells *t, Py_ssize_t i) noexcept nogil:
    return t.weight[i] if t.weight != NULL else 1.0


cdef inline void read_row(const Cells *t, Py_ssize_t i, double *z, double *present) noexcept nogil:
    cdef const float *narrow = <const float *> t.X + i * t.width
    cdef const double *wide = <const double *> t.X + i * t.width
    cdef Py_ssize_t d
    cdef double x
    if t.single:
        for d in range(t.D):
            z[d] = narrow[t.column[d]]
    else:
        for d in range(t.D):
            z[d] = wide[t.column[d]]
    for d in range(t.D):
        x = (z[d] - t.centre[d]) * t.scale[d]
        present[d] = 1.0 if x == x else 0.0
        z[d] = x if x == x else 0.0


cdef inline double cell_odds(const Halves *h, double e, Py_ssize_t d) noexcept nogil:
    return e * h.present[d] * h.constant[d] + h.z[d] * (h.linear[d] + h.z[d] * h.square[d])


cdef inline double read_odds(const Cells *t, Py_ssize_t i, Halves *h) noexcept nogil:
    """Log odds of the second half for row i, whose cells are read."""
    cdef double a = 0.0, b = 0.0, c = 0.0, f = 0.0, e = exposure_of(t, i)
    cdef Py_ssize_t d = 0
    read_row(t, i, h.z, h.present)
    while d + 4 <= t.D:
        a += cell_odds(h, e, d)
        b += cell_odds(h, e, d + 1)
        c += cell_odds(h, e, d + 2)
        f += cell_odds(h, e, d + 3)
        d += 4
    for d in range(d, t.D):
        a += cell_odds(h, e, d)
    return h.prior + ((a + b) + (c + f))


# ---- the axis ----


cdef void set_axis(const Model *whole, Halves *h) noexcept nogil:
    """The odds of a row become its place on the axis `turned`, from the mean of the component."""
    cdef Py_ssize_t d
    h.prior = 0.0
    memset(h.square, 0, sizeof(double) * whole.D)
    for d in range(whole.D):
        h.linear[d] = h.turned[d] * h.spread[d]
        h.constant[d] = -h.linear[d] * h.mean[d]


cdef bint start_axis(const Model *whole, Py_ssize_t k, Halves *h) noexcept nogil:
    """The selected column of largest variance; returns whether there is one."""
    cdef Py_ssize_t d, at, widest = 0
    cdef double variance, most = 0.0
    memset(h.turned, 0, sizeof(double) * whole.D)
    for d in range(whole.D):
        at = k * whole.D + d
        h.mean[d] = h.spread[d] = 0.0
        if not whole.reach[at] > 0.0:
            continue
        h.mean[d] = whole.s1[at] / whole.reach[at]
        variance = whole.s2[at] / whole.reach[at] - h.mean[d] * h.mean[d]
        h.spread[d] = whole.p[at]
        if whole.kind == POISSON:  # in standard deviations
            h.spread[d] = whole.p[at] / sqrt(h.mean[d]) if h.mean[d] > 0.0 else 0.0
        variance *= h.spread[d] * h.spread[d]
        if variance > most:
            most = variance
            widest = d
    h.turned[widest] = 1.0
    set_axis(whole, h)
    return most > 0.0


cdef void turn_axis(
    const Model *whole, const Cells *t, const Py_ssize_t *row, Py_ssize_t n, Halves *h,
) noexcept nogil:
    """One step of the power iteration for the axis of largest variance."""
    cdef Py_ssize_t i, d
    cdef double along, most = 0.0, e
    memset(h.turned, 0, sizeof(double) * t.D)
    for i in range(n):
        along = read_odds(t, row[i], h) * weight_of(t, row[i])
        e = exposure_of(t, row[i])
        for d in range(t.D):
            h.turned[d] += along * (h.z[d] - e * h.present[d] * h.mean[d])
    for d in range(t.D):
        h.turned[d] *= h.spread[d]
        most = max(most, fabs(h.turned[d]))
    if most > 0.0:
        for d in range(t.D):
            h.turned[d] /= most
        set_axis(whole, h)


# ---- sweeps over the rows of a component ----


cdef Py_ssize_t assign(
    const Cells *t, const Py_ssize_t *row, Py_ssize_t n, int8_t *half, Halves *h,
) noexcept nogil:
    """Each row goes to its likelier half, whose sufficient statistics are gathered; returns how many rows
    moved.
    """
    cdef Model *m = &h.m
    cdef Py_ssize_t i, d, first, moved = 0
    cdef double w, e
    cdef int8_t to
    memset(m.size, 0, sizeof(double) * 2)
    memset(m.reach, 0, sizeof(double) * 2 * t.D)
    memset(m.s1, 0, sizeof(double) * 2 * t.D)
    memset(m.s2, 0, sizeof(double) * 2 * t.D)
    for i in range(n):
        to = read_odds(t, row[i], h) > 0.0
        moved += to != half[i]
        half[i] = to
        w = weight_of(t, row[i])
        e = w * exposure_of(t, row[i])
        m.size[to] += w
        first = to * t.D
        for d in range(t.D):
            m.reach[first + d] += e * h.present[d]
            m.s1[first + d] += w * h.z[d]
            m.s2[first + d] += w * h.z[d] * h.z[d]
    return moved


cdef void fit_halves(Halves *h) noexcept nogil:
    """q(theta), q(y) and the shares of the halves, and the log odds of the second one."""
    cdef Model *m = &h.m
    cdef Py_ssize_t D = m.D, d
    cdef double p, q
    update_components(m)
    if not m.tied:
        update_masks(m)
    update_sticks(m)
    h.prior = m.weight[1] - m.weight[0]
    for d in range(D):
        p, q = m.p[d], m.p[D + d]
        h.constant[d] = q * (m.own.constant[D + d]
                             - m.noise.constant[d]) - p * (m.own.constant[d] - m.noise.constant[d])
        h.linear[d] = q * (m.own.linear[D + d] - m.noise.linear[d]) - p * (m.own.linear[d]
                                                                           - m.noise.linear[d])
        h.square[d] = q * (m.own.square[D + d] - m.noise.square[d]) - p * (m.own.square[d]
                                                                           - m.noise.square[d])


cdef double sizes_gain(const Model *whole, Py_ssize_t k, Halves *h) noexcept nogil:
    """Gain of the sizes alone: component k gives the share of its second half to an empty one; components by
    falling size.
    """
    cdef double part = whole.size[k] * h.m.size[1] / (h.m.size[0] + h.m.size[1]), size
    cdef Py_ssize_t i, n = 0, at
    memset(h.sizes, 0, sizeof(double) * whole.K)
    for i in range(whole.K + 1):
        size = part if i == whole.K else whole.size[i] - part if i == k else whole.size[i]
        if not size > 0.0:
            continue
        at = n
        while at > 0 and h.sizes[at - 1] < size:
            h.sizes[at] = h.sizes[at - 1]
            at -= 1
        h.sizes[at] = size
        n += 1
    return (stick_elbo(h.sizes, whole.K, whole.concentration)
            - stick_elbo(whole.size, whole.K, whole.concentration))


cdef double find_halves(const Model *whole, const Cells *t, Py_ssize_t k, const Py_ssize_t *row, Py_ssize_t n,
                        int8_t *half, Halves *h) noexcept nogil:
    """The halves of component k, whose rows are given; returns the gain of the ELBO, 0 where there are none.
    """
    cdef Py_ssize_t _
    if not start_axis(whole, k, h):
        return 0.0
    for _ in range(TURNS):
        turn_axis(whole, t, row, n, h)
    memset(half, 0, n)
    assign(t, row, n, half, h)
    for _ in range(SWEEPS):
        if not (h.m.size[0] > 0.0 and h.m.size[1] > 0.0):
            return 0.0
        fit_halves(h)
        if assign(t, row, n, half, h) == 0:
            break
    if not (h.m.size[0] > 0.0 and h.m.size[1] > 0.0):
        return 0.0
    return (group_gain(&h.m, 0, 0) + group_gain(&h.m, 1, 1) - group_gain(&h.m, 0, 1) - group_gain(&h.m, -1, 1)
            + sizes_gain(whole, k, h))


cdef struct Splits:             # of all components
    const Model *whole
    const Cells *t
    const Py_ssize_t *order     # (n) rows by component
    const Py_ssize_t *first     # (K + 1) where those of each start
    int8_t *half                # (n)
    double *scratch             # (threads, room)
    Py_ssize_t room
    double *gain                # (K)
    double *size                # (K, 2)
    double *sums                # (K, 3, 2, D)


cdef void split_component(void *context, int k, int thread) noexcept nogil:
    """The halves of one component, if there are any."""
    cdef const Splits *s = <const Splits *> context
    cdef Py_ssize_t start = s.first[k], table = 2 * s.whole.D
    cdef double *sums = s.sums + 3 * table * k
    cdef Halves h
    prepare(&h, s.whole, k, s.scratch + thread * s.room)
    s.gain[k] = find_halves(s.whole, s.t, k, s.order + start, s.first[k + 1] - start, s.half + start, &h)
    if s.gain[k] != 0.0:
        memcpy(s.size + 2 * k, h.m.size, sizeof(double) * 2)
        memcpy(sums, h.m.reach, sizeof(double) * table)
        memcpy(sums + table, h.m.s1, sizeof(double) * table)
        memcpy(sums + 2 * table, h.m.s2, sizeof(double) * table)


def split_gains(Mixture mixture not None, rows not None: Rows, const Py_ssize_t[::1] order not None,
                const Py_ssize_t[::1] first not None, int n_threads) -> tuple[Floats, Floats, Floats]:
    """Estimated gain of the ELBO if a component is split in two, theta and y refitted, and the sufficient
    statistics of its halves.

    Parameters
    ----------
    mixture : Mixture
        After updates of its components; one of them is empty.
    rows : Rows
        Their team, if they have one, shares out the components.
    order : ndarray (n,) of intp
        Rows by component.  # IN
    first : ndarray (K + 1,) of intp
        Where the rows of each component start in `order`.  # IN
    n_threads : int

    Returns
    -------
    gain : ndarray (K,) of float64
        0 where a component has no halves.
    sizes : ndarray (K, 2) of float64
    sums : ndarray (K, 3, 2, D) of float64
        Their reach, sums and sums of squares.
    """
    cdef Model *m = &mixture.m
    cdef Cells t
    cdef Splits s
    cdef Team helpers = rows.team
    cdef team *threads
    cdef int k
    cdef Py_ssize_t K = m.K, D = m.D, n = order.shape[0], room = scratch_size(K, D)
    cdef const int32_t[::1] column = rows.column
    cdef bint many = n_threads > 1
    X = rows.X
    check_threads(n_threads)
    check(helpers is None or n_threads == 1, "n_threads")
    check(column.shape[0] == D, "rows")
    check_indices(column, 0, X.shape[1], "columns")
    check(K > 0 and first.shape[0] == K + 1 and first[0] == 0 and first[K] == n > 0, "first")
    check(np.diff(first).min() >= 0, "first")
    check(0 <= np.min(order) and np.max(order) < len(X), "order")
    check(np.count_nonzero(mixture.size > 0.0) < K, "mixture")
    gain, size, sums = np.zeros(K), np.zeros((K, 2)), np.zeros((K, 3, 2, D))
    if D == 0:
        return gain, size, sums
    t.X, t.single, t.width, t.D = rows_in(X), X.dtype == np.float32, X.shape[1], D
    t.column, t.centre, t.scale = &column[0], doubles_in(rows.centre), doubles_in(rows.scale)
    t.exposure = t.weight = NULL
    if rows.exposure is not None:
        t.exposure = doubles_in(rows.exposure)
    if rows.weight is not None:
        t.weight = doubles_in(rows.weight)
    half = np.empty(n, np.int8)
    scratch = np.empty((n_threads if helpers is None else helpers.n_threads, room))
    cdef int8_t[::1] half_ = half
    s.whole, s.t, s.order, s.first, s.half = m, &t, &order[0], &first[0], &half_[0]
    s.scratch, s.room, s.gain = doubles_out(scratch), room, doubles_out(gain)
    s.size, s.sums = doubles_out(size), doubles_out(sums)
    if helpers is not None:
        threads = helpers.lead()
        with nogil:
            team_step(threads, split_component, &s, <int> K)
        helpers.rest()
        return gain, size, sums
    for k in prange(<int> K, nogil=True, num_threads=n_threads, use_threads_if=many, schedule="dynamic"):
        split_component(&s, k, omp_get_thread_num() if many else 0)
    return gain, size, sums


def split(
    Mixture mixture not None, Py_ssize_t k, Py_ssize_t empty, size not None: Floats, sums not None: Floats,
):
    """Component k keeps its first half, an empty one takes the second; size (2,) and sums (3, 2, D) as
    `split_gains` returns them.
    """
    check(0 <= k < mixture.m.K and 0 <= empty < mixture.m.K and k != empty, "k or empty")
    check(np.shape(size) == (2,) and np.shape(sums) == (3, 2, mixture.m.D), "size or sums")
    mixture.p[empty] = mixture.p[k]
    if mixture.m.own_fractions:
        mixture.share[:, empty] = mixture.share[:, k]
    for half, to in enumerate((k, empty)):
        mixture.size[to] = size[half]
        for sum, of_halves in zip((mixture.reach, mixture.s1, mixture.s2), sums, strict=True):
            sum[to] = of_halves[half]
