/* The smoothed density of positions on a line, from their histogram. */
#ifndef CRAFTC_CRAFT_VALLEY_H
#define CRAFTC_CRAFT_VALLEY_H

#include <stddef.h>
#include <string.h>
#include "common/_simd.h"

#define LEAVES "craft/_craft_valley_lanes.h"
#include "common/_lanes.h"

/* density[i] = sum over bins of count * exp(-((at[i] - middle) / width)^2 / 2), for n_points points, a
 * multiple of 8 */
static inline void valley_density(const double *at, ptrdiff_t n_points, const double *middle,
                                  const double *count, ptrdiff_t n_bins, double width, double *density)
{
    SIMD_DISPATCH(valley_density, (at, n_points, middle, count, n_bins, width, density));
}

#endif
