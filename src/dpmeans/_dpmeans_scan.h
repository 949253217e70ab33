/* One clone of the leaves of _dpmeans.h, included once per instruction set by _lanes.h: the exact formula,
 * sums and the scan of a tile; the files included at the end build on them. */

#if LEVEL == 4
#define NV 4                    /* vectors of a tile of rows */
#define NC 6                    /* centres at a time: NV * NC sums in registers */
#elif LEVEL == 3
#define NV 2
#define NC 6
#elif defined(__GNUC__)
#define NV 2
#define NC 4
#else
#define NV 4
#define NC 2
#endif
#define ROWS (NV * WF)

/* ---- the one formula ---- */

#define SUMS (8 / W)    /* vectors of its running sums */
#define RUNNING_SUMS(stem, type, TERM)                                                                  \
TARGET ALWAYS_INLINE double THIS(stem)(const type *x, const double *a, const double *b, ptrdiff_t D)    \
{                                                                                                       \
    LANE sum[SUMS] = {ALL(LANE, 0.0)};                                                                  \
    double one[8];                                                                                      \
    ptrdiff_t d = 0;                                                                                    \
    (void)b;                                                                                            \
    for (; d + 8 <= D; d += 8)                                                                          \
        for (int v = 0; v < SUMS; v++)                                                                  \
            sum[v] += TERM(CELLS_##type(x + d + v * W), CELLS_double(a + d + v * W),                    \
                           CELLS_double(b + d + v * W));                                                \
    for (int v = 0; v < SUMS; v++)                                                                      \
        *(LANE *)(one + v * W) = sum[v];                                                                \
    for (ptrdiff_t j = 0; d + j < D; j++)                                                               \
        one[j] += TERM((double)x[d + j], a[d + j], b[d + j]);                                           \
    return ((one[0] + one[4]) + (one[1] + one[5])) + ((one[2] + one[6]) + (one[3] + one[7]));           \
}
#define SQUARED(x, a, b) (((x) - (a)) * ((x) - (a)))
#define ALONG(x, a, b) (((x) - (a)) * (b))
RUNNING_SUMS(dp_distance_float, float, SQUARED)
RUNNING_SUMS(dp_distance_double, double, SQUARED)
RUNNING_SUMS(dp_projection_float, float, ALONG)
RUNNING_SUMS(dp_projection_double, double, ALONG)
#undef SUMS
#undef RUNNING_SUMS
#undef SQUARED
#undef ALONG

TARGET static inline double THIS(dp_distance)(const void *x, int single, const double *mu, ptrdiff_t D)
{
    return single ? THIS(dp_distance_float)((const float *)x, mu, mu, D)
        : THIS(dp_distance_double)((const double *)x, mu, mu, D);
}

/* (x - origin) . direction */
TARGET static inline double THIS(dp_projection)(const void *x, int single, const double *origin,
                                                const double *direction, ptrdiff_t D)
{
    return single ? THIS(dp_projection_float)((const float *)x, origin, direction, D)
                  : THIS(dp_projection_double)((const double *)x, origin, direction, D);
}

/* squared distances of rows [start, stop) to the centres of their clusters */
TARGET static void THIS(dp_own_distances)(const void *X, int single, ptrdiff_t D, const double *mu,
                                          const int32_t *labels, double *squared, ptrdiff_t start,
                                          ptrdiff_t stop)
{
    for (ptrdiff_t i = start; i < stop; i++)
        squared[i] = labels[i] < 0 ? 0.0
            : THIS(dp_distance)(dp_row_in_order(X, single, D, i), single, mu + labels[i] * D, D);
}

/* nearest of `n` centres, those named in `some` or (NULL) the first n, without centre `own`; -1 where no
 * distance is finite */
