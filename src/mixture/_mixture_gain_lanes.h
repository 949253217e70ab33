/* One clone of the leaves of _mixture_gain.h, included once per instruction set by _lanes.h. The lanes are
 * columns. Sums over them go in MG_TILE parts: no order of additions depends on the width of a vector. */

#define VECTORS (MG_TILE / W)
#define FROM(pointer) (*(const LANE *)((pointer) + d))

#define LANE_EXP THIS(mg_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP
#define LANE_LOG THIS(mg_log)
#include "common/_lane_log.h"
#undef LANE_LOG

/* Columns from `tile` on, those before `first` left out: the larger of the two exponents goes to `sum`, and 1
 * + e^difference to `factor`. */
TARGET ALWAYS_INLINE void THIS(mg_add)(const mg_columns *c, const mg_cells *x, ptrdiff_t tile,
                                       ptrdiff_t first, LANE *sum, LANE *factor)
{
    static const double number[MG_TILE] = {0, 1, 2, 3, 4, 5, 6, 7};
    const LANE zero = ALL(LANE, 0.0), other = ALL(LANE, x->other);
    for (int v = 0; v < VECTORS; v++) {
        const ptrdiff_t d = tile + v * W;
        const LANE s1 = FROM(x->s1) + other * FROM(x->more1), s2 = FROM(x->s2) + other * FROM(x->more2);
        const LANE b = FROM(c->b0) + 0.5 * LARGER(s2 - s1 * s1 / x->kappa, zero);
        const LANE noise = x->reach * FROM(c->constant) + s1 * FROM(c->linear) + s2 * FROM(c->square);
        const LANE gain = x->evidence + FROM(c->value) - x->a * THIS(mg_log)(b) - noise + FROM(c->log_mean);
        const LANE rest = FROM(c->log_rest), high = LARGER(gain, rest), low = SMALLER(gain, rest);
        const LANE more = THIS(mg_exp)(LARGER(low - high, ALL(LANE, -700.0))),
            at = *(const LANE *)(number + v * W);
        sum[v] += PICK(at >= (double)(first - tile), high);
        factor[v] *= 1.0 + PICK(at >= (double)(first - tile), more);
    }
}

TARGET static double THIS(mg_gain)(const mg_columns *c, const mg_cells *x)
{
    const ptrdiff_t whole = c->D / MG_TILE * MG_TILE;
    LANE sum[VECTORS], factor[VECTORS];
    double part[MG_TILE];
    for (int v = 0; v < VECTORS; v++)
        sum[v] = ALL(LANE, 0.0);
    for (ptrdiff_t start = 0; start < whole; start += MG_TILE * MG_FACTORS) {
        const ptrdiff_t stop = whole - start < MG_TILE * MG_FACTORS ? whole : start + MG_TILE * MG_FACTORS;
        for (int v = 0; v < VECTORS; v++)
            factor[v] = ALL(LANE, 1.0);
        for (ptrdiff_t tile = start; tile < stop; tile += MG_TILE)
            THIS(mg_add)(c, x, tile, tile, sum, factor);
        if (stop == whole && whole < c->D)      /* a tile that ends with the last column */
            THIS(mg_add)(c, x, c->D - MG_TILE, whole, sum, factor);
        for (int v = 0; v < VECTORS; v++)
            sum[v] += THIS(mg_log)(factor[v]);
    }
    for (int v = 0; v < VECTORS; v++)
        *(LANE *)(part + v * W) = sum[v];
    return simd_total(part);
}

#undef VECTORS
#undef FROM
