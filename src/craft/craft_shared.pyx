"""The distributions of the pooled background of CRAFT, in which the clusters that do not select a feature
share its cells.
"""

import numpy as np

from libc.math cimport log
from libc.stdint cimport int64_t

from craftc._kernels.craft_tilt cimport craft_theta
from craftc._kernels.moments cimport CRAFTC_NUMERIC_CELLS, Grid

cdef extern from "craft/_craft_pools.h" nogil:
    enum:
        CRAFT_POOL_LANES


cdef class Shared:
    """The pooled background: for every feature the cells of all clusters that do not select it, and their
    distribution.

    Parameters
    ----------
    grid : Grid
    room : int
        Most clusters of a partition whose masks are chosen together.

    Attributes
    ----------
    group : ndarray (width,) of int64
        Exact moments of the pooled cells, laid out as a group; its weight has no meaning.
    shift, precision : ndarray (p,)
        (zeta - zeta_0) / sigma_0 and sigma_0^2 / sigma^2 of the pooled cells.
    level : ndarray (n_levels,)
        log(eta / eta_0) of the pooled cells.
    theta : ndarray (q, 3)
        theta and A(theta) of the pooled cells of the tilted columns.
    """

    def __cinit__(self, Grid grid not None, Py_ssize_t room):
        self.grid, self.room = grid, room
        self.group = np.zeros(grid.width, np.int64)
        self.shift, self.precision, self.level = np.zeros(grid.p), np.ones(grid.p), np.zeros(grid.n_levels)
        self.log_precision, self.theta = np.zeros(grid.p), np.zeros((grid.q, 3))
        self.work = np.empty(pooled_room(grid, room))
        self.n_fits = SHARED_FITS
        while self.n_fits > 64 and self.n_fits > 16 * room * max(grid.q, 1):
            self.n_fits //= 2
        self.fits = np.zeros(self.n_fits * sizeof(craft_fit) // sizeof(int64_t), np.int64)
        cdef int64_t[::1] group = self.group, fits = self.fits
        cdef double[::1] shift = self.shift, precision = self.precision
        cdef double[::1] log_precision = self.log_precision, level = self.level
        cdef double[::1] work = self.work
        cdef double[:, ::1] theta = self.theta
        self.group_, self.work_, self.fits_ = &group[0], &work[0], <craft_fit *> &fits[0]
        if grid.p:
            self.shift_, self.precision_, self.log_precision_ = &shift[0], &precision[0], &log_precision[0]
        if grid.q:
            self.level_ = &level[0]
            self.theta_ = <craft_theta *> &theta[0, 0]

    def __reduce__(self):
        return Shared, (self.grid, self.room), (self.group, self.shift, self.precision, self.level, self.theta)

    def __setstate__(self, state):
        for own, other in zip((self.group, self.shift, self.precision, self.level, self.theta), state, strict=True):
            own[:] = other
        for d in range(self.grid.p):
            self.log_precision_[d] = log(self.precision_[d])


cdef Py_ssize_t pooled_room(Grid grid, Py_ssize_t room):
    """Doubles of scratch for the choice of the masks of `room` clusters: see choice_t of
    src/craft/craft_masks.pyx.
    """
    cdef Py_ssize_t D = grid.p + grid.q, widest = max(grid.n_levels, CRAFTC_NUMERIC_CELLS)
    cdef Py_ssize_t padded = room + CRAFT_POOL_LANES
    return (3 * widest + (D + 2) + 11 * padded + (3 + SHARED_POOLS) * ((room + 63) // 64)
            + (3 * room * D + 7) // 8)