TARGET static int32_t THIS(dp_nearest_of)(const dp_centres *c, const int32_t *some, ptrdiff_t n,
                                          const void *x, int32_t own, double *least, double *second)
{
    int32_t arg = -1;
    *least = *second = INFINITY;
    for (ptrdiff_t j = 0; j < n; j++) {
        const int32_t k = some ? some[j] : (int32_t)j;
        double distance;
        if (k == own)
            continue;
        distance = THIS(dp_distance)(x, c->single, c->mu + k * c->D, c->D);
        if (distance < *least) {
            *second = *least;
            *least = distance;
            arg = k;
        } else if (distance < *second) {
            *second = distance;
        }
    }
    return arg;
}

/* nearest of all centres; `present`, -1 = none, wins a tie, then the lowest number */
TARGET static int32_t THIS(dp_nearest)(const dp_centres *c, const void *x, int32_t present, double *least,
                                       double *second)
{
    const int32_t other = THIS(dp_nearest_of)(c, NULL, c->K, x, present, least, second);
    double own;
    if (present < 0)
        return other < 0 ? 0 : other;
    own = THIS(dp_distance)(x, c->single, c->mu + present * c->D, c->D);
    if (*least < own) {
        *second = own < *second ? own : *second;
        return other;
    }
    *second = *least;
    *least = own;
    return present;
}

#include "dpmeans/_dpmeans_sums.h"
#include "dpmeans/_dpmeans_cuts.h"

/* ---- the scan ---- */

#include "dpmeans/_dpmeans_fill.h"

/* `count` centres from number k on, all rows of the tile: sums stay in registers. second == NULL: the best
 * value alone */
TARGET ALWAYS_INLINE void THIS(dp_scan_some)(const dp_centres *c, ptrdiff_t k, const int count,
                                             const float *restrict tile, FLOATS best[NV],
                                         FLOATS *second, INTS *arg)
{
    const ptrdiff_t D = c->D;
    const float *restrict centre = c->centre + k * D;
    FLOATS s[NC][NV];
    for (int j = 0; j < count; j++)
        for (int v = 0; v < NV; v++)
            s[j][v] = ALL(FLOATS, c->half[k + j]);
    for (ptrdiff_t d = 0; d < D; d++) {
        FLOATS t[NV];
        for (int v = 0; v < NV; v++)
            t[v] = *(const FLOATS *)(tile + d * ROWS + v * WF);
        for (int j = 0; j < count; j++) {
            const FLOATS cell = ALL(FLOATS, centre[j * D + d]);
            for (int v = 0; v < NV; v++)
                s[j][v] = MINUS_PRODUCT(s[j][v], t[v], cell);
        }
    }
    for (int j = 0; j < count; j++)
        for (int v = 0; v < NV; v++) {
            if (second) {
                second[v] = SMALLER_F(second[v], LARGER_F(best[v], s[j][v]));
                arg[v] = PICK_LESS(s[j][v], best[v], ALL(INTS, (int32_t)(k + j)), arg[v]);
            }
            best[v] = SMALLER_F(best[v], s[j][v]);
        }
}

/* all centres from number k on */
TARGET ALWAYS_INLINE void THIS(dp_scan_from)(const dp_centres *c, ptrdiff_t k, const float *restrict tile,
                                             FLOATS best[NV], FLOATS *second,
                                         INTS *arg)
{
    for (; k + NC <= c->K; k += NC)
        THIS(dp_scan_some)(c, k, NC, tile, best, second, arg);
    for (; k + 2 < c->K; k += 4)        /* the last ones have neighbours at infinity */
        THIS(dp_scan_some)(c, k, 4, tile, best, second, arg);
    if (k < c->K)
        THIS(dp_scan_some)(c, k, 2, tile, best, second, arg);
}

