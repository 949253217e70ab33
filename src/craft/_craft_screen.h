/* Screening of a tile in single precision: most rows have one cluster that is cheaper than all others by far
 * more than rounding, and vectors of floats hold twice as many clusters. The decision is that of the costs in
 * double precision: where rounding could change it, the row is left to them.
 *
 * A cost is a sum of n terms A z^2 + B z, C and level entries. With u = 2^-24, rounding A, B and z to floats
 * and adding up in floats, fused or not, moves it by at most about (n + 8) u S, S the sum of the sizes of the
 * terms. The bound used is twice that, with S of the largest |A|, |B| and |z| of every column; it covers the
 * rounding of the double costs, of S and of the comparison.
 *
 * A whole tile without missing cells is rounded as it is read; its cells in double precision are not needed
 * then. */
#ifndef CRAFTC_CRAFT_SCREEN_H
#define CRAFTC_CRAFT_SCREEN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "craft/_craft.h"

#define CRAFT_SCREENED 256      /* rows from which rounded tables pay */
#define CRAFT_LEAST_ERROR 1e-9  /* nats; a row moves only if that saves more than 1e-12 nats */
#define CRAFT_MOST_ERROR 1e30f  /* sums of floats are finite below */

typedef enum {
    CRAFT_UNSURE,               /* rounding could change the cheapest cluster of a row */
    CRAFT_KEPT,                 /* every row has a cluster, which is the cheapest */
    CRAFT_CERTAIN               /* the cheapest clusters are certain */
} craft_certainty;

/* doubles of the rounded tables */
static inline ptrdiff_t craft_rounded_size(ptrdiff_t p, ptrdiff_t n_levels, ptrdiff_t lanes)
{
    return lanes / 2 * (1 + 2 * p + n_levels) + (p + CRAFT_WIDE) + CRAFT_WIDE;
}

/* Rounds the tables of the selected columns into `room`, for `craft_screen_tile`; `n_levels` rows are in the
 * level table. */
static inline void craft_round(craft_tables *t, ptrdiff_t n_levels, double *room)
{
    craft_rounded *s = &t->rounded;
    const ptrdiff_t lanes = t->lanes, p = t->p, size = lanes * p;
    float *constant = (float *)room, *square = constant + lanes, *minus_linear = square + size,
        *level = minus_linear + size;
    float *most_square = level + lanes * n_levels, *most_linear = most_square + p + CRAFT_WIDE;
    double most = 0.0;
    memset(most_square, 0, sizeof(float) * (size_t)(2 * (p + CRAFT_WIDE)));
    for (ptrdiff_t k = 0; k < lanes; k++)
        constant[k] = (float)t->constant[k];
    for (ptrdiff_t k = 0; k < t->n_clusters; k++)
        most = fmax(most, fabs(t->base[k]));
    s->error_at_0 = most;
    for (ptrdiff_t a = 0; a < t->n_numeric; a++) {
        const ptrdiff_t d = t->numeric[a];
        most = 0.0;
        for (ptrdiff_t j = d * lanes; j < (d + 1) * lanes; j++) {
            square[j] = (float)t->square[j];
            minus_linear[j] = -(float)t->linear[j];
        }
        for (ptrdiff_t j = d * lanes; j < d * lanes + t->n_clusters; j++) {
            most_square[d] = fmaxf(most_square[d], (float)fabs(t->square[j]));
            most_linear[d] = fmaxf(most_linear[d], (float)fabs(t->linear[j]));
            most = fmax(most, fabs(t->offset[j]));
        }
        s->error_at_0 += most;
    }
    for (ptrdiff_t a = 0; a < t->n_categorical; a++) {
        const ptrdiff_t d = t->categorical[a],
            stop = d + 1 < t->q ? t->level_offset[d + 1] : lanes * n_levels;
        most = 0.0;
        for (ptrdiff_t j = t->level_offset[d]; j < stop; j++) {
            level[j] = (float)t->level[j];
            most = fmax(most, fabs(t->level[j]));
        }
        s->error_at_0 += most;
    }
    s->constant = constant, s->square = square, s->minus_linear = minus_linear, s->level = level;
    s->most_square = most_square, s->most_linear = most_linear;
    s->error_per_size = (double)(2 * t->n_numeric + t->n_categorical + 8) / (1 << 23);
    s->error_at_0 = s->error_per_size * s->error_at_0 + CRAFT_LEAST_ERROR;
}

#if defined(__GNUC__)
#define CRAFT_ONE_BY_ONE _Pragma("GCC unroll 1")
#else
#define CRAFT_ONE_BY_ONE
#endif

#define LEAVES "craft/_craft_screen_lanes.h"
#include "common/_lanes.h"

/* The cheapest clusters of a tile of rows as in craft_fill, with their labels or -1; `cheapest` is filled if
 * CRAFT_CERTAIN. The scratch is overwritten. */
static inline craft_certainty craft_screen_tile(const craft_tables *t, const void *x, int single,
                                                const void *codes, int wide, ptrdiff_t first, ptrdiff_t rows,
                                                const int32_t *labels, double *scratch, int32_t *cheapest)
{
    return SIMD_DISPATCH(craft_screened, (t, x, single, codes, wide, first, rows, labels, scratch, cheapest));
}

#endif
