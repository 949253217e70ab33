"""Least squares features of given memberships: exact sums of rows, exact rank of Z, and A = pinv(Z) X from
the integer Gram matrix Z'Z.

Matrices (K, K) lie in memory with `lanes` doubles from row to row.
"""

from cython.parallel cimport prange
from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from craftc._kernels._bpmeans cimport (
    BP_BLOCK, BP_MOST, BP_PIECE, BP_TILE, bp_add, bp_count, bp_extract, bp_first, bp_fit_products, bp_model,
    bp_new_combinations, bp_products, bp_row, bp_solve, bp_width, bp_words, descent, simd_lowest,
)
from craftc._kernels._common cimport omp_get_thread_num
from craftc._kernels.dpmeans cimport dp_add, dp_sums

cdef extern from "common/_int128.h" nogil:
    ctypedef struct craftc_int128:
        uint64_t low, high
    craftc_int128 limbs_multiply_unsigned(uint64_t a, uint64_t b)

cdef enum:
    RUN = 64                    # columns whose features are fitted together
    SLOTS = 256                 # of the table of memberships already eliminated


# ---- inverses ----

cdef inline void _add_row(double *out, const double *row, double times, Py_ssize_t n) noexcept nogil:
    """out += times row; the compiler makes vectors of it, which sums inside an entry do not allow."""
    cdef Py_ssize_t j
    for j in range(n):
        out[j] += times * row[j]


cdef bint _factor(
    const double *M, double *U, Py_ssize_t K, Py_ssize_t lanes, double keep, uint64_t without,
) noexcept nogil:
    """U'U = M with `keep` times its diagonal, less the row `without` of Z; U is an upper triangle.

    Whether that is positive definite.
    """
    cdef Py_ssize_t i, j
    cdef double *own
    for i in range(K):
        own = U + i * BP_MOST
        for j in range(i, K):
            own[j] = M[i * lanes + j] - <double> (without >> i & without >> j & 1)
        own[i] *= keep
    for i in range(K):
        own = U + i * BP_MOST
        if not own[i] > 0.0:
            return False
        own[i] = sqrt(own[i])
        for j in range(i + 1, K):
            own[j] /= own[i]
        for j in range(i + 1, K):
            _add_row(U + j * BP_MOST + j, own + j, -own[j], K - j)
    return True


cdef void invert(const double *M, double *H, Py_ssize_t K, Py_ssize_t lanes) noexcept nogil:
    """H = inverse of a positive definite M, by Cholesky."""
    cdef double[BP_MOST * BP_MOST] U, L
    cdef Py_ssize_t i, j, k
    cdef double *own
    _factor(M, U, K, lanes, 1.0, 0)
    for i in range(K):          # L = inverse of U', a lower triangle, row after row
        own = L + i * BP_MOST
        memset(own, 0, i * sizeof(double))
        for k in range(i):
            _add_row(own, L + k * BP_MOST, -U[k * BP_MOST + i], k + 1)
        for j in range(i):
            own[j] /= U[i * BP_MOST + i]
        own[i] = 1.0 / U[i * BP_MOST + i]
    for i in range(K):
        memset(H + i * lanes, 0, (i + 1) * sizeof(double))
    for k in range(K):
        own = L + k * BP_MOST
        for i in range(k + 1):
            _add_row(H + i * lanes, own, own[i], i + 1)
    for i in range(K):
        for j in range(i):
            H[j * lanes + i] = H[i * lanes + j]


# ---- exact rank ----

cdef inline uint64_t _multiply(uint64_t a, uint64_t b, uint64_t c) noexcept nogil:
    """a b modulo 2^61 - c, c < 64."""
    cdef uint64_t ones = (<uint64_t> 1 << 61) - 1, total
    cdef craftc_int128 s = limbs_multiply_unsigned(a, b)
    # 2^61 is c modulo 2^61 - c
    cdef craftc_int128 t = limbs_multiply_unsigned(s.high << 3 | s.low >> 61, c)
    total = (s.low & ones) + (t.low & ones) + (t.high << 3 | t.low >> 61) * c
    total = (total & ones) + (total >> 61) * c
    return total - (ones + 1 - c) if total > ones - c else total