/* the two nearest of centres [first, K) for every row of the tile */
TARGET static void THIS(dp_scan)(const dp_centres *c, ptrdiff_t first, const float *restrict tile,
                                 dp_found *found)
{
    FLOATS best[NV], second[NV];
    INTS arg[NV];
    for (int v = 0; v < NV; v++) {
        best[v] = second[v] = ALL(FLOATS, INFINITY);
        arg[v] = ALL(INTS, (int32_t)first);
    }
    THIS(dp_scan_from)(c, first, tile, best, second, arg);
    for (int v = 0; v < NV; v++) {
        *(FLOATS *)(found->best + v * WF) = best[v];
        *(FLOATS *)(found->second + v * WF) = second[v];
        *(INTS *)(found->arg + v * WF) = arg[v];
    }
}

/* s of the nearest centre alone */
TARGET static void THIS(dp_scan_best)(const dp_centres *c, const float *restrict tile, dp_found *found)
{
    FLOATS best[NV];
    for (int v = 0; v < NV; v++)
        best[v] = ALL(FLOATS, INFINITY);
    THIS(dp_scan_from)(c, 0, tile, best, NULL, NULL);
    for (int v = 0; v < NV; v++)
        *(FLOATS *)(found->best + v * WF) = best[v];
}

TARGET static ptrdiff_t THIS(dp_tile_rows)(void)
{
    return ROWS;
}

/* the two nearest of centres [first, K) for the n rows of `list`; tile is scratch, (DP_TILE, D) */
TARGET static void THIS(dp_scan_tile)(const dp_centres *c, ptrdiff_t first, const void *X,
                                      const int32_t *list, ptrdiff_t n, float *tile, dp_found *found)
{
    THIS(dp_fill)(c, X, list, n, tile, found->norm);
    THIS(dp_scan)(c, first, tile, found);
}

/* bounds on the distances of the tile's rows; certain[r]: the exact formula could not decide otherwise (1
 * within, 2 beyond the limit) */
TARGET static void THIS(dp_bound)(const dp_centres *c, const dp_found *found, float *restrict upper,
                                  float *restrict lower, int32_t *restrict certain)
{
    const float slack = (float)(c->D + 8) * 0x1p-24f, reach = c->reach, inside = c->inside,
        outside = c->outside;
    for (int r = 0; r < ROWS; r++) {
        float norm = found->norm[r], size = sqrtf(norm) + reach, error = slack * size * size + DP_TINY;
        float nearest = norm + 2.0f * found->best[r], other = norm + 2.0f * found->second[r] - error;
        float most = nearest + error;
        upper[r] = sqrtf(most > 0.0f ? most : 0.0f) * DP_ROOT_UP;
        lower[r] = sqrtf(other > 0.0f ? other : 0.0f) * DP_ROOT_DOWN;
        certain[r]
            = (found->second[r] - found->best[r] > error)
                * ((most <= inside) + 2 * (nearest - error > outside));
    }
}

