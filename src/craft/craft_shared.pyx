"""The distributions of the pooled background of CRAFT, in which the clusters that do not select a feature
share its cells; and exponential tilts, a cluster's distribution of an ordered or periodic column.

The distribution of a column without clusters is that of the whole table, b. A group of cells with weight n
and sums S of the statistics s = (s1, s2), which have mean 0 and covariance I under b, has the distribution

    p(l) = b(l) exp(theta . s(l) - A(theta)),      A(theta) = log sum_l b(l) exp(theta . s(l)),

whose mean of s is m = S / (n + 1): the cells and one row of prior. Its gain over b is (n + 1) (theta . m -
A(theta)), the relative entropy of n + 1 cells, and the cells of another group, with sums S', have the log
likelihood theta . S' - n' A(theta) over b. A level with a share of its own is a third statistic: see
_craft_tilt.h.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t

from craftc._kernels._common cimport check, check_lengths
from craftc._kernels.craft_sharing cimport Sharing
from craftc._kernels.moments cimport Grid


cdef enum:
    MOST_FITS = 262144      # of all columns together
    MOST_POOLS = 131072


cdef class Fits:
    """Fits of cells, and of pools of clusters, by which these are found again: searches come to the same ones
    again and again. For one thread at a time, and pricings that differ at most in prices and usable features.

    Parameters
    ----------
    grid : Grid
    room : int
        Most clusters of a partition whose masks are chosen together.
    """

    def __cinit__(self, Grid grid not None, Py_ssize_t room):
        check(room >= 0, "room")
        cdef Py_ssize_t q = max(grid.q, 1)
        self.room, self.n_choices = room, 0
        self.n_of_column = max(min(16 * room, MOST_FITS // q), 1)
        self.fits = np.zeros(q * self.n_of_column * sizeof(fit_t) // sizeof(int64_t), np.int64)
        self.pools_of_column = max(min(4 * room, MOST_POOLS // q), 1)
        self.pools = np.zeros(q * self.pools_of_column * sizeof(pool_t) // sizeof(int64_t), np.int64)
        self.nets = np.empty(max(q * self.pools_of_column * min(room, WORD), room, 1))
        cdef int64_t[::1] fits = self.fits, pools = self.pools
        cdef double[::1] nets = self.nets
        self.fits_, self.pools_, self.nets_ = <fit_t *> &fits[0], <pool_t *> &pools[0], &nets[0]


cdef class Shared:
    """The pooled background: for every feature the cells of all clusters that do not select it, and their
    distribution.

    Parameters
    ----------
    grid : Grid
    room : int
        Most clusters of a partition whose masks are chosen together.
    feature_sharing : float
        Share s of the code by columns in the code of the masks: see src/craft/craft_sharing.pyx.
    fits : Fits, optional
        Those of other clusters of the same search; None: new ones.

    Attributes
    ----------
    group : ndarray (width,) of int64
        Exact moments of the pooled cells, laid out as a group; its weight has no meaning.
    level : ndarray (n_levels,)
        log(eta / eta_0) of the pooled cells.
    theta : ndarray (q, 4)
        theta and A(theta) of the pooled cells of the tilted columns.
    sharing : Sharing
        The code by columns.
    """

    def __cinit__(self, Grid grid not None, Py_ssize_t room, double feature_sharing, Fits fits=None):
        self.grid, self.room, self.sharing = grid, room, Sharing(feature_sharing, room)
        self.group = np.zeros(grid.width, np.int64)
        self.level, self.theta = np.zeros(grid.n_levels), np.zeros((grid.q, 4))
        self.work = np.empty(pooled_room(grid, room))
        self.fits = fits if fits is not None and fits.room >= room else Fits(grid, room)
        cdef int64_t[::1] group = self.group
        cdef double[::1] level = self.level, work = self.work
        cdef double[:, ::1] theta = self.theta
        self.group_, self.work_ = &group[0], &work[0]
        if grid.q:
            self.level_ = &level[0]
            self.theta_ = <craft_theta *> &theta[0, 0]

    def __reduce__(self):
        return Shared, (self.grid, self.room, self.sharing.share), self._arrays()

    def _arrays(self):
        return self.group, self.level, self.theta

    def __setstate__(self, state):
        for own, other in zip(self._arrays(), state, strict=True):
            own[:] = other


cdef Py_ssize_t pooled_room(Grid grid, Py_ssize_t room):
    """Doubles of scratch for the choice of the masks of `room` clusters: see choice_t of
    src/craft/craft_masks.pyx.
    """
    cdef Py_ssize_t D = grid.p + grid.q
    return (2 * widest_cells(grid) + D + 12 * room + (3 + SHARED_POOLS) * ((room + 63) // 64)
            + (3 * room * D + 7) // 8)


cdef Py_ssize_t widest_cells(Grid grid) noexcept nogil:
    """Numbers that hold the cells of a feature, or a tilt."""
    return max(grid.n_levels, <Py_ssize_t> (sizeof(craft_theta) // sizeof(double)))


cdef double categorical_likelihood(
    const int64_t *counts, const double *log_ratio, Py_ssize_t n_levels,
) noexcept nogil:
    """Sum of log(eta / eta_0) over the counted cells."""
    cdef Py_ssize_t t
    cdef double total = 0.0
    for t in range(n_levels):
        total += <double> counts[t] * log_ratio[t]
    return total


# ---- tilts ----

cdef inline Py_ssize_t _levels_of(Grid grid, Py_ssize_t d) noexcept nogil:
    """Levels of column d, its missing level excluded."""
    return (grid.level_start_[d + 1] if d + 1 < grid.q else grid.n_levels) - grid.level_start_[d] - 1


cdef class Tilts:
    """The columns whose distribution in a cluster is a tilt. Arrays are contiguous.

    Parameters
    ----------
    grid : Grid
    tilted : ndarray (q,) of uint8
        0: a column of level shares.
    frequency : ndarray (n_levels,)
        b of every level; that of columns of shares is not read.
    statistics : ndarray (3, n_levels)
        s1 and s2 of every level; 1 at the level of a column that has a share of its own.
    phase : ndarray (n_levels,)
        Angle of every level of the periodic columns; NaN for other columns.
    weight : ndarray (q,)
        What multiplies the nats of every column, gains and costs alike, also of the columns of shares.
    """

    def __cinit__(self, Grid grid not None, tilted: Flags, frequency: Floats, statistics: Floats,
                  phase: Floats, weight: Floats):
        cdef const uint8_t[::1] tilted_ = tilted
        cdef Py_ssize_t d, at = 0, n, start
        check(tilted_.shape[0] == grid.q, "tilted")
        check(statistics.shape == (3, grid.n_levels) and bool(np.isfinite(statistics).all()), "statistics")
        check_lengths(grid.n_levels, "frequency, phase", len(frequency), len(phase))
        check(len(weight) == grid.q, "weight")
        cdef const double[::1] weight_ = weight
        self.weight, self.weight_ = weight, &weight_[0] if grid.q else NULL
        first, self.equals = {}, np.arange(grid.q, dtype=np.intp)
        cdef Py_ssize_t[::1] equals = self.equals
        self.equal = &equals[0] if grid.q else NULL
        for d in range(grid.q):
            levels = slice(grid.level_start_[d], grid.level_start_[d] + _levels_of(grid, d))
            key = (tilted[d], weight[d], frequency[levels].tobytes(), statistics[:, levels].tobytes())
            equals[d] = first.setdefault(key, d)
        self.grid, self.tilted, self.frequency = grid, tilted, frequency
        self.statistics, self.phase, self.periodic = statistics, phase, False
        padded = [(_levels_of(grid, d) + CRAFT_TILT_PAD - 1) // CRAFT_TILT_PAD * CRAFT_TILT_PAD
                  if tilted_[d] else 0 for d in range(grid.q)]
        self.room = np.zeros((6, sum(padded)))
        self.places = np.zeros(grid.q * sizeof(craft_tilt) // sizeof(int64_t) + 1, np.int64)
        cdef double[:, ::1] room = self.room
        cdef int64_t[::1] places = self.places
        cdef craft_tilt *column = <craft_tilt *> &places[0]
        for d in range(grid.q):
            n, start = padded[d], grid.level_start_[d]
            if n:
                own, levels = slice(at, at + _levels_of(grid, d)), slice(start, start + _levels_of(grid, d))
                atom = np.flatnonzero(statistics[2, levels])
                check(len(atom) < 2 and not statistics[:2, start + atom].any(), "statistics")
                column[d].atom = atom[0] if len(atom) else -1
                self.room[:4, own] = frequency[levels], *statistics[:2, levels], phase[levels]
                if len(atom):
                    column[d].atom_share = room[0, at + column[d].atom]
                    room[0, at + column[d].atom] = 0.0
                    self.room[0, own] /= 1.0 - column[d].atom_share
                self.room[4:, own] = self.room[1:3, own] * (self.room[0, own] > 0)
                column[d].n = n
                column[d].b, column[d].s1, column[d].s2 = &room[0, at], &room[1, at], &room[2, at]
                column[d].x1, column[d].x2 = &room[4, at], &room[5, at]
                if np.isfinite(phase[start]):
                    column[d].phase, self.periodic = &room[3, at], True
                at += n
        tilted_columns = np.flatnonzero(padded)
        if len(tilted_columns):
            squares = _squares(*self.room[:3], np.array(padded)[tilted_columns])
            for i, d in enumerate(tilted_columns):
                if column[d].phase == NULL:
                    column[d].skew, column[d].spread = squares[0, i], squares[1, i]
        self.column = column

    def __reduce__(self):
        return Tilts, (self.grid, self.tilted, self.frequency, self.statistics, self.phase, self.weight)


def _squares(b: Floats, s1: Floats, s2: Floats, widths: Positions) -> Floats:
    """(2, columns) E s1^3, and the scale of s2, of columns with these numbers of levels; zeros where s2 is
    not what s1^2 adds to s1.
    """
    start = np.cumsum(widths) - widths
    skew = np.add.reduceat(b * s1**3, start)
    rest = s1 * s1 - np.repeat(skew, widths) * s1 - 1.0
    spread = np.add.reduceat(b * rest * s2, start)
    apart = np.maximum.reduceat(b * np.abs(rest - np.repeat(spread, widths) * s2), start)
    return np.where((apart < 1e-6) & (spread > 1e-6), [skew, spread], 0.0)


cdef double fit_tilt(
    const craft_tilt *tilt, const int64_t *counts, Py_ssize_t n_levels, double count_weight, tilted_t *cells,
) noexcept nogil:
    """Sums and tilt of counted cells; returns their gain over the whole table's distribution."""
    cells.sums = craft_tilt_sums(tilt, counts, n_levels)
    return craft_tilt_fit(tilt, count_weight, cells.sums, CRAFT_TILT_NEAR, &cells.theta)


