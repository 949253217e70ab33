"""Mixture with feature selection: rows as first centres, by k-means++ with several trials for each centre,
then exchanges; and the order in which passes visit the rows from then on.

The table is transposed: the lanes are rows, and the columns are added in order. The sums do not depend on the
width of a vector.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from craftc._kernels._common cimport check, check_indices, doubles_in, doubles_out

cdef extern from "mixture/_mixture_start.h" nogil:
    void ms_squares(const double *x, Py_ssize_t n, Py_ssize_t D, const double *centre, Py_ssize_t stride,
                    double *out)

cdef enum:
    CELLS_PER_CHECK = 100_000_000   # cells of distances between two checks for Ctrl-C


cdef struct Sample:
    Py_ssize_t n, D
    const double *cells         # (D, n)
    const double *weight        # (n)


cdef struct Seeds:
    Py_ssize_t K                # centres so far
    Py_ssize_t *row             # (K) rows of the sample
    int32_t *closest            # (n) the centre of a row
    int32_t *next               # (n) its second one
    double *near                # (n) squared distances to them
    double *far                 # (n)
    double potential            # weighted sum of near
    Py_ssize_t read             # cells since the last check for Ctrl-C


cdef int check_signals(Seeds *q, Py_ssize_t cells) except -1 nogil:
    """Raise KeyboardInterrupt after Ctrl-C, in the main thread."""
    q.read += cells
    if q.read > CELLS_PER_CHECK:
        q.read = 0
        with gil:
            PyErr_CheckSignals()
    return 0


cdef Py_ssize_t draw_row(const double *mass, Py_ssize_t n, double total, double draw) noexcept nogil:
    """The row whose share of the running sum, which ends in `total`, contains the uniform number; -1 if all
    are 0.
    """
    cdef Py_ssize_t i, last = -1
    cdef double running = 0.0
    for i in range(n):
        if mass[i] > 0.0:
            last = i
            running += mass[i]
            if running > draw * total:
                break
    return last


cdef double potential_with(const Sample *s, const Seeds *q, const double *away) noexcept nogil:
    """The potential with one more centre at these distances."""
    cdef double sum = 0.0
    cdef Py_ssize_t i
    for i in range(s.n):
        sum += s.weight[i] * (away[i] if away[i] < q.near[i] else q.near[i])
    return sum


cdef inline void insert(Seeds *q, Py_ssize_t i, int32_t k, double away) noexcept nogil:
    """Centre k at this distance of row i, among its two closest if it is one of them; ties keep the earlier
    centre.
    """
    if away < q.near[i]:
        q.far[i], q.next[i] = q.near[i], q.closest[i]
        q.near[i], q.closest[i] = away, k
    elif away < q.far[i]:
        q.far[i], q.next[i] = away, k


cdef void add(const Sample *s, Seeds *q, Py_ssize_t row, const double *away) noexcept nogil:
    cdef Py_ssize_t i
    q.potential = 0.0
    for i in range(s.n):
        insert(q, i, <int32_t> q.K, away[i])
        q.potential += s.weight[i] * q.near[i]
    q.row[q.K] = row
    q.K += 1


cdef int replace(const Sample *s, Seeds *q, Py_ssize_t k, Py_ssize_t row, const double *away, double *packed,
                 double *some, int32_t *moved) except -1 nogil:
    """Centre k moves to a row; the rows that had it as one of their two closest centres are compared with all
    centres again.
    """
    cdef Py_ssize_t n = 0, i, j, d
    q.row[k] = row
    for i in range(s.n):
        if q.closest[i] == k or q.next[i] == k:
            moved[n] = <int32_t> i
            n += 1
            q.near[i] = q.far[i] = INFINITY
            q.closest[i] = q.next[i] = 0
        else:
            insert(q, i, <int32_t> k, away[i])
    for d in range(s.D):
        for j in range(n):
            packed[d * n + j] = s.cells[d * s.n + moved[j]]
    for k in range(q.K):
        ms_squares(packed, n, s.D, s.cells + q.row[k], s.n, some)
        for j in range(n):
            insert(q, moved[j], <int32_t> k, some[j])
        check_signals(q, n * s.D)
    q.potential = 0.0
    for i in range(s.n):
        q.potential += s.weight[i] * q.near[i]
    return 0


cdef Py_ssize_t worst_centre(
    const Sample *s, const Seeds *q, const double *away, double *loss, double *potential,
) noexcept nogil:
    """The centre to give up for one at these distances, and the potential then."""
    cdef Py_ssize_t i, k, worst = 0
    cdef double sum = 0.0, near
    memset(loss, 0, sizeof(double) * q.K)
    for i in range(s.n):
        near = away[i] if away[i] < q.near[i] else q.near[i]
        sum += s.weight[i] * near
        loss[q.closest[i]] += s.weight[i] * ((away[i] if away[i] < q.far[i] else q.far[i]) - near)
    for k in range(1, q.K):
        if loss[k] < loss[worst]:
            worst = k
    potential[0] = sum + loss[worst]
    return worst


cdef int choose(const Sample *s, Seeds *q, Py_ssize_t K, const double *draws, Py_ssize_t trials,
                Py_ssize_t exchanges, bint spread, double *mass, double *away, double *best, double *packed,
                int32_t *moved, double *loss) except -1 nogil:
    """At most K centres; each the best of some trials. draws (1 + (K - 1) trials + exchanges)."""
    cdef Py_ssize_t i, t, row, chosen, k
    cdef double found, least, total = 0.0
    q.K = q.read = 0
    for i in range(s.n):
        q.near[i] = q.far[i] = INFINITY
        q.closest[i] = q.next[i] = 0
        mass[i] = s.weight[i]
        total += mass[i]
    while q.K < K:
        least = INFINITY
        chosen = -1
        for _ in range(trials if q.K else 1):
            row = draw_row(mass, s.n, total, draws[0])
            draws += 1
            if row < 0:
                return 0
            check_signals(q, s.n * (s.D + 1))
            ms_squares(s.cells, s.n, s.D, s.cells + row, s.n, away)
            found = potential_with(s, q, away)
            if found < least or chosen < 0:
                least = found
                chosen = row
                away, best = best, away
        add(s, q, chosen, best)
        total = q.potential if spread else 0.0
        for i in range(s.n):
            mass[i] = s.weight[i] * q.near[i] if spread else s.weight[i] if q.near[i] > 0.0 else 0.0
            if not spread:
                total += mass[i]
    for t in range(exchanges if K > 1 else 0):
        for i in range(s.n):
            mass[i] = s.weight[i] * q.near[i]
        row = draw_row(mass, s.n, q.potential, draws[t])
        if row < 0:
            return 0
        check_signals(q, s.n * (s.D + 1))
        ms_squares(s.cells, s.n, s.D, s.cells + row, s.n, away)
        k = worst_centre(s, q, away, loss, &least)
        if least < q.potential * (1.0 - 1e-9):  # rounding alone must not move centres
            replace(s, q, k, row, away, packed, best, moved)
    return 0


def seed_rows(
    cells not None: Floats, weight not None: Floats, draws not None: Floats, Py_ssize_t K, Py_ssize_t trials,
    Py_ssize_t exchanges, bint spread,
) -> Positions:
    """At most K distinct rows of a sample as centres, fewer where all others equal one of them.

    Parameters
    ----------
    cells : ndarray (D, n) of finite float64, contiguous  # IN
        The sample, transposed.
    weight : ndarray (n,) of float64, >= 0  # IN
    draws : ndarray (1 + (K - 1) * trials + exchanges,) of float64 in [0, 1)  # IN
    K : int
    trials : int
        Rows drawn for every centre but the first; the one with the lowest potential is kept.
    exchanges : int
        Rows drawn afterwards; each replaces the centre that is missed least if that lowers the potential.
    spread : bool
        Draw rows by their squared distance to the closest centre, otherwise by their weight alone.

    Returns
    -------
    ndarray of intp
        In the order of their choice; an exchange keeps the place.
    """
    cdef Sample s
    cdef Seeds q
    check(cells.ndim == 2, "cells")
    s.D, s.n = cells.shape
    check(s.n < 2**31, "cells")
    # their product is an index
    check(1 <= K < 2**31 and 1 <= trials < 2**31 and 0 <= exchanges < 2**31, "K, trials or exchanges")
    check(weight.shape == (s.n,), "weight")
    check(draws.shape == (1 + (K - 1) * trials + exchanges,), "draws")
    rows, loss = np.empty(K, np.intp), np.empty(K)
    near, far, mass, away, best = np.empty((5, s.n))
    packed, links = np.empty(s.D * s.n if exchanges else 0), np.empty((3, max(s.n, 1)), np.int32)
    cdef Py_ssize_t[::1] rows_ = rows
    cdef int32_t[:, ::1] links_ = links
    cdef const double *draws_ = doubles_in(draws)
    cdef double *mass_ = doubles_out(mass)
    cdef double *away_ = doubles_out(away)
    cdef double *best_ = doubles_out(best)
    cdef double *packed_ = doubles_out(packed)
    cdef double *loss_ = doubles_out(loss)
    s.cells, s.weight = doubles_in(cells), doubles_in(weight)
    q.row, q.near, q.far = &rows_[0], doubles_out(near), doubles_out(far)
    q.closest, q.next = &links_[0, 0], &links_[1, 0]
    with nogil:
        choose(&s, &q, K, draws_, trials, exchanges, spread, mass_, away_, best_, packed_, &links_[2, 0],
               loss_)
    return rows[:q.K].copy()


cdef void link_centres(
    const double *centres, Py_ssize_t K, Py_ssize_t D, double *away, int32_t *rank,
) noexcept nogil:
    """Places of centres (D, K) in a chain that begins far from the first one and goes on to the closest of
    those left.
    """
    cdef Py_ssize_t k, last = 0, place, closest
    ms_squares(centres, K, D, centres, K, away)
    for k in range(K):
        rank[k] = -1
        if away[k] > away[last]:
            last = k
    for place in range(K):
        rank[last] = <int32_t> place
        ms_squares(centres, K, D, centres + last, K, away)
        closest = -1
        for k in range(K):
            if rank[k] < 0 and (closest < 0 or away[k] < away[closest]):
                closest = k
        last = closest


cdef void sort_rows(const int32_t *rows, Py_ssize_t n, const int32_t *component, Py_ssize_t K,
                    const int32_t *rank, Py_ssize_t *place, int32_t *out) noexcept nogil:
    """Rows by the place of their component in the chain; equal ones keep their order. place (K + 1)."""
    cdef Py_ssize_t i, k
    memset(place, 0, sizeof(Py_ssize_t) * (K + 1))
    for i in range(n):
        place[rank[component[rows[i]]] + 1] += 1
    for k in range(K):
        place[k + 1] += place[k]
    for i in range(n):
        k = rank[component[rows[i]]]
        out[place[k]] = rows[i]
        place[k] += 1


def visiting_order(
    const int32_t[::1] label not None, const int32_t[::1] second not None, centres not None: Floats,
    Py_ssize_t group,
) -> Integers32:
    """An order of the rows in which those of one component follow each other, and those of near components.

    Parameters
    ----------
    label, second : ndarray (n,) of int32  # IN
        The closest and the second closest component of a row.
    centres : ndarray (D, K) of float64, contiguous  # IN
    group : int
        Number of consecutive rows that are sorted together: near rows stay in a cache.

    Returns
    -------
    ndarray (n,) of int32
    """
    cdef Py_ssize_t n = label.shape[0], D, K, some, start = 0
    check(second.shape[0] == n < 2**31, "second")
    check(centres.ndim == 2, "centres")
    check(group > 0, "group")
    D, K = centres.shape
    check_indices(label, 0, K, "label")
    check_indices(second, 0, K, "second")
    order, middle = np.arange(n, dtype=np.int32), np.empty(min(n, group), np.int32)
    rank = np.empty(K, np.int32)
    cdef int32_t[::1] order_ = order, middle_ = middle, rank_ = rank
    cdef Py_ssize_t[::1] place = np.empty(K + 1, np.intp)
    away = np.empty(K)
    cdef const double *centres_ = doubles_in(centres)
    cdef double *away_ = doubles_out(away)
    if n == 0:
        return order
    with nogil:
        link_centres(centres_, K, D, away_, &rank_[0])
        while start < n:
            some = min(group, n - start)
            sort_rows(&order_[start], some, &second[0], K, &rank_[0], &place[0], &middle_[0])
            sort_rows(&middle_[0], some, &label[0], K, &rank_[0], &place[0], &order_[start])
            start += some
    return order
