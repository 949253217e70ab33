"""Starts of the feature models: residuals of drawn rows become features."""

from craftc._kernels._bpmeans cimport descent

cdef void greedy(
    descent *c, int base, Py_ssize_t n_features, const double *draws, Py_ssize_t n_columns,
    Py_ssize_t n_trials,
) noexcept nogil
cdef Py_ssize_t trials_for(Py_ssize_t k) noexcept nogil
cdef void add_feature(descent *c, const double *draws, Py_ssize_t trials) noexcept nogil
