/* One clone of the leaves of _craft_rows.h, included once per instruction set by _lanes.h. The lanes are
 * clusters. */

#define LANE_EXP THIS(rows_exp)
#include "common/_lane_exp.h"
#undef LANE_EXP

#define VECTORS (ROWS_PARTS / W)

TARGET static void THIS(rows_cheapest)(const double *cost, ptrdiff_t n, ptrdiff_t n_clusters, double *room,
                                       int32_t *label, double *least, double *second)
{
    const ptrdiff_t lanes = simd_lines(n_clusters);
    for (ptrdiff_t i = 0; i < n; i++, cost += n_clusters) {
        LANE low[VECTORS], next[VECTORS];
        double lows[ROWS_PARTS], nexts[ROWS_PARTS];
        rows_pad(cost, n_clusters, lanes, room);
        for (int v = 0; v < VECTORS; v++)
            low[v] = next[v] = ALL(LANE, INFINITY);
        for (ptrdiff_t k = 0; k < lanes; k += ROWS_PARTS)
            for (int v = 0; v < VECTORS; v++) {
                const LANE c = *(const LANE *)(room + k + v * W);
                next[v] = SMALLER(next[v], LARGER(low[v], c));
                low[v] = SMALLER(low[v], c);
            }
        memcpy(lows, low, sizeof lows);
        memcpy(nexts, next, sizeof nexts);
        double first = lows[0], other = nexts[0];
        for (int j = 1; j < ROWS_PARTS; j++) {
            const double higher = lows[j] > first ? lows[j] : first;
            other = other < nexts[j] ? other : nexts[j];
            other = other < higher ? other : higher;
            first = lows[j] < first ? lows[j] : first;
        }
        least[i] = first;
        second[i] = other;
        ptrdiff_t k = 0;
        while (k + 1 < n_clusters && room[k] != first)
            k++;
        label[i] = (int32_t)k;
    }
}

TARGET static void THIS(rows_probabilities)(const double *cost, const double *least, const double *weight,
                                            ptrdiff_t n, ptrdiff_t n_clusters, double *room, double *total,
                                            double *spread, double *size)
{
    const ptrdiff_t lanes = simd_lines(n_clusters);
    for (ptrdiff_t i = 0; i < n; i++, cost += n_clusters) {
        LANE sum[VECTORS], mean[VECTORS];
        double sums[ROWS_PARTS], means[ROWS_PARTS];
        rows_pad(cost, n_clusters, lanes, room);
        for (int v = 0; v < VECTORS; v++)
            sum[v] = mean[v] = ALL(LANE, 0.0);
        for (ptrdiff_t k = 0; k < lanes; k += ROWS_PARTS)
            for (int v = 0; v < VECTORS; v++) {
                LANE *at = (LANE *)(room + k + v * W);
                const LANE x = LARGER(least[i] - *at, ALL(LANE, ROWS_FARTHEST)), ratio = THIS(rows_exp)(x);
                sum[v] += ratio;
                mean[v] += ratio * x;
                *at = ratio;
            }
        memcpy(sums, sum, sizeof sums);
        memcpy(means, mean, sizeof means);
        total[i] = simd_total(sums);
        spread[i] = simd_total(means);
        const double steps = ROWS_STEPS / total[i], times = weight ? weight[i] : 1.0;
        for (ptrdiff_t k = 0; k < lanes; k += W) /* adding SIMD_MAGIC rounds */
            *(LANE *)(size + k) += ((*(const LANE *)(room + k) * steps + SIMD_MAGIC) - SIMD_MAGIC) * times;
    }
}

#undef VECTORS
