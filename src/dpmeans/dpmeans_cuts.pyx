"""DP-means: 2-means within the clusters of a partition, the search for their best cuts.

A row lies on the side of its cluster's plane to which the direction points, or on the other. Every sweep has
two steps: each plane halves the way between the means of the sides, and the rows go to their sides. A team of
threads shares out both; it is woken once for all sweeps.
"""

import numpy as np

from cython.parallel cimport parallel
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free

from craftc._kernels._common cimport check, check_indices, omp_get_thread_num
from craftc._kernels._team cimport team_end, team_help, team_start, team_step
from craftc._kernels.dpmeans cimport Blocks, Sums, blocks_of, check_sums, dp_cut_rows, share_out
from craftc._kernels.moments cimport rows_of, table_rows

cdef enum:
    MOST = 64       # sweeps of a call, which cannot be interrupted
    APART = 8       # counts between those of two threads, which then share no cache line


cdef struct Halves:
    table_rows table
    Py_ssize_t K
    const int32_t *labels
    uint8_t *sides
    double *origins             # (K, D) points of the planes
    double *directions          # (K, D)
    const double *middle        # (D,) mean = middle + sum / count step
    const double *step
    Blocks blocks               # with the sums of every thread, of cluster 2 label + side
    int64_t *changed            # (n_threads, APART) counts that have changed sides
    # whether the planes cut, or the rows stay on their sides; whether the planes keep their origins
    bint cuts, keeps_origins


def two_means(
    X not None,                                 # IN    (n, D)
    const int32_t[::1] labels not None,         # IN    (n,) 0..K-1, -1 = none
    double[:, ::1] origins not None,            # INOUT (K, D) points of the planes
    double[:, ::1] directions not None,         # INOUT (K, D)
    uint8_t[::1] sides not None,                # INOUT (n,) 1: (x - origin) . direction > 0
    Sums sums not None,                         # INOUT of cluster 2 label + side, empty at first
    const double[::1] middle not None,          # IN    (D,) mean = middle + sum / count * step
    const double[::1] step not None,            # IN    (D,)
    bint given,                                 # the planes of a first cut are; otherwise the first cut is
                                                # that by the present sides
    Py_ssize_t kept,                            # first sweeps whose planes keep their origins
    Py_ssize_t most,                            # sweeps after the first cut
    double few,                                 # the last sweep is that in which at most these counts change
                                                # sides
    int n_threads,
) -> int:
    """Cut all clusters by 2-means; returns the counts that change sides in the last sweep."""
    cdef Halves h
    h.table, h.K = rows_of(X), origins.shape[0]
    check(X.ndim == 2 and h.table.n == labels.shape[0] and h.table.p == origins.shape[1], "X")
    check(directions.shape[0] == h.K and directions.shape[1] == h.table.p, "directions")
    check(sides.shape[0] == h.table.n, "sides")
    check(0 <= most <= MOST, "most")
    check(middle.shape[0] == h.table.p and step.shape[0] == h.table.p, "middle or step")
    check_sums(sums, X, 2 * h.K, n_threads)
    check_indices(labels, -1, h.K, "labels")
    cdef int64_t[:, ::1] changed = np.zeros((n_threads, APART), np.int64)
    if h.table.n == 0:
        return 0
    h.labels, h.sides, h.origins, h.directions = &labels[0], &sides[0], &origins[0, 0], &directions[0, 0]
    h.middle, h.step, h.changed = &middle[0], &step[0], &changed[0, 0]
    blocks_of(sums, 2 * h.K, 0, h.table.n, n_threads, &h.blocks)
    team_start(&h.blocks.threads)
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        if omp_get_thread_num() == 0:
            search(&h, given, kept, most, few)
            team_end(&h.blocks.threads)
        else:
            team_help(&h.blocks.threads, omp_get_thread_num())
    free(h.blocks.places)
    return int(np.sum(changed))


cdef void search(Halves *h, bint given, Py_ssize_t kept, Py_ssize_t most, double few) noexcept nogil:
    """The first cut, and the sweeps."""
    cdef Py_ssize_t sweep
    h.cuts = given
    cut(h)
    h.cuts = True
    for sweep in range(most):
        h.keeps_origins = sweep < kept
        team_step(&h.blocks.threads, halve, h, <int> h.K)
        if cut(h) <= few:
            break


cdef int64_t cut(Halves *h) noexcept nogil:
    """All rows to their sides, and into the sums of these; returns the counts that change sides."""
    cdef int64_t changed = 0
    cdef int t
    for t in range(h.blocks.n_threads):
        h.changed[t * APART] = 0
    share_out(&h.blocks, cut_block, h)
    for t in range(h.blocks.n_threads):
        changed += h.changed[t * APART]
    return changed


cdef void cut_block(void *context, int block, int thread) noexcept nogil:
    cdef Halves *h = <Halves *> context
    cdef Py_ssize_t start = block * h.blocks.rows, stop = min(start + h.blocks.rows, h.table.n)
    h.changed[thread * APART] += dp_cut_rows(
        &h.blocks.places[thread], h.table.numeric, h.table.single, h.table.p, h.labels, h.origins,
        h.directions if h.cuts else NULL, h.sides, start, stop,
    )


cdef void halve(void *context, int item, int thread) noexcept nogil:
    """The plane of a cluster from the means of its sides, whose sums begin anew; no plane where a side is
    empty.
    """
    cdef Halves *h = <Halves *> context
    cdef Py_ssize_t D = h.table.p, d
    cdef double *origin = h.origins + item * D
    cdef double *direction = h.directions + item * D
    cdef int64_t *sums = h.blocks.places[0].sums + 2 * item * D
    cdef int64_t *counts = h.blocks.places[0].counts + 2 * item
    cdef bint both = counts[0] > 0 and counts[1] > 0
    cdef double one = 0.0, other = 0.0
    for d in range(D):
        if both:
            one = h.middle[d] + <double> sums[d] / <double> counts[0] * h.step[d]
            other = h.middle[d] + <double> sums[D + d] / <double> counts[1] * h.step[d]
        if not h.keeps_origins:
            origin[d] = (one + other) / 2.0
        direction[d] = other - one
        sums[d] = sums[D + d] = 0
    counts[0] = counts[1] = 0
