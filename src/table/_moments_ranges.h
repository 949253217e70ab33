/* Smallest and largest numbers of the columns of rows that follow each other. */
#ifndef CRAFTC_MOMENTS_RANGES_H
#define CRAFTC_MOMENTS_RANGES_H

#include <math.h>
#include <stddef.h>
#include "common/_simd.h"

/* cells whose ranges are kept at once: whole rows, or some columns of a wide table */
#define MOMENTS_STRIP 1024

#define LEAVES "table/_moments_ranges_lanes.h"
#include "common/_lanes.h"

/* n rows of p cells from x on lower `low` and raise `high`, both (p,); returns whether a cell is missing */
static inline int moments_ranges_of_rows(const void *x, int single, ptrdiff_t p, ptrdiff_t n, double *low,
                                         double *high)
{
    if (single)
        return SIMD_DISPATCH(moments_ranges_float, (x, p, n, low, high));
    return SIMD_DISPATCH(moments_ranges_double, (x, p, n, low, high));
}

#endif
