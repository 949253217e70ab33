/* Sides of the rows of clusters. Included by _dpmeans_scan.h. */

/* Rows [start, stop) go to side 1 of their cluster where their projection on its direction, relative to its
 * origin, is positive, else to side 0; without directions they stay. They are added to cluster 2 label +
 * side; rows of label -1 are left out. Returns the weight of the rows that change sides. */
TARGET static int64_t THIS(dp_cut_rows)(const dp_sums *s, const void *X, int single, ptrdiff_t D,
                                        const int32_t *labels, const double *origins,
                                        const double *directions, uint8_t *sides, ptrdiff_t start,
                                        ptrdiff_t stop)
{
    int32_t list[DP_TILE], clusters[DP_TILE];
    int64_t changed = 0;
    ptrdiff_t n = 0;
    for (ptrdiff_t i = start; i < stop; i++) {
        const void *x;
        ptrdiff_t at;
        uint8_t side;
        if (labels[i] < 0)
            continue;
        x = dp_row_in_order(X, single, D, i);
        at = labels[i] * D;
        side = directions ? THIS(dp_projection)(x, single, origins + at, directions + at, D) > 0.0 : sides[i];
        changed += (side != sides[i]) * (s->weight ? s->weight[i] : 1);
        sides[i] = side;
        list[n] = (int32_t)i;
        clusters[n++] = 2 * labels[i] + side;
        if (n == DP_TILE) {
            THIS(dp_enter)(s, X, single, D, list, clusters, n);
            n = 0;
        }
    }
    THIS(dp_enter)(s, X, single, D, list, clusters, n);     /* the last ones */
    return changed;
}
