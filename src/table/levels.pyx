"""Codes of the levels of numeric columns."""

from cython.parallel cimport prange
from libc.stdint cimport uint8_t, uint16_t

from craftc._kernels._common cimport check, check_threads
from craftc._kernels.moments cimport rows_number, rows_of, table_rows

cdef enum:
    BLOCK = 4096            # rows


def write_levels(
    X not None,                             # IN  (n, p)
    const double[::1] bounds not None,      # IN  (all,) ascending inside every column: cells above bounds[l] lie
                                            # above level l
    const Py_ssize_t[::1] first not None,   # IN  (p + 1,) of every column among the bounds
    const Py_ssize_t[::1] place not None,   # IN  (p,) columns of the codes, or -1: the column is left out
    codes not None,                         # OUT (n, q) uint8 or uint16; of a missing cell: the number of levels
    int n_threads,
):
    """Write the level of every cell of numeric columns."""
    cdef table_rows table = rows_of(X, codes)
    cdef Py_ssize_t n = table.n, p = place.shape[0], d, b, n_blocks = (n + BLOCK - 1) // BLOCK
    cdef Py_ssize_t most = 65535 if table.wide else 255
    check_threads(n_threads)
    check(table.p == p, "X")
    check(codes.flags.writeable, "codes")
    check(first.shape[0] == p + 1 and first[0] == 0 and first[p] == bounds.shape[0], "first")
    for d in range(p):
        check(first[d] <= first[d + 1], "first")
        check(-1 <= place[d] < table.q, "place")
        check(first[d + 1] - first[d] + 1 <= most, "bounds")
    if p == 0:
        return
    if n_threads == 1:
        with nogil:
            _write(&table, bounds, first, place, 0, n)
        return
    for b in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads):
        _write(&table, bounds, first, place, b * BLOCK, min((b + 1) * BLOCK, n))


cdef void _write(
    const table_rows *table, const double[::1] bounds, const Py_ssize_t[::1] first,
    const Py_ssize_t[::1] place, Py_ssize_t start, Py_ssize_t stop,
) noexcept nogil:
    cdef Py_ssize_t i, d, n, half, below
    cdef const double *base
    cdef double x
    for i in range(start, stop):
        for d in range(place.shape[0]):
            if place[d] < 0:
                continue
            x, n = rows_number(table, i, d), first[d + 1] - first[d]
            below = n + 1
            if x == x:
                base = &bounds[0] + first[d]
                while n > 1:            # the number of bounds below x, by halves without a branch
                    half = n // 2
                    base += half * (base[half - 1] < x)
                    n -= half
                below = base - (&bounds[0] + first[d]) + (n == 1 and base[0] < x)
            if table.wide:
                (<uint16_t *> table.codes)[i * table.q + place[d]] = <uint16_t> below
            else:
                (<uint8_t *> table.codes)[i * table.q + place[d]] = <uint8_t> below
