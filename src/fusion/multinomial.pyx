"""Kernels of the multinomial loss: softmax of a table of logits; on a sparse table value and probabilities,
gradient, products with the Hessian, its diagonal.

Coefficients have one number for every class, padded with zeros to a multiple of :data:`TILE`. Sums over rows
belong to fixed blocks and are added in their order.
"""

import numpy as np

from cython.parallel cimport prange
from libc.stdint cimport int32_t

from craftc._kernels._common cimport check, check_indices, check_threads

cdef extern from "fusion/_multinomial.h":
    enum:
        MN_TILE

    ctypedef struct mn_rows:
        Py_ssize_t c, w
        const Py_ssize_t *first
        const int32_t *column
        const double *x
        const double *beta
        const int32_t *y
        double *proba

    void mn_evaluate(const mn_rows *t, Py_ssize_t start, Py_ssize_t stop, double *row,
                     double *out) noexcept nogil
    void mn_gradient(const mn_rows *t, Py_ssize_t start, Py_ssize_t stop, double *row,
                     double *sums) noexcept nogil
    void mn_hessian(const mn_rows *t, Py_ssize_t start, Py_ssize_t stop, double *row,
                    double *sums) noexcept nogil
    void mn_variances(const mn_rows *t, Py_ssize_t start, Py_ssize_t stop, double *row,
                      double *sums) noexcept nogil

    ctypedef struct mn_logits:
        Py_ssize_t n, c
        double *z
        const int32_t *y
        const double *weight

    void mn_softmax(const mn_logits *t, double *tile, double *out) noexcept nogil

TILE = MN_TILE

ctypedef void (*mn_pass)(const mn_rows *t, Py_ssize_t start, Py_ssize_t stop, double *row,
                         double *sums) noexcept nogil


cdef int set_rows(mn_rows *t, const Py_ssize_t[::1] first, const int32_t[::1] column, const double[::1] x,
                  const double[:, ::1] proba, Py_ssize_t m) except -1:
    """Check the table and set its pointers."""
    cdef Py_ssize_t s
    check(first.shape[0] >= 1 and first[0] == 0, "first")
    for s in range(first.shape[0] - 1):
        check(first[s] <= first[s + 1], "first")
    check(first[first.shape[0] - 1] == x.shape[0] and column.shape[0] == x.shape[0], "entries")
    check_indices(column, 0, m, "columns")
    check(first.shape[0] == proba.shape[0] + 1 and proba.shape[1] > 0, "proba")
    t.c, t.w = proba.shape[1], (proba.shape[1] + MN_TILE - 1) // MN_TILE * MN_TILE
    t.first = &first[0]
    if x.shape[0] > 0:
        t.column, t.x = &column[0], &x[0]
    if proba.shape[0] > 0:
        t.proba = <double *> &proba[0, 0]
    return 0


def softmax(
    double[:, ::1] logits not None,         # IN/OUT (c, n) logits; then probabilities
    const int32_t[::1] y not None,          # IN  (n,) classes
    const double[::1] weight=None,          # IN  (n,) weights of the rows; None: 1
) -> tuple[float, float]:
    """Probabilities in place of their logits, of a table with few classes.

    Returns
    -------
    tuple of float
        The loss -sum ln p(y), and the sum of the entropies of the probabilities.
    """
    cdef mn_logits t
    cdef double[2] out
    t.c, t.n, t.weight = logits.shape[0], logits.shape[1], NULL
    check(t.c > 0, "logits")
    check(y.shape[0] == t.n, "y")
    check_indices(y, 0, t.c, "classes")
    check(weight is None or weight.shape[0] == t.n, "weight")
    if t.n == 0:
        return 0.0, 0.0
    t.z, t.y = &logits[0, 0], &y[0]
    if weight is not None:
        t.weight = &weight[0]
    cdef double[:, ::1] tile = np.empty((t.c, MN_TILE))
    with nogil:
        mn_softmax(&t, &tile[0, 0], out)
    return out[0], out[1]


