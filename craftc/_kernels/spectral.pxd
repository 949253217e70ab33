"""Rows of a mixed table, as the kernels of graph features read them."""

cdef extern from "spectral/_mixed_rows.h":
    ctypedef struct mixed_rows:
        const void *numeric
        const void *codes
        Py_ssize_t width, q
        int single, wide
        Py_ssize_t p1, P, C
        const Py_ssize_t *column
        const Py_ssize_t *variable
        const Py_ssize_t *first_state

cdef extern from "spectral/_spectral.h":
    enum:
        SP_LANES

cdef const Py_ssize_t *numbers(array) except? NULL
cdef double *line_start(double *room) noexcept nogil
cdef int check_positions(const Py_ssize_t[::1] positions, Py_ssize_t stop, str name) except -1
cdef int read_rows(mixed_rows *t, numeric, column, codes, variable, first_state, Py_ssize_t C) except -1
