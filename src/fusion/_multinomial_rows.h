/* One clone of the leaves of _multinomial.h, included once per instruction set by _lanes.h. The lanes are
 * classes, of mn_softmax rows. Sums over them go in MN_TILE parts: no order of additions depends on the width
 * of a vector. */

#define VECTORS (MN_TILE / W)
#define AT(pointer) (*(LANE *)(pointer))
#define FROM(pointer) (*(const LANE *)(pointer))

#define LANE_EXP THIS(mn_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP
#define LANE_LOG THIS(mn_log)
#include "common/_lane_log.h"
#undef LANE_LOG

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

/* MN_TILE rows, whose classes are `stride` apart; value, entropy (MN_TILE) += theirs, times the weights */
TARGET static inline void THIS(mn_softmax_tile)(ptrdiff_t c, double *z, ptrdiff_t stride, const int32_t *y,
                                                const double *weight, double *value, double *entropy)
{
    for (int v = 0; v < VECTORS; v++, z += W, y += W, weight += W, value += W, entropy += W) {
        double own[W];
        LANE largest = FROM(z), total = ALL(LANE, 0.0), mean = total;
        for (int k = 0; k < W; k++)
            own[k] = z[y[k] * stride + k];
        for (ptrdiff_t a = 1; a < c; a++)
            largest = LARGER(FROM(z + a * stride), largest);
        for (ptrdiff_t a = 0; a < c; a++) {
            /* as in mn_evaluate */
            const LANE below = LARGER(ALL(LANE, -700.0), FROM(z + a * stride) - largest);
            const LANE p = THIS(mn_exp)(below);
            total += p;
            mean += p * below;
            AT(z + a * stride) = p;
        }
        /* the logarithm of what is no number is one */
        const LANE log_total = THIS(mn_log)(total) + 0.0 * total, inverse = 1.0 / total;
        for (ptrdiff_t a = 0; a < c; a++)
            AT(z + a * stride) *= inverse;
        AT(value) += FROM(weight) * (log_total - (FROM(own) - largest));
        AT(entropy) += FROM(weight) * (log_total - inverse * mean);
    }
}

TARGET static void THIS(mn_softmax)(const mn_logits *t, double *tile, double *out)
{
    const ptrdiff_t n = t->n, c = t->c, whole = n - n % MN_TILE, rest = n - whole;
    double weight[MN_TILE], value[MN_TILE] = {0.0}, entropy[MN_TILE] = {0.0};
    int32_t y[MN_TILE];
    for (int k = 0; k < MN_TILE; k++)
        weight[k] = 1.0;
    for (ptrdiff_t s = 0; s < whole; s += MN_TILE)
        THIS(mn_softmax_tile)(c, t->z + s, n, t->y + s, t->weight ? t->weight + s : weight, value, entropy);
    if (rest) {
        /* copies of the last row, of weight 0, fill the tile */
        for (ptrdiff_t k = 0; k < MN_TILE; k++) {
            const ptrdiff_t s = whole + (k < rest ? k : rest - 1);
            for (ptrdiff_t a = 0; a < c; a++)
                tile[a * MN_TILE + k] = t->z[a * n + s];
            y[k] = t->y[s];
            weight[k] = k < rest ? t->weight ? t->weight[s] : 1.0 : 0.0;
        }
        THIS(mn_softmax_tile)(c, tile, MN_TILE, y, weight, value, entropy);
        for (ptrdiff_t k = 0; k < rest; k++)
            for (ptrdiff_t a = 0; a < c; a++)
                t->z[a * n + whole + k] = tile[a * MN_TILE + k];
    }
    out[0] = simd_total(value);
    out[1] = simd_total(entropy);
}

#undef VECTORS
#undef AT
#undef FROM
