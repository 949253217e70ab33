"""Merges under the pooled background, for kernels that run them in turn with passes."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from craftc._kernels.craft_price cimport Pricing

cdef enum:
    DELTAS_UNKNOWN, DELTAS_STALE, DELTAS_FRESH


cdef class MergeSpace:
    cdef readonly object groups  # type: Integers
    cdef readonly object mask  # type: Flags
    cdef readonly object cost  # type: Floats
    cdef readonly Py_ssize_t capacity, n_threads
    cdef int64_t[:, :, ::1] groups_
    cdef int64_t[:, ::1] union
    cdef uint8_t[:, :, ::1] mask_
    cdef uint8_t[:, ::1] one_mask
    cdef double[::1] cost_
    cdef double[:, ::1] fits, work


cdef int check_clusters(
    Pricing P, MergeSpace space, Py_ssize_t K, const int64_t[:, ::1] groups, const uint8_t[:, ::1] mask,
) except -1


cdef Py_ssize_t run_merges(
    Pricing P, MergeSpace space, Py_ssize_t K, int64_t[:, ::1] groups, uint8_t[:, ::1] mask, double[::1] cost,
    int64_t[::1] shared, double *excess, double[:, ::1] deltas, int *known, int32_t[::1] place,
    Py_ssize_t[:, ::1] pairs, double tolerance, Py_ssize_t most, int n_threads_of_one, int n_threads,
    bint *ended,
) noexcept nogil
