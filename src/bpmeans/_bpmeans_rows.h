/* One clone of the leaves of _bpmeans.h, included once per instruction set by _lanes.h: what rows decide, and
 * the products they need. A product of a row and a feature is summed over the columns in order, features side
 * by side in the lanes, so that the width of a vector changes nothing. */

#define VECTORS (BP_TILE / W)   /* of a block of features */
#define TOGETHER W              /* rows at a time: their sums and a block of features fit the registers */

/* ---- products ---- */

#define PRODUCTS(type)                                                                                   \
TARGET static inline void THIS(bp_block_##type)(const type *const *rows, ptrdiff_t n, ptrdiff_t D,       \
                                                const double *table, ptrdiff_t width, double *out)       \
{                                                                                                        \
    for (ptrdiff_t from = 0; from < D; from += BP_COLUMNS) {                                             \
        const ptrdiff_t to = from + BP_COLUMNS < D ? from + BP_COLUMNS : D;                              \
        LANE sum[TOGETHER][VECTORS];                                                                     \
        memset(sum, 0, sizeof sum);                                                                      \
        for (ptrdiff_t d = from; d < to; d++)                                                            \
            for (int r = 0; r < TOGETHER; r++)                                                           \
                for (int v = 0; v < VECTORS; v++)                                                        \
                    sum[r][v] += (double)rows[r][d] * *(const LANE *)(table + d * width + v * W);        \
        for (int r = 0; r < TOGETHER && r < n; r++)                                                      \
            for (int v = 0; v < VECTORS; v++) {                                                          \
                LANE *place = (LANE *)(out + r * width + v * W);                                         \
                if (from)                                                                                \
                    sum[r][v] += *place;                                                                 \
                *place = sum[r][v];                                                                      \
            }                                                                                            \
    }                                                                                                    \
}                                                                                                        \
                                                                                                         \
