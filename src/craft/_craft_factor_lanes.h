/* One clone of the leaves of _craft_factor.h, included once per instruction set by _lanes.h. */

#define LANE_EXP THIS(factor_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP

#define PARTS 8                     /* of a sum over the lanes, the same for every instruction set */
#define VECTORS (PARTS / W)

TARGET static double THIS(factor_expect)(const double *restrict table, const int32_t *restrict rows,
                                         const double *restrict weight, ptrdiff_t n, ptrdiff_t D,
                                         ptrdiff_t lanes, const double *restrict prior,
                                         double *restrict room, double *restrict mass,
                                         double *restrict counts)
{
    double log_likelihood = 0.0;
    for (ptrdiff_t i = 0; i < n; i++, rows += D) {
        LANE high[VECTORS], sum[VECTORS];
        double parts[PARTS], most;
        memcpy(room, prior, (size_t)lanes * sizeof(double));
        for (ptrdiff_t d = 0; d < D; d++)
            if (rows[d] >= 0) {
                const double *own = table + rows[d] * lanes;
                for (ptrdiff_t k = 0; k < lanes; k += W)
                    *(LANE *)(room + k) += *(const LANE *)(own + k);
            }
        for (int v = 0; v < VECTORS; v++)
            high[v] = *(const LANE *)(room + v * W), sum[v] = ALL(LANE, 0.0);
        for (ptrdiff_t k = PARTS; k < lanes; k += PARTS)
            for (int v = 0; v < VECTORS; v++)
                high[v] = LARGER(high[v], *(const LANE *)(room + k + v * W));
        memcpy(parts, high, sizeof parts);
        most = parts[0];
        for (int j = 1; j < PARTS; j++)
            most = parts[j] > most ? parts[j] : most;
        for (ptrdiff_t k = 0; k < lanes; k += PARTS)
            for (int v = 0; v < VECTORS; v++) {
                LANE *at = (LANE *)(room + k + v * W);
                *at = THIS(factor_exp)(LARGER(*at - ALL(LANE, most), ALL(LANE, FACTOR_FARTHEST)));
                sum[v] += *at;
            }
        memcpy(parts, sum, sizeof parts);
        const double total = simd_total(parts), share = weight[i] / total;
        log_likelihood += weight[i] * (most + log(total));
        for (ptrdiff_t k = 0; k < lanes; k += W) {
            LANE *at = (LANE *)(room + k);
            *at *= ALL(LANE, share);
            *(LANE *)(mass + k) += *at;
        }
        for (ptrdiff_t d = 0; d < D; d++)
            if (rows[d] >= 0) {
                double *own = counts + rows[d] * lanes;
                for (ptrdiff_t k = 0; k < lanes; k += W)
                    *(LANE *)(own + k) += *(const LANE *)(room + k);
            }
    }
    return log_likelihood;
}

TARGET static void THIS(factor_shares)(const double *restrict intercept, const double *restrict tilt,
                                       const double *restrict node, ptrdiff_t levels, ptrdiff_t lanes,
                                       double *restrict share, double *restrict log_share)
{
    for (ptrdiff_t k = 0; k < lanes; k += W) {
        const LANE place = *(const LANE *)(node + k);
        LANE most = ALL(LANE, -INFINITY), sum = ALL(LANE, 0.0), log_sum;
        for (ptrdiff_t l = 0; l < levels; l++)
            most = LARGER(most, ALL(LANE, intercept[l]) + ALL(LANE, tilt[l]) * place);
        for (ptrdiff_t l = 0; l < levels; l++) {
            const LANE x = LARGER(ALL(LANE, intercept[l]) + ALL(LANE, tilt[l]) * place - most,
                                  ALL(LANE, FACTOR_FARTHEST));
            const LANE y = THIS(factor_exp)(x);
            *(LANE *)(log_share + l * lanes + k) = x;
            *(LANE *)(share + l * lanes + k) = y;
            sum += y;
        }
        for (int v = 0; v < W; v++) {
            const double one = log(((const double *)&sum)[v]);
            memcpy((double *)&log_sum + v, &one, sizeof one);
        }
        for (ptrdiff_t l = 0; l < levels; l++) {
            *(LANE *)(log_share + l * lanes + k) -= log_sum;
            *(LANE *)(share + l * lanes + k) /= sum;
        }
    }
}

#undef VECTORS
#undef PARTS
