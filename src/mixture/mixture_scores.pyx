"""Mixture with feature selection: the present q as lists of selected columns, and how far scores move from
sweep to sweep.

A sweep leaves out the components that are out of reach for every row of a tile; see `mx_bounds` in
_mixture_scores.h. Here are the changes of the scores since the last pass, as norms over the columns of a
component.
"""

import numpy as np

from libc.math cimport NAN, fabs, isnan, sqrt
from libc.stdint cimport int32_t, uint32_t

from craftc._kernels._common cimport doubles_out
from craftc._kernels.mixture_updates cimport Density

cdef extern from "mixture/_mixture_change.h" nogil:
    double mc_change(const double *p, const double *own, const double *noise, Py_ssize_t D, double *last,
                     double *moved, double *size)

cdef extern from "float.h" nogil:
    const double DBL_EPSILON


cdef void list_components(Scores *scores, const Model *m) noexcept nogil:
    """The components that are not empty."""
    cdef mx_lists *lists = &scores.lists
    cdef mx_bounds *bounds = &scores.bounds
    cdef Py_ssize_t k
    cdef double *constant
    scores.m = m
    lists.K = bounds.n_gone = 0
    for k in range(m.K):
        if m.size[k] > 0.0:
            lists.component[lists.K] = <int32_t> k
            lists.constant[lists.K] = m.weight[k]
            if scores.bounded:
                bounds.slot[lists.K] = scores.slot[k]
            lists.K += 1
        elif scores.bounded:
            constant = scores.last + scores.slot[k] * (2 * m.D + 1) + 2 * m.D
            if not isnan(constant[0]):
                bounds.gone[bounds.n_gone] = scores.slot[k]
                bounds.n_gone += 1
            constant[0] = NAN


cdef void measure_change(Scores *scores, Py_ssize_t j) noexcept nogil:
    """How far the scores of a listed component have moved since the last pass."""
    cdef const Model *m = scores.m
    cdef mx_bounds *bounds = &scores.bounds
    cdef Py_ssize_t first = scores.lists.component[j] * m.D
    cdef double *linear = scores.last + bounds.slot[j] * (2 * m.D + 1)
    cdef double *constant = linear + 2 * m.D
    cdef double *size = scores.size + 3 * j
    cdef double *moved = bounds.moved + 2 * j * mx_stride(m.D)
    cdef double now = scores.lists.constant[j] + scores.lists.reach[j], change
    bounds.constant[j] = now - constant[0]  # NaN if the component was not in the last pass
    change = mc_change(m.p + first, m.own.linear + first, m.noise.linear, m.D, linear, moved, size + 1)
    bounds.linear[j] = (1.0 + MX_ABOVE) * sqrt(change)
    change = mc_change(m.p + first, m.own.square + first, m.noise.square, m.D, linear + m.D,
                       moved + mx_stride(m.D), size + 2)
    bounds.square[j] = (1.0 + MX_ABOVE) * sqrt(change)
    size[0] = fabs(now) if isnan(constant[0]) else fabs(now) + fabs(constant[0])
    size[1], size[2] = sqrt(size[1]), sqrt(size[2])
    constant[0] = now


cdef void list_columns(void *context, int j, int thread) noexcept nogil:
    """The selected columns of a component that is not empty, run by run; there is room for D of them."""
    cdef Scores *scores = <Scores *> context
    cdef const Model *m = scores.m
    cdef mx_lists *lists = &scores.lists
    cdef Density own = m.own, noise = m.noise
    cdef Py_ssize_t first = lists.component[j] * m.D, run, start, d, at
    cdef const double *p = m.p + first
    cdef double *linear = lists.linear
    cdef double *square = lists.square
    cdef uint32_t *place = lists.place
    cdef double reach = 0.0
    for run in range(mx_runs(m.D)):
        start = run * MX_COLUMNS
        at = j * m.D + start
        for d in range(start, min(start + MX_COLUMNS, m.D)):
            reach += p[d] * (own.constant[first + d] - noise.constant[d])
            place[at] = <uint32_t> ((d - start) * MX_TILE)
            linear[at] = p[d] * (own.linear[first + d] - noise.linear[d])
            square[at] = p[d] * (own.square[first + d] - noise.square[d])
            at += p[d] != 0.0  # the next one takes the place of a column that is not selected
        lists.stop[run * lists.K + j] = at
    for d in range(m.D if scores.missing else 0):
        lists.missing[d * lists.K + j] = p[d] * (own.constant[first + d] - noise.constant[d])
    lists.reach[j] = reach
    if scores.bounded:
        measure_change(scores, j)


