/* Costs of rows as margins and probabilities. */
#ifndef CRAFTC_CRAFT_ROWS_H
#define CRAFTC_CRAFT_ROWS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common/_simd.h"

#define ROWS_PARTS 8                /* partial sums of a row, the same for every instruction set */
#define ROWS_STEPS 0x1p20           /* integers to a probability of 1 */
#define ROWS_FARTHEST (-700.0)      /* logarithm of the smallest ratio of probabilities */

/* The costs of a row, and +inf behind them. */
static inline void rows_pad(const double *cost, ptrdiff_t n_clusters, ptrdiff_t lanes, double *row)
{
    memcpy(row, cost, (size_t)n_clusters * sizeof(double));
    for (ptrdiff_t k = n_clusters; k < lanes; k++)
        row[k] = INFINITY;
}

#define LEAVES "craft/_craft_rows_lanes.h"
#include "common/_lanes.h"

/* The cheapest cluster of every row, the lowest of equal ones, its cost and the next higher one; `room`
 * (simd_lines). */
static inline void rows_cheapest(const double *cost, ptrdiff_t n, ptrdiff_t n_clusters, double *room,
                                 int32_t *label, double *least, double *second)
{
    SIMD_DISPATCH(rows_cheapest, (cost, n, n_clusters, room, label, least, second));
}

/* Of every row, with the ratios r of the probabilities of its clusters to the largest: sum r, and sum r log r.
 * Adds the probabilities, rounded to 1 / ROWS_STEPS, to `size` (simd_lines), `weight` times (NULL: once). */
static inline void rows_probabilities(const double *cost, const double *least, const double *weight,
                                      ptrdiff_t n, ptrdiff_t n_clusters, double *room, double *total,
                                      double *spread, double *size)
{
    SIMD_DISPATCH(rows_probabilities, (cost, least, weight, n, n_clusters, room, total, spread, size));
}

#endif
