/* One clone of the leaf of _craft_tilt.h, included once per instruction set by _lanes.h. Sums run over 8
 * lanes of levels, whatever the width of a vector, so that every clone adds in the same order. */

#define LANE_EXP THIS(tilt_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP

#define PARTS (CRAFT_TILT_PAD / W)

TARGET static void THIS(tilt_sums)(ptrdiff_t n, const double *b, const double *s1, const double *s2,
                                   double first, double second, double *out)
{
    LANE sum[6][PARTS], top[PARTS];
    double lane[CRAFT_TILT_PAD], highest;
    const LANE t1 = ALL(LANE, first), t2 = ALL(LANE, second), least = ALL(LANE, -700.0);
    LANE zero = ALL(LANE, 0.0);
    for (int i = 0; i < PARTS; i++) {
        top[i] = t1 * CELLS_double(s1 + i * W) + t2 * CELLS_double(s2 + i * W);
        for (int j = 0; j < 6; j++)
            sum[j][i] = zero;
    }
    for (ptrdiff_t l = CRAFT_TILT_PAD; l < n; l += CRAFT_TILT_PAD)
        for (int i = 0; i < PARTS; i++) {
            const LANE x = t1 * CELLS_double(s1 + l + i * W) + t2 * CELLS_double(s2 + l + i * W);
            top[i] = LARGER(x, top[i]);
        }
    for (int i = 0; i < PARTS; i++)
        *(LANE *)(lane + i * W) = top[i];
    highest = lane[0];
    for (int i = 1; i < CRAFT_TILT_PAD; i++)
        highest = lane[i] > highest ? lane[i] : highest;
    for (ptrdiff_t l = 0; l < n; l += CRAFT_TILT_PAD)
        for (int i = 0; i < PARTS; i++) {
            const LANE x1 = CELLS_double(s1 + l + i * W), x2 = CELLS_double(s2 + l + i * W);
            const LANE e = CELLS_double(b + l + i * W)
                * THIS(tilt_exp)(LARGER(t1 * x1 + t2 * x2 - ALL(LANE, highest), least));
            const LANE e1 = e * x1, e2 = e * x2;
            sum[0][i] += e;
            sum[1][i] += e1;
            sum[2][i] += e2;
            sum[3][i] += e1 * x1;
            sum[4][i] += e1 * x2;
            sum[5][i] += e2 * x2;
        }
    out[0] = highest;
    for (int j = 0; j < 6; j++) {
        for (int i = 0; i < PARTS; i++)
            *(LANE *)(lane + i * W) = sum[j][i];
        out[j + 1] = ((lane[0] + lane[4]) + (lane[1] + lane[5]))
            + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
    }
}

#undef PARTS
