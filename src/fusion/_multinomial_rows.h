/* One clone of the leaves of _multinomial.h, included once per instruction set by _lanes.h. The lanes are
 * classes. Sums over them go in MN_TILE parts: no order of additions depends on the width of a vector. */

#define VECTORS (MN_TILE / W)
#define AT(pointer) (*(LANE *)(pointer))
#define FROM(pointer) (*(const LANE *)(pointer))

#define LANE_EXP THIS(mn_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP

/* row (w) = x beta, for `some` vectors from number a on */
TARGET ALWAYS_INLINE void THIS(mn_gather_some)(const mn_rows *t, ptrdiff_t s, ptrdiff_t a, const int some,
                                               double *row)
{
    const ptrdiff_t start = t->first[s], stop = t->first[s + 1], w = t->w;
    LANE sum[MN_TOGETHER * VECTORS];
    for (int v = 0; v < some; v++)
        sum[v] = ALL(LANE, 0.0);
    for (ptrdiff_t k = start; k < stop; k++) {
        const double *from = t->beta + t->column[k] * w + a;
        const LANE x = ALL(LANE, t->x[k]);
        for (int v = 0; v < some; v++)
            sum[v] += x * FROM(from + v * W);
    }
    for (int v = 0; v < some; v++)
        AT(row + a + v * W) = sum[v];
}

/* sums (m, w) += x' row, likewise */
TARGET ALWAYS_INLINE void THIS(mn_scatter_some)(const mn_rows *t, ptrdiff_t s, ptrdiff_t a, const int some,
                                                const double *row, double *sums)
{
    const ptrdiff_t start = t->first[s], stop = t->first[s + 1], w = t->w;
    LANE own[MN_TOGETHER * VECTORS];
    for (int v = 0; v < some; v++)
        own[v] = FROM(row + a + v * W);
    for (ptrdiff_t k = start; k < stop; k++) {
        double *to = sums + t->column[k] * w + a;
        const LANE x = ALL(LANE, t->x[k]);
        for (int v = 0; v < some; v++)
            AT(to + v * W) += x * own[v];
    }
}

/* both, with as many vectors at a time as stay in registers */
#define EACH(function, ...)                                                                 \
    for (ptrdiff_t a = 0; a < t->w; a += MN_TOGETHER * MN_TILE)                             \
        switch ((t->w - a) / MN_TILE) {                                                     \
        case 1: function(t, s, a, VECTORS, __VA_ARGS__); break;                             \
        case 2: function(t, s, a, 2 * VECTORS, __VA_ARGS__); break;                         \
        default: function(t, s, a, MN_TOGETHER * VECTORS, __VA_ARGS__);                     \
        }

TARGET static void THIS(mn_gather)(const mn_rows *t, ptrdiff_t s, double *row)
{
    EACH(THIS(mn_gather_some), row)
}

TARGET static void THIS(mn_scatter)(const mn_rows *t, ptrdiff_t s, const double *row, double *sums)
{
    EACH(THIS(mn_scatter_some), row, sums)
}
#undef EACH

/* the sum of MN_TILE parts */
TARGET static inline double THIS(mn_total)(const LANE *part)
{
    double p[MN_TILE];
    for (int v = 0; v < VECTORS; v++)
        AT(p + v * W) = part[v];
    return simd_total(p);
}

/* sum of the products of two rows (w) */
TARGET static inline double THIS(mn_dot)(const double *a, const double *b, ptrdiff_t w)
{
    LANE part[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        part[v] = ALL(LANE, 0.0);
    for (ptrdiff_t i = 0; i < w; i += MN_TILE)
        for (int v = 0; v < VECTORS; v++)
            part[v] += FROM(a + i + v * W) * FROM(b + i + v * W);
    return THIS(mn_total)(part);
}

/* row (w) = the probabilities of row s */
TARGET static inline void THIS(mn_load)(const mn_rows *t, ptrdiff_t s, double *row)
{
    memcpy(row, t->proba + s * t->c, sizeof(double) * (size_t)t->c);
    for (ptrdiff_t a = t->c; a < t->w; a++)
        row[a] = 0.0;
}

TARGET static void THIS(mn_evaluate)(const mn_rows *t, ptrdiff_t start, ptrdiff_t stop, double *row,
                                     double *out)
{
    const ptrdiff_t c = t->c, w = t->w;
    double *const z = row, *const p = row + w;
    for (ptrdiff_t s = start; s < stop; s++) {
        double largest;
        LANE total[VECTORS];
        THIS(mn_gather)(t, s, z);
        largest = z[0];
        for (ptrdiff_t a = 1; a < c; a++)
            largest = z[a] > largest ? z[a] : largest;
        for (ptrdiff_t a = c; a < w; a++)
            z[a] = largest;
        /* a class far below the largest has a probability of 1e-304, not 0; what is no number stays none */
        for (ptrdiff_t a = 0; a < w; a += W) {
            AT(z + a) = FROM(z + a) - ALL(LANE, largest);
            AT(p + a) = THIS(mn_exp)(LARGER(ALL(LANE, -700.0), FROM(z + a)));
        }
        for (ptrdiff_t a = c; a < w; a++)
            p[a] = 0.0;
        for (int v = 0; v < VECTORS; v++)
            total[v] = ALL(LANE, 0.0);
        for (ptrdiff_t a = 0; a < w; a += MN_TILE)
            for (int v = 0; v < VECTORS; v++)
                total[v] += FROM(p + a + v * W);
        const double sum = THIS(mn_total)(total), log_sum = log(sum), inverse = 1.0 / sum;
        out[0] += log_sum - z[t->y[s]];
        out[1] += log_sum - inverse * THIS(mn_dot)(p, z, w);
        for (ptrdiff_t a = 0; a < c; a++)
            t->proba[s * c + a] = inverse * p[a];
    }
}

TARGET static void THIS(mn_gradient)(const mn_rows *t, ptrdiff_t start, ptrdiff_t stop, double *row,
                                     double *sums)
{
    for (ptrdiff_t s = start; s < stop; s++) {
        THIS(mn_load)(t, s, row);
        row[t->y[s]] -= 1.0;
        THIS(mn_scatter)(t, s, row, sums);
    }
}

TARGET static void THIS(mn_hessian)(const mn_rows *t, ptrdiff_t start, ptrdiff_t stop, double *row,
                                    double *sums)
{
    const ptrdiff_t w = t->w;
    double *const change = row, *const p = row + w;
    for (ptrdiff_t s = start; s < stop; s++) {
        THIS(mn_gather)(t, s, change);
        THIS(mn_load)(t, s, p);
        const LANE mean = ALL(LANE, THIS(mn_dot)(p, change, w));
        for (ptrdiff_t a = 0; a < w; a += W)
            AT(change + a) = FROM(p + a) * (FROM(change + a) - mean);
        THIS(mn_scatter)(t, s, change, sums);
    }
}

TARGET static void THIS(mn_variances)(const mn_rows *t, ptrdiff_t start, ptrdiff_t stop, double *row,
                                      double *sums)
{
    for (ptrdiff_t s = start; s < stop; s++) {
        THIS(mn_load)(t, s, row);
        for (ptrdiff_t a = 0; a < t->w; a += W)
            AT(row + a) = FROM(row + a) * (ALL(LANE, 1.0) - FROM(row + a));
        THIS(mn_scatter)(t, s, row, sums);
    }
}

#undef VECTORS
#undef AT
#undef FROM
