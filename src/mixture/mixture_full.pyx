"""Mixture with full covariances: the update of the masks, columns selected and deselected one by one.

The evidence of a component's columns S is the normal-inverse-Wishart one, Sigma ~ IW(nu0 + q - 1, s0 I) on
q columns, whose marginals agree for every S. It depends on the data through ln |Psi_S| only, so a Cholesky
factor of Psi_S is kept: adding a column is a triangular solve and one new row, removing one is a rank-one
update of the rows after it. Both cost q^2.
"""

from craftc._kernels._common cimport check, check_lengths, check_shapes
import numpy as np

from libc.math cimport log, sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free


cdef void solve(const double *U, Py_ssize_t D, Py_ssize_t start, Py_ssize_t stop, double *w) noexcept nogil:
    """w = L^-1 w for L = U', from row `start` on; w is 0 before it."""
    cdef Py_ssize_t i, j
    for i in range(start, stop):
        w[i] /= U[i * D + i]
        for j in range(i + 1, stop):
            w[j] -= U[i * D + j] * w[i]


cdef double squares(const double *w, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t i
    cdef double sum = 0.0
    for i in range(start, stop):
        sum += w[i] * w[i]
    return sum


cdef struct Component:
    Py_ssize_t D
    const double *psi           # (D, D)
    const double *steps         # (D) evidence of the q-th column without ln |Psi|
    double freedom              # nu0 - 1 + N: degrees of freedom minus q
    double *U                   # (D, D) upper factor of Psi_S, columns in the order they were added
    double *w                   # (D) scratch
    int32_t *column             # (D) the q columns in that order
    Py_ssize_t q
    double log_det


cdef Py_ssize_t position_of(const Component *c, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(c.q):
        if c.column[i] == d:
            return i
    return -1


cdef double conditional(Component *c, Py_ssize_t d) noexcept nogil:
    """Psi_dd conditional on the columns in S; c.w is then the new row of the factor."""
    cdef Py_ssize_t i
    for i in range(c.q):
        c.w[i] = c.psi[d * c.D + c.column[i]]
    solve(c.U, c.D, 0, c.q, c.w)
    return max(c.psi[d * c.D + d] - squares(c.w, 0, c.q), 1e-300)


cdef double adding_gain(Component *c, Py_ssize_t d) noexcept nogil:
    """Log evidence with column d minus that without."""
    return c.steps[c.q] - 0.5 * c.log_det - 0.5 * (c.freedom + c.q + 1) * log(conditional(c, d))


cdef double keeping_gain(Component *c, Py_ssize_t d) noexcept nogil:
    """Log evidence with the selected column d minus that without."""
    cdef Py_ssize_t i, p = position_of(c, d)
    for i in range(p, c.q):
        c.w[i] = 1.0 if i == p else 0.0
    solve(c.U, c.D, p, c.q, c.w)
    # |Psi_S| = |Psi_S without d| / (Psi_S^-1)_dd
    cdef double left = -log(squares(c.w, p, c.q))
    return c.steps[c.q - 1] - 0.5 * (c.log_det - left) - 0.5 * (c.freedom + c.q) * left


cdef void add(Component *c, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t i
    cdef double left = conditional(c, d)
    for i in range(c.q):
        c.U[i * c.D + c.q] = c.w[i]
    c.U[c.q * c.D + c.q] = sqrt(left)
    c.column[c.q] = <int32_t> d
    c.q += 1
    c.log_det += log(left)


cdef void drop(Component *c, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t i, j, p = position_of(c, d), D = c.D
    cdef double r, cosine, sine
    for j in range(p + 1, c.q):
        c.w[j] = c.U[p * D + j]
    for i in range(p + 1, c.q):
        r = sqrt(c.U[i * D + i] * c.U[i * D + i] + c.w[i] * c.w[i])
        cosine, sine = r / c.U[i * D + i], c.w[i] / c.U[i * D + i]
        c.U[i * D + i] = r
        for j in range(i + 1, c.q):
            c.U[i * D + j] = (c.U[i * D + j] + sine * c.w[j]) / cosine
            c.w[j] = cosine * c.w[j] - sine * c.U[i * D + j]
    for i in range(c.q):
        if i != p:
            for j in range(max(i, p + 1), c.q):
                c.U[(i - (i > p)) * D + j - 1] = c.U[i * D + j]
    for i in range(p, c.q - 1):
        c.column[i] = c.column[i + 1]
    c.q -= 1
    c.log_det = 0.0
    for i in range(c.q):
        c.log_det += 2.0 * log(c.U[i * D + i])


cdef void factorize(Component *c, const double *p) noexcept nogil:
    """The factor of the selected columns, in their order."""
    cdef Py_ssize_t d
    c.q, c.log_det = 0, 0.0
    for d in range(c.D):
        if p[d] > 0:
            add(c, d)


cdef void toggle(Component *c, Py_ssize_t d, bint on, double *p) noexcept nogil:
    """Deselect the column if it is on, select it otherwise."""
    if on:
        drop(c, d)
    else:
        add(c, d)
    p[d] = not on


def switch_columns(
    const double[:, :, ::1] psi not None,   # IN  (K, D, D)
    const double[:, ::1] steps not None,    # IN  (K, D) evidence of the q-th column without ln |Psi|
    const double[::1] freedom not None,     # IN  (K,) nu0 - 1 + N
    const double[:, ::1] against not None,  # IN  (K, D) gain that a column must exceed: log likelihood of the
                                            # noise minus prior log-odds
    double margin,                          # a switch must gain more
    bint tied,                              # a column is switched for all components at once
    double[:, ::1] p not None,              # IN/OUT (K, D) 0 or 1
    double[:, :, ::1] U not None,           # OUT (K, D, D) upper Cholesky factors of Psi_S
    int32_t[:, ::1] column not None,        # OUT (K, D) the columns in S, in the order of the factor
    int32_t[::1] count not None,            # OUT (K,) number of columns in S
):
    """Switch every column of every component if that raises the ELBO, components and columns in their order.
    """
    check(psi.shape[2] == psi.shape[1], "psi")
    check_shapes(psi.shape[0], psi.shape[1], "steps, against, p, column", steps.shape, against.shape,
                 p.shape, column.shape)
    check_lengths(psi.shape[0], "freedom, count", freedom.shape[0], count.shape[0])
    check(U.shape[0] == psi.shape[0] and U.shape[1] == psi.shape[1] and U.shape[2] == psi.shape[1], "U")
    cdef Py_ssize_t K = psi.shape[0], D = psi.shape[1], first, last, j, k, d
    cdef double gain
    cdef bint on
    if D == 0 or K == 0:    # every column is constant: no element has an address
        count[:] = 0
        return
    selected = np.asarray(p) > 0
    check(not tied or (selected == selected[0]).all(), "p")     # a column is in all factors, or in none
    work = np.empty(D)
    cdef double[::1] w = work
    cdef Component *c = <Component *> calloc(K, sizeof(Component))
    if c == NULL:
        raise MemoryError
    with nogil:
        for k in range(K):
            c[k].D, c[k].psi, c[k].steps, c[k].freedom = D, &psi[k, 0, 0], &steps[k, 0], freedom[k]
            c[k].U, c[k].w, c[k].column = &U[k, 0, 0], &w[0], &column[k, 0]
            factorize(&c[k], &p[k, 0])
        for k in range(1 if tied else K):
            first = 0 if tied else k
            last = K if tied else k + 1
            for d in range(D):
                on = p[k, d] > 0
                gain = 0.0
                for j in range(first, last):
                    gain += (keeping_gain(&c[j], d) if on else adding_gain(&c[j], d)) - against[j, d]
                if (-gain if on else gain) > margin:
                    for j in range(first, last):
                        toggle(&c[j], d, on, &p[j, 0])
        for k in range(K):
            count[k] = <int32_t> c[k].q
        free(c)
