/* Rows go to their nearest centres: all rows in a sweep, or newcomers shown to some. Included by
 * _dpmeans_scan.h. */

/* sum of the lanes */
TARGET ALWAYS_INLINE float THIS(dp_total)(FLOATS sum)
{
    float lanes[WF];
    *(FLOATS *)(lanes) = sum;
    for (int half = WF / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

/* squared distances of one row to a few centres, scaled, in single precision; returns the bound on their error */
TARGET static float THIS(dp_glance)(const dp_centres *c, const void *x, const int32_t some[DP_GLANCE], float distance[DP_GLANCE])
{
    const ptrdiff_t D = c->D, bytes = c->single ? 4 : 8;
    const float *restrict centre[DP_GLANCE];
    float t[DP_TILE], norm, size;
    FLOATS sum[DP_GLANCE], square = ALL(FLOATS, 0.0f);
    for (int j = 0; j < DP_GLANCE; j++) {
        sum[j] = ALL(FLOATS, 0.0f);
        centre[j] = c->centre + some[j] * D;
    }
    for (ptrdiff_t first = 0; first < D; first += DP_TILE) {
        const ptrdiff_t m = D - first < DP_TILE ? D - first : DP_TILE;
        for (ptrdiff_t at = 0; at < m; at += 64 / bytes)
            DP_PREFETCH((const char *)x + (DP_AHEAD * D + first + at) * bytes);
        if (c->single)
            for (ptrdiff_t d = 0; d < m; d++)
                t[d] = (((const float *)x)[first + d] - c->ref_single[first + d]) * (float)c->scale;
        else
            for (ptrdiff_t d = 0; d < m; d++)
                t[d] = (float)((((const double *)x)[first + d] - c->ref[first + d]) * c->scale);
        for (ptrdiff_t d = m; d < DP_TILE && d % WF; d++)
            t[d] = 0.0f;
        for (ptrdiff_t d = 0; d < m; d += WF) {
            const FLOATS cells = *(const FLOATS *)(t + d);
            square = MINUS_PRODUCT(square, cells, cells);
            for (int j = 0; j < DP_GLANCE; j++)     /* beyond a centre's last cell stands the next one's first: times 0 */
                sum[j] = MINUS_PRODUCT(sum[j], cells, *(const FLOATS *)(centre[j] + first + d));
        }
    }
    norm = -THIS(dp_total)(square);
    for (int j = 0; j < DP_GLANCE; j++)
        distance[j] = norm + 2.0f * (c->half[some[j]] + THIS(dp_total)(sum[j]));
    size = sqrtf(norm) + c->reach;
    return (float)(D + 24) * 0x1p-24f * size * size + DP_TINY;
}

/* one row to some centres by the exact formula alone: for a few it is cheaper than a tile */
TARGET static ptrdiff_t THIS(dp_show_row)(const dp_centres *c, const int32_t *some, ptrdiff_t n, const void *X, dp_rows rows,
                                          const dp_sums *sums, ptrdiff_t i)
{
    const void *x = dp_row(X, c->single, c->D, i);
    const double own = fabsf(rows.upper[i]) / c->scale;
    double least, second, old;
    float other;
    ptrdiff_t moved = 0;
    const int32_t arg = THIS(dp_nearest_of)(c, some, n, x, rows.labels[i], &least, &second);
    if (least <= own * own * (1.0 + 1e-6)) {
        old = THIS(dp_distance)(x, c->single, c->mu + rows.labels[i] * c->D, c->D);
        if (least < old) {
            const double unit = sums->unit_weight ? sums->unit_weight[i] : 1.0;
            moved = THIS(dp_move)(c, sums, x, i, rows.labels[i], arg);
            rows.labels[i] = arg;
            rows.upper[i] = dp_above(sqrt(least) * c->scale);
            if (least * unit > c->limit)
                rows.upper[i] = -rows.upper[i];
            least = old < second ? old : second;
        }
    }
    other = dp_below(sqrt(least) * c->scale);
    rows.lower[i] = rows.lower[i] < other ? rows.lower[i] : other;
    return moved;
}

/* the rows of `list` to their nearest centres */
TARGET static ptrdiff_t THIS(dp_assign_tile)(const dp_centres *c, const void *X, dp_rows rows, const dp_sums *sums,
                                             const int32_t *list, ptrdiff_t n, float *tile, ptrdiff_t *candidates)
{
    THIS(dp_found) found;
    float upper[DP_TILE], lower[DP_TILE];
    int32_t sure[DP_TILE], settled[DP_TILE];    /* settled: surely where it is, and inside the limit */
    ptrdiff_t moved = 0;
    THIS(dp_fill)(c, X, list, n, tile, found.norm);
    THIS(dp_scan)(c, 0, tile, &found);
    THIS(dp_bound)(c, &found, upper, lower, sure);
    if (n == ROWS && list[n - 1] - list[0] == ROWS - 1) {
        const int32_t *restrict labels = rows.labels + list[0];
        int32_t all = 1;
        for (ptrdiff_t r = 0; r < ROWS; r++)
            all &= settled[r] = (sure[r] == 1) & (labels[r] == found.arg[r]);
        memcpy(rows.upper + list[0], upper, sizeof(float) * ROWS);
        memcpy(rows.lower + list[0], lower, sizeof(float) * ROWS);
        if (all)
            return 0;
    } else {
        for (ptrdiff_t r = 0; r < n; r++) {
            rows.upper[list[r]] = upper[r];
            rows.lower[list[r]] = lower[r];
            settled[r] = (sure[r] == 1) & (rows.labels[list[r]] == found.arg[r]);
        }
    }
    for (ptrdiff_t r = 0; r < n; r++) {
        const ptrdiff_t i = list[r];
        const void *x;
        int32_t arg = found.arg[r];
        int beyond = sure[r] == 2;
        if (settled[r])
            continue;
        x = dp_row(X, c->single, c->D, i);
        if (!sure[r] || (beyond && sums->unit_weight)) {
            double least, second;
            arg = THIS(dp_nearest)(c, x, rows.labels[i], &least, &second);
            upper[r] = dp_above(sqrt(least) * c->scale);
            rows.lower[i] = dp_below(sqrt(second) * c->scale);
            beyond = least * (sums->unit_weight ? sums->unit_weight[i] : 1.0) > c->limit;
        }
        rows.upper[i] = beyond ? -upper[r] : upper[r];
        *candidates += beyond;
        if (arg != rows.labels[i]) {
            moved += THIS(dp_move)(c, sums, x, i, rows.labels[i], arg);
            rows.labels[i] = arg;
        }
    }
    return moved;
}

/* whether a row surely stays in its cluster and within its limit, by the bounds or by a glance at its own centre and the fresh ones;
 * then its bounds follow the centres */
TARGET ALWAYS_INLINE int THIS(dp_stays)(const dp_centres *c, const void *x, dp_rows rows, ptrdiff_t i, const float *drift,
                                    const float *drift_others, const float *half_gap, const int32_t *fresh, ptrdiff_t n_fresh,
                                    const float *fresh_gap, float root)
{
    const int32_t k = rows.labels[i];
    float most = (fabsf(rows.upper[i]) + drift[k]) * (1.0f + 0x1p-22f), least = (rows.lower[i] - drift_others[k]) * (1.0f - 0x1p-22f);
    const float guard = least > half_gap[k] ? least : half_gap[k];
    float far = n_fresh ? (fresh_gap[k] - most) * (1.0f - 0x1p-22f) : INFINITY;
    if (!(most <= guard && most <= root && far >= most)) {
        float distance[DP_GLANCE], error, others = INFINITY;
        int32_t some[DP_GLANCE];
        if (c->K < DP_WORTH_CLUSTERS || c->D < DP_WORTH_COLUMNS)
            return 0;
        for (ptrdiff_t j = 0; j < DP_GLANCE; j++)
            some[j] = j > 0 && j <= n_fresh ? fresh[j - 1] : k;
        error = THIS(dp_glance)(c, x, some, distance);
        for (int j = 1; j <= n_fresh; j++)
            if (some[j] != k)
                others = distance[j] - error < others ? distance[j] - error : others;
        if (!(distance[0] + error < others))
            return 0;
        most = sqrtf(distance[0] + error) * (1.0f + 0x1p-21f);
        if (!(most <= guard && most <= root))
            return 0;
        far = sqrtf(others) * (1.0f - 0x1p-21f);
    }
    rows.upper[i] = most;
    rows.lower[i] = least < far ? least : far;
    return 1;
}

TARGET static ptrdiff_t THIS(dp_assign)(const dp_centres *c, const void *X, dp_rows rows, const dp_sums *sums,
                                        const float *drift, const float *drift_others, const float *half_gap,
                                        const int32_t *fresh, ptrdiff_t n_fresh, const float *fresh_gap,
                                        ptrdiff_t start, ptrdiff_t stop, float *tile, ptrdiff_t *candidates,
                                        ptrdiff_t *scanned)
{
    const float root = c->inside < FLT_MAX ? sqrtf(c->inside) * (1.0f - 0x1p-21f) : INFINITY;
    int32_t list[DP_TILE];
    ptrdiff_t moved = 0, n = 0;
    for (ptrdiff_t i = start; i < stop; i++) {
        if (drift && THIS(dp_stays)(c, dp_row(X, c->single, c->D, i), rows, i, drift, drift_others, half_gap, fresh, n_fresh, fresh_gap,
                                    root))
            continue;
        list[n++] = (int32_t)i;
        if (n == ROWS) {
            moved += THIS(dp_assign_tile)(c, X, rows, sums, list, n, tile, candidates);
            *scanned += n;
            n = 0;
        }
    }
    if (n) {
        moved += THIS(dp_assign_tile)(c, X, rows, sums, list, n, tile, candidates);
        *scanned += n;
    }
    return moved;
}

/* the rows of `list` to the newcomers [first, K) where these are strictly nearer */
TARGET static ptrdiff_t THIS(dp_show_tile)(const dp_centres *c, const int32_t *some, ptrdiff_t first, const void *X, dp_rows rows,
                                           const dp_sums *sums, const int32_t *list, ptrdiff_t n, float *tile)
{
    THIS(dp_found) found;
    ptrdiff_t moved = 0;
    THIS(dp_fill)(c, X, list, n, tile, found.norm);
    THIS(dp_scan)(c, first, tile, &found);
    for (ptrdiff_t r = 0; r < n; r++) {
        const ptrdiff_t i = list[r];
        const float size = sqrtf(found.norm[r]) + c->reach, error = (float)(c->D + 8) * 0x1p-24f * size * size + DP_TINY;
        const float nearest = found.norm[r] + 2.0f * found.best[r] - error, own = fabsf(rows.upper[i]);
        if (nearest > own * own * (1.0f + 0x1p-20f)) {
            float other = sqrtf(nearest) * (1.0f - 0x1p-21f);
            rows.lower[i] = rows.lower[i] < other ? rows.lower[i] : other;
            continue;
        }
        if (found.second[r] - found.best[r] > error) {      /* the nearest newcomer is known */
            const float second = found.norm[r] + 2.0f * found.second[r] - error;
            const float other = sqrtf(second > 0.0f ? second : 0.0f) * (1.0f - 0x1p-21f);
            rows.lower[i] = rows.lower[i] < other ? rows.lower[i] : other;
            moved += THIS(dp_show_row)(c, some + (found.arg[r] - first), 1, X, rows, sums, i);
        } else {
            moved += THIS(dp_show_row)(c, some, c->K - first, X, rows, sums, i);
        }
    }
    return moved;
}

TARGET static ptrdiff_t THIS(dp_show)(const dp_centres *c, const int32_t *some, ptrdiff_t first, const float *gap,
                                      const void *X, dp_rows rows, const dp_sums *sums, const int32_t *order,
                                      ptrdiff_t start, ptrdiff_t stop, float *tile)
{
    int32_t list[DP_TILE];
    ptrdiff_t moved = 0, n = 0;
    for (ptrdiff_t place = start; place < stop; place++) {
        const ptrdiff_t i = order ? order[place] : place;
        const float own = fabsf(rows.upper[i]), far = gap[rows.labels[i]] - own;
        if (far >= own) {       /* the newcomers are further from the row's centre than twice the row is */
            rows.lower[i] = rows.lower[i] < far ? rows.lower[i] : far * (1.0f - 0x1p-22f);
            continue;
        }
        if (c->K - first == 1 && rows.labels[i] == first)
            continue;
        if (c->K - first <= 2) {
            moved += THIS(dp_show_row)(c, some, c->K - first, X, rows, sums, i);
            continue;
        }
        list[n++] = (int32_t)i;
        if (n == ROWS) {
            moved += THIS(dp_show_tile)(c, some, first, X, rows, sums, list, n, tile);
            n = 0;
        }
    }
    if (n)
        moved += THIS(dp_show_tile)(c, some, first, X, rows, sums, list, n, tile);
    return moved;
}
