"""Memory of one restart of a feature model."""

from libc.stdint cimport uint64_t

from craftc._kernels._bpmeans cimport descent

cdef class Run:
    cdef descent c
    cdef readonly object arrays  # type: dict[str, Any]
    cdef int check_start(self, int base, Py_ssize_t n_features, Py_ssize_t steps, Py_ssize_t trials,
                         Py_ssize_t n_trials) except -1
    cdef void _begin(self, const uint64_t *masks, Py_ssize_t n_features, uint64_t keep) noexcept nogil
