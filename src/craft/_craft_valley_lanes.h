/* One clone of the leaf of _craft_valley.h, included once per instruction set by _lanes.h. */

#define LANE_EXP THIS(valley_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP

TARGET static void THIS(valley_density)(const double *at, ptrdiff_t n_points, const double *middle,
                                        const double *count, ptrdiff_t n_bins, double width, double *density)
{
    for (ptrdiff_t i = 0; i < n_points; i += W) {
        LANE sum = ALL(LANE, 0.0);
        for (ptrdiff_t b = 0; b < n_bins; b++) {
            const LANE away = (CELLS_double(at + i) - ALL(LANE, middle[b])) * ALL(LANE, 1.0 / width);
            sum += ALL(LANE, count[b])
                * THIS(valley_exp)(LARGER(ALL(LANE, -0.5) * away * away, ALL(LANE, -700.0)));
        }
        *(LANE *)(density + i) = sum;
    }
}
