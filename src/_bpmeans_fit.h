/* The fit of the features to given memberships: which columns of Z are independent, exactly, and least squares from the integer Gram. */

/* ---- independent columns ---- */

/* a b modulo 2^61 - c, c < 64 */
static inline uint64_t bp_multiply(uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t ones = ((uint64_t)1 << 61) - 1;
    const craftc_int128 s = limbs_multiply_unsigned(a, b);
    const craftc_int128 t = limbs_multiply_unsigned(s.high << 3 | s.low >> 61, c);      /* 2^61 is worth c */
    uint64_t sum = (s.low & ones) + (t.low & ones) + (t.high << 3 | t.low >> 61) * c;
    sum = (sum & ones) + (sum >> 61) * c;
    return sum > ones - c ? sum - (ones + 1 - c) : sum;
}

/* a row enters an echelon basis modulo 2^61 - c; returns the leading column it adds, or -1 */
static inline int bp_eliminate(uint64_t *row, ptrdiff_t K, uint64_t (*basis)[BP_MOST], uint64_t leading, uint64_t c)
{
    const uint64_t p = ((uint64_t)1 << 61) - c;
    for (ptrdiff_t k = 0; k < K; k++) {
        const uint64_t own = row[k];
        if (own == 0)
            continue;
        if (!(leading >> k & 1)) {
            memcpy(basis[k], row, sizeof(uint64_t) * (size_t)K);
            return (int)k;
        }
        for (ptrdiff_t j = k; j < K; j++) {
            const uint64_t more = bp_multiply(row[j], basis[k][k], c), less = bp_multiply(own, basis[k][j], c);
            row[j] = more >= less ? more - less : more + p - less;
        }
    }
    return -1;
}

/* Columns of Z that raise the rank from left to right. Exact: minors of a 0/1 matrix of at most 36 columns are below 2^61 (Hadamard),
 * so that elimination modulo the prime 2^61 - 1 sees the true rank; for more columns a second prime is asked, as a rank can only be
 * lost. A full rank of Z'Z modulo the prime proves a full rank of Z without a look at the rows. `without`: a row left out, or -1. */
static inline uint64_t bp_independent(const bp_model *m, ptrdiff_t without)
{
    static const uint64_t below[2] = {1, 31};
    const ptrdiff_t K = m->K;
    const uint64_t all = bp_first(K);
    uint64_t basis[BP_MOST][BP_MOST], row[BP_MOST], seen[256], best = 0;
    for (int trial = 0; trial < (K > 36 ? 2 : 1); trial++) {
        const uint64_t c = below[trial];
        uint64_t leading = 0;
        for (ptrdiff_t k = 0; k < K; k++) {
            for (ptrdiff_t j = 0; j < K; j++) {
                row[j] = (uint64_t)m->M[k * m->lanes + j];
                if (without >= 0)
                    row[j] -= m->mask[without] >> k & m->mask[without] >> j & 1;
            }
            const int found = bp_eliminate(row, K, basis, leading, c);
            if (found < 0)
                break;
            leading |= (uint64_t)1 << found;
        }
        if (leading == all)
            return all;
        leading = 0;
        memset(seen, 0, sizeof seen);
        for (ptrdiff_t i = 0; i < m->n && leading != all; i++) {
            const uint64_t mask = m->mask[i];
            uint64_t *slot = seen + (mask * 0x9E3779B97F4A7C15u >> 56);
            if (*slot == mask || i == without)
                continue;
            *slot = mask;
            for (ptrdiff_t k = 0; k < K; k++)
                row[k] = mask >> k & 1;
            const int found = bp_eliminate(row, K, basis, leading, c);
            if (found >= 0)
                leading |= (uint64_t)1 << found;
        }
        if (bp_count(leading) > bp_count(best))
            best = leading;
    }
    return best;
}

/* ---- least squares ---- */

/* H = inverse of a positive definite M (both (K, K), `lanes` from row to row), by Cholesky */
static inline void bp_inverse(const double *M, double *H, ptrdiff_t K, ptrdiff_t lanes)
{
    double L[BP_MOST][BP_MOST];
    for (ptrdiff_t i = 0; i < K; i++)
        for (ptrdiff_t j = 0; j <= i; j++) {
            double rest = M[i * lanes + j];
            for (ptrdiff_t k = 0; k < j; k++)
                rest -= L[i][k] * L[j][k];
            L[i][j] = i == j ? sqrt(rest) : rest / L[j][j];
        }
    for (ptrdiff_t j = 0; j < K; j++) {         /* L becomes its inverse, column after column */
        L[j][j] = 1.0 / L[j][j];
        for (ptrdiff_t i = j + 1; i < K; i++) {
            double rest = 0.0;
            for (ptrdiff_t k = j; k < i; k++)
                rest -= L[i][k] * L[k][j];
            L[i][j] = rest / L[i][i];
        }
    }
    for (ptrdiff_t i = 0; i < K; i++)
        for (ptrdiff_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (ptrdiff_t k = i; k < K; k++)
                sum += L[k][i] * L[k][j];
            H[i * lanes + j] = H[j * lanes + i] = sum;
        }
}

