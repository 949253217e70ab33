"""Least squares features of given memberships, and the memberships' exact rank."""

from libc.stdint cimport uint64_t

from craftc._kernels._bpmeans cimport bp_model, descent
from craftc._kernels.dpmeans cimport dp_sums

cdef enum:
    # of cells and combinations between two checks for an interrupt: a fraction of a second
    VISITS_AT_ONCE = 50_000_000

cdef void invert(const double *M, double *H, Py_ssize_t K, Py_ssize_t lanes) noexcept nogil
cdef void fit_gram(const double *H, const double *M, const double *Q, double *G, Py_ssize_t K,
                   Py_ssize_t lanes) noexcept nogil
cdef uint64_t independent_columns(
    const double *M, Py_ssize_t lanes, const uint64_t *masks, Py_ssize_t n, Py_ssize_t K, Py_ssize_t without,
) noexcept nogil
cdef void lay_out(const bp_model *m, const double *features) noexcept nogil
cdef void inner_products(const bp_model *m, const double *features, double *out) noexcept nogil
cdef void move_sums(descent *c) noexcept nogil
cdef void move_rows(descent *c, Py_ssize_t start, Py_ssize_t stop, dp_sums *place) noexcept nogil
cdef void keep_features(descent *c, uint64_t keep) noexcept nogil
cdef bint drop_redundant(descent *c) noexcept nogil
cdef void reseed_empty(descent *c) noexcept nogil
cdef void dequantise_sum(descent *c, Py_ssize_t k) noexcept nogil
cdef void fit_features(descent *c) noexcept nogil
cdef void fit_memberships(descent *c) noexcept nogil
cdef double visits_of_row(const descent *c) noexcept nogil