cdef void tilt_log_ratios(
    const craft_tilt *tilt, const craft_theta *theta, Py_ssize_t n_levels, double *log_ratio,
    Py_ssize_t stride,
) noexcept nogil:
    """log(p(l) / b(l)) of every level, `stride` numbers apart."""
    cdef Py_ssize_t t
    for t in range(n_levels):
        log_ratio[t * stride] = theta.first * tilt.s1[t] + theta.second * tilt.s2[t] - theta.log_total
    if tilt.atom >= 0:
        log_ratio[tilt.atom * stride] = theta.atom - theta.log_total


def log_ratios(
    const int64_t[:, ::1] counts not None,  # IN  (n, n_levels) of groups
    double count_weight,
    Tilts tilts not None,
    double[::1] gain not None,              # OUT (n,) summed over the tilted columns, nats
    double[:, ::1] log_ratio not None,      # OUT (n, n_levels) log(p / b) of the tilted columns
):
    """The tilts of groups of cells."""
    cdef Grid grid = tilts.grid
    cdef Py_ssize_t i, d, start
    cdef tilted_t cells
    check(counts.shape[1] == grid.n_levels, "counts")
    check(log_ratio.shape[0] == counts.shape[0] and log_ratio.shape[1] == grid.n_levels, "log_ratio")
    check(gain.shape[0] == counts.shape[0], "gain")
    with nogil:
        for i in range(counts.shape[0]):
            gain[i] = 0.0
            for d in range(grid.q):
                if tilts.column[d].n:
                    start = grid.level_start_[d]
                    gain[i] += fit_tilt(&tilts.column[d], &counts[i, start], _levels_of(grid, d),
                                        count_weight, &cells)
                    tilt_log_ratios(&tilts.column[d], &cells.theta, _levels_of(grid, d),
                                    &log_ratio[i, start], 1)