cdef int _eliminate(
    uint64_t *row, Py_ssize_t K, uint64_t *basis, uint64_t leading, uint64_t c,
) noexcept nogil:
    """Reduce a row by an echelon basis modulo 2^61 - c, add what remains; returns its leading column, or -1
    if nothing remains.
    """
    cdef Py_ssize_t k, j
    cdef uint64_t p = (<uint64_t> 1 << 61) - c, own, more, less
    cdef uint64_t *pivot
    for k in range(K):
        own = row[k]
        if own == 0:
            continue
        pivot = basis + k * BP_MOST
        if not leading >> k & 1:
            memcpy(pivot, row, K * sizeof(uint64_t))
            return <int> k
        for j in range(k, K):
            more, less = _multiply(row[j], pivot[k], c), _multiply(own, pivot[j], c)
            row[j] = more - less if more >= less else more + p - less
    return -1


cdef uint64_t independent_columns(
    const double *M, Py_ssize_t lanes, const uint64_t *masks, Py_ssize_t n, Py_ssize_t K, Py_ssize_t without,
) noexcept nogil:
    """Columns of Z that raise the rank from left to right; M = Z'Z. `without`: a row to leave out, or -1.

    Exact: minors of a 0/1 matrix of at most 36 columns are below 2^61 (Hadamard), so that elimination modulo
    the prime 2^61 - 1 gives the true rank; more columns are eliminated modulo a second prime as well, since a
    prime can only lose rank. A full rank of Z'Z modulo the prime proves a full rank of Z without reading the
    rows. A Z'Z that stays positive definite when its diagonal shrinks by far more than rounding has a full
    rank without any elimination.
    """
    cdef double[BP_MOST * BP_MOST] factor
    cdef uint64_t[BP_MOST * BP_MOST] basis
    cdef uint64_t[BP_MOST] row
    cdef uint64_t[SLOTS] seen
    cdef uint64_t full = bp_first(K), best = 0, leading, mask, c
    cdef uint64_t *slot
    cdef Py_ssize_t i, k, j
    cdef int trial, found
    if _factor(M, factor, K, lanes, 1.0 - 1e-9, masks[without] if without >= 0 else 0):
        return full
    for trial in range(2 if K > 36 else 1):
        c = 31 if trial else 1
        leading = 0
        for k in range(K):
            for j in range(K):
                row[j] = <uint64_t> M[k * lanes + j]
                if without >= 0:
                    row[j] -= masks[without] >> k & masks[without] >> j & 1
            found = _eliminate(row, K, basis, leading, c)
            if found < 0:
                break
            leading |= <uint64_t> 1 << found
        if leading == full:
            return full
        leading = 0
        memset(seen, 0, sizeof(seen))
        for i in range(n):
            if leading == full:
                break
            mask = masks[i]
            slot = seen + (mask * 0x9E3779B97F4A7C15ULL >> 56)
            if slot[0] == mask or i == without:
                continue
            slot[0] = mask
            for k in range(K):
                row[k] = mask >> k & 1
            found = _eliminate(row, K, basis, leading, c)
            if found >= 0:
                leading |= <uint64_t> 1 << found
        if bp_count(leading) > bp_count(best):
            best = leading
    return best


# ---- pseudo-inverse ----

cdef void _product(
    const double *left, const double *right, double *out, Py_ssize_t J, Py_ssize_t K, Py_ssize_t L,
) noexcept nogil:
    """out (K, L) = left' right for left (J, K) and right (J, L), rows BP_MOST apart."""
    cdef Py_ssize_t i, j, k
    cdef double total
    for i in range(K):
        for j in range(L):
            total = 0.0
            for k in range(J):
                total += left[k * BP_MOST + i] * right[k * BP_MOST + j]
            out[i * BP_MOST + j] = total


