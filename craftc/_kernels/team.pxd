"""Threads that help kernel calls. See src/common/team.pyx."""

from craftc._kernels._team cimport team

cdef class Team:
    cdef team shared
    cdef readonly int n_threads

    cdef team *lead(self) except NULL
    cdef void rest(self) noexcept nogil
