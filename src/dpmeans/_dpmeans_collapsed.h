/* Collapsed moves: single rows go where the objective is smallest and the means follow. Included by
 * _dpmeans_scan.h. The rows are visited here and not in Cython: a leaf call for every row costs 6 to 23 % of
 * a fit. */

/* cluster k after its sums changed: mean, and the centre of the scan, f mu, f, f |mu|^2 / 2 with f = S / (S +
 * 1) */
TARGET static void THIS(dp_refresh)(dp_collapsed *c, const dp_sums *sums, ptrdiff_t k)
{
    const ptrdiff_t D = c->D;
    const double S = c->unit * (double)sums->counts[k], f = S / (S + 1.0);
    double *restrict mu = c->mu + k * D, square = 0.0, step = 0.0;
    float *restrict centre = c->centre + k * (D + 1);
    if (sums->counts[k] == 0) {
        memset(centre, 0, sizeof(float) * (size_t)(D + 1));
        c->half[k] = INFINITY;
        return;
    }
    for (ptrdiff_t d = 0; d < D; d++) {
        const double mean = sums->centre[d] + (double)sums->sums[k * D + d] / (double)sums->counts[k]
            * c->step[d];
        const double cell = (mean - c->ref[d]) * c->scale;
        step += (mean - mu[d]) * (mean - mu[d]);
        mu[d] = mean;
        square += cell * cell;
        centre[d] = (float)(f * cell);
    }
    c->travelled[k] += dp_above(sqrt(step) * c->scale);
    c->far = c->travelled[k] > c->far ? c->travelled[k] : c->far;
    if (centre[D] > 0.0f && (float)f < centre[D]) {
        c->shrunk[k] *= (float)f / centre[D] * (1.0f - 0x1p-22f);
        c->least_shrunk = c->shrunk[k] < c->least_shrunk ? c->shrunk[k] : c->least_shrunk;
    }
    centre[D] = (float)f;
    c->half[k] = (float)(0.5 * f * square);
    if (dp_above(sqrt(square)) > c->reach)
        c->reach = dp_above(sqrt(square));
}

/* the cheapest cluster of a row; `stay` is the cost of its own */
TARGET static int32_t THIS(dp_cheapest)(const dp_collapsed *c, const dp_sums *sums, const void *x,
                                        int32_t own, double w, double *stay, double *cost)
{
    const double rest = c->unit * (double)sums->counts[own] - w;
    const int alone = !(rest > 0.0);
    int32_t arg = own;
    *stay = alone ? c->limit
        : w * (rest + w) / rest * THIS(dp_distance)(x, c->single, c->mu + own * c->D, c->D);
    *cost = *stay;
    for (ptrdiff_t k = 0; k < c->K; k++) {
        double S = c->unit * (double)sums->counts[k], joined;
        if (k == own || sums->counts[k] == 0)
            continue;
        joined = w * S / (S + w) * THIS(dp_distance)(x, c->single, c->mu + k * c->D, c->D);
        if (joined < *cost) {
            *cost = joined;
            arg = (int32_t)k;
        }
    }
    if (!alone && c->n_clusters < c->cap && c->limit < *cost) {
        *cost = c->limit;
        arg = (int32_t)c->K;
    }
    return arg;
}

/* bound on the cost of a row in its own cluster, given a bound on its distance */
TARGET ALWAYS_INLINE float THIS(dp_cost_at_most)(const dp_collapsed *c, int64_t count, float distance)
{
    const float S = (float)(c->unit * (double)count);
    return distance * distance * (S / (S - 1.0f)) * (1.0f + 0x1p-19f);
}

/* whether the bounds of an earlier sweep keep a row where it is: `upper` >= its distance, `lower`^2 <= the
 * cost of any other cluster, both when the sweep began */
TARGET ALWAYS_INLINE int THIS(dp_stays_collapsed)(const dp_collapsed *c, dp_rows rows, const dp_sums *sums,
                                                  ptrdiff_t i)
{
    const int32_t own = rows.labels[i];
    const float least = rows.lower[i] - c->far;
    float stay;
    if (sums->counts[own] <= 1 || !(least > 0.0f))
        return 0;
    stay = THIS(dp_cost_at_most)(c, sums->counts[own], rows.upper[i] + c->travelled[own]);
    return stay < least * least * c->least_shrunk * (1.0f - 0x1p-19f)
        && (stay < c->inside || c->n_clusters >= c->cap);
}

/* one row to its cheapest cluster; returns 1 if it moved, -1 if it has to open a cluster and there is no room
 */
