/* One clone of the sweep over the rows of _spectral_factor.h, included once per instruction set by _lanes.h. Every sum has a lane of its
 * own, and adds the rows in their order, so that all clones give the same bits. */

/* Scores w (k) of n <= W rows from `first` on, factor after factor, each optimal given the others. Every lane holds a row; lanes from n on
 * repeat the first. `owed` are the products with the loadings that the scores do not yet explain. */
TARGET static void THIS(nf_scores)(const nf_table *t, const double *loading, const double *state_loading, const double *gram,
                                   ptrdiff_t first, ptrdiff_t n, double *scores, double *restrict line, LANE *restrict owed,
                                   LANE *restrict w)
{
    const ptrdiff_t k = t->k;
    for (ptrdiff_t r = 0; r < W; r++) {
        const ptrdiff_t i = first + (r < n ? r : 0);
        for (ptrdiff_t a = 0; a < k; a++)
            line[a] = 0.0;
        for (ptrdiff_t s = 0; s < t->rows.p1; s++) {
            const double x = nf_number(t, i, s);
            for (ptrdiff_t a = 0; a < k; a++)
                line[a] += x * loading[s * k + a];
        }
        for (ptrdiff_t v = 0; v < t->rows.P; v++) {
            const double *restrict row = state_loading + mixed_state(&t->rows, i, v) * k;
            for (ptrdiff_t a = 0; a < k; a++)
                line[a] += row[a];
        }
        for (ptrdiff_t a = 0; a < k; a++) {
            ((double *)(owed + a))[r] = line[a];
            ((double *)(w + a))[r] = scores[i * k + a];
        }
    }
    for (ptrdiff_t b = 0; b < k; b++)
        for (ptrdiff_t a = 0; a < k; a++)
            owed[a] -= w[b] * gram[b * k + a];
    for (ptrdiff_t b = 0; b < k; b++) {
        const double own = gram[b * k + b];
        if (own > 0.0) {
            const LANE wanted = w[b] + owed[b] / own, better = LARGER(wanted, (LANE){0}), change = better - w[b];
            w[b] = better;
            for (ptrdiff_t a = b + 1; a < k; a++)
                owed[a] -= change * gram[b * k + a];
        }
    }
    for (ptrdiff_t r = 0; r < n; r++)
        for (ptrdiff_t a = 0; a < k; a++)
            scores[(first + r) * k + a] = ((double *)(w + a))[r];
}

/* Scores of the rows [start, stop); sums of w w', of x w' by column and of w by state. */
TARGET static void THIS(nf_rows)(const nf_table *t, const double *loading, const double *state_loading, const double *gram,
                                 ptrdiff_t start, ptrdiff_t stop, double *scores, double *square, double *by_column,
                                 double *by_state, double *scratch)
{
    const ptrdiff_t k = t->k;
    LANE *owed = (LANE *)(scratch + k);
    for (ptrdiff_t first = start; first < stop; first += W) {
        const ptrdiff_t n = stop - first < W ? stop - first : W;
        THIS(nf_scores)(t, loading, state_loading, gram, first, n, scores, scratch, owed, owed + k);
        for (ptrdiff_t i = first; i < first + n; i++) {
            const double *restrict w = scores + i * k;
            for (ptrdiff_t b = 0; b < k; b++)
                for (ptrdiff_t a = 0; a < k; a++)
                    square[b * k + a] += w[b] * w[a];
            for (ptrdiff_t s = 0; s < t->rows.p1; s++) {
                const double x = nf_number(t, i, s);
                for (ptrdiff_t a = 0; a < k; a++)
                    by_column[s * k + a] += x * w[a];
            }
            for (ptrdiff_t v = 0; v < t->rows.P; v++) {
                double *restrict row = by_state + mixed_state(&t->rows, i, v) * k;
                for (ptrdiff_t a = 0; a < k; a++)
                    row[a] += w[a];
            }
        }
    }
}
