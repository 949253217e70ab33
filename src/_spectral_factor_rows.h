/* One clone of the sweep over the rows of _spectral_factor.h, included once per instruction set by _lanes.h. Every sum has a lane of its
 * own, so that all clones give the same bits. */

/* Scores w of the rows [start, stop), factor after factor, each optimal given the others; sums of w w', of x w' by column and of w by
 * state. */
TARGET static void THIS(nf_rows)(const nf_table *t, const double *loading, const double *state_loading, const double *gram,
                                 ptrdiff_t start, ptrdiff_t stop, double *scores, double *square, double *by_column,
                                 double *by_state, double *restrict owed)
{
    const ptrdiff_t k = t->k;
    for (ptrdiff_t i = start; i < stop; i++) {
        double *restrict w = scores + i * k;
        for (ptrdiff_t a = 0; a < k; a++)
            owed[a] = 0.0;
        for (ptrdiff_t s = 0; s < t->rows.p1; s++) {
            const double x = nf_number(t, i, s);
            for (ptrdiff_t a = 0; a < k; a++)
                owed[a] += x * loading[s * k + a];
        }
        for (ptrdiff_t v = 0; v < t->rows.P; v++) {
            const double *restrict row = state_loading + mixed_state(&t->rows, i, v) * k;
            for (ptrdiff_t a = 0; a < k; a++)
                owed[a] += row[a];
        }
        for (ptrdiff_t b = 0; b < k; b++)
            for (ptrdiff_t a = 0; a < k; a++)
                owed[a] -= w[b] * gram[b * k + a];
        for (ptrdiff_t b = 0; b < k; b++) {
            const double own = gram[b * k + b];
            if (own > 0.0) {
                const double wanted = w[b] + owed[b] / own, better = wanted > 0.0 ? wanted : 0.0, change = better - w[b];
                w[b] = better;
                for (ptrdiff_t a = 0; a < k; a++)
                    owed[a] -= change * gram[b * k + a];
            }
        }
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
