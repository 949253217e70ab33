"""Types shared by the kernels."""

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdint cimport int32_t, uint32_t

cdef extern from "common/_openmp.h" nogil:
    int CRAFTC_OPENMP
    int omp_get_max_threads()
    int omp_get_thread_num()
    int omp_get_num_procs()
    Py_ssize_t block_rows()

cdef extern from "common/_simd.h" nogil:
    int simd_level()
    const char *simd_missing()

cdef extern from "common/_int128.h" nogil:
    int CRAFTC_NATIVE_INT128


cdef inline int check(bint holds, str name) except -1:
    """Raise unless an argument fits the others: called once for each, before a kernel that checks no index.
    """
    if not holds:
        raise ValueError(f"The kernel got {name} of a shape or value that does not fit its other arguments.")
    return 0


cdef inline int check_lengths(
    Py_ssize_t n, str names, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c=-1, Py_ssize_t d=-1,
) except -1:
    """Raise unless all lengths are n. `names`: of their arrays, separated by ", "."""
    if a == n and b == n and (c == -1 or c == n) and (d == -1 or d == n):
        return 0
    return check(False, names.split(", ")[0 if a != n else 1 if b != n else 2 if c not in (-1, n) else 3])


cdef inline int check_at_least(
    Py_ssize_t n, str names, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c, Py_ssize_t d,
) except -1:
    """Raise unless all lengths are n or more."""
    return check_lengths(n, names, min(a, n), min(b, n), min(c, n), min(d, n))


cdef inline int check_shapes(
    Py_ssize_t rows, Py_ssize_t columns, str names, const Py_ssize_t *a, const Py_ssize_t *b,
    const Py_ssize_t *c=NULL, const Py_ssize_t *d=NULL,
) except -1:
    """Raise unless all shapes are (rows, columns)."""
    if c == NULL:
        c = a
    if d == NULL:
        d = a
    check_lengths(rows, names, a[0], b[0], c[0], d[0])
    return check_lengths(columns, names, a[1], b[1], c[1], d[1])


cdef enum:
    # the OpenMP runtime ends the process if it cannot create all threads
    MOST_THREADS = 4096


cdef inline int check_threads(Py_ssize_t n_threads) except -1:
    """Raise unless n_threads is from 1 to MOST_THREADS; craftc itself never starts more."""
    if not 1 <= n_threads <= MOST_THREADS:
        raise ValueError(f"n_threads must be from 1 to {MOST_THREADS}, got {n_threads}.")
    return 0


cdef inline int check_indices(const int32_t[::1] index, Py_ssize_t low, Py_ssize_t stop, str name) except -1:
    """Raise unless low <= index[i] < stop for all n: one pass that the compiler vectorises, for kernels that
    do more for each.
    """
    cdef Py_ssize_t i, n = index.shape[0]
    cdef bint outside = n > 0 and (stop <= low or stop > <Py_ssize_t> 1 << 31)
    cdef uint32_t first = <uint32_t> low, room = <uint32_t> (stop - low)
    if not outside:
        for i in range(n):
            outside |= <uint32_t> index[i] - first >= room
    if outside:
        raise ValueError(f"The kernel needs {name} from {low} to {stop - 1}, got others.")
    return 0


cdef inline const double *doubles_in(array) except? NULL:
    """First element of a C-contiguous float64 array of any shape, NULL of an empty one.

    The caller keeps the array alive.
    """
    return _doubles(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)


cdef inline double *doubles_out(array) except? NULL:
    """The same for an array that the kernel writes: a read-only one is refused."""
    return _doubles(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE)


cdef inline const void *rows_in(array) except? NULL:
    """First cell of a C-contiguous (n, D) array of float32 or float64, NULL of an empty one."""
    if array.ndim != 2:
        raise ValueError(f"The kernel needs an array of two dimensions, got {array.ndim}.")
    return _elements(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT, c"f")


cdef inline double *_doubles(array, int flags) except? NULL:
    return <double *> _elements(array, flags, c"d")


cdef inline void *_elements(array, int flags, char other) except? NULL:
    """Where the elements lie, float64 or of the `other` format.

    NumPy itself refuses what is not contiguous or not writable.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, flags)
    try:
        if view.format[0] != c"d" and view.format[0] != other:
            raise TypeError(f"The kernel needs an array of float64{' or float32' if other == c'f' else ''}, "
                            f"got {array.dtype}.")
        return view.buf if view.len > 0 else NULL
    finally:
        PyBuffer_Release(&view)
