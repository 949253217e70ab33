/* Costs of a tile of rows under all clusters at once.
 *
 * With z the cell of a row in standard deviations from the mean of the table, a selected numeric column costs A z^2 + B z + C more (or
 * less) than the background, and a selected category its table entry; for a column that a cluster has not selected all are 0. The
 * tables store the clusters ("lanes") contiguously, padded to a multiple of CRAFT_PAD with base = +inf, so that one load serves
 * several clusters. The sum of a row starts from `base` plus the C of its present numeric cells (`constant`, if all are present). The
 * costs of a row are one fixed sequence of operations: they do not depend on the tile, the block, the clone or the other rows. */
#ifndef CRAFTC_CRAFT_H
#define CRAFTC_CRAFT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "_cheapest.h"
#include "_simd.h"

#define CRAFT_TILE 8            /* rows */
#define CRAFT_PAD 8             /* lanes */
#define CRAFT_FEW 64            /* up to so many columns are repeated for a whole tile */
#define CRAFT_DENSE 4           /* from a share 1 / CRAFT_DENSE of selected columns on, all are filled in */
#define CRAFT_FAR 1e100         /* |z| is clipped to this: an extreme new cell keeps a finite cost */

typedef struct {
    ptrdiff_t n_clusters, lanes;            /* lanes = n_clusters rounded up to CRAFT_PAD */
    ptrdiff_t n_numeric, n_categorical;     /* columns that any cluster selected */
    ptrdiff_t p, q;                         /* columns of the table */
    const ptrdiff_t *numeric, *categorical; /* their positions */
    ptrdiff_t repeat;                       /* number of consecutive copies of the three rows below */
    const double *centre, *scale;           /* (repeat, p) z = (x - centre) * scale */
    const int32_t *level_offset;            /* (repeat, q) first entry of a column in `level`: row * lanes */
    const double *base;                     /* (lanes) */
    const double *constant;                 /* (lanes) base + all C */
    const double *square, *linear, *offset; /* (p, lanes) A, B, C */
    const double *level;                    /* (levels + q, lanes): all levels of a column, then a row of zeros for missing */
} craft_tables;

/* scratch of one thread, in doubles, whole cache lines: z, level offsets, costs, a list of columns */
static inline ptrdiff_t craft_scratch_size(ptrdiff_t p, ptrdiff_t q, ptrdiff_t lanes)
{
    return CRAFT_TILE * (p + q + lanes) + (p + 7) / 8 * 8;
}

#if defined(__GNUC__)
#define CRAFT_UNROLL _Pragma("GCC unroll 8")
#else
#define CRAFT_UNROLL
#endif

#define LEAVES "_craft_lanes.h"
#include "_lanes.h"

/* costs of rows [first, first + rows), rows <= CRAFT_TILE; x and codes are the whole blocks. Returns the (CRAFT_TILE, lanes) costs,
 * stored in scratch, and the least cost of each row */
static inline const double *craft_tile(const craft_tables *t, const void *x, int single, const void *codes, int wide,
                                       ptrdiff_t first, ptrdiff_t rows, double *scratch, double *best)
{
    double *z = scratch, *cost = scratch + CRAFT_TILE * (t->p + t->q);
    int32_t *level = (int32_t *)(scratch + CRAFT_TILE * t->p);
    SIMD_DISPATCH(craft_costs, (t, x, single, codes, wide, first, rows, z, level, cost,
                                 (ptrdiff_t *)(cost + CRAFT_TILE * t->lanes)));
    SIMD_DISPATCH(least, (t->lanes, CRAFT_TILE, cost, best));
    return cost;
}

/* the cluster of least cost of every row of a tile (ties: the lowest); -1 if no cluster has a finite cost, or if NaN leaves only the
 * padding lanes to compare */
static inline void craft_cheapest(const craft_tables *t, const double *cost, const double *best, int32_t *arg)
{
    SIMD_DISPATCH(cheapest, (t->lanes, CRAFT_TILE, cost, best, arg));
    for (int r = 0; r < CRAFT_TILE; r++)
        if (arg[r] >= t->n_clusters)
            arg[r] = -1;
}

#endif
