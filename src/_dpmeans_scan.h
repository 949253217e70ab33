/* One clone of the leaves of _dpmeans.h, included once per instruction set by _lanes.h: the exact formula, sums and the scan of a tile;
 * the files included at the end build on them. */

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
#define RUNNING_SUMS(stem, type, TERM)                                                                                   \
TARGET ALWAYS_INLINE double THIS(stem)(const type *x, const double *a, const double *b, ptrdiff_t D)                     \
{                                                                                                                        \
    LANE sum[SUMS] = {ALL(LANE, 0.0)};                                                                                   \
    double one[8];                                                                                                       \
    ptrdiff_t d = 0;                                                                                                     \
    (void)b;                                                                                                             \
    for (; d + 8 <= D; d += 8)                                                                                           \
        for (int v = 0; v < SUMS; v++)                                                                                   \
            sum[v] += TERM(CELLS_##type(x + d + v * W), CELLS_double(a + d + v * W), CELLS_double(b + d + v * W));       \
    for (int v = 0; v < SUMS; v++)                                                                                       \
        *(LANE *)(one + v * W) = sum[v];                                                                                 \
    for (ptrdiff_t j = 0; d + j < D; j++)                                                                                \
        one[j] += TERM((double)x[d + j], a[d + j], b[d + j]);                                                            \
    return ((one[0] + one[4]) + (one[1] + one[5])) + ((one[2] + one[6]) + (one[3] + one[7]));                            \
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
    return single ? THIS(dp_distance_float)((const float *)x, mu, mu, D) : THIS(dp_distance_double)((const double *)x, mu, mu, D);
}

/* (x - origin) . direction */
TARGET static inline double THIS(dp_projection)(const void *x, int single, const double *origin, const double *direction, ptrdiff_t D)
{
    return single ? THIS(dp_projection_float)((const float *)x, origin, direction, D)
                  : THIS(dp_projection_double)((const double *)x, origin, direction, D);
}

/* squared distances of rows [start, stop) to the centres of their clusters */
TARGET static void THIS(dp_own_distances)(const void *X, int single, ptrdiff_t D, const double *mu, const int32_t *labels, double *squared,
                                          ptrdiff_t start, ptrdiff_t stop)
{
    for (ptrdiff_t i = start; i < stop; i++)
        squared[i] = labels[i] < 0 ? 0.0 : THIS(dp_distance)(dp_row_in_order(X, single, D, i), single, mu + labels[i] * D, D);
}

/* nearest of `n` centres, those named in `some` or (NULL) the first n, without centre `own`; -1 where no distance is finite */
TARGET static int32_t THIS(dp_nearest_of)(const dp_centres *c, const int32_t *some, ptrdiff_t n, const void *x, int32_t own,
                                          double *least, double *second)
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

/* nearest of all centres; `present` wins a tie, then the lowest number */
TARGET static int32_t THIS(dp_nearest)(const dp_centres *c, const void *x, int32_t present, double *least, double *second)
{
    const double own = THIS(dp_distance)(x, c->single, c->mu + present * c->D, c->D);
    const int32_t other = THIS(dp_nearest_of)(c, NULL, c->K, x, present, least, second);
    if (*least < own) {
        *second = own < *second ? own : *second;
        return other;
    }
    *second = *least;
    *least = own;
    return present;
}

#include "_dpmeans_sums.h"
#include "_dpmeans_cuts.h"

/* ---- the scan ---- */

#if LEVEL == 4
/* 16 x 16 cells: rows in, columns out */
TARGET static inline void THIS(dp_transpose)(FLOATS cells[WF])
{
    __m512 t[16];
    for (int i = 0; i < 16; i += 4) {
        const __m512 r[4] = {(__m512)cells[i], (__m512)cells[i + 1], (__m512)cells[i + 2], (__m512)cells[i + 3]};
        __m512 a = _mm512_unpacklo_ps(r[0], r[1]), b = _mm512_unpackhi_ps(r[0], r[1]);
        __m512 e = _mm512_unpacklo_ps(r[2], r[3]), f = _mm512_unpackhi_ps(r[2], r[3]);
        t[i] = _mm512_shuffle_ps(a, e, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, e, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, f, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, f, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        __m512 a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        __m512 e = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88), f = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        cells[i] = (FLOATS)_mm512_shuffle_f32x4(a, e, 0x88);
        cells[i + 4] = (FLOATS)_mm512_shuffle_f32x4(b, f, 0x88);
        cells[i + 8] = (FLOATS)_mm512_shuffle_f32x4(a, e, 0xdd);
        cells[i + 12] = (FLOATS)_mm512_shuffle_f32x4(b, f, 0xdd);
    }
}

/* a run of m <= 16 cells of a row from column d on, centred and scaled, zeros behind them */
TARGET static inline FLOATS THIS(dp_cells_float)(const dp_centres *c, const float *x, ptrdiff_t d, ptrdiff_t m)
{
    const __mmask16 some = (__mmask16)(0xffffu >> (16 - m));
    const __m512 ref = _mm512_maskz_loadu_ps(some, c->ref_single + d);
    return (FLOATS)_mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(some, x + d), ref), _mm512_set1_ps((float)c->scale));
}

