/* How far the score of a component has moved since the last pass over the rows. */
#ifndef CRAFTC_MIXTURE_CHANGE_H
#define CRAFTC_MIXTURE_CHANGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common/_simd.h"

#define MC_PARTS 8      /* columns that are added up apart */

#define LEAVES "mixture/_mixture_change_lanes.h"
#include "common/_lanes.h"

/* Coefficients p (own - noise) of D columns replace the last ones; their changes go to `moved`. Returns the
 * sum of squares of the changes; the sum of the squares of |now| + |last| goes to `size`. */
static inline double mc_change(const double *p, const double *own, const double *noise, ptrdiff_t D,
                               double *last, double *moved, double *size)
{
    return SIMD_DISPATCH(mc_change, (p, own, noise, D, last, moved, size));
}

#endif