cdef void measure_rounding(Scores *scores) noexcept nogil:
    """Rounding of a score, of the largest magnitudes; each of its D + 8 operations may be wrong by half a
    unit of the last place.
    """
    cdef Py_ssize_t i, j
    cdef double *most = scores.bounds.rounding
    for i in range(3):
        most[i] = 0.0
        for j in range(scores.lists.K):
            most[i] = max(most[i], scores.size[3 * j + i])
        most[i] *= (scores.m.D + 8) * 0.5 * DBL_EPSILON * (1.0 + MX_ABOVE)


cdef void sort_slots(Scores *scores, const Py_ssize_t *order) noexcept nogil:
    """Reorder the slots as the components: component k was `order[k]`."""
    cdef Py_ssize_t k
    cdef int32_t *before = scores.bounds.slot
    if not scores.bounded:
        return
    for k in range(scores.m.K):
        before[k] = scores.slot[k]
    for k in range(scores.m.K):
        scores.slot[k] = before[order[k]]


cdef class ScoreTables:
    """Room for the lists of K components with D columns.

    Parameters
    ----------
    K, D : int
    missing : bool
        Whether cells may be missing.
    """

    def __init__(self, Py_ssize_t K, Py_ssize_t D, bint missing):
        cdef mx_lists *lists = &self.t.lists
        component, stop = np.empty(K, np.int32), np.empty(mx_runs(D) * K, np.intp)
        places = np.empty(K * D, np.uint32)
        entry, each, absent = np.empty((2, K * D)), np.empty((2, K)), np.empty(K * D if missing else 0)
        self.arrays = (component, stop, places, entry, each, absent)
        cdef int32_t[::1] component_ = component
        cdef uint32_t[::1] places_ = places
        cdef Py_ssize_t[::1] stop_ = stop
        self.t.missing, self.t.bounded = missing, False
        lists.component = &component_[0] if K else NULL
        lists.stop, lists.place = &stop_[0] if K * D else NULL, &places_[0] if K * D else NULL
        lists.linear, lists.square = doubles_out(entry[0]), doubles_out(entry[1])
        lists.constant, lists.reach = doubles_out(each[0]), doubles_out(each[1])
        lists.missing = doubles_out(absent)

    cdef int keep_bounds(self, Py_ssize_t tiles) except -1:
        """From here on, passes keep the bounds of all tiles."""
        cdef Py_ssize_t K = len(self.arrays[0]), D = len(self.arrays[2]) // max(K, 1)
        cdef int32_t[:, ::1] slot_
        cdef float[:, ::1] behind_
        self.t.bounded = True
        if self.bounds is not None:
            return 0
        slot, behind = np.empty((3, K), np.int32), np.zeros((tiles, K), np.float32)
        norm = np.full((tiles, 4), -1.0)
        middle, moved = np.empty((tiles, 2 * mx_stride(D))), np.zeros((K, 2 * mx_stride(D)))
        slot[0] = np.arange(K)  # of every component; the others are those of the lists, and gone
        last, size, change = np.zeros((K, 2 * D + 1)), np.empty((K, 3)), np.empty((3, K))
        last[:, -1] = np.nan
        self.bounds = (slot, behind, norm, middle, moved, last, size, change)
        slot_, behind_ = slot, behind
        self.t.slot, self.t.bounds.slot, self.t.bounds.gone = &slot_[0, 0], &slot_[1, 0], &slot_[2, 0]
        self.t.bounds.K, self.t.bounds.behind, self.t.bounds.norm = K, &behind_[0, 0], doubles_out(norm)
        self.t.bounds.constant, self.t.bounds.linear = doubles_out(change[0]), doubles_out(change[1])
        self.t.bounds.square, self.t.bounds.middle = doubles_out(change[2]), doubles_out(middle)
        self.t.bounds.moved = doubles_out(moved)
        self.t.last, self.t.size = doubles_out(last), doubles_out(size)
        return 0
