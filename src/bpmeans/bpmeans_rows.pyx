"""Rows of the feature models for given features: memberships, squared residuals, inner products."""

import numpy as np

from cython.parallel cimport prange
from libc.stdint cimport uint64_t
from libc.string cimport memset

from craftc._kernels._bpmeans cimport (
    BP_BLOCK, BP_EXACT, BP_MOST, BP_TILE, BP_TRIALS, bp_first, bp_model, bp_new_combinations, bp_norms,
    bp_products, bp_propose, bp_residual, bp_row, bp_scratch, bp_width,
)
from craftc._kernels._common cimport check, check_threads, doubles_out, omp_get_thread_num
from craftc._kernels.bpmeans_fit cimport inner_products, lay_out
from craftc._kernels.moments cimport rows_of, table_rows

cdef enum:
    PASSES = 100                # at most, over the bits of a new row


def assign(
    X not None,                             # IN  (n, D)
    const double[:, ::1] A not None,        # IN  (K, D)
    int exact,                              # number of features up to which all combinations are compared
    uint64_t[::1] masks not None,           # OUT (n,) features of every row
    double[::1] residual not None,          # OUT (n,) |x - z A|^2
    int n_threads,
):
    """The features of new rows: the best combination, or bit after bit from none until nothing changes."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == masks.shape[0] and X.shape[1] == A.shape[1], "X")
    check(residual.shape[0] == masks.shape[0], "residual")
    check(A.shape[0] <= BP_MOST, "A")
    check(0 <= exact <= BP_EXACT, "exact")
    cdef table_rows rows = rows_of(X)
    cdef Py_ssize_t n = rows.n, D = rows.p, K = A.shape[0], lanes = bp_width(K), b, room
    cdef bint many = n_threads > 1
    cdef bp_model m
    memset(&m, 0, sizeof(m))
    square, q = np.zeros((lanes, lanes)), np.zeros((1 << exact) + (1 << (exact // 2)))
    table, norm = np.empty((D, lanes)), np.empty(n)
    scratch = np.empty((n_threads, bp_scratch(exact)))
    room = scratch.shape[1]
    cdef double *places = doubles_out(scratch)
    cdef double *norms_ = doubles_out(norm)
    m.n, m.D, m.K, m.most, m.lanes, m.single, m.exact = n, D, K, K, lanes, rows.single, exact
    m.X, m.norm, m.mask, m.residual = rows.numeric, norms_, &masks[0], &residual[0]
    m.A, m.table, m.G, m.q = <double *> &A[0, 0], doubles_out(table), doubles_out(square), doubles_out(q)
    m.least = m.q + (1 << exact)
    masks[:] = 0
    with nogil:
        lay_out(&m, m.A)
        inner_products(&m, m.A, m.G)
        for b in range(K):
            m.trace += m.G[b * lanes + b]
        bp_new_combinations(&m)
        for b in prange((n + BP_BLOCK - 1) // BP_BLOCK, num_threads=n_threads, use_threads_if=many,
                        schedule="static"):
            _assign(&m, norms_, b * BP_BLOCK, min((b + 1) * BP_BLOCK, n),
                    places + (omp_get_thread_num() if many else 0) * room)


cdef void _assign(
    const bp_model *m, double *norm, Py_ssize_t start, Py_ssize_t stop, double *scratch,
) noexcept nogil:
    bp_norms(m.X, m.single, m.D, start, stop, norm)
    bp_propose(m, NULL, start, stop, PASSES, m.mask + start, scratch)


def left_over(
    X not None,                             # IN  (n, D)
    const double[:, ::1] A not None,        # IN  (K, D)
    const uint64_t[::1] masks not None,     # IN  (n,)
    double[::1] residual not None,          # OUT (n,) |x - z A|^2, column by column
    int n_threads,
):
    """Squared distance of every row to the sum of its features."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == masks.shape[0] and X.shape[1] == A.shape[1], "X")
    check(residual.shape[0] == masks.shape[0], "residual")
    check(A.shape[0] <= BP_MOST, "A")
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t n = table.n, D = table.p, b
    cdef uint64_t features = 0
    for b in range(n):
        features |= masks[b]
    check(not features & ~bp_first(A.shape[0]), "masks")
    cdef bint many = n_threads > 1
    cdef bp_model m
    memset(&m, 0, sizeof(m))
    rows = np.empty((n_threads, D))
    cdef double *places = doubles_out(rows)
    m.n, m.D, m.single, m.X = n, D, table.single, table.numeric
    m.A, m.mask = <double *> &A[0, 0] if A.shape[0] else NULL, <uint64_t *> &masks[0]
    for b in prange((n + BP_BLOCK - 1) // BP_BLOCK, nogil=True, num_threads=n_threads, use_threads_if=many,
                    schedule="static"):
        _left_over(&m, b * BP_BLOCK, min((b + 1) * BP_BLOCK, n),
                   places + (omp_get_thread_num() if many else 0) * D, &residual[0])


cdef void _left_over(
    const bp_model *m, Py_ssize_t start, Py_ssize_t stop, double *r, double *residual,
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(start, stop):
        bp_residual(m, i, r)
        bp_norms(r, 0, m.D, 0, 1, residual + i)


def norms(
    X not None,                             # IN  (n, D)
    double[::1] norm not None,              # OUT (n,) |x|^2
):
    """Squared norms of the rows."""
    check(X.ndim == 2 and X.shape[0] == norm.shape[0], "X")
    cdef table_rows table = rows_of(X)
    with nogil:
        bp_norms(table.numeric, table.single, table.p, 0, table.n, &norm[0])


def products(
    X not None,                             # IN  (n, D)
    const double[:, ::1] vectors not None,  # IN  (D, TRIALS) vectors as lanes
    double[:, ::1] out not None,            # OUT (n, TRIALS)
    int n_threads,
):
    """Inner products of every row with a few vectors."""
    check_threads(n_threads)
    check(X.ndim == 2 and X.shape[0] == out.shape[0] and X.shape[1] == vectors.shape[0], "X")
    check(vectors.shape[1] == BP_TRIALS, "vectors")
    check(out.shape[1] == BP_TRIALS, "out")
    cdef table_rows table = rows_of(X)
    cdef Py_ssize_t n = table.n, b
    cdef bint many = n_threads > 1
    cdef bp_model m
    memset(&m, 0, sizeof(m))
    m.D, m.single, m.X = table.p, table.single, table.numeric
    for b in prange((n + BP_TILE - 1) // BP_TILE, nogil=True, num_threads=n_threads, use_threads_if=many,
                    schedule="static"):
        _products(&m, b * BP_TILE, min((b + 1) * BP_TILE, n), &vectors[0, 0], &out[0, 0])


cdef void _products(
    const bp_model *m, Py_ssize_t start, Py_ssize_t stop, const double *table, double *out,
) noexcept nogil:
    cdef const void *rows[BP_TILE]
    cdef Py_ssize_t i
    for i in range(start, stop):
        rows[i - start] = bp_row(m, i)
    bp_products(rows, m.single, stop - start, m.D, table, BP_TRIALS, out + start * BP_TRIALS)
