"""Mixture with feature selection: moves that other kernels use. See src/mixture/mixture_moves.pyx."""

from craftc._kernels.mixture_updates cimport Model

cdef bint sort_by_size(Model *m, Py_ssize_t *order, double *work) noexcept nogil
cdef double stick_elbo(const double *size, Py_ssize_t K, double concentration) noexcept nogil
cdef double group_gain(const Model *m, Py_ssize_t i, Py_ssize_t j, bint lanes=*) noexcept nogil