TARGET static inline FLOATS THIS(dp_cells_double)(const dp_centres *c, const double *x, ptrdiff_t d, ptrdiff_t m)
{
    const __mmask8 one = (__mmask8)(0xffffu >> (16 - m)), other = (__mmask8)(0xffffu >> (16 - m) >> 8);
    const __m512d scale = _mm512_set1_pd(c->scale);
    __m512d low = _mm512_maskz_loadu_pd(one, x + d), high = _mm512_maskz_loadu_pd(other, x + d + 8);
    low = _mm512_mul_pd(_mm512_sub_pd(low, _mm512_maskz_loadu_pd(one, c->ref + d)), scale);
    high = _mm512_mul_pd(_mm512_sub_pd(high, _mm512_maskz_loadu_pd(other, c->ref + d + 8)), scale);
    return (FLOATS)_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

/* 16 rows, a run of m <= 16 cells of each from column d on, centred and scaled */
TARGET ALWAYS_INLINE void THIS(dp_read)(const dp_centres *c, const char *const x[WF], ptrdiff_t d, ptrdiff_t m, FLOATS cells[WF])
{
    if (c->single)
        for (int r = 0; r < 16; r++)
            cells[r] = THIS(dp_cells_float)(c, (const float *)x[r], d, m);
    else
        for (int r = 0; r < 16; r++)
            cells[r] = THIS(dp_cells_double)(c, (const double *)x[r], d, m);
}
#elif LEVEL == 3
/* 8 x 8 cells: rows in, columns out; a vector has four columns of a row and of the fourth after it */
TARGET static inline void THIS(dp_transpose)(FLOATS cells[WF])
{
    for (int i = 0; i < 8; i += 4) {
        const __m256 r[4] = {(__m256)cells[i], (__m256)cells[i + 1], (__m256)cells[i + 2], (__m256)cells[i + 3]};
        __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
        __m256 e = _mm256_unpacklo_ps(r[2], r[3]), f = _mm256_unpackhi_ps(r[2], r[3]);
        cells[i] = (FLOATS)_mm256_shuffle_ps(a, e, 0x44);
        cells[i + 1] = (FLOATS)_mm256_shuffle_ps(a, e, 0xee);
        cells[i + 2] = (FLOATS)_mm256_shuffle_ps(b, f, 0x44);
        cells[i + 3] = (FLOATS)_mm256_shuffle_ps(b, f, 0xee);
    }
}

/* the first m of four cells, zeros behind them; m may be negative or above 4 */
TARGET static inline __m128 THIS(dp_four_float)(const float *x, ptrdiff_t m)
{
    return m >= 4 ? _mm_loadu_ps(x) : _mm_maskload_ps(x, _mm_cmpgt_epi32(_mm_set1_epi32((int)m), _mm_setr_epi32(0, 1, 2, 3)));
}

TARGET static inline __m256d THIS(dp_four_double)(const double *x, ptrdiff_t m)
{
    const __m256i some = _mm256_cmpgt_epi64(_mm256_set1_epi64x(m), _mm256_setr_epi64x(0, 1, 2, 3));
    return m >= 4 ? _mm256_loadu_pd(x) : _mm256_maskload_pd(x, some);
}

/* the first m of four cells of two rows, centred and scaled */
TARGET static inline FLOATS THIS(dp_cells_float)(const float *x, const float *y, const float *ref, double scale, ptrdiff_t m)
{
    const __m128 middle = THIS(dp_four_float)(ref, m);
    const __m256 cells = _mm256_set_m128(THIS(dp_four_float)(y, m), THIS(dp_four_float)(x, m));
    return (FLOATS)_mm256_mul_ps(_mm256_sub_ps(cells, _mm256_set_m128(middle, middle)), _mm256_set1_ps((float)scale));
}

TARGET static inline FLOATS THIS(dp_cells_double)(const double *x, const double *y, const double *ref, double scale, ptrdiff_t m)
{
    const __m256d middle = THIS(dp_four_double)(ref, m), factor = _mm256_set1_pd(scale);
    const __m256d one = _mm256_mul_pd(_mm256_sub_pd(THIS(dp_four_double)(x, m), middle), factor);
    const __m256d other = _mm256_mul_pd(_mm256_sub_pd(THIS(dp_four_double)(y, m), middle), factor);
    return (FLOATS)_mm256_set_m128(_mm256_cvtpd_ps(other), _mm256_cvtpd_ps(one));
}

/* 8 rows, a run of m <= 8 cells of each from column d on, centred and scaled */
#define READ(type, ref)                                                                                                       \
    for (int r = 0; r < 4; r++) {                                                                                             \
        const type *one = (const type *)x[r] + d, *other = (const type *)x[r + 4] + d;                                        \
        cells[r] = THIS(dp_cells_##type)(one, other, ref + d, c->scale, m);                                                   \
        cells[r + 4] = THIS(dp_cells_##type)(one + 4, other + 4, ref + d + 4, c->scale, m - 4);                               \
    }
TARGET ALWAYS_INLINE void THIS(dp_read)(const dp_centres *c, const char *const x[WF], ptrdiff_t d, ptrdiff_t m, FLOATS cells[WF])
{
    if (c->single)
        READ(float, c->ref_single)
    else
        READ(double, c->ref)
}
#undef READ
#elif DP_SHUFFLES
/* 4 x 4 cells: rows in, columns out */
TARGET static inline void THIS(dp_transpose)(FLOATS cells[WF])
{
    FLOATS a = __builtin_shufflevector(cells[0], cells[1], 0, 4, 1, 5), b = __builtin_shufflevector(cells[0], cells[1], 2, 6, 3, 7);
    FLOATS e = __builtin_shufflevector(cells[2], cells[3], 0, 4, 1, 5), f = __builtin_shufflevector(cells[2], cells[3], 2, 6, 3, 7);
    cells[0] = __builtin_shufflevector(a, e, 0, 1, 4, 5);
    cells[1] = __builtin_shufflevector(a, e, 2, 3, 6, 7);
    cells[2] = __builtin_shufflevector(b, f, 0, 1, 4, 5);
    cells[3] = __builtin_shufflevector(b, f, 2, 3, 6, 7);
}

/* a run of m <= 4 cells of a row, centred and scaled, zeros behind them */
TARGET static inline FLOATS THIS(dp_cells_float)(const float *x, const float *ref, double scale, ptrdiff_t m)
{
    FLOATS cells = ALL(FLOATS, 0.0f), middle = ALL(FLOATS, 0.0f);
    memcpy(&cells, x, sizeof(float) * (size_t)m);
    memcpy(&middle, ref, sizeof(float) * (size_t)m);
    return (cells - middle) * (float)scale;
}

TARGET static inline FLOATS THIS(dp_cells_double)(const double *x, const double *ref, double scale, ptrdiff_t m)
{
    FLOATS cells = ALL(FLOATS, 0.0f);
    for (ptrdiff_t j = 0; j < m; j++)
        cells[j] = (float)((x[j] - ref[j]) * scale);
    return cells;
}

/* 4 rows, a run of m <= 4 cells of each from column d on, centred and scaled */
TARGET ALWAYS_INLINE void THIS(dp_read)(const dp_centres *c, const char *const x[WF], ptrdiff_t d, ptrdiff_t m, FLOATS cells[WF])
{
    if (c->single)
        for (int r = 0; r < 4; r++)
            cells[r] = THIS(dp_cells_float)((const float *)x[r] + d, c->ref_single + d, c->scale, m);
    else
        for (int r = 0; r < 4; r++)
            cells[r] = THIS(dp_cells_double)((const double *)x[r] + d, c->ref + d, c->scale, m);
}
#endif

/* tile[d * ROWS + r] = (x_r[d] - ref[d]) * scale and the squared norms; rows beyond n repeat the last. The row as many
 * rows further on is fetched meanwhile: tiles are pages, and hardware does not look over their edge (to fetch beyond the table is
 * harmless). */
TARGET static void THIS(dp_fill)(const dp_centres *c, const void *X, const int32_t *list, ptrdiff_t n, float *restrict tile,
                                 float *restrict norm)
{
    const ptrdiff_t D = c->D, cell = c->single ? 4 : 8, ahead = ROWS * D * cell;
    (void)ahead;
    for (ptrdiff_t v = 0; v < NV; v++) {
#if LEVEL || DP_SHUFFLES
        const char *x[WF];
        FLOATS squares[4] = {ALL(FLOATS, 0.0f), ALL(FLOATS, 0.0f), ALL(FLOATS, 0.0f), ALL(FLOATS, 0.0f)};
        for (ptrdiff_t r = 0; r < WF; r++)
            x[r] = (const char *)dp_row(X, c->single, D, list[v * WF + r < n ? v * WF + r : n - 1]);
        for (ptrdiff_t d = 0; d < D; d += WF) {
            const ptrdiff_t m = D - d < WF ? D - d : WF;
            FLOATS cells[WF];
            if (m == WF)
                THIS(dp_read)(c, x, d, WF, cells);
            else
                THIS(dp_read)(c, x, d, m, cells);
            for (ptrdiff_t r = 0; r < WF; r++)
                for (ptrdiff_t at = 0; at < WF * cell; at += 64)
                    SIMD_PREFETCH(x[r] + d * cell + ahead + at);
            THIS(dp_transpose)(cells);
            for (int j = 0; j < WF; j++)
                squares[j % 4] += cells[j] * cells[j];
            if (m == WF)
                for (int j = 0; j < WF; j++)
                    *(FLOATS *)(tile + (d + j) * ROWS + v * WF) = cells[j];
            else
                for (ptrdiff_t j = 0; j < m; j++)
                    *(FLOATS *)(tile + (d + j) * ROWS + v * WF) = cells[j];
        }
        *(FLOATS *)(norm + v * WF) = (squares[0] + squares[1]) + (squares[2] + squares[3]);
#else
        for (ptrdiff_t r = v * WF; r < (v + 1) * WF; r++) {
            const void *x = dp_row(X, c->single, D, list[r < n ? r : n - 1]);
            float square = 0.0f;
            SIMD_PREFETCH((const char *)x + ahead);
            for (ptrdiff_t d = 0; d < D; d++) {
                double cell = c->single ? (double)((const float *)x)[d] : ((const double *)x)[d];
                float t = (float)((cell - c->ref[d]) * c->scale);
                tile[d * ROWS + r] = t;
                square += t * t;
            }
            norm[r] = square;
        }
#endif
    }
}

/* `count` centres from number k on, all rows of the tile: sums stay in registers */
TARGET ALWAYS_INLINE void THIS(dp_scan_some)(const dp_centres *c, ptrdiff_t k, const int count, const float *restrict tile, FLOATS best[NV],
                                         FLOATS second[NV], INTS arg[NV])
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
            second[v] = SMALLER_F(second[v], LARGER_F(best[v], s[j][v]));
            arg[v] = PICK_LESS(s[j][v], best[v], ALL(INTS, (int32_t)(k + j)), arg[v]);
            best[v] = SMALLER_F(best[v], s[j][v]);
        }
}

/* the two nearest of centres [first, K) for every row of the tile */
TARGET static void THIS(dp_scan)(const dp_centres *c, ptrdiff_t first, const float *restrict tile, dp_found *found)
{
    FLOATS best[NV], second[NV];
    INTS arg[NV];
    ptrdiff_t k = first;
    for (int v = 0; v < NV; v++) {
        best[v] = second[v] = ALL(FLOATS, INFINITY);
        arg[v] = ALL(INTS, (int32_t)first);
    }
    for (; k + NC <= c->K; k += NC)
        THIS(dp_scan_some)(c, k, NC, tile, best, second, arg);
    for (; k + 2 < c->K; k += 4)        /* the last ones have neighbours at infinity */
        THIS(dp_scan_some)(c, k, 4, tile, best, second, arg);
    if (k < c->K)
        THIS(dp_scan_some)(c, k, 2, tile, best, second, arg);
    for (int v = 0; v < NV; v++) {
        *(FLOATS *)(found->best + v * WF) = best[v];
        *(FLOATS *)(found->second + v * WF) = second[v];
        *(INTS *)(found->arg + v * WF) = arg[v];
    }
}

TARGET static ptrdiff_t THIS(dp_tile_rows)(void)
{
    return ROWS;
}

/* the two nearest of centres [first, K) for the n rows of `list`; tile is scratch, (DP_TILE, D) */
TARGET static void THIS(dp_scan_tile)(const dp_centres *c, ptrdiff_t first, const void *X, const int32_t *list, ptrdiff_t n, float *tile,
                                      dp_found *found)
{
    THIS(dp_fill)(c, X, list, n, tile, found->norm);
    THIS(dp_scan)(c, first, tile, found);
}

/* bounds on the distances of the tile's rows; certain[r]: the exact formula could not decide otherwise (1 within, 2 beyond the limit) */
TARGET static void THIS(dp_bound)(const dp_centres *c, const dp_found *found, float *restrict upper, float *restrict lower,
                                  int32_t *restrict certain)
{
    const float slack = (float)(c->D + 8) * 0x1p-24f, reach = c->reach, inside = c->inside, outside = c->outside;
    for (int r = 0; r < ROWS; r++) {
        float norm = found->norm[r], size = sqrtf(norm) + reach, error = slack * size * size + DP_TINY;
        float nearest = norm + 2.0f * found->best[r], other = norm + 2.0f * found->second[r] - error;
        float most = nearest + error;
        upper[r] = sqrtf(most > 0.0f ? most : 0.0f) * DP_ROOT_UP;
        lower[r] = sqrtf(other > 0.0f ? other : 0.0f) * DP_ROOT_DOWN;
        certain[r] = (found->second[r] - found->best[r] > error) * ((most <= inside) + 2 * (nearest - error > outside));
    }
}

TARGET static ptrdiff_t THIS(dp_assign_tile)(const dp_centres *c, const void *X, dp_rows rows, const dp_sums *sums,
                                             const int32_t *list, ptrdiff_t n, float *tile, ptrdiff_t *beyond_limit)
{
    dp_found found;
    float upper[DP_TILE], lower[DP_TILE];
    int32_t certain[DP_TILE], stays[DP_TILE];   /* stays: certainly, and within the limit */
    ptrdiff_t moved = 0;
    THIS(dp_fill)(c, X, list, n, tile, found.norm);
    THIS(dp_scan)(c, 0, tile, &found);
    THIS(dp_bound)(c, &found, upper, lower, certain);
    if (n == ROWS && list[n - 1] - list[0] == ROWS - 1) {
        const int32_t *restrict labels = rows.labels + list[0];
        int32_t all = 1;
        for (ptrdiff_t r = 0; r < ROWS; r++)
            all &= stays[r] = (certain[r] == 1) & (labels[r] == found.arg[r]);
        if (rows.upper) {
            memcpy(rows.upper + list[0], upper, sizeof(float) * ROWS);
            memcpy(rows.lower + list[0], lower, sizeof(float) * ROWS);
        }
        if (all)
            return 0;
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
        if (arg != rows.labels[i]) {
            moved += THIS(dp_move)(c, sums, x, i, rows.labels[i], arg);
            rows.labels[i] = arg;
        }
    }
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

TARGET static float THIS(dp_quick_check)(const dp_centres *c, const void *x, const int32_t some[DP_CHECKED], float distance[DP_CHECKED])
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
            for (int j = 0; j < DP_CHECKED; j++)     /* beyond a centre's last cell stands the next one's first: times 0 */
                sum[j] = MINUS_PRODUCT(sum[j], cells, *(const FLOATS *)(centre[j] + first + d));
        }
    }
    norm = -THIS(dp_total)(square);
    for (int j = 0; j < DP_CHECKED; j++)
        distance[j] = norm + 2.0f * (c->half[some[j]] + THIS(dp_total)(sum[j]));
    size = sqrtf(norm) + c->reach;
    return (float)(D + 24) * 0x1p-24f * size * size + DP_TINY;
}

TARGET static ptrdiff_t THIS(dp_reassign_if_nearer)(const dp_centres *c, const int32_t *some, ptrdiff_t n, const void *X,
                                                    dp_rows rows, const dp_sums *sums, ptrdiff_t i)
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

/* the rows of `list` to the new centres [first, K) where these are strictly nearer: the scan finds the rows in question */
TARGET static ptrdiff_t THIS(dp_reassign_tile)(const dp_centres *c, const int32_t *some, ptrdiff_t first, const void *X, dp_rows rows,
                                               const dp_sums *sums, const int32_t *list, ptrdiff_t n, float *tile)
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

TARGET static ptrdiff_t THIS(dp_reassign_to_new)(const dp_centres *c, const int32_t *some, ptrdiff_t first, const float *gap,
                                                 const void *X, dp_rows rows, const dp_sums *sums, const int32_t *order,
                                                 ptrdiff_t start, ptrdiff_t stop, float *tile)
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

#include "_dpmeans_bounds.h"
#include "_dpmeans_nearest.h"
#include "_dpmeans_collapsed.h"

#undef NV
#undef NC
#undef ROWS
