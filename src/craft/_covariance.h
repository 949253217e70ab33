/* Costs of a tile of rows under one covariance of a cluster, or under one that all clusters share: half the
 * squared length of the whitened rows.
 *
 * The cells of a column lie together, one row after the other, so that a vector holds one column of several
 * rows. Under a shared covariance the rows are whitened once, and a vector holds several clusters. The cost
 * of a row is one fixed sequence of operations: it does not depend on the tile, the clone or the other
 * rows. */
#ifndef CRAFTC_COVARIANCE_H
#define CRAFTC_COVARIANCE_H

#include <stddef.h>
#include "common/_simd.h"

#define COVARIANCE_TILE 16      /* rows, as CRAFT_TILE */

#define LEAVES "craft/_covariance_lanes.h"
#include "common/_lanes.h"

/* total (COVARIANCE_TILE) = start + sum over the m columns of (1/2) y^2 - background, with y = L^-1 (z -
 * mean), and 0 in place of z - mean where a cell is missing. `inverse` is L^-1 (m, m); z and background hold
 * COVARIANCE_TILE cells of each column, `position` those of the block; `work` has room for m columns. */
static inline void covariance_costs(const double *inverse, const double *mean, const ptrdiff_t *position,
                                    ptrdiff_t m, double start, const double *z, const double *background,
                                    double *work, double *total)
{
    SIMD_DISPATCH(covariance_tile, (inverse, mean, position, m, start, z, background, work, total));
}

/* The m whitened columns L^-1 z of a tile, and in `total` (COVARIANCE_TILE) start - sum of the background. */
static inline void covariance_white(const double *inverse, const ptrdiff_t *position, ptrdiff_t m,
                                    double start, const double *z, const double *background, double *white,
                                    double *total)
{
    SIMD_DISPATCH(covariance_white, (inverse, position, m, start, z, background, white, total));
}

/* Adds to the costs (rows, lanes) `total` of the row and (1/2) |white - mean|^2; `mean` (m, lanes) are the
 * whitened means of the clusters. A row with a missing cell, whose last whitened cell is NaN, is left out. */
static inline void covariance_distances(const double *mean, ptrdiff_t m, ptrdiff_t lanes, const double *white,
                                        const double *total, ptrdiff_t rows, double *cost)
{
    SIMD_DISPATCH(covariance_distances, (mean, m, lanes, white, total, rows, cost));
}

#endif
