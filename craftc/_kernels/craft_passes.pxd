"""Passes of CRAFT over some rows, for kernels that try splits."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from craftc._kernels.craft_price cimport Pricing
from craftc._kernels.moments cimport table_rows

cdef Py_ssize_t run_passes(
    const table_rows *table, const int32_t[::1] rows, int32_t[::1] labels, int64_t[:, ::1] groups,
    Py_ssize_t *K, Pricing P, int selection, Py_ssize_t max_passes, double least_fall,
    double[::1] slab, double[:, ::1] scratch, int64_t[:, :, ::1] partial, double[:, ::1] work,
    uint8_t[:, ::1] mask, double[::1] cost, double[::1] path, int32_t[::1] number, int n_threads,
    bint *converged,
) noexcept nogil
