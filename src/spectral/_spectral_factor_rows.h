/* One clone of the sweep over the rows of _spectral_factor.h, included once per instruction set by _lanes.h.
 * Every sum has a lane of its own, and adds the rows in their order, so that all clones give the same bits.
 */

#define AT(pointer) (*(LANE *)(pointer))
#define READ(pointer) (*(const LANE *)(pointer))

/* Products of row i with some vectors of loadings from a on; x (p1) are its numbers. */
TARGET ALWAYS_INLINE void THIS(nf_products)(const nf_table *t, const double *loading,
                                            const double *state_loading, ptrdiff_t i, const double *x,
                                            ptrdiff_t a, const int vectors, double *restrict line)
{
    LANE sum[NF_TILE / W];
    for (int v = 0; v < vectors; v++)
        sum[v] = (LANE){0};
    for (ptrdiff_t s = 0; s < t->rows.p1; s++)
        for (int v = 0; v < vectors; v++)
            sum[v] += x[s] * READ(loading + s * t->width + a + v * W);
    for (ptrdiff_t d = 0; d < t->rows.P; d++) {
        const double *restrict row = state_loading + mixed_state(&t->rows, i, d) * t->width + a;
        for (int v = 0; v < vectors; v++)
            sum[v] += READ(row + v * W);
    }
    for (int v = 0; v < vectors; v++)
        AT(line + a + v * W) = sum[v];
}

/* W rows of nonnegative factors w (k), factor after factor, each optimal given the others. `owed` (k) are the
 * products of the rows with the other side's factors, then what of them the new factors before a do not yet
 * explain. */
TARGET ALWAYS_INLINE void THIS(nf_improve)(ptrdiff_t k, const double *gram, LANE *restrict owed,
                                           LANE *restrict w)
{
    for (ptrdiff_t a = 0; a < k; a++) {
        LANE left = owed[a];
        for (ptrdiff_t b = 0; b < k; b++)
            left -= w[b] * gram[b * k + a];
        owed[a] = left;
    }
    for (ptrdiff_t b = 0; b < k; b++) {
        const double own = gram[b * k + b];
        if (own > 0.0) {
            const LANE wanted = w[b] + owed[b] * (1.0 / own), better = LARGER(wanted, (LANE){0}),
                change = better - w[b];
            w[b] = better;
            for (ptrdiff_t a = b + 1; a < k; a++)
                owed[a] -= change * gram[b * k + a];
        }
    }
}

/* Scores (n, width) of n <= W rows from `first` on, factor after factor, each optimal given the others, and
 * their numbers x (n, p1). Every lane holds a row; lanes from n on repeat the first. */
TARGET static void THIS(nf_scores)(const nf_table *t, const double *loading, const double *state_loading,
                                   const double *gram, ptrdiff_t first, ptrdiff_t n, double *scores,
                                   double *restrict line, double *restrict x, LANE *restrict owed,
                                   LANE *restrict w)
{
    const ptrdiff_t k = t->k, p1 = t->rows.p1;
    for (ptrdiff_t r = 0; r < W; r++) {
        const ptrdiff_t i = first + (r < n ? r : 0);
        ptrdiff_t a = 0;
        for (ptrdiff_t s = 0; s < p1; s++)
            x[r * p1 + s] = nf_number(t, i, s);
        for (; a + NF_TILE <= t->width; a += NF_TILE)
            THIS(nf_products)(t, loading, state_loading, i, x + r * p1, a, NF_TILE / W, line);
        for (; a < t->width; a += NF_LANES)
            THIS(nf_products)(t, loading, state_loading, i, x + r * p1, a, NF_LANES / W, line);
        for (a = 0; a < k; a++) {
            ((double *)(owed + a))[r] = line[a];
            ((double *)(w + a))[r] = scores[i * k + a];
        }
    }
    THIS(nf_improve)(k, gram, owed, w);
    for (ptrdiff_t r = 0; r < n; r++)
        for (ptrdiff_t a = 0; a < k; a++)
            line[r * t->width + a] = scores[(first + r) * k + a] = ((double *)(w + a))[r];
}

/* sums (many, width) += products of columns (n, many) with scores w (n, width) */
TARGET ALWAYS_INLINE void THIS(nf_sums)(const double *column, ptrdiff_t stride, ptrdiff_t many, ptrdiff_t n,
                                        const double *restrict w, ptrdiff_t width, double *restrict sums)
{
    for (ptrdiff_t s = 0; s < many; s++)
        for (ptrdiff_t a = 0; a < width; a += W) {
            LANE sum = READ(sums + s * width + a);
            for (ptrdiff_t r = 0; r < n; r++)
                sum += column[r * stride + s] * READ(w + r * width + a);
            AT(sums + s * width + a) = sum;
        }
}

/* gram (k, width) += products of the factors w (n, width) */
TARGET static void THIS(nf_gram)(ptrdiff_t k, ptrdiff_t width, ptrdiff_t n, const double *w, double *gram)
{
    THIS(nf_sums)(w, width, k, n, w, width, gram);
}

/* Scores of the rows [start, stop); sums of w w', of x w' by column and of w by state. */
TARGET static void THIS(nf_rows)(const nf_table *t, const double *loading, const double *state_loading,
                                 const double *gram, ptrdiff_t start, ptrdiff_t stop, double *scores,
                                 double *square, double *by_column, double *by_state, double *scratch)
{
    const ptrdiff_t width = t->width, p1 = t->rows.p1;
    double *w = scratch + 2 * NF_LANES * width, *x = w + NF_LANES * width;
    for (ptrdiff_t first = start; first < stop; first += W) {
        const ptrdiff_t n = stop - first < W ? stop - first : W;
        THIS(nf_scores)(t, loading, state_loading, gram, first, n, scores, w, x, (LANE *)scratch,
                        (LANE *)scratch + width);
        THIS(nf_sums)(w, width, t->k, n, w, width, square);
        THIS(nf_sums)(x, p1, p1, n, w, width, by_column);
        for (ptrdiff_t r = 0; r < n; r++)
            for (ptrdiff_t v = 0; v < t->rows.P; v++) {
                double *restrict row = by_state + mixed_state(&t->rows, first + r, v) * width;
                for (ptrdiff_t a = 0; a < width; a += W)
                    AT(row + a) += READ(w + r * width + a);
            }
    }
}

/* The other half of a sweep: loadings (p, k) from products (p, k) of the columns with the scores; scratch (2,
 * k, NF_LANES). */
TARGET static void THIS(nf_loadings)(ptrdiff_t p, ptrdiff_t k, const double *product, const double *gram,
                                     double *loadings, double *scratch)
{
    double *owed = scratch, *w = scratch + k * W;
    for (ptrdiff_t first = 0; first < p; first += W) {
        const ptrdiff_t n = p - first < W ? p - first : W;
        for (ptrdiff_t a = 0; a < k; a++)
            for (ptrdiff_t r = 0; r < W; r++) {
                const ptrdiff_t i = first + (r < n ? r : 0);
                owed[a * W + r] = product[i * k + a];
                w[a * W + r] = loadings[i * k + a];
            }
        THIS(nf_improve)(k, gram, (LANE *)owed, (LANE *)w);
        for (ptrdiff_t r = 0; r < n; r++)
            for (ptrdiff_t a = 0; a < k; a++)
                loadings[(first + r) * k + a] = w[a * W + r];
    }
}

#undef AT
#undef READ