TARGET static int THIS(dp_move_if_cheaper)(dp_collapsed *c, const void *X, dp_rows rows, const dp_sums *sums,
                                           ptrdiff_t i)
{
    const int64_t weight = sums->weight ? sums->weight[i] : 1;
    const void *x = dp_row(X, c->single, c->D, i);
    const int32_t own = rows.labels[i];
    double stay, cost;
    int32_t arg;
    rows.upper[i] = INFINITY;
    if (weight == 0)
        return 0;
    arg = THIS(dp_cheapest)(c, sums, x, own, c->unit * (double)weight, &stay, &cost);
    if (arg == own || !(stay - cost > c->slack))
        return 0;
    if (arg == c->capacity)
        return -1;
    if (sums->counts[arg] == 0) {
        c->n_clusters++;
        c->far = INFINITY;      /* the bounds do not cover the new cluster */
    }
    c->n_clusters -= sums->counts[own] == weight;
    c->K += arg == c->K;
    THIS(dp_add)(sums, x, c->single, c->D, own, i, -1);
    THIS(dp_add)(sums, x, c->single, c->D, arg, i, 1);
    THIS(dp_refresh)(c, sums, own);
    THIS(dp_refresh)(c, sums, arg);
    rows.labels[i] = arg;
    return 1;
}

/* rows from position `start` on, one after the other, each to the cluster where the objective is smallest.
 * Bounds and tiles find the rows that certainly stay; after a move a few rows are taken one by one, then
 * tiles start again. Returns the position reached: `stop`, or where a cluster has to open and there is no
 * room. */
TARGET static ptrdiff_t THIS(dp_collapse)(dp_collapsed *c, const void *X, dp_rows rows, const dp_sums *sums,
                                          const int32_t *order, ptrdiff_t start, ptrdiff_t stop, float *tile,
                                          ptrdiff_t *moved, ptrdiff_t *computed)
{
    const float slack = (float)(2 * c->D + 16) * 0x1p-23f;
    dp_found found;
    dp_centres table, centres;
    int32_t list[DP_TILE];
    ptrdiff_t at[DP_TILE], position = start;
    int singly = 0;
    memset(&table, 0, sizeof table);
    table.D = c->D, table.single = c->single, table.ref = c->ref, table.ref_single = c->ref_single,
        table.scale = c->scale;
    while (position < stop) {
        ptrdiff_t n = 0, next = position;
        if (singly > 0 || sums->weight) {
            const int went = THIS(dp_move_if_cheaper)(c, X, rows, sums, order ? order[position] : position);
            if (went < 0)
                return position;
            *moved += went, *computed += 1;
            singly = went ? DP_SINGLE : singly - 1;
            position++;
            continue;
        }
        for (; next < stop && n < ROWS; next++) {
            const ptrdiff_t i = order ? order[next] : next;
            if (!THIS(dp_stays_collapsed)(c, rows, sums, i)) {
                list[n] = (int32_t)i;
                at[n++] = next;
            }
        }
        if (n == 0)
            return stop;
        THIS(dp_fill)(&table, X, list, n, tile, found.norm);
        for (ptrdiff_t r = 0; r < ROWS; r++)
            tile[c->D * ROWS + r] = -0.5f * found.norm[r];
        centres = table;
        centres.D = c->D + 1, centres.K = c->K, centres.centre = c->centre, centres.half = c->half;
        THIS(dp_scan)(&centres, 0, tile, &found);
        *computed += n;
        for (ptrdiff_t r = 0; r < n && !singly; r++) {
            const ptrdiff_t i = list[r];
            const int32_t own = rows.labels[i];
            int went;
            if (found.arg[r] == own && sums->counts[own] > 1) {
                const float size = sqrtf(found.norm[r]) + c->reach, error = slack * size * size + DP_TINY;
                const float S = (float)(c->unit * (double)sums->counts[own]),
                    others = 2.0f * found.second[r] - error;
                const float distance = sqrtf((2.0f * found.best[r] + error) * ((S + 1.0f) / S))
                    * (1.0f + 0x1p-20f);
                const float stay = THIS(dp_cost_at_most)(c, sums->counts[own], distance);
                if (stay < others && (stay < c->inside || c->n_clusters >= c->cap)) {
                    rows.upper[i] = distance;
                    rows.lower[i] = sqrtf(others) * (1.0f - 0x1p-21f);
                    continue;
                }
            }
            went = THIS(dp_move_if_cheaper)(c, X, rows, sums, i);
            if (went < 0)
                return at[r];
            if (went) {
                ++*moved;
                singly = DP_SINGLE;
                next = at[r] + 1;
            }
        }
        position = next;
    }
    return position;
}
