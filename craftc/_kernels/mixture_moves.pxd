"""Mixture with feature selection: the move that is part of every sweep. See src/mixture_moves.pyx."""

from craftc._kernels.mixture_updates cimport Model

cdef bint sort_by_size(Model *m, Py_ssize_t *order, double *work) noexcept nogil
