/* Expectations and distributions of one factor (src/craft/craft_factor.pyx). The lanes are places on it. */
#ifndef CRAFTC_CRAFT_FACTOR_H
#define CRAFTC_CRAFT_FACTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common/_simd.h"

#define FACTOR_FARTHEST (-200.0)    /* logarithm of the smallest ratio of probabilities: products of three
                                       are no denormal numbers */

#define LEAVES "craft/_craft_factor_lanes.h"
#include "common/_lanes.h"

/* The sum over the rows of weight times the log of sum_t exp(prior_t + sum of the entries of its levels in
 * `table` (levels, lanes)). Adds the posterior shares of the places, times the weights, to `mass` (lanes) and
 * to the `counts` (levels, lanes) of the levels. `rows` (n, D) holds levels, -1 for a missing cell; `room`
 * (lanes). */
static inline double factor_expect(const double *table, const int32_t *rows, const double *weight,
                                   ptrdiff_t n, ptrdiff_t D, ptrdiff_t lanes, const double *prior,
                                   double *room, double *mass, double *counts)
{
    return SIMD_DISPATCH(factor_expect,
                         (table, rows, weight, n, D, lanes, prior, room, mass, counts));
}

/* Shares (levels, lanes) of the levels of one column, exp(intercept + tilt node) over their sum, and their
 * logarithms. */
static inline void factor_shares(const double *intercept, const double *tilt, const double *node,
                                 ptrdiff_t levels, ptrdiff_t lanes, double *share, double *log_share)
{
    SIMD_DISPATCH(factor_shares, (intercept, tilt, node, levels, lanes, share, log_share));
}

#endif
