"""Rows under a fitted mixture: cheapest clusters, probabilities of clusters, and cells.

Of costs c_k of a row, the probability of cluster k is r_k / sum_j r_j with r_k = exp(min_j c_j - c_k).
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t

from craftc._kernels._common cimport check, check_indices
from craftc._kernels.moments cimport rows_code, rows_number, rows_of, table_rows

cdef extern from "craft/_craft_rows.h" nogil:
    const double ROWS_STEPS
    Py_ssize_t simd_lines(Py_ssize_t doubles)
    void rows_cheapest(const double *cost, Py_ssize_t n, Py_ssize_t n_clusters, double *room, int32_t *label,
                       double *least, double *second)
    void rows_probabilities(const double *cost, const double *least, const double *weight, Py_ssize_t n,
                            Py_ssize_t n_clusters, double *room, double *total, double *spread, double *size)

STEPS = ROWS_STEPS  # type: float


def cheapest(
    const double[:, ::1] costs not None,    # IN  (n, K)
    int32_t[::1] labels not None,           # OUT (n,) the lowest of equally cheap clusters
    double[::1] least not None,             # OUT (n,) lowest cost
    double[::1] second not None,            # OUT (n,) second lowest cost; inf with one cluster
):
    """The cheapest cluster of every row, and its two lowest costs."""
    cdef Py_ssize_t n = costs.shape[0], K = costs.shape[1]
    check(K > 0, "costs")
    check(labels.shape[0] == n and least.shape[0] == n and second.shape[0] == n, "labels, least or second")
    cdef double[::1] room = np.empty(simd_lines(K))
    if n:
        with nogil:
            rows_cheapest(&costs[0, 0], n, K, &room[0], &labels[0], &least[0], &second[0])


def probabilities(
    const double[:, ::1] costs not None,    # IN  (n, K)
    const double[::1] least not None,       # IN  (n,) lowest cost
    const double[::1] weight not None,      # IN  (n,) or empty = all one
    double[::1] total not None,             # OUT (n,) sum_k r_k
    double[::1] spread not None,            # OUT (n,) sum_k r_k log r_k
) -> Floats:
    """(K,) sums of the probabilities of the clusters, each rounded to an integer in units of 1 / STEPS."""
    cdef Py_ssize_t n = costs.shape[0], K = costs.shape[1]
    check(K > 0, "costs")
    check(least.shape[0] == n and total.shape[0] == n and spread.shape[0] == n, "least, total or spread")
    check(weight.shape[0] == 0 or weight.shape[0] == n, "weight")
    cdef double[::1] room = np.empty(simd_lines(K))
    sizes = np.zeros(simd_lines(K))
    cdef double[::1] size = sizes
    if n:
        with nogil:
            rows_probabilities(&costs[0, 0], &least[0], &weight[0] if weight.shape[0] else NULL, n, K,
                               &room[0], &total[0], &spread[0], &size[0])
    return sizes[:K]


def rows_in(const int32_t[::1] labels not None, int32_t k) -> Integers32:
    """(m,) the rows with label k, ascending."""
    cdef Py_ssize_t n = labels.shape[0], m = 0, i
    check(n < <Py_ssize_t> 1 << 31, "labels")
    with nogil:
        for i in range(n):
            m += labels[i] == k
    out = np.empty(m + 1, np.int32)     # the row after the last one is written, too: no branch
    cdef int32_t[::1] rows = out
    m = 0
    with nogil:
        for i in range(n if rows.shape[0] > 1 else 0):
            rows[m] = <int32_t> i
            m += labels[i] == k
    return out[:m]


def find_extremes(
    const int32_t[::1] labels not None,     # IN  (n,)
    const int64_t[::1] rank not None,       # IN  (n,) of the row in its cluster, the lowest first
    const double[::1] density not None,     # IN  (n,)
    const int64_t[::1] best not None,       # IN  (K,) rank of the typical rows of every cluster
    const double[::1] least not None,       # IN  (K,) density that a further typical row must exceed
    double highest,                         # density that a further unusual row must be below
    uint8_t[::1] typical not None,          # OUT (n,) 1 for a row with a better rank or a higher density
    uint8_t[::1] unusual not None,          # OUT (n,) 1 for a row with a lower density
):
    """The rows that may be typical of their clusters or unusual in the table."""
    cdef Py_ssize_t n = labels.shape[0], i
    cdef int32_t k
    check(rank.shape[0] == n and density.shape[0] == n, "rank or density")
    check(typical.shape[0] == n and unusual.shape[0] == n, "typical or unusual")
    check(best.shape[0] == least.shape[0], "best or least")
    check_indices(labels, 0, best.shape[0], "labels")
    with nogil:
        for i in range(n):
            k = labels[i]
            typical[i] = rank[i] < best[k] or (rank[i] == best[k] and density[i] > least[k])
            unusual[i] = density[i] < highest


def count_cells(
    X not None,                             # IN  (n, p)
    codes not None,                         # IN  (n, q)
    const uint8_t[::1] counted not None,    # IN  (p,) whether a numeric column counts
    const Py_ssize_t[::1] n_levels not None,  # IN  (q,) the code of a missing cell
    int64_t[::1] seen not None,             # OUT (n,) numeric cells that are present
    int64_t[::1] absent not None,           # OUT (n,) cells of both kinds that are missing
):
    """Count the cells of every row."""
    cdef table_rows table = rows_of(X, codes)
    cdef Py_ssize_t i, d
    cdef int64_t present, missing
    cdef double x
    check(counted.shape[0] == table.p, "counted")
    check(n_levels.shape[0] == table.q, "n_levels")
    check(seen.shape[0] == table.n and absent.shape[0] == table.n, "seen or absent")
    with nogil:
        for i in range(table.n):
            present = missing = 0
            for d in range(table.p):
                if counted[d]:
                    x = rows_number(&table, i, d)
                    present += x == x
                    missing += x != x
            for d in range(table.q):
                missing += rows_code(&table, i, d) == n_levels[d]
            seen[i], absent[i] = present, missing
