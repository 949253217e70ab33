"""Masks of all clusters together under the pooled background, and the cells of one feature."""

from libc.stdint cimport int64_t, uint8_t

from craftc._kernels.craft_price cimport Pricing
from craftc._kernels.craft_shared cimport craft_theta

cdef enum:
    KEEP = 0            # the given masks
    CONTINUE = 1        # masks from the given ones
    ANEW = 2            # and from four further starts
    THOROUGH = 3        # and from every cluster's mask set or cleared


cdef Py_ssize_t first_cell(Pricing P, Py_ssize_t d) noexcept nogil


cdef void add_cells(Pricing P, Py_ssize_t d, int64_t *to, const int64_t *cells, int64_t sign) noexcept nogil


cdef void fit_levels(Pricing P, Py_ssize_t d, const int64_t *counts, double *log_ratio,
                     craft_theta *theta) noexcept nogil


cdef double price_masks(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, int effort, double[:, ::1] work,
    uint8_t[:, ::1] mask,
) noexcept nogil