cdef void _deficient_inverse(
    const double *M, double *H, Py_ssize_t K, Py_ssize_t lanes, uint64_t independent,
) noexcept nogil:
    """H = pseudo-inverse of M, whose r < K columns F are independent.

    With T = inv(M_FF) M_F, M = T' M_FF T, and pinv(M) = V inv(M_FF) V' for V' = inv(T T') T.
    """
    cdef double[BP_MOST * BP_MOST] among, rest, T, inverse, squares, V, out
    cdef Py_ssize_t r = 0, i, j, k, column
    cdef uint64_t others
    memset(among, 0, sizeof(among))
    memset(rest, 0, sizeof(rest))
    memset(squares, 0, sizeof(squares))
    while independent:
        column = simd_lowest(independent)
        memcpy(rest + r * BP_MOST, M + column * lanes, K * sizeof(double))
        others, i = independent, 0
        while others:
            among[r * BP_MOST + r + i] = among[(r + i) * BP_MOST
                                               + r] = M[column * lanes + simd_lowest(others)]
            others &= others - 1
            i += 1
        independent &= independent - 1
        r += 1
    invert(among, inverse, r, BP_MOST)
    _product(inverse, rest, T, r, r, K)
    for i in range(r):
        for j in range(r):
            for k in range(K):
                squares[i * BP_MOST + j] += T[i * BP_MOST + k] * T[j * BP_MOST + k]
    invert(squares, among, r, BP_MOST)
    _product(among, T, V, r, r, K)
    _product(inverse, V, T, r, r, K)
    _product(V, T, out, r, K, K)
    for k in range(K):
        memcpy(H + k * lanes, out + k * BP_MOST, K * sizeof(double))


cdef void fit_gram(
    const double *H, const double *M, const double *Q, double *G, Py_ssize_t K, Py_ssize_t lanes,
) noexcept nogil:
    """G = H Q H, the inner products of the least squares features."""
    cdef double[BP_MOST * BP_MOST] half
    cdef Py_ssize_t k, j
    for k in range(K):
        memset(half + k * lanes, 0, lanes * sizeof(double))
        memset(G + k * lanes, 0, lanes * sizeof(double))
    bp_solve(H, M, Q, half, K, lanes)
    bp_solve(H, M, half, G, K, lanes)
    for k in range(K):
        for j in range(k):
            G[k * lanes + j] = G[j * lanes + k]


# ---- work ----

cdef double visits_of_row(const descent *c) noexcept nogil:
    """Cells and combinations of features that a row visits when it chooses."""
    cdef const bp_model *m = &c.m
    cdef double K = m.K + 1
    return K * (m.D + K) + (<double> (<int64_t> 1 << m.K) if m.K <= m.exact else 0.0)


# ---- sums of rows ----

cdef void move_sums(descent *c) noexcept nogil:
    """Add rows to the sums of their new features and subtract them from those of their old ones."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t b, t, cell
    cdef bint many = c.n_threads > 1
    cdef int64_t *sums
    if m.gram:
        move_rows(c, 0, m.n, NULL)
        return
    for b in prange((m.n + BP_BLOCK - 1) // BP_BLOCK, num_threads=c.n_threads, use_threads_if=many,
                    schedule="static"):
        move_rows(c, b * BP_BLOCK, min((b + 1) * BP_BLOCK, m.n),
                  &c.places[omp_get_thread_num() if many else 0])
    sums = c.places[0].sums
    for t in range(1, c.n_threads):
        for cell in range(m.K * m.D):
            sums[cell] += c.places[t].sums[cell]
        memset(c.places[t].sums, 0, m.K * m.D * sizeof(int64_t))


cdef void move_rows(descent *c, Py_ssize_t start, Py_ssize_t stop, dp_sums *place) noexcept nogil:
    """The same for rows [start, stop); rows form: into the sums at `place`."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i
    cdef uint64_t flips
    cdef int k, sign
    for i in range(start, stop):
        flips = m.mask[i] ^ c.before[i]
        while flips:
            k = simd_lowest(flips)
            flips &= flips - 1
            sign = 1 if m.mask[i] >> k & 1 else -1
            if m.gram:
                bp_add(m.P + k * m.n, m.S + i * m.n, sign, m.n)
            else:
                dp_add(place, bp_row(m, i), m.single, m.D, k, i, sign)