/* out (K, L) = left' right for left (J, K) and right (J, L), rows BP_MOST apart */
static inline void bp_product(const double *left, const double *right, double *out, ptrdiff_t J, ptrdiff_t K, ptrdiff_t L)
{
    for (ptrdiff_t k = 0; k < K; k++)
        for (ptrdiff_t l = 0; l < L; l++) {
            double sum = 0.0;
            for (ptrdiff_t j = 0; j < J; j++)
                sum += left[j * BP_MOST + k] * right[j * BP_MOST + l];
            out[k * BP_MOST + l] = sum;
        }
}

/* H = pseudo-inverse of M, of whose columns r = |F| < K are independent: with T = inv(M_FF) M_F, M = T' M_FF T, and M+ = V inv(M_FF) V'
 * for V' = inv(T T') T */
static inline void bp_deficient_inverse(const double *M, double *H, ptrdiff_t K, ptrdiff_t lanes, uint64_t independent)
{
    double among[BP_MOST * BP_MOST] = {0}, rest[BP_MOST * BP_MOST] = {0}, T[BP_MOST * BP_MOST], inverse[BP_MOST * BP_MOST];
    double squares[BP_MOST * BP_MOST] = {0}, V[BP_MOST * BP_MOST], out[BP_MOST * BP_MOST];
    ptrdiff_t r = 0;
    for (; independent; independent &= independent - 1, r++) {
        const ptrdiff_t column = bp_lowest(independent);
        ptrdiff_t i = 0;
        memcpy(rest + r * BP_MOST, M + column * lanes, sizeof(double) * (size_t)K);
        for (uint64_t others = independent; others; others &= others - 1, i++)
            among[r * BP_MOST + r + i] = among[(r + i) * BP_MOST + r] = M[column * lanes + bp_lowest(others)];
    }
    bp_inverse(among, inverse, r, BP_MOST);
    bp_product(inverse, rest, T, r, r, K);
    for (ptrdiff_t i = 0; i < r; i++)
        for (ptrdiff_t j = 0; j < r; j++)
            for (ptrdiff_t k = 0; k < K; k++)
                squares[i * BP_MOST + j] += T[i * BP_MOST + k] * T[j * BP_MOST + k];
    bp_inverse(squares, among, r, BP_MOST);
    bp_product(among, T, V, r, r, K);
    bp_product(inverse, V, T, r, r, K);
    bp_product(V, T, out, r, K, K);
    for (ptrdiff_t k = 0; k < K; k++)
        memcpy(H + k * lanes, out + k * BP_MOST, sizeof(double) * (size_t)K);
}

static inline void bp_pseudo_inverse(const double *M, double *H, ptrdiff_t K, ptrdiff_t lanes, uint64_t independent)
{
    if (bp_count(independent) == K)
        bp_inverse(M, H, K, lanes);
    else
        bp_deficient_inverse(M, H, K, lanes, independent);
}

/* M = Z'Z: 64 rows at a time as words of bits, one per feature */
static inline void bp_count_pairs(const bp_model *m)
{
    uint64_t words[BP_MOST];
    for (ptrdiff_t k = 0; k < m->K; k++)
        memset(m->M + k * m->lanes, 0, sizeof(double) * (size_t)bp_width(m->K));
    for (ptrdiff_t from = 0; from < m->n; from += 64) {
        const ptrdiff_t n = m->n - from < 64 ? m->n - from : 64;
        bp_words(m->mask + from, n, m->K, words);
        for (ptrdiff_t k = 0; k < m->K; k++)
            for (ptrdiff_t j = 0; j <= k; j++)
                m->M[k * m->lanes + j] += bp_count(words[k] & words[j]);
    }
    for (ptrdiff_t k = 0; k < m->K; k++)
        for (ptrdiff_t j = 0; j < k; j++)
            m->M[j * m->lanes + k] = m->M[k * m->lanes + j];
}