def evaluate(
    const Py_ssize_t[::1] first not None,   # IN  (n + 1,) bounds of the entries of every row
    const int32_t[::1] column not None,     # IN  (entries,)
    const double[::1] x not None,           # IN  (entries,)
    const double[:, ::1] beta not None,     # IN  (m, w) coefficients of the classes, padded with 0
    const int32_t[::1] y not None,          # IN  (n,) classes
    double[:, ::1] proba not None,          # OUT (n, c) probabilities
    double[:, :, ::1] work not None,        # WORK (blocks, 2, w)
    int n_threads,
) -> tuple[float, float]:
    """Fitted probabilities.

    Returns
    -------
    tuple of float
        The loss -sum ln p(y), and the sum of the entropies of the probabilities.
    """
    cdef mn_rows t
    cdef Py_ssize_t n = proba.shape[0], blocks = work.shape[0], k
    cdef double value = 0.0, entropy = 0.0
    check_threads(n_threads)
    set_rows(&t, first, column, x, proba, beta.shape[0])
    check(y.shape[0] == n, "y")
    check(beta.shape[1] == t.w, "beta")
    check(blocks > 0 and work.shape[1] == 2 and work.shape[2] == t.w, "work")
    check_indices(y, 0, t.c, "classes")
    if n == 0:
        return 0.0, 0.0
    t.y = &y[0]
    if beta.shape[0] > 0:
        t.beta = &beta[0, 0]
    cdef double[:, ::1] sums = np.zeros((blocks, 2))
    for k in prange(blocks, nogil=True, schedule="static", num_threads=n_threads):
        mn_evaluate(&t, n * k // blocks, n * (k + 1) // blocks, &work[k, 0, 0], &sums[k, 0])
    for k in range(blocks):
        value += sums[k, 0]
        entropy += sums[k, 1]
    return value, entropy


def gradient(
    const Py_ssize_t[::1] first not None,   # IN  (n + 1,) bounds of the entries of every row
    const int32_t[::1] column not None,     # IN  (entries,)
    const double[::1] x not None,           # IN  (entries,)
    const int32_t[::1] y not None,          # IN  (n,) classes
    const double[:, ::1] proba not None,    # IN  (n, c)
    double[:, ::1] out not None,            # OUT (m, w)
    double[:, :, ::1] work not None,        # WORK (blocks, m + 2, w)
    int n_threads,
):
    """The gradient of the loss by the coefficients, X' (P - Y)."""
    cdef mn_rows t
    cdef Py_ssize_t n = proba.shape[0]
    check_threads(n_threads)
    set_rows(&t, first, column, x, proba, out.shape[0])
    check(y.shape[0] == n, "y")
    check_indices(y, 0, t.c, "classes")
    if n > 0:
        t.y = &y[0]
    sum_over_rows(mn_gradient, &t, n, out, work, n_threads)


def hessian_product(
    const Py_ssize_t[::1] first not None,   # IN  (n + 1,) bounds of the entries of every row
    const int32_t[::1] column not None,     # IN  (entries,)
    const double[::1] x not None,           # IN  (entries,)
    const double[:, ::1] proba not None,    # IN  (n, c)
    const double[:, ::1] direction not None,    # IN  (m, w), padded with 0
    double[:, ::1] out not None,            # OUT (m, w)
    double[:, :, ::1] work not None,        # WORK (blocks, m + 2, w)
    int n_threads,
):
    """The product of the loss's Hessian and a direction: X' (P * (V - <P, V>)) for V = X direction, row by
    row.
    """
    cdef mn_rows t
    cdef Py_ssize_t m = out.shape[0]
    check_threads(n_threads)
    set_rows(&t, first, column, x, proba, m)
    check(direction.shape[0] == m and direction.shape[1] == t.w, "direction")
    if m > 0:
        t.beta = &direction[0, 0]
    sum_over_rows(mn_hessian, &t, proba.shape[0], out, work, n_threads)


def class_curvature(
    const Py_ssize_t[::1] first not None,   # IN  (n + 1,) bounds of the entries of every row
    const int32_t[::1] column not None,     # IN  (entries,)
    const double[::1] square not None,      # IN  (entries,) squares of the entries
    const double[:, ::1] proba not None,    # IN  (n, c)
    double[:, ::1] out not None,            # OUT (m, w)
    double[:, :, ::1] work not None,        # WORK (blocks, m + 2, w)
    int n_threads,
):
    """The diagonal of the loss's Hessian by the coefficients of the classes: (X * X)' (P * (1 - P))."""
    cdef mn_rows t
    check_threads(n_threads)
    set_rows(&t, first, column, square, proba, out.shape[0])
    sum_over_rows(mn_variances, &t, proba.shape[0], out, work, n_threads)


def weighted_gram(
    const Py_ssize_t[::1] first not None,   # IN  (n + 1,) bounds of the entries of every row
    const int32_t[::1] column not None,     # IN  (entries,)
    const double[::1] x not None,           # IN  (entries,)
    const double[:, ::1] weight not None,   # IN  (n, 1)
    double[:, ::1] out not None,            # OUT (m, m)
):
    """X' diag(weight) X, dense. Every row adds the products of its entries."""
    cdef mn_rows t
    cdef Py_ssize_t m = out.shape[0], s, k, j, i
    cdef double scaled
    set_rows(&t, first, column, x, weight, m)
    check(out.shape[1] == m, "out")
    with nogil:
        out[:] = 0.0
        for s in range(weight.shape[0]):
            for k in range(first[s], first[s + 1]):
                i, scaled = column[k], weight[s, 0] * x[k]
                for j in range(first[s], first[s + 1]):
                    out[i, column[j]] += scaled * x[j]


cdef int sum_over_rows(
    mn_pass add, const mn_rows *t, Py_ssize_t n, double[:, ::1] out, double[:, :, ::1] work, int n_threads,
) except -1:
    """out (m, w) = what the rows add; work (blocks, m + 2, w). The blocks are added in their order."""
    cdef Py_ssize_t m = out.shape[0], blocks = work.shape[0], k, i, a
    check(out.shape[1] == t.w, "out")
    check(blocks > 0 and work.shape[1] == m + 2 and work.shape[2] == t.w, "work")
    for k in prange(blocks, nogil=True, schedule="static", num_threads=n_threads):
        work[k, :m] = 0.0
        add(t, n * k // blocks, n * (k + 1) // blocks, &work[k, m, 0], &work[k, 0, 0])
    for i in prange(m, nogil=True, schedule="static", num_threads=n_threads):
        for a in range(t.w):
            out[i, a] = work[0, i, a]
        for k in range(1, blocks):
            for a in range(t.w):
                out[i, a] += work[k, i, a]
    return 0
