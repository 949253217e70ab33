/* Costs of a tile of rows under all clusters at once.
 *
 * With z the cell of a row in standard deviations from the mean of the table, a selected numeric column costs
 * A z^2 + B z + C more (or less) than the background, and a selected category its table entry; for a column
 * that a cluster has not selected all are 0. The tables store the clusters ("lanes") contiguously, padded to
 * a multiple of CRAFT_PAD with base = +inf, so that one load serves several clusters. The sum of a row starts
 * from `base` plus the C of its present numeric cells (`constant`, if all are present). The costs of a row
 * are one fixed sequence of operations: they do not depend on the tile, the block, the clone or the other
 * rows. */
#ifndef CRAFTC_CRAFT_H
#define CRAFTC_CRAFT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common/_cheapest.h"
#include "common/_simd.h"

#define CRAFT_TILE 16           /* rows */
#define CRAFT_AHEAD 4           /* tiles that are on their way to the cache */
#define CRAFT_PAD 8             /* lanes */
#define CRAFT_FEW 32            /* columns up to which they are repeated for a whole tile */
#define CRAFT_DENSE 4           /* from a share 1 / CRAFT_DENSE of selected columns on, all are filled in */
#define CRAFT_FAR 1e100         /* |z| is clipped to this: an extreme new cell keeps a finite cost */

#define CRAFT_WIDE 16           /* floats of the widest vector */

/* The tables in single precision, see _craft_screen.h; `constant` is NULL where there are none. */
typedef struct {
    const float *constant;                      /* (lanes) */
    const float *square, *minus_linear, *level; /* A, -B, levels */
    const float *most_square, *most_linear;     /* (p, then zeros) the largest |A| and |B| of a column */
    double error_per_size, error_at_0;           /* largest error of a cost: error_at_0 + error_per_size
                                                    times the size of its terms */
} craft_rounded;

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
    const double *level;                    /* (levels + q, lanes): all levels of a column, then a row of
                                               zeros for missing */
    craft_rounded rounded;
} craft_tables;

/* doubles of z, level offsets, costs and a list of columns; whole cache lines */
static inline ptrdiff_t craft_costs_size(ptrdiff_t p, ptrdiff_t q, ptrdiff_t lanes)
{
    return CRAFT_TILE * (p + q + lanes) + (p + 7) / 8 * 8;
}

/* scratch of one thread, in doubles, whole cache lines: also cells and costs in single precision */
static inline ptrdiff_t craft_scratch_size(ptrdiff_t p, ptrdiff_t q, ptrdiff_t lanes)
{
    return craft_costs_size(p, q, lanes) + CRAFT_TILE / 2 * ((p + 1) / 2 * 2 + lanes + CRAFT_WIDE)
        + CRAFT_WIDE / 2;
}

/* the same, and room for a tile of rows that are gathered from the table */
static inline ptrdiff_t craft_rows_scratch_size(ptrdiff_t p, ptrdiff_t q, ptrdiff_t lanes)
{
    return craft_scratch_size(p, q, lanes) + CRAFT_TILE * (p + q);
}

#if defined(__GNUC__)
#define CRAFT_UNROLL _Pragma("GCC unroll 8")
/* prefetches the cells of a tile some tiles ahead of row `first`; an address beyond the block is no error */
#define CRAFT_FETCH(block, bytes, columns)                                                           \
    for (ptrdiff_t at = 0; at < CRAFT_TILE * (columns) * (ptrdiff_t)(bytes); at += 64)               \
        __builtin_prefetch((const char *)(block) + (first + CRAFT_AHEAD * CRAFT_TILE) * (columns)    \
                           * (ptrdiff_t)(bytes) + at);
#else
#define CRAFT_UNROLL
#define CRAFT_FETCH(block, bytes, columns)
#endif

#define LEAVES "craft/_craft_lanes.h"
#include "common/_lanes.h"

/* z and level offsets of rows [first, first + rows), rows <= CRAFT_TILE, in scratch; x and codes are the
 * whole blocks. A short tile repeats its first row. `start`: (CRAFT_TILE) the first terms of the sums. */
static inline void craft_fill(const craft_tables *t, const void *x, int single, const void *codes, int wide,
                              ptrdiff_t first, ptrdiff_t rows, double *scratch, const double **start)
{
    double *cost = scratch + CRAFT_TILE * (t->p + t->q);
    SIMD_DISPATCH(craft_cells,
                  (t, x, single, codes, wide, first, rows, scratch, (int32_t *)(scratch + CRAFT_TILE * t->p),
                   cost,
                                (ptrdiff_t *)(cost + CRAFT_TILE * t->lanes), start));
}

/* the least cost of every row of a tile */
static inline void craft_least(const craft_tables *t, const double *cost, double *best)
{
    SIMD_DISPATCH(least, (t->lanes, CRAFT_TILE, cost, best));
}

/* The (CRAFT_TILE, lanes) costs of the `rows` rows in scratch, stored there, and the least cost of each row.
 */
static inline const double *craft_costs_of(const craft_tables *t, const double *const *start, ptrdiff_t rows,
                                           double *scratch, double *best)
{
    double *cost = scratch + CRAFT_TILE * (t->p + t->q);
    SIMD_DISPATCH(craft_costs,
                  (t, start, rows, scratch, (const int32_t *)(scratch + CRAFT_TILE * t->p), cost));
    craft_least(t, cost, best);
    return cost;
}

/* Both. */
static inline const double *craft_tile(const craft_tables *t, const void *x, int single, const void *codes,
                                       int wide, ptrdiff_t first, ptrdiff_t rows, double *scratch,
                                       double *best)
{
    const double *start[CRAFT_TILE];
    craft_fill(t, x, single, codes, wide, first, rows, scratch, start);
    return craft_costs_of(t, start, rows, scratch, best);
}

/* the cluster of least cost of every row of a tile (ties: the lowest); -1 if no cluster has a finite cost, or
 * if NaN leaves only the padding lanes to compare */
static inline void craft_cheapest(const craft_tables *t, const double *cost, const double *best, int32_t *arg)
{
    SIMD_DISPATCH(cheapest, (t->lanes, CRAFT_TILE, cost, best, arg));
    for (int r = 0; r < CRAFT_TILE; r++)
        if (arg[r] >= t->n_clusters)
            arg[r] = -1;
}

#endif
