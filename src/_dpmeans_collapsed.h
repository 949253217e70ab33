/* Collapsed moves: the cost of a row in every cluster, and a cluster after its rows changed. Included by _dpmeans_scan.h. */

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
        const double mean = sums->centre[d] + (double)sums->sums[k * D + d] / (double)sums->counts[k] * c->step[d];
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

TARGET static int32_t THIS(dp_cheapest)(const dp_collapsed *c, const dp_sums *sums, const void *x, int32_t own, double w,
                                        double *stay, double *cost)
{
    const double rest = c->unit * (double)sums->counts[own] - w;
    const int alone = !(rest > 0.0);
    int32_t arg = own;
    *stay = alone ? c->limit : w * (rest + w) / rest * THIS(dp_distance)(x, c->single, c->mu + own * c->D, c->D);
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

TARGET static void THIS(dp_scan_costs)(const dp_collapsed *c, const void *X, const int32_t *list, ptrdiff_t n, float *tile,
                                       dp_found *found)
{
    dp_centres centres;
    memset(&centres, 0, sizeof centres);
    centres.D = c->D, centres.single = c->single, centres.ref = c->ref, centres.ref_single = c->ref_single, centres.scale = c->scale;
    THIS(dp_fill)(&centres, X, list, n, tile, found->norm);
    for (ptrdiff_t r = 0; r < ROWS; r++)
        tile[c->D * ROWS + r] = -0.5f * found->norm[r];
    centres.D = c->D + 1, centres.K = c->K, centres.centre = c->centre, centres.half = c->half;
    THIS(dp_scan)(&centres, 0, tile, found);
}