cdef void dequantise_sum(descent *c, Py_ssize_t k) noexcept nogil:
    """Row k of Z'X from its exact sum."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t d
    cdef int64_t *sums = c.places[0].sums + k * m.D
    for d in range(m.D):
        m.W[k * m.D + d] = m.M[k * m.lanes + k] * c.middle[d] + <double> sums[d] * c.step[d]


cdef void _count_pairs(const bp_model *m) noexcept nogil:
    """M = Z'Z: 64 rows at a time as words of bits, one per feature."""
    cdef uint64_t[BP_MOST] words
    cdef Py_ssize_t first, k, j
    for k in range(m.K):
        memset(m.M + k * m.lanes, 0, bp_width(m.K) * sizeof(double))
    for first in range(0, m.n, 64):
        bp_words(m.mask + first, min(m.n - first, 64), m.K, words)
        for k in range(m.K):
            for j in range(k + 1):
                m.M[k * m.lanes + j] += bp_count(words[k] & words[j])
    for k in range(m.K):
        for j in range(k):
            m.M[j * m.lanes + k] = m.M[k * m.lanes + j]


# ---- features that stay ----

cdef void keep_features(descent *c, uint64_t keep) noexcept nogil:
    """Remove all other features from memberships, sums, Z'Z and Q."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i, k, j, to = 0, to_j
    for i in range(m.n):
        m.mask[i] = bp_extract(m.mask[i], keep)
    for k in range(m.K):
        if not keep >> k & 1:
            continue
        if k != to and m.gram:
            memcpy(m.P + to * m.n, m.P + k * m.n, m.n * sizeof(double))
        elif k != to:
            memcpy(c.places[0].sums + to * m.D, c.places[0].sums + k * m.D, m.D * sizeof(int64_t))
        to_j = 0
        for j in range(m.K):
            if keep >> j & 1:
                m.M[to * m.lanes + to_j] = m.M[k * m.lanes + j]
                m.Q[to * m.lanes + to_j] = m.Q[k * m.lanes + j]
                to_j += 1
        to += 1
    for k in range(to, m.K):
        if m.gram:
            memset(m.P + k * m.n, 0, m.n * sizeof(double))
        else:
            memset(c.places[0].sums + k * m.D, 0, m.D * sizeof(int64_t))
    m.K = to


cdef bint _equals_earlier(const bp_model *m, Py_ssize_t k) noexcept nogil:
    """Whether feature k has the same rows as an earlier one."""
    cdef Py_ssize_t j
    cdef double rows = m.M[k * m.lanes + k]
    for j in range(k):
        if m.M[j * m.lanes + j] == rows and m.M[k * m.lanes + j] == rows:
            return True
    return False


cdef bint drop_redundant(descent *c) noexcept nogil:
    """Count Z'Z and drop redundant features: empty ones and, with a penalty, linear combinations of
    earlier ones (`dependent`: copies of one). Returns whether any was dropped.
    """
    cdef bp_model *m = &c.m
    cdef uint64_t keep = 0
    cdef Py_ssize_t k
    _count_pairs(m)
    if c.penalty > 0.0 and not c.dependent:
        keep = independent_columns(m.M, m.lanes, m.mask, m.n, m.K, -1)
    else:
        for k in range(m.K):
            if m.M[k * m.lanes + k] > 0.0 and not (c.penalty > 0.0 and _equals_earlier(m, k)):
                keep |= <uint64_t> 1 << k
    if keep == bp_first(m.K):
        return False
    keep_features(c, keep)
    return True


cdef void reseed_empty(descent *c) noexcept nogil:
    """Give each feature without rows the row of largest residual."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t i, k, worst
    cdef uint64_t used = 0
    for i in range(m.n):
        used |= m.mask[i]
    for k in range(m.K):
        if used >> k & 1:
            continue
        worst = 0
        for i in range(1, m.n):
            if m.residual[i] > m.residual[worst]:
                worst = i
        m.mask[worst] |= <uint64_t> 1 << k
        m.residual[worst] = 0.0


# ---- features ----

cdef void lay_out(const bp_model *m, const double *features) noexcept nogil:
    """Transpose features into lanes, for inner products with rows."""
    cdef Py_ssize_t width = bp_width(m.K), d, k
    for d in range(m.D):
        for k in range(width):
            m.table[d * width + k] = features[k * m.D + d] if k < m.K else 0.0


