/* Squared distances of the rows of a transposed table to a centre. */
#ifndef CRAFTC_MIXTURE_START_H
#define CRAFTC_MIXTURE_START_H

#include <stddef.h>
#include <string.h>
#include "common/_simd.h"

#define LEAVES "mixture/_mixture_start_lanes.h"
#include "common/_lanes.h"

/* out (n): squared distances of the columns of x (D, n) to a centre, whose cells are `stride` apart */
static inline void ms_squares(const double *x, ptrdiff_t n, ptrdiff_t D, const double *centre,
                              ptrdiff_t stride, double *out)
{
    SIMD_DISPATCH(ms_squares, (x, n, D, centre, stride, out));
}

#endif