TARGET static void THIS(bp_products_##type)(const type *const *rows, ptrdiff_t n_rows, ptrdiff_t D,      \
                                            const double *table, ptrdiff_t width, double *out)           \
{                                                                                                        \
    const type *tile[BP_TILE];                                                                           \
    for (ptrdiff_t r = 0; r < BP_TILE; r++)                                                              \
        tile[r] = rows[r < n_rows ? r : n_rows - 1];                                                     \
    for (ptrdiff_t k = 0; k < width; k += BP_TILE)                                                       \
        for (ptrdiff_t r = 0; r < n_rows; r += TOGETHER)                                                 \
            THIS(bp_block_##type)(tile + r, n_rows - r, D, table + k, width, out + r * width + k);       \
}                                                                                                        \
                                                                                                         \
TARGET static void THIS(bp_norms_##type)(const type *X, ptrdiff_t D, ptrdiff_t start, ptrdiff_t stop,    \
                                         double *norm)                                                   \
{                                                                                                        \
    for (ptrdiff_t i = start; i < stop; i++) {                                                           \
        double sum[BP_TILE] = {0};                                                                       \
        const type *x = X + i * D;                                                                       \
        ptrdiff_t d = 0;                                                                                 \
        for (; d + BP_TILE <= D; d += BP_TILE)                                                           \
            for (int l = 0; l < BP_TILE; l++)                                                            \
                sum[l] += (double)x[d + l] * (double)x[d + l];                                           \
        for (int l = 0; d < D; d++, l++)                                                                 \
            sum[l] += (double)x[d] * (double)x[d];                                                       \
        norm[i] = simd_total(sum);                                                                       \
    }                                                                                                    \
}

PRODUCTS(float)
PRODUCTS(double)
#undef PRODUCTS

TARGET static void THIS(bp_products)(const void *const *rows, int single, ptrdiff_t n_rows, ptrdiff_t D,
                                     const double *table, ptrdiff_t width, double *out)
{
    if (single)
        THIS(bp_products_float)((const float *const *)rows, n_rows, D, table, width, out);
    else
        THIS(bp_products_double)((const double *const *)rows, n_rows, D, table, width, out);
}

TARGET static void THIS(bp_norms)(const void *X, int single, ptrdiff_t D, ptrdiff_t start, ptrdiff_t stop,
                                  double *norm)
{
    if (single)
        THIS(bp_norms_float)((const float *)X, D, start, stop, norm);
    else
        THIS(bp_norms_double)((const double *)X, D, start, stop, norm);
}

/* ---- what a row decides ---- */

/* bit after bit of n <= BP_TILE rows takes the value that lowers |r|^2 = |x|^2 - z b - z c, c = b - G z:
 * lanes are rows here */
TARGET static void THIS(bp_flip)(const bp_model *m, const double *const *rows, const double *norm,
                                 ptrdiff_t n, int passes, uint64_t *mask, double *residual, double *scratch)
{
    LANE *restrict b = (LANE *)scratch, *restrict c = b + m->K;
    for (ptrdiff_t v = 0; v < n; v += W) {
        const BITS *own = (const BITS *)(mask + v);
        const LANE square = *(const LANE *)(norm + v), least = -BP_MARGIN * (square + m->trace);
        LANE left = square;
        uint64_t any = 0;
        int changed = 1;
        for (int l = 0; l < W; l++) {
            any |= mask[v + l];
            for (ptrdiff_t k = 0; k < m->K; k++)
                ((double *)(b + k))[l] = rows[v + l][k];
        }
        memcpy(c, b, sizeof(LANE) * (size_t)m->K);
        for (; any; any &= any - 1) {
            const double *restrict g = m->G + simd_lowest(any) * m->lanes;
            const BITS on = -(*own >> simd_lowest(any) & 1);
            for (ptrdiff_t j = 0; j < m->K; j++)
                c[j] -= PICK(on, ALL(LANE, g[j]));
        }
        for (int pass = 0; changed && pass < passes; pass++) {
            changed = 0;
            for (ptrdiff_t k = 0; k < m->K; k++) {
                const double *restrict g = m->G + k * m->lanes;
                const BITS on = -(*own >> k & 1);
                const BITS flips = g[k] + PICK(on, 2.0 * c[k]) - PICK(~on, 2.0 * c[k]) < least;
                int64_t some = 0;
                for (int l = 0; l < W; l++)
                    some |= ((const int64_t *)&flips)[l];
                if (!some)
                    continue;
                for (ptrdiff_t j = 0; j < m->K; j++)
                    c[j] += PICK(flips & on, ALL(LANE, g[j])) - PICK(flips & ~on, ALL(LANE, g[j]));
                for (int l = 0; l < W; l++)
                    mask[v + l] ^= (uint64_t)(((const int64_t *)&flips)[l] != 0) << k;
                changed = 1;
            }
        }
        for (ptrdiff_t k = 0; k < m->K; k++)
            left -= PICK(-(*own >> k & 1), b[k] + c[k]);
        *(LANE *)(residual + v) = LARGER(left, ALL(LANE, 0.0));
    }
}

/* sums of -2 b over all subsets of K bits */
TARGET static inline void THIS(bp_subsets)(const double *restrict b, ptrdiff_t K, double *restrict sum)
{
    sum[0] = 0.0;
    for (ptrdiff_t k = 0; k < K; k++) {
        const ptrdiff_t half = (ptrdiff_t)1 << k;
        for (ptrdiff_t z = 0; z < half; z++)
            sum[half + z] = sum[z] - 2.0 * b[k];
    }
}

/* the least q + upper + lower of n combinations with one upper half */
TARGET static inline double THIS(bp_least_of)(const double *restrict q, double upper,
                                              const double *restrict lower, ptrdiff_t n)
{
    double least = INFINITY;
    ptrdiff_t z = 0;
    if (n >= W) {
        LANE lanes = ALL(LANE, least);
        for (; z < n; z += W) {
            const LANE value = *(const LANE *)(q + z) + (upper + *(const LANE *)(lower + z));
            lanes = SMALLER(value, lanes);
        }
        for (int l = 0; l < W; l++)
            least = ((const double *)&lanes)[l] < least ? ((const double *)&lanes)[l] : least;
    }
    for (; z < n; z++)
        least = q[z] + (upper + lower[z]) < least ? q[z] + (upper + lower[z]) : least;
    return least;
}

/* the best of all combinations, the first where several are: q(z) - 2 z b, the sums of -2 b split in a lower
 * and an upper half of the bits; *value: its value */
TARGET static uint64_t THIS(bp_best)(const bp_model *m, const double *b, double margin, uint64_t mask,
                                     double *value, double *scratch)
{
    const ptrdiff_t low = (m->K + 1) / 2, high = m->K - low, n_low = (ptrdiff_t)1 << low,
        n_high = (ptrdiff_t)1 << high;
    double *restrict lower = scratch, *restrict upper = scratch + n_low, *restrict least = upper + n_high;
    double best = INFINITY, lowest = 0.0;
    THIS(bp_subsets)(b, low, lower);
    THIS(bp_subsets)(b + low, high, upper);
    for (ptrdiff_t k = 0; k < low; k++)
        lowest -= b[k] > 0.0 ? 2.0 * b[k] : 0.0;
    for (ptrdiff_t h = 0; h < n_high; h++) {
        least[h] = INFINITY;
        if (m->least[h] + (upper[h] + lowest) > best + margin)
            continue;
        least[h] = THIS(bp_least_of)(m->q + h * n_low, upper[h], lower, n_low);
        best = least[h] < best ? least[h] : best;
    }
    *value = m->q[mask] + (upper[mask >> low] + lower[mask & (uint64_t)(n_low - 1)]);
    if (!(best < *value - margin))
        return mask;
    for (ptrdiff_t h = 0; h < n_high; h++)
        for (ptrdiff_t z = 0; least[h] <= best + margin && z < n_low; z++) {
            *value = m->q[h * n_low + z] + (upper[h] + lower[z]);
            if (*value <= best + margin)
                return (uint64_t)(h * n_low + z);
        }
    return mask;
}

TARGET static uint64_t THIS(bp_choose)(const bp_model *m, const double *b, double norm, uint64_t mask,
                                       int passes, double *residual, double *scratch)
{
    const double margin = BP_MARGIN * (norm + m->trace);
    if (passes > 0 && m->K <= m->exact) {
        double value;
        mask = THIS(bp_best)(m, b, margin, mask, &value, scratch);
        *residual = norm + value > 0.0 ? norm + value : 0.0;
    } else {
        const double *rows[BP_TILE];
        double norms[BP_TILE], left[BP_TILE];
        uint64_t masks[BP_TILE];
        for (int r = 0; r < BP_TILE; r++) {
            rows[r] = b;
            norms[r] = norm;
            masks[r] = mask;
        }
        THIS(bp_flip)(m, rows, norms, 1, passes, masks, left, scratch);
        mask = masks[0];
        *residual = left[0];
    }
    return mask;
}

/* for each of BP_TILE rows the first combination of few features whose value is at most `limit`, at least 2^K
 * if there is none: lanes are rows here */
TARGET static void THIS(bp_first_within)(const bp_model *m, const double *restrict upper,
                                         const double *restrict lower, const double *limit, double *first)
{
    const ptrdiff_t low = (m->K + 1) / 2, n_low = (ptrdiff_t)1 << low, n_high = (ptrdiff_t)1 << (m->K - low);
    const double all = (double)(n_low * n_high);
    for (int v = 0; v < BP_TILE; v += W) {
        const LANE most = *(const LANE *)(limit + v);
        LANE least = ALL(LANE, all), at = ALL(LANE, 0.0);
        for (ptrdiff_t h = 0; h < n_high; h++)
            for (ptrdiff_t z = 0; z < n_low; z++) {
                const LANE sum = *(const LANE *)(upper + h * BP_TILE + v)
                    + *(const LANE *)(lower + z * BP_TILE + v);
                const LANE place = at + PICK(m->q[h * n_low + z] + sum > most, ALL(LANE, all));
                least = SMALLER(place, least);
                at += 1.0;
            }
        *(LANE *)(first + v) = least;
    }
}

/* value of the combination `mask` for row r of a tile */
TARGET static inline double THIS(bp_value)(const bp_model *m, const double *upper, const double *lower,
                                           uint64_t mask, int r)
{
    const ptrdiff_t low = (m->K + 1) / 2;
    const uint64_t below = ((uint64_t)1 << low) - 1;
    return m->q[mask]
        + (upper[(mask >> low) * BP_TILE + (uint64_t)r] + lower[(mask & below) * BP_TILE + (uint64_t)r]);
}

/* BP_TILE rows compare all combinations, in lanes: each gets the first of the best where these are better
 * than its own by more than the margin. With more than BP_FEW features its own stays, and `better` marks the
 * rows. present: values of `mask` */
TARGET static void THIS(bp_values)(const bp_model *m, const double *const *rows, const double *norm,
                                   uint64_t *mask, double *present, int *better, double *restrict scratch)
{
    const ptrdiff_t low = (m->K + 1) / 2, high = m->K - low, n_low = (ptrdiff_t)1 << low,
        n_high = (ptrdiff_t)1 << high;
    double *restrict lower = scratch, *restrict upper = scratch + BP_TILE * n_low;
    double b[BP_EXACT * BP_TILE], best[BP_TILE], limit[BP_TILE];
    int some = 0;
    memset(lower, 0, sizeof best);
    memset(upper, 0, sizeof best);
    for (ptrdiff_t k = 0; k < m->K; k++)
        for (int r = 0; r < BP_TILE; r++)
            b[k * BP_TILE + r] = 2.0 * rows[r][k];
    for (ptrdiff_t k = 0; k < m->K; k++) {
        double *restrict sums = k < low ? lower : upper;
        const ptrdiff_t half = BP_TILE * ((ptrdiff_t)1 << (k < low ? k : k - low));
        for (ptrdiff_t z = 0; z < half; z += BP_TILE)
            for (int v = 0; v < BP_TILE; v += W)
                *(LANE *)(sums + half + z + v) = *(const LANE *)(sums + z + v)
                    - *(const LANE *)(b + k * BP_TILE + v);
    }
    for (int v = 0; v < BP_TILE; v += W) {
        LANE least;
        memset(&least, 0, sizeof least);
        for (ptrdiff_t h = 0; h < n_high; h++) {
            const LANE top = *(const LANE *)(upper + h * BP_TILE + v);
            const double *restrict q = m->q + h * n_low;
            for (ptrdiff_t z = 0; z < n_low; z += 2) {      /* in pairs, which shortens the chain of minima */
                const LANE one = q[z] + (top + *(const LANE *)(lower + z * BP_TILE + v));
                const LANE two = q[z + 1] + (top + *(const LANE *)(lower + (z + 1) * BP_TILE + v));
                const LANE less = SMALLER(one, two);
                least = SMALLER(less, least);
            }
        }
        *(LANE *)(best + v) = least;
    }
    for (int r = 0; r < BP_TILE; r++)
        present[r] = THIS(bp_value)(m, upper, lower, mask[r], r);
    for (int r = 0; r < BP_TILE; r++) {
        const double margin = BP_MARGIN * (norm[r] + m->trace);
        better[r] = best[r] < present[r] - margin;
        limit[r] = better[r] ? best[r] + margin : -INFINITY;
        some |= better[r];
    }
    if (!some || m->K > BP_FEW)
        return;
    THIS(bp_first_within)(m, upper, lower, limit, best);
    for (int r = 0; r < BP_TILE; r++)
        if (better[r]) {
            mask[r] = (uint64_t)best[r];
            present[r] = THIS(bp_value)(m, upper, lower, mask[r], r);
            better[r] = 0;
        }
}

TARGET static void THIS(bp_propose)(const bp_model *m, const int32_t *order, ptrdiff_t start, ptrdiff_t stop,
                                    int passes, uint64_t *chosen, double *scratch)
{
    const ptrdiff_t width = bp_width(m->K);
    const int all = passes > 0 && m->K > 0 && m->K <= m->exact;
    double *b = scratch, *rest = scratch + BP_TILE * BP_MOST, norm[BP_TILE], present[BP_TILE], left[BP_TILE];
    int better[BP_TILE];
    for (ptrdiff_t from = start; from < stop; from += BP_TILE) {
        const ptrdiff_t n = stop - from < BP_TILE ? stop - from : BP_TILE;
        const void *rows[BP_TILE];
        const double *own[BP_TILE];
        uint64_t mask[BP_TILE];
        for (ptrdiff_t r = 0; r < BP_TILE; r++) {
            const ptrdiff_t place = from + (r < n ? r : n - 1), i = order ? order[place] : place;
            rows[r] = bp_row(m, i);
            own[r] = m->gram ? m->B + i * m->lanes : b + (r < n ? r : n - 1) * width;
            mask[r] = m->mask[i];
            norm[r] = m->norm[i];
        }
        if (!m->gram)
            THIS(bp_products)(rows, m->single, n, m->D, m->table, width, b);
        if (all)
            THIS(bp_values)(m, own, norm, mask, present, better, rest);
        else
            THIS(bp_flip)(m, own, norm, n, passes, mask, left, rest);
        for (ptrdiff_t r = 0; r < n; r++) {
            const ptrdiff_t i = order ? order[from + r] : from + r;
            if (all && better[r])
                mask[r] = THIS(bp_choose)(m, own[r], norm[r], mask[r], passes, left + r, rest);
            else if (all)
                left[r] = norm[r] + present[r] > 0.0 ? norm[r] + present[r] : 0.0;
            m->residual[i] = left[r];
            chosen[from + r - start] = mask[r];
        }
    }
}

/* by doubling: what bit k adds to all combinations of the bits below it */
TARGET static void THIS(bp_quadratic)(const double *C, const double *linear, double times, double start,
                                      ptrdiff_t K, ptrdiff_t lanes, double *restrict out)
{
    out[0] = 0.0;
    for (ptrdiff_t k = 0; k < K; k++) {
        const double *restrict row = C + k * lanes;
        double *restrict next = out + ((ptrdiff_t)1 << k);
        next[0] = row[k] + (linear ? times * linear[k] : 0.0);
        for (ptrdiff_t j = 0; j < k; j++) {
            const ptrdiff_t half = (ptrdiff_t)1 << j;
            for (ptrdiff_t z = 0; z < half; z++)
                next[half + z] = next[z] + 2.0 * row[j];
        }
        for (ptrdiff_t z = 0; z < (ptrdiff_t)1 << k; z++)
            next[z] += out[z];
    }
    for (ptrdiff_t z = 0; start != 0.0 && z < (ptrdiff_t)1 << K; z++)
        out[z] += start;
}

/* ---- starts ---- */

/* gram form: the residuals of proposals [first, last) times rows [from, from + n), a tile */
TARGET static inline void THIS(bp_residual_products)(const bp_model *m, const bp_proposals *p, ptrdiff_t from,
                                                     ptrdiff_t n, ptrdiff_t first, ptrdiff_t last,
                                                     double *restrict out)
{
    for (ptrdiff_t t = first; t < last; t++) {
        const double *restrict own = m->S + p->rows[t] * m->n + from;
        for (ptrdiff_t r = 0; r < n; r++)
            out[r * BP_TRIALS + t] = own[r];
        for (uint64_t z = m->mask[p->rows[t]] & bp_first(m->K); z; z &= z - 1) {
            const double *restrict b = m->B + from * m->lanes + simd_lowest(z);
            for (ptrdiff_t r = 0; r < n; r++)
                out[r * BP_TRIALS + t] -= b[r * m->lanes];
        }
    }
}

TARGET static void THIS(bp_gains)(const bp_model *m, const bp_proposals *p, ptrdiff_t start, ptrdiff_t stop,
                                  int taken, double *won)
{
    const ptrdiff_t first = taken < 0 ? 0 : taken, last = taken < 0 ? p->n : taken + 1;
    double c[BP_TILE * BP_TRIALS] = {0};
    int64_t drawn[BP_TRIALS];
    for (int t = 0; t < BP_TRIALS; t++)
        drawn[t] = t < p->n ? p->rows[t] : -1;
    for (ptrdiff_t from = start; from < stop; from += BP_TILE) {
        const ptrdiff_t n = stop - from < BP_TILE ? stop - from : BP_TILE;
        const void *rows[BP_TILE];
        if (m->gram)
            THIS(bp_residual_products)(m, p, from, n, first, last, c);
        else {
            for (ptrdiff_t r = 0; r < n; r++)
                rows[r] = bp_row(m, from + r);
            THIS(bp_products)(rows, m->single, n, m->D, p->table, BP_TRIALS, c);
        }
        for (ptrdiff_t r = 0; r < n; r++) {
            const ptrdiff_t i = from + r;
            double *own = c + r * BP_TRIALS;
            if (taken >= 0 && m->gram)
                m->B[i * m->lanes + m->K] = own[taken];
            for (int t = 0; t < BP_TRIALS; t += W) {
                LANE gain = *(const LANE *)(own + t);
                const LANE norm = *(const LANE *)(p->norm + t);
                for (uint64_t z = m->mask[i]; z; z &= z - 1)
                    gain -= *(const LANE *)(p->against + simd_lowest(z) * BP_TRIALS + t);
                gain = 2.0 * gain - norm;
                gain = PICK((gain > BP_MARGIN * (m->norm[i] + norm)) | (*(const BITS *)(drawn + t) == i),
                            gain);
                *(LANE *)(own + t) = gain;
                if (taken < 0)
                    *(LANE *)(won + t) += gain;
            }
            if (taken >= 0 && (own[taken] > 0.0 || i == p->rows[taken])) {
                m->mask[i] |= (uint64_t)1 << m->K;
                m->residual[i] = own[taken] < m->residual[i] ? m->residual[i] - own[taken] : 0.0;
            }
        }
    }
}

/* ---- fit ---- */

TARGET static void THIS(bp_words)(const uint64_t *restrict mask, ptrdiff_t n, ptrdiff_t K,
                                  uint64_t *restrict words)
{
    for (ptrdiff_t k = 0; k < K; k++) {
        uint64_t word = 0;
        for (ptrdiff_t r = 0; r < n; r++)
            word |= (mask[r] >> k & 1) << r;
        words[k] = word;
    }
}

/* the same for K <= BP_TILE features, a constant: sums of a tile stay in registers */
TARGET ALWAYS_INLINE void THIS(bp_fit_tile)(const bp_model *m, const int K)
{
    double inverse[BP_TILE * BP_TILE] = {0}, products[BP_TILE * BP_TILE] = {0};
    LANE sums[BP_TILE * VECTORS];
    memset(sums, 0, sizeof sums);
    for (int k = 0; k < K; k++)
        memcpy(inverse + k * BP_TILE, m->H + k * m->lanes, sizeof(double) * BP_TILE);
    for (ptrdiff_t from = 0; from < m->n; from += BP_TILE) {
        const ptrdiff_t n = m->n - from < BP_TILE ? m->n - from : BP_TILE;
        for (int k = 0; k < K; k++)
            for (ptrdiff_t r = 0; r < n; r++)
                products[r * BP_TILE + k] = m->P[k * m->n + from + r];
        for (ptrdiff_t r = 0; r < n; r++) {
            const double *restrict p = products + r * BP_TILE;
            for (int v = 0; v < VECTORS; v++) {
                const LANE own = *(const LANE *)(p + v * W);
                LANE b;
                memset(&b, 0, sizeof b);
                for (int k = 0; k < K; k++) {
                    const BITS on = (BITS){0} - (int64_t)(m->mask[from + r] >> k & 1);
                    b += p[k] * *(const LANE *)(inverse + k * BP_TILE + v * W);
                    sums[k * VECTORS + v] += PICK(on, own);
                }
                *(LANE *)(m->B + (from + r) * m->lanes + v * W) = b;
            }
        }
    }
    for (int k = 0; k < K; k++)
        memcpy(m->Q + k * m->lanes, sums + k * VECTORS, sizeof(double) * BP_TILE);
}

/* out (K, K) = transpose of H right, with a step of refinement: t = H right, t += H (right - M t); columns of
 * `right` are lanes */
TARGET static void THIS(bp_solve)(const double *H, const double *M, const double *right, double *out,
                                  ptrdiff_t K, ptrdiff_t lanes)
{
    LANE rest[BP_MOST], solved[BP_MOST];
    for (ptrdiff_t from = 0; from < K; from += W) {
        for (ptrdiff_t k = 0; k < K; k++) {
            rest[k] = *(const LANE *)(right + k * lanes + from);
            solved[k] = (LANE){0};
        }
        for (int step = 0; step < 2; step++) {
            for (ptrdiff_t k = 0; k < K; k++) {
                LANE sum = solved[k];
                for (ptrdiff_t j = 0; j < K; j++)
                    sum += H[k * lanes + j] * rest[j];
                solved[k] = sum;
            }
            for (ptrdiff_t k = 0; !step && k < K; k++) {
                LANE left = *(const LANE *)(right + k * lanes + from);
                for (ptrdiff_t j = 0; j < K; j++)
                    left -= M[k * lanes + j] * solved[j];
                rest[k] = left;
            }
        }
        for (ptrdiff_t i = 0; i < W && from + i < K; i++)
            for (ptrdiff_t k = 0; k < K; k++)
                out[(from + i) * lanes + k] = ((const double *)(solved + k))[i];
    }
}

TARGET static void THIS(bp_fit_products)(const bp_model *m)
{
    const ptrdiff_t width = bp_width(m->K);
    double p[BP_MOST] = {0};
    if (width == BP_TILE) {
        switch (m->K) {
        case 1: THIS(bp_fit_tile)(m, 1); break;
        case 2: THIS(bp_fit_tile)(m, 2); break;
        case 3: THIS(bp_fit_tile)(m, 3); break;
        case 4: THIS(bp_fit_tile)(m, 4); break;
        case 5: THIS(bp_fit_tile)(m, 5); break;
        case 6: THIS(bp_fit_tile)(m, 6); break;
        case 7: THIS(bp_fit_tile)(m, 7); break;
        case 8: THIS(bp_fit_tile)(m, 8); break;
        }
        bp_mirror(m->Q, m->K, m->lanes);
        return;
    }
    for (ptrdiff_t k = 0; k < m->K; k++)
        memset(m->Q + k * m->lanes, 0, sizeof(double) * (size_t)width);
    for (ptrdiff_t i = 0; i < m->n; i++) {
        double *restrict b = m->B + i * m->lanes;
        for (ptrdiff_t k = 0; k < m->K; k++)
            p[k] = m->P[k * m->n + i];
        for (ptrdiff_t j = 0; j < width; j += W) {
            LANE sum;
            memset(&sum, 0, sizeof sum);
            for (ptrdiff_t k = 0; k < m->K; k++)
                sum += p[k] * *(const LANE *)(m->H + k * m->lanes + j);
            *(LANE *)(b + j) = sum;
            for (uint64_t z = m->mask[i]; z; z &= z - 1)
                *(LANE *)(m->Q + simd_lowest(z) * m->lanes + j) += *(const LANE *)(p + j);
        }
    }
    bp_mirror(m->Q, m->K, m->lanes);
}

/* sums += sign * row; the cells lie on a grid on which this is exact */
TARGET static void THIS(bp_add)(double *restrict sums, const double *restrict row, double sign, ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < n; j++)
        sums[j] += sign * row[j];
}

#undef VECTORS
#undef TOGETHER