cdef void inner_products(const bp_model *m, const double *features, double *out) noexcept nogil:
    """out = A A' for features A that are laid out as lanes."""
    cdef double[BP_TILE * BP_MOST] products
    cdef const void *rows[BP_TILE]
    cdef Py_ssize_t width = bp_width(m.K), tile, first, n, r
    for tile in range(width // BP_TILE):
        first = tile * BP_TILE
        n = min(m.K - first, BP_TILE)
        for r in range(n):
            rows[r] = features + (first + r) * m.D
        bp_products(rows, 0, n, m.D, m.table, width, products)
        for r in range(n):
            memcpy(out + (first + r) * m.lanes, products + r * width, width * sizeof(double))


cdef void _fit_columns(const bp_model *m, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """A = H W with a step of refinement, A += H (W - M A); columns [start, stop)."""
    cdef double[BP_MOST][RUN] left
    cdef Py_ssize_t first = start, n, k, j, d
    cdef double times
    cdef double *rest
    cdef double *a
    cdef int step
    while first < stop:
        n = min(stop - first, RUN)
        for step in range(2):
            for k in range(m.K):
                rest = left[k]
                memcpy(rest, m.W + k * m.D + first, n * sizeof(double))
                if step:
                    for j in range(m.K):
                        a, times = m.A + j * m.D + first, m.M[k * m.lanes + j]
                        for d in range(n):
                            rest[d] -= times * a[d]
            for k in range(m.K):
                a = m.A + k * m.D + first
                if not step:
                    memset(a, 0, n * sizeof(double))
                for j in range(m.K):
                    rest, times = left[j], m.H[k * m.lanes + j]
                    for d in range(n):
                        a[d] += times * rest[d]
        first += RUN


cdef double _explained(const bp_model *m) noexcept nogil:
    """tr H Q = |Z A|^2."""
    cdef double total = 0.0
    cdef Py_ssize_t k, j
    for k in range(m.K):
        for j in range(m.K):
            total += m.H[k * m.lanes + j] * m.Q[k * m.lanes + j]
    return total


cdef void fit_features(descent *c) noexcept nogil:
    """Least squares features of the memberships, their inner products, and J."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t k, b, d, K = m.K, pieces = (m.D + BP_PIECE - 1) // BP_PIECE
    cdef bint many = c.n_threads > 1 and not m.gram
    cdef uint64_t independent = bp_first(K)
    if c.penalty == 0.0 or c.dependent:
        independent = independent_columns(m.M, m.lanes, m.mask, m.n, K, -1)
    if independent == bp_first(K):
        invert(m.M, m.H, K, m.lanes)
    else:
        _deficient_inverse(m.M, m.H, K, m.lanes, independent)
    m.trace = 0.0
    if m.gram:
        bp_fit_products(m)
        fit_gram(m.H, m.M, m.Q, m.G, K, m.lanes)
        c.objective = c.scatter - _explained(m)
    else:
        for k in range(K):
            dequantise_sum(c, k)
        for b in prange(pieces, num_threads=c.n_threads, use_threads_if=many, schedule="static"):
            _fit_columns(m, b * BP_PIECE, min((b + 1) * BP_PIECE, m.D))
        lay_out(m, m.A)
        memset(m.G, 0, m.lanes * m.lanes * sizeof(double))
        inner_products(m, m.A, m.G)
        c.objective = c.scatter
        for k in range(K):
            for d in range(m.D):
                c.objective -= m.W[k * m.D + d] * m.A[k * m.D + d]
    c.objective = max(0.0, c.objective) + c.penalty * K
    for k in range(K):
        m.trace += m.G[k * m.lanes + k]
    bp_new_combinations(m)


cdef void fit_memberships(descent *c) noexcept nogil:
    """Sums and features of the memberships as they stand, empty and dependent features dropped."""
    move_sums(c)
    drop_redundant(c)
    memcpy(c.before, c.m.mask, c.m.n * sizeof(uint64_t))
    fit_features(c)