TARGET static ptrdiff_t THIS(dp_assign_tile)(const dp_centres *c, const void *X, dp_rows rows,
                                             const dp_sums *sums, const int32_t *list, ptrdiff_t n,
                                             float *tile, ptrdiff_t *beyond_limit)
{
    dp_found found;
    float upper[DP_TILE], lower[DP_TILE];
    int32_t certain[DP_TILE] = {0};             /* gcc does not see that n is at most ROWS */
    int32_t stays[DP_TILE];                     /* certainly, and within the limit */
    int32_t enter[DP_TILE], entered[DP_TILE];   /* rows that were in no sums, and their clusters */
    ptrdiff_t moved = 0, n_enter = 0;
    THIS(dp_fill)(c, X, list, n, tile, found.norm);
    THIS(dp_scan)(c, 0, tile, &found);
    THIS(dp_bound)(c, &found, upper, lower, certain);
    if (n == ROWS && list[n - 1] - list[0] == ROWS - 1) {
        int32_t *restrict labels = rows.labels + list[0];
        int32_t all_stay = 1, all_enter = sums->weight == NULL;
        for (ptrdiff_t r = 0; r < ROWS; r++) {
            all_stay &= stays[r] = (certain[r] == 1) & (labels[r] == found.arg[r]);
            all_enter &= (certain[r] == 1) & (labels[r] < 0);
        }
        if (rows.upper) {
            memcpy(rows.upper + list[0], upper, sizeof(float) * ROWS);
            memcpy(rows.lower + list[0], lower, sizeof(float) * ROWS);
        }
        if (all_stay)
            return 0;
        if (all_enter) {
            for (ptrdiff_t r = 0; r < ROWS; r++) {
                labels[r] = found.arg[r];
                moved += found.arg[r] != 0;
            }
            THIS(dp_enter)(sums, X, c->single, c->D, list, found.arg, ROWS);
            return moved;
        }
    } else {
        for (ptrdiff_t r = 0; r < n; r++) {
            if (rows.upper) {
                rows.upper[list[r]] = upper[r];
                rows.lower[list[r]] = lower[r];
            }
            stays[r] = (certain[r] == 1) & (rows.labels[list[r]] == found.arg[r]);
        }
    }
    for (ptrdiff_t r = 0; r < n; r++) {
        const ptrdiff_t i = list[r];
        const void *x;
        int32_t arg = found.arg[r];
        int beyond = certain[r] == 2;
        if (stays[r])
            continue;
        x = dp_row(X, c->single, c->D, i);
        if (!certain[r] || (beyond && sums->unit_weight)) {
            double least, second;
            arg = THIS(dp_nearest)(c, x, rows.labels[i], &least, &second);
            upper[r] = dp_above(sqrt(least) * c->scale);
            if (rows.upper)
                rows.lower[i] = dp_below(sqrt(second) * c->scale);
            beyond = least * (sums->unit_weight ? sums->unit_weight[i] : 1.0) > c->limit;
        }
        if (rows.upper)
            rows.upper[i] = beyond ? -upper[r] : upper[r];
        *beyond_limit += beyond;
        if (rows.labels[i] < 0) {
            enter[n_enter] = (int32_t)i;
            entered[n_enter++] = arg;
            moved += arg != 0 && (!sums->weight || sums->weight[i] != 0);
        } else if (arg != rows.labels[i]) {
            moved += THIS(dp_move)(c, sums, x, i, rows.labels[i], arg);
        }
        rows.labels[i] = arg;
    }
    if (n_enter)
        THIS(dp_enter)(sums, X, c->single, c->D, enter, entered, n_enter);
    return moved;
}

/* ---- one row and a few centres ---- */

