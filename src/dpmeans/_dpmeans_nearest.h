/* Nearest centres of a block of rows. Included by _dpmeans_scan.h: the scan finds the nearest centre of most
 * rows, the exact formula that of the others and every distance that is returned. */

TARGET static int32_t THIS(dp_nearest_exact)(const dp_centres *c, ptrdiff_t stride, const void *x,
                                             double *squared)
{
    double least = INFINITY, distance = INFINITY;
    int32_t arg = -1;
    for (ptrdiff_t k = 0; k < c->K; k++) {
        distance = THIS(dp_distance)(x, c->single, c->mu + k * stride, c->D);
        if (distance < least) {
            least = distance;
            arg = (int32_t)k;
        }
    }
    *squared = arg < 0 ? distance : least;
    return arg;
}

TARGET static void THIS(dp_nearest_rows)(const dp_centres *c, ptrdiff_t centre_stride, const char *x,
                                         ptrdiff_t n, ptrdiff_t x_stride, int32_t *labels, double *squared,
                                         double *rows, float *tile)
{
    const ptrdiff_t bytes = c->single ? 4 : 8, D = c->D;
    dp_found found;
    int32_t list[DP_TILE];
    double distance;
    for (ptrdiff_t r = 0; r < DP_TILE; r++)
        list[r] = (int32_t)r;
    for (ptrdiff_t first = 0; first < n; first += ROWS) {
        const ptrdiff_t m = n - first < ROWS ? n - first : ROWS;
        const char *from = x + first * x_stride * bytes;
        ptrdiff_t stride = x_stride;
        if (tile) {
            if (x_stride != D) {
                for (ptrdiff_t r = 0; r < m; r++)
                    memcpy((char *)rows + r * D * bytes, from + r * x_stride * bytes, (size_t)(D * bytes));
                from = (const char *)rows;
                stride = D;
            }
            THIS(dp_scan_tile)(c, 0, from, list, m, tile, &found);
        }
        for (ptrdiff_t r = 0; r < m; r++) {
            const void *row = from + r * stride * bytes;
            int32_t arg = -1;
            if (tile) {
                /* false for NaN, too */
                if (found.second[r] - found.best[r] > dp_error(c, found.norm[r]))
                    arg = found.arg[r];
            }
            if (arg < 0)
                arg = THIS(dp_nearest_exact)(c, centre_stride, row, &distance);
            else if (squared)
                distance = THIS(dp_distance)(row, c->single, c->mu + arg * centre_stride, D);
            labels[first + r] = arg;
            if (squared)
                squared[first + r] = distance;
        }
    }
}

/* whether the squared distance of every row to its nearest centre, times its share if it has one (of at most
 * 1), exceeds the limit */
TARGET static void THIS(dp_beyond_rows)(const dp_centres *c, const char *x, ptrdiff_t n, const double *share,
                                        uint8_t *beyond, float *tile)
{
    const ptrdiff_t bytes = c->single ? 4 : 8;
    dp_found found;
    int32_t list[DP_TILE];
    for (ptrdiff_t r = 0; r < DP_TILE; r++)
        list[r] = (int32_t)r;
    for (ptrdiff_t first = 0; first < n; first += ROWS) {
        const ptrdiff_t m = n - first < ROWS ? n - first : ROWS;
        const char *from = x + first * c->D * bytes;
        THIS(dp_fill)(c, from, list, m, tile, found.norm);
        THIS(dp_scan_best)(c, tile, &found);
        for (ptrdiff_t r = 0; r < m; r++) {
            const float nearest = found.norm[r] + 2.0f * found.best[r], error = dp_error(c, found.norm[r]);
            double least;
            beyond[first + r] = 0;
            if (nearest + error <= c->inside)
                continue;
            if (share || !(nearest - error > c->outside)) {
                THIS(dp_nearest_exact)(c, c->D, from + r * c->D * bytes, &least);
                beyond[first + r] = least * (share ? share[first + r] : 1.0) > c->limit;
            } else {
                beyond[first + r] = 1;
            }
        }
    }
}
