"""Prices of partitions under the pooled background, for kernels that run passes."""

from libc.stdint cimport int64_t, uint8_t

from craftc._kernels.craft_price cimport Pricing


cdef double price_pooled(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, int effort, double[:, ::1] work,
    uint8_t[:, ::1] mask, double[::1] cost,
) noexcept nogil


cdef void share_rest(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work, const uint8_t[:, ::1] mask,
    double[::1] cost,
) noexcept nogil


cdef void share_cells(Pricing P, const int64_t *group) noexcept nogil


cdef int check_room(
    Pricing pricing, Py_ssize_t K, const int64_t[:, ::1] groups, double[:, ::1] work, uint8_t[:, ::1] mask,
    double[::1] cost,
) except -1