/* sum of the lanes */
TARGET ALWAYS_INLINE float THIS(dp_total)(FLOATS sum)
{
    float lanes[WF];
    *(FLOATS *)lanes = sum;
    for (int half = WF / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

TARGET static float THIS(dp_quick_check)(const dp_centres *c, const void *x, const int32_t some[DP_CHECKED],
                                         float distance[DP_CHECKED])
{
    const ptrdiff_t D = c->D, bytes = c->single ? 4 : 8;
    const float *restrict centre[DP_CHECKED];
    float t[DP_TILE], norm, size;
    FLOATS sum[DP_CHECKED], square = ALL(FLOATS, 0.0f);
    for (int j = 0; j < DP_CHECKED; j++) {
        sum[j] = ALL(FLOATS, 0.0f);
        centre[j] = c->centre + some[j] * D;
    }
    for (ptrdiff_t first = 0; first < D; first += DP_TILE) {
        const ptrdiff_t m = D - first < DP_TILE ? D - first : DP_TILE;
        for (ptrdiff_t at = 0; at < m; at += 64 / bytes)
            SIMD_PREFETCH((const char *)x + (DP_AHEAD * D + first + at) * bytes);
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
            for (int j = 0; j < DP_CHECKED; j++)     /* beyond a centre's last cell stands the next one's
                                                        first: times 0 */
                sum[j] = MINUS_PRODUCT(sum[j], cells, *(const FLOATS *)(centre[j] + first + d));
        }
    }
    norm = -THIS(dp_total)(square);
    for (int j = 0; j < DP_CHECKED; j++)
        distance[j] = norm + 2.0f * (c->half[some[j]] + THIS(dp_total)(sum[j]));
    size = sqrtf(norm) + c->reach;
    return (float)(D + 24) * 0x1p-24f * size * size + DP_TINY;
}

TARGET static ptrdiff_t THIS(dp_reassign_if_nearer)(const dp_centres *c, const int32_t *some, ptrdiff_t n,
                                                    const void *X, dp_rows rows, const dp_sums *sums,
                                                    ptrdiff_t i)
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

/* the rows of `list` to the new centres [first, K) where these are strictly nearer: the scan finds the rows
 * in question */
TARGET static ptrdiff_t THIS(dp_reassign_tile)(const dp_centres *c, const int32_t *some, ptrdiff_t first,
                                               const void *X, dp_rows rows, const dp_sums *sums,
                                               const int32_t *list, ptrdiff_t n, float *tile)
{
    dp_found found;
    ptrdiff_t moved = 0;
    THIS(dp_scan_tile)(c, first, X, list, n, tile, &found);
    for (ptrdiff_t r = 0; r < n; r++) {
        const ptrdiff_t i = list[r];
        const float error = dp_error(c, found.norm[r]);
        const float nearest = found.norm[r] + 2.0f * found.best[r] - error, own = fabsf(rows.upper[i]);
        if (nearest > own * own * (1.0f + 0x1p-20f)) {
            float other = sqrtf(nearest) * (1.0f - 0x1p-21f);
            rows.lower[i] = rows.lower[i] < other ? rows.lower[i] : other;
            continue;
        }
        if (found.second[r] - found.best[r] > error) {      /* the nearest new centre is known */
            const float second = found.norm[r] + 2.0f * found.second[r] - error;
            const float other = sqrtf(second > 0.0f ? second : 0.0f) * (1.0f - 0x1p-21f);
            rows.lower[i] = rows.lower[i] < other ? rows.lower[i] : other;
            moved += THIS(dp_reassign_if_nearer)(c, some + (found.arg[r] - first), 1, X, rows, sums, i);
        } else {
            moved += THIS(dp_reassign_if_nearer)(c, some, c->K - first, X, rows, sums, i);
        }
    }
    return moved;
}

TARGET static ptrdiff_t THIS(dp_reassign_to_new)(const dp_centres *c, const int32_t *some, ptrdiff_t first,
                                                 const float *gap, const void *X, dp_rows rows,
                                                 const dp_sums *sums, const int32_t *order, ptrdiff_t start,
                                                 ptrdiff_t stop, float *tile)
{
    int32_t list[DP_TILE];
    ptrdiff_t moved = 0, n = 0;
    for (ptrdiff_t position = start; position < stop; position++) {
        const ptrdiff_t i = order ? order[position] : position;
        const float own = fabsf(rows.upper[i]), far = gap[rows.labels[i]] - own;
        if (far >= own) {       /* the new centres are further from the row's centre than twice the row is */
            rows.lower[i] = rows.lower[i] < far ? rows.lower[i] : far * (1.0f - 0x1p-22f);
            continue;
        }
        if (c->K - first == 1 && rows.labels[i] == first)
            continue;
        if (c->K - first <= 2) {
            moved += THIS(dp_reassign_if_nearer)(c, some, c->K - first, X, rows, sums, i);
            continue;
        }
        list[n++] = (int32_t)i;
        if (n == ROWS) {
            moved += THIS(dp_reassign_tile)(c, some, first, X, rows, sums, list, n, tile);
            n = 0;
        }
    }
    if (n)
        moved += THIS(dp_reassign_tile)(c, some, first, X, rows, sums, list, n, tile);
    return moved;
}

#include "dpmeans/_dpmeans_bounds.h"
#include "dpmeans/_dpmeans_nearest.h"
#include "dpmeans/_dpmeans_collapsed.h"

#undef NV
#undef NC
#undef ROWS