/* the features as lanes, for products with rows */
static inline void bp_lay_out(const bp_model *m, const double *features)
{
    const ptrdiff_t width = bp_width(m->K);
    for (ptrdiff_t d = 0; d < m->D; d++)
        for (ptrdiff_t k = 0; k < width; k++)
            m->table[d * width + k] = k < m->K ? features[k * m->D + d] : 0.0;
}

/* A = H W with a step of refinement, A += H (W - M A); for columns [start, stop) */
static inline void bp_fit_features(const bp_model *m, ptrdiff_t start, ptrdiff_t stop)
{
    enum { RUN = 64 };
    double left[BP_MOST][RUN];
    for (ptrdiff_t from = start; from < stop; from += RUN) {
        const ptrdiff_t n = stop - from < RUN ? stop - from : RUN;
        for (int step = 0; step < 2; step++) {
            for (ptrdiff_t k = 0; k < m->K; k++) {
                double *restrict rest = left[k];
                memcpy(rest, m->W + k * m->D + from, sizeof(double) * (size_t)n);
                for (ptrdiff_t j = 0; step && j < m->K; j++) {
                    const double *restrict a = m->A + j * m->D + from, times = m->M[k * m->lanes + j];
                    for (ptrdiff_t d = 0; d < n; d++)
                        rest[d] -= times * a[d];
                }
            }
            for (ptrdiff_t k = 0; k < m->K; k++) {
                double *restrict a = m->A + k * m->D + from;
                if (!step)
                    memset(a, 0, sizeof(double) * (size_t)n);
                for (ptrdiff_t j = 0; j < m->K; j++) {
                    const double *restrict rest = left[j], times = m->H[k * m->lanes + j];
                    for (ptrdiff_t d = 0; d < n; d++)
                        a[d] += times * rest[d];
                }
            }
        }
    }
}

/* G = A A' from the features as lanes */
static inline void bp_inner_products(const bp_model *m, const double *features, double *out)
{
    const ptrdiff_t width = bp_width(m->K);
    double products[BP_TILE * BP_MOST];
    const void *rows[BP_TILE];
    for (ptrdiff_t from = 0; from < m->K; from += BP_TILE) {
        const ptrdiff_t n = m->K - from < BP_TILE ? m->K - from : BP_TILE;
        for (ptrdiff_t r = 0; r < n; r++)
            rows[r] = features + (from + r) * m->D;
        bp_products(rows, 0, n, m->D, m->table, width, products);
        for (ptrdiff_t r = 0; r < n; r++)
            memcpy(out + (from + r) * m->lanes, products + r * width, sizeof(double) * (size_t)width);
    }
}

/* the transpose of H right, with a step of refinement: t = H right, t += H (right - M t) */
static inline void bp_solve(const double *H, const double *M, const double *right, double *out, ptrdiff_t K, ptrdiff_t lanes)
{
    for (ptrdiff_t l = 0; l < K; l++) {
        double rest[BP_MOST], *solved = out + l * lanes;
        for (ptrdiff_t k = 0; k < K; k++)
            rest[k] = right[k * lanes + l], solved[k] = 0.0;
        for (int step = 0; step < 2; step++) {
            for (ptrdiff_t k = 0; k < K; k++)
                for (ptrdiff_t j = 0; j < K; j++)
                    solved[k] += H[k * lanes + j] * rest[j];
            for (ptrdiff_t k = 0; k < K; k++) {
                rest[k] = right[k * lanes + l];
                for (ptrdiff_t j = 0; j < K; j++)
                    rest[k] -= M[k * lanes + j] * solved[j];
            }
        }
    }
}

/* G = H Q H */
static inline void bp_gram_of_fit(const double *H, const double *M, const double *Q, double *G, ptrdiff_t K, ptrdiff_t lanes)
{
    double half[BP_MOST * BP_MOST];
    bp_solve(H, M, Q, half, K, lanes);
    for (ptrdiff_t k = 0; k < K; k++)
        memset(G + k * lanes, 0, sizeof(double) * (size_t)lanes);
    bp_solve(H, M, half, G, K, lanes);
    for (ptrdiff_t k = 0; k < K; k++)
        for (ptrdiff_t l = 0; l < k; l++)
            G[k * lanes + l] = G[l * lanes + k];
}

/* tr H Q = |Z A|^2 */
static inline double bp_explained(const bp_model *m)
{
    double sum = 0.0;
    for (ptrdiff_t k = 0; k < m->K; k++)
        for (ptrdiff_t l = 0; l < m->K; l++)
            sum += m->H[k * m->lanes + l] * m->Q[k * m->lanes + l];
    return sum;
}
