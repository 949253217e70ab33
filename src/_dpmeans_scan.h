/* One clone of the leaves of _dpmeans.h. Included once per instruction set. */

#define THIS(stem) DP_NAME(stem, DP_SUFFIX)

#if DP_LEVEL == 4
#define W 16                    /* rows of a vector */
#define NV 4                    /* vectors of a tile */
#define NC 6                    /* centres at a time: NV * NC sums in registers */
#define VF __m512
#define VI __m512i
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define STORE_I(p, v) _mm512_storeu_si512(p, v)
#define LOAD_I(p) _mm512_loadu_si512(p)
#define ALL(x) _mm512_set1_ps(x)
#define ALL_I(x) _mm512_set1_epi32(x)
#define LESS_PRODUCT(s, a, b) _mm512_fnmadd_ps(a, b, s)
#define MIN(a, b) _mm512_min_ps(a, b)
#define MAX(a, b) _mm512_max_ps(a, b)
#define WHERE_LESS(a, b, i, j) _mm512_mask_mov_epi32(j, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), i)
#elif DP_LEVEL == 3
#define W 8
#define NV 2
#define NC 6
#define VF __m256
#define VI __m256i
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define STORE_I(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define LOAD_I(p) _mm256_loadu_si256((const __m256i *)(p))
#define ALL(x) _mm256_set1_ps(x)
#define ALL_I(x) _mm256_set1_epi32(x)
#define LESS_PRODUCT(s, a, b) _mm256_fnmadd_ps(a, b, s)
#define MIN(a, b) _mm256_min_ps(a, b)
#define MAX(a, b) _mm256_max_ps(a, b)
#define WHERE_LESS(a, b, i, j) \
    _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(j), _mm256_castsi256_ps(i), _mm256_cmp_ps(a, b, _CMP_LT_OQ)))
#elif defined(__GNUC__)
#define W 4
#define NV 2
#define NC 4
typedef float THIS(floats) __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t THIS(ints) __attribute__((vector_size(16), aligned(4), may_alias));
#define VF THIS(floats)
#define VI THIS(ints)
#define LOAD(p) (*(const VF *)(p))
#define STORE(p, v) (*(VF *)(p) = (v))
#define STORE_I(p, v) (*(VI *)(p) = (v))
#define LOAD_I(p) (*(const VI *)(p))
#define ALL(x) ((VF){x, x, x, x})
#define ALL_I(x) ((VI){x, x, x, x})
#define LESS_PRODUCT(s, a, b) ((s) - (a) * (b))
#define PICK(m, a, b) (((m) & (a)) | (~(m) & (b)))
#define MIN(a, b) ((VF)PICK((a) < (b), (VI)(a), (VI)(b)))
#define MAX(a, b) ((VF)PICK((a) > (b), (VI)(a), (VI)(b)))
#define WHERE_LESS(a, b, i, j) PICK((a) < (b), i, j)
#else
#define W 1
#define NV 4
#define NC 2
#define VF float
#define VI int32_t
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define STORE_I(p, v) (*(p) = (v))
#define LOAD_I(p) (*(p))
#define ALL(x) (x)
#define ALL_I(x) (x)
#define LESS_PRODUCT(s, a, b) ((s) - (a) * (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define WHERE_LESS(a, b, i, j) ((a) < (b) ? (i) : (j))
#endif
#define ROWS (NV * W)

/* what the scan found out about the rows of a tile */
typedef struct {
    float best[DP_TILE], second[DP_TILE];   /* s of the two nearest centres */
    float norm[DP_TILE];                    /* |t|^2 */
    int32_t arg[DP_TILE];                   /* the nearest one, ties: the lowest */
} THIS(dp_found);

/* ---- the one formula ---- */

#define DISTANCE(type)                                                                  \
DP_ATTRIBUTE static inline double THIS(dp_distance_##type)(const type *restrict x, const double *restrict mu, ptrdiff_t D) \
{                                                                                       \
    double sum[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};                           \
    ptrdiff_t d = 0;                                                                    \
    for (; d + 8 <= D; d += 8)                                                          \
        for (ptrdiff_t j = 0; j < 8; j++) {                                             \
            double step = (double)x[d + j] - mu[d + j];                                 \
            sum[j] += step * step;                                                      \
        }                                                                               \
    for (ptrdiff_t j = 0; d + j < D; j++) {                                             \
        double step = (double)x[d + j] - mu[d + j];                                     \
        sum[j] += step * step;                                                          \
    }                                                                                   \
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));  \
}
DISTANCE(float)
DISTANCE(double)
#undef DISTANCE

DP_ATTRIBUTE static inline double THIS(dp_distance)(const void *x, int single, const double *mu, ptrdiff_t D)
{
    return single ? THIS(dp_distance_float)((const float *)x, mu, D) : THIS(dp_distance_double)((const double *)x, mu, D);
}

/* nearest of all centres; `present` wins a tie, then the lowest number */
DP_ATTRIBUTE static int32_t THIS(dp_nearest)(const dp_centres *c, const void *x, int32_t present, double *least, double *second)
{
    int32_t arg = present;
    *least = THIS(dp_distance)(x, c->single, c->mu + arg * c->D, c->D);
    *second = INFINITY;
    for (ptrdiff_t k = 0; k < c->K; k++) {
        double distance;
        if (k == present)
            continue;
        distance = THIS(dp_distance)(x, c->single, c->mu + k * c->D, c->D);
        if (distance < *least) {
            *second = *least;
            *least = distance;
            arg = (int32_t)k;
        } else if (distance < *second) {
            *second = distance;
        }
    }
    return arg;
}

/* nearest of some centres, the row's own left out */
DP_ATTRIBUTE static int32_t THIS(dp_nearest_of)(const dp_centres *c, const int32_t *some, ptrdiff_t n, const void *x, int32_t own,
                                                double *least, double *second)
{
    int32_t arg = -1;
    *least = *second = INFINITY;
    for (ptrdiff_t j = 0; j < n; j++) {
        double distance;
        if (some[j] == own)
            continue;
        distance = THIS(dp_distance)(x, c->single, c->mu + some[j] * c->D, c->D);
        if (distance < *least) {
            *second = *least;
            *least = distance;
            arg = some[j];
        } else if (distance < *second) {
            *second = distance;
        }
    }
    return arg;
}

/* ---- integer sums ---- */

/* adding 1.5 * 2^52 leaves the rounded integer in the low bits of the double: no conversion, any instruction set, the same bits */
#define MAGIC 6755399441055744.0
#define ADD(type)                                                                       \
DP_ATTRIBUTE static inline void THIS(dp_add_##type)(const dp_sums *s, const type *restrict x, ptrdiff_t D, int64_t *restrict to, \
                                                    double share, int64_t times)        \
{                                                                                       \
    const double *restrict centre = s->centre, *restrict scale = s->scale;              \
    for (ptrdiff_t d = 0; d < D; d++) {                                                 \
        union { double real; int64_t bits; } q;                                         \
        q.real = ((double)x[d] - centre[d]) * scale[d] * share + MAGIC;                 \
        to[d] += times * (q.bits - 0x4338000000000000);                                 \
    }                                                                                   \
}                                                                                       \
DP_ATTRIBUTE static inline void THIS(dp_move_##type)(const dp_sums *s, const type *restrict x, ptrdiff_t D,     \
                                                     int64_t *restrict from, int64_t *restrict to)              \
{                                                                                       \
    const double *restrict centre = s->centre, *restrict scale = s->scale;              \
    for (ptrdiff_t d = 0; d < D; d++) {                                                 \
        union { double real; int64_t bits; } q;                                         \
        q.real = ((double)x[d] - centre[d]) * scale[d] + MAGIC;                         \
        q.bits -= 0x4338000000000000;                                                   \
        from[d] -= q.bits;                                                              \
        to[d] += q.bits;                                                                \
    }                                                                                   \
}
ADD(float)
ADD(double)
#undef ADD
#undef MAGIC

/* row i comes to a cluster (sign 1) or leaves it (-1) */
DP_ATTRIBUTE static void THIS(dp_add)(const dp_sums *s, const void *x, int single, ptrdiff_t D, int32_t cluster, ptrdiff_t i, int sign)
{
    const int64_t weight = s->weight ? s->weight[i] : 1;
    const double share = s->share ? s->share[i] : 1.0;
    const int64_t times = s->share ? sign : sign * weight;
    s->counts[cluster] += sign * weight;
    if (single)
        THIS(dp_add_float)(s, (const float *)x, D, s->sums + cluster * D, share, times);
    else
        THIS(dp_add_double)(s, (const double *)x, D, s->sums + cluster * D, share, times);
}

/* one row changes its cluster; returns whether it has weight */
DP_ATTRIBUTE static inline int THIS(dp_move)(const dp_centres *c, const dp_sums *s, const void *x, ptrdiff_t i, int32_t from,
                                             int32_t to)
{
    if (s->weight) {
        THIS(dp_add)(s, x, c->single, c->D, from, i, -1);
        THIS(dp_add)(s, x, c->single, c->D, to, i, 1);
        return s->weight[i] != 0;
    }
    s->counts[from]--;
    s->counts[to]++;
    if (c->single)
        THIS(dp_move_float)(s, (const float *)x, c->D, s->sums + from * c->D, s->sums + to * c->D);
    else
        THIS(dp_move_double)(s, (const double *)x, c->D, s->sums + from * c->D, s->sums + to * c->D);
    return 1;
}

/* ---- the scan ---- */

#if DP_LEVEL == 4
/* 16 x 16 cells: rows in, columns out */
DP_ATTRIBUTE static inline void THIS(dp_transpose)(__m512 r[16])
{
    __m512 t[16];
    for (int i = 0; i < 16; i += 4) {
        __m512 a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        __m512 e = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), f = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm512_shuffle_ps(a, e, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, e, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, f, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, f, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        __m512 a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        __m512 e = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88), f = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(a, e, 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(b, f, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(a, e, 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(b, f, 0xdd);
    }
}

/* a run of up to 16 cells of a row, centred and scaled */
DP_ATTRIBUTE static inline __m512 THIS(dp_cells_float)(const float *x, __m512 ref, __m512 scale, __mmask16 some)
{
    return _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(some, x), ref), scale);
}

DP_ATTRIBUTE static inline __m512 THIS(dp_cells_double)(const double *x, const __m512d ref[2], __m512d scale, __mmask16 some)
{
    __m512d low = _mm512_maskz_loadu_pd((__mmask8)some, x), high = _mm512_maskz_loadu_pd((__mmask8)(some >> 8), x + 8);
    low = _mm512_mul_pd(_mm512_sub_pd(low, ref[0]), scale);
    high = _mm512_mul_pd(_mm512_sub_pd(high, ref[1]), scale);
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
#endif

/* tile[d * ROWS + r] = (x_r[d] - ref[d]) * scale and the squared norms; rows beyond n repeat the last. The row as many
 * rows further on is fetched meanwhile: tiles are pages, and hardware does not look over their edge (to fetch beyond the table is harmless). */
DP_ATTRIBUTE static void THIS(dp_fill)(const dp_centres *c, const void *X, const int32_t *list, ptrdiff_t n, float *restrict tile,
                                       float *restrict norm)
{
    const ptrdiff_t D = c->D, ahead = ROWS * D * (c->single ? 4 : 8);
    (void)ahead;
    for (ptrdiff_t v = 0; v < NV; v++) {
#if DP_LEVEL == 4
        const char *x[W];
        VF squares[4] = {ALL(0.0f), ALL(0.0f), ALL(0.0f), ALL(0.0f)};
        for (ptrdiff_t r = 0; r < W; r++)
            x[r] = (const char *)dp_row(X, c->single, D, list[v * W + r < n ? v * W + r : n - 1]);
        for (ptrdiff_t d = 0; d < D; d += 16) {
            const ptrdiff_t m = D - d < 16 ? D - d : 16;
            const __mmask16 some = (__mmask16)(0xffffu >> (16 - m));
            __m512 cells[16];
            if (c->single) {
                const __m512 ref = _mm512_maskz_loadu_ps(some, c->ref_single + d), scale = _mm512_set1_ps((float)c->scale);
                for (int r = 0; r < 16; r++) {
                    cells[r] = THIS(dp_cells_float)((const float *)x[r] + d, ref, scale, some);
                    DP_PREFETCH(x[r] + d * 4 + ahead);
                }
            } else {
                const __m512d scale = _mm512_set1_pd(c->scale);
                __m512d ref[2];
                ref[0] = _mm512_maskz_loadu_pd((__mmask8)some, c->ref + d);
                ref[1] = _mm512_maskz_loadu_pd((__mmask8)(some >> 8), c->ref + d + 8);
                for (int r = 0; r < 16; r++) {
                    cells[r] = THIS(dp_cells_double)((const double *)x[r] + d, ref, scale, some);
                    DP_PREFETCH(x[r] + d * 8 + ahead);
                    DP_PREFETCH(x[r] + d * 8 + ahead + 64);
                }
            }
            THIS(dp_transpose)(cells);
            for (int j = 0; j < 16; j++)
                squares[j % 4] = _mm512_fmadd_ps(cells[j], cells[j], squares[j % 4]);
            if (m == 16)
                for (int j = 0; j < 16; j++)
                    STORE(tile + (d + j) * ROWS + v * W, cells[j]);
            else
                for (ptrdiff_t j = 0; j < m; j++)
                    STORE(tile + (d + j) * ROWS + v * W, cells[j]);
        }
        squares[0] = _mm512_add_ps(_mm512_add_ps(squares[0], squares[1]), _mm512_add_ps(squares[2], squares[3]));
        STORE(norm + v * W, squares[0]);
#else
        for (ptrdiff_t r = v * W; r < (v + 1) * W; r++) {
            const void *x = dp_row(X, c->single, D, list[r < n ? r : n - 1]);
            float square = 0.0f;
            DP_PREFETCH((const char *)x + ahead);
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
DP_ATTRIBUTE DP_INLINE void THIS(dp_scan_some)(const dp_centres *c, ptrdiff_t k, const int count, const float *restrict tile, VF best[NV],
                                               VF second[NV], VI arg[NV])
{
    const ptrdiff_t D = c->D;
    const float *restrict centre = c->centre + k * D;
    VF s[NC][NV];
    for (int j = 0; j < count; j++)
        for (int v = 0; v < NV; v++)
            s[j][v] = ALL(c->half[k + j]);
    for (ptrdiff_t d = 0; d < D; d++) {
        VF t[NV];
        for (int v = 0; v < NV; v++)
            t[v] = LOAD(tile + d * ROWS + v * W);
        for (int j = 0; j < count; j++) {
            const VF cell = ALL(centre[j * D + d]);
            for (int v = 0; v < NV; v++)
                s[j][v] = LESS_PRODUCT(s[j][v], t[v], cell);
        }
    }
    for (int j = 0; j < count; j++)
        for (int v = 0; v < NV; v++) {
            second[v] = MIN(second[v], MAX(best[v], s[j][v]));
            arg[v] = WHERE_LESS(s[j][v], best[v], ALL_I((int32_t)(k + j)), arg[v]);
            best[v] = MIN(best[v], s[j][v]);
        }
}

/* the two nearest of centres [first, K) for every row of the tile */
DP_ATTRIBUTE static void THIS(dp_scan)(const dp_centres *c, ptrdiff_t first, const float *restrict tile, THIS(dp_found) *found)
{
    VF best[NV], second[NV];
    VI arg[NV];
    ptrdiff_t k = first;
    for (int v = 0; v < NV; v++) {
        best[v] = second[v] = ALL(INFINITY);
        arg[v] = ALL_I((int32_t)first);
    }
    for (; k + NC <= c->K; k += NC)
        THIS(dp_scan_some)(c, k, NC, tile, best, second, arg);
    for (; k < c->K; k += 2)        /* an odd last one has a neighbour at infinity */
        THIS(dp_scan_some)(c, k, 2, tile, best, second, arg);
    for (int v = 0; v < NV; v++) {
        STORE(found->best + v * W, best[v]);
        STORE(found->second + v * W, second[v]);
        STORE_I(found->arg + v * W, arg[v]);
    }
}

/* bounds on the distances of the tile's rows; sure[r]: the exact formula could not say otherwise (1 inside, 2 beyond the limit) */
DP_ATTRIBUTE static void THIS(dp_bound)(const dp_centres *c, const THIS(dp_found) *found, float *restrict upper,
                                        float *restrict lower, int32_t *restrict sure)
{
    const float slack = (float)(c->D + 8) * 0x1p-24f, reach = c->reach, inside = c->inside, outside = c->outside;
    for (int r = 0; r < ROWS; r++) {
        float norm = found->norm[r], size = sqrtf(norm) + reach, error = slack * size * size + DP_TINY;
        float nearest = norm + 2.0f * found->best[r], other = norm + 2.0f * found->second[r] - error;
        float most = nearest + error;
        upper[r] = sqrtf(most > 0.0f ? most : 0.0f) * (1.0f + 0x1p-21f);
        lower[r] = sqrtf(other > 0.0f ? other : 0.0f) * (1.0f - 0x1p-21f);
        sure[r] = (found->second[r] - found->best[r] > error) * ((most <= inside) + 2 * (nearest - error > outside));
    }
}

/* sum of the lanes */
DP_ATTRIBUTE DP_INLINE float THIS(dp_total)(VF sum)
{
    float lanes[W];
    STORE(lanes, sum);
    for (int half = W / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

/* squared distances of one row to a few centres, scaled, in single precision; returns the bound on their error */
DP_ATTRIBUTE static float THIS(dp_glance)(const dp_centres *c, const void *x, const int32_t some[DP_GLANCE], float distance[DP_GLANCE])
{
    const ptrdiff_t D = c->D, bytes = c->single ? 4 : 8;
    const float *restrict centre[DP_GLANCE];
    float t[DP_TILE], norm, size;
    VF sum[DP_GLANCE], square = ALL(0.0f);
    for (int j = 0; j < DP_GLANCE; j++) {
        sum[j] = ALL(0.0f);
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
        for (ptrdiff_t d = m; d < DP_TILE && d % W; d++)
            t[d] = 0.0f;
        for (ptrdiff_t d = 0; d < m; d += W) {
            const VF cells = LOAD(t + d);
            square = LESS_PRODUCT(square, cells, cells);
            for (int j = 0; j < DP_GLANCE; j++)     /* beyond a centre's last cell stands the next one's first: times 0 */
                sum[j] = LESS_PRODUCT(sum[j], cells, LOAD(centre[j] + first + d));
        }
    }
    norm = -THIS(dp_total)(square);
    for (int j = 0; j < DP_GLANCE; j++)
        distance[j] = norm + 2.0f * (c->half[some[j]] + THIS(dp_total)(sum[j]));
    size = sqrtf(norm) + c->reach;
    return (float)(D + 24) * 0x1p-24f * size * size + DP_TINY;
}

/* one row to some centres by the exact formula alone: for a few it is cheaper than a tile */
DP_ATTRIBUTE static ptrdiff_t THIS(dp_show_row)(const dp_centres *c, const int32_t *some, ptrdiff_t n, const void *X, dp_rows rows,
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
DP_ATTRIBUTE static ptrdiff_t THIS(dp_assign_tile)(const dp_centres *c, const void *X, dp_rows rows, const dp_sums *sums,
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
DP_ATTRIBUTE DP_INLINE int THIS(dp_stays)(const dp_centres *c, const void *x, dp_rows rows, ptrdiff_t i, const float *drift,
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

DP_ATTRIBUTE static ptrdiff_t THIS(dp_assign)(const dp_centres *c, const void *X, dp_rows rows, const dp_sums *sums,
                                              const float *drift, const float *drift_others, const float *half_gap,
                                              const int32_t *fresh, ptrdiff_t n_fresh, const float *fresh_gap,
                                              ptrdiff_t start, ptrdiff_t stop, float *tile, ptrdiff_t *candidates,
                                              ptrdiff_t *scanned)
{
    const float root = c->inside < FLT_MAX ? sqrtf(c->inside) * (1.0f - 0x1p-21f) : INFINITY;
    int32_t list[DP_TILE];
    ptrdiff_t moved = 0, n = 0;
    for (ptrdiff_t first = start; first < stop; first += ROWS) {
        const ptrdiff_t last = first + ROWS < stop ? first + ROWS : stop;
        for (ptrdiff_t i = first; i < last; i++) {
            if (drift && THIS(dp_stays)(c, dp_row(X, c->single, c->D, i), rows, i, drift, drift_others, half_gap, fresh, n_fresh,
                                        fresh_gap, root))
                continue;
            list[n++] = (int32_t)i;
            if (n == ROWS) {
                moved += THIS(dp_assign_tile)(c, X, rows, sums, list, n, tile, candidates);
                *scanned += n;
                n = 0;
            }
        }
    }
    if (n) {
        moved += THIS(dp_assign_tile)(c, X, rows, sums, list, n, tile, candidates);
        *scanned += n;
    }
    return moved;
}

/* the rows of `list` to the newcomers [first, K) where these are strictly nearer */
DP_ATTRIBUTE static ptrdiff_t THIS(dp_show_tile)(const dp_centres *c, const int32_t *some, ptrdiff_t first, const void *X, dp_rows rows,
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

DP_ATTRIBUTE static ptrdiff_t THIS(dp_show)(const dp_centres *c, const int32_t *some, ptrdiff_t first, const float *gap, const void *X, dp_rows rows,
                                            const dp_sums *sums, const int32_t *order, ptrdiff_t start, ptrdiff_t stop,
                                            float *tile)
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

/* ---- collapsed moves ---- */

/* cluster k after its sums changed: mean, and the centre of the scan, f mu, f, f |mu|^2 / 2 with f = S / (S + 1) */
DP_ATTRIBUTE static void THIS(dp_refresh)(dp_collapsed *c, const dp_sums *sums, ptrdiff_t k)
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

/* the cheapest place of a row; `stay` is what its own costs */
DP_ATTRIBUTE static int32_t THIS(dp_place)(const dp_collapsed *c, const dp_sums *sums, const void *x, int32_t own, double w,
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

/* what a row costs at most where it is, given a bound on its distance */
DP_ATTRIBUTE DP_INLINE float THIS(dp_stay)(const dp_collapsed *c, int64_t count, float distance)
{
    const float S = (float)(c->unit * (double)count);
    return distance * distance * (S / (S - 1.0f)) * (1.0f + 0x1p-19f);
}

/* whether the bounds of an earlier look say that a row stays: `upper` >= its distance, `lower`^2 <= what any other cluster costs, both
 * when the sweep began */
DP_ATTRIBUTE DP_INLINE int THIS(dp_rests)(const dp_collapsed *c, dp_rows rows, const dp_sums *sums, ptrdiff_t i)
{
    const int32_t own = rows.labels[i];
    const float least = rows.lower[i] - c->far;
    float stay;
    if (sums->counts[own] <= 1 || !(least > 0.0f))
        return 0;
    stay = THIS(dp_stay)(c, sums->counts[own], rows.upper[i] + c->travelled[own]);
    return stay < least * least * c->least_shrunk * (1.0f - 0x1p-19f) && (stay < c->inside || c->n_clusters >= c->cap);
}

/* one row to its cheapest place; returns 1 if it moved, -1 if it is to open a cluster and there is no room */
DP_ATTRIBUTE static int THIS(dp_settle)(dp_collapsed *c, const void *X, dp_rows rows, const dp_sums *sums, ptrdiff_t i)
{
    const int64_t weight = sums->weight ? sums->weight[i] : 1;
    const void *x = dp_row(X, c->single, c->D, i);
    const int32_t own = rows.labels[i];
    double stay, cost;
    int32_t arg;
    rows.upper[i] = INFINITY;
    if (weight == 0)
        return 0;
    arg = THIS(dp_place)(c, sums, x, own, c->unit * (double)weight, &stay, &cost);
    if (arg == own || !(stay - cost > c->slack))
        return 0;
    if (arg == c->capacity)
        return -1;
    if (sums->counts[arg] == 0) {
        c->n_clusters++;
        c->far = INFINITY;      /* no bound knows the newcomer */
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

/* rows from place `start` on, one after the other, each to where the objective is smallest. Bounds and tiles tell which rows stay for
 * sure; after a move a few rows are looked at one by one, then tiles start again behind it. Returns the place it came to: `stop`, or
 * where a cluster has to be opened and there is no room. */
DP_ATTRIBUTE static ptrdiff_t THIS(dp_collapse)(dp_collapsed *c, const void *X, dp_rows rows, const dp_sums *sums, const int32_t *order,
                                                ptrdiff_t start, ptrdiff_t stop, float *tile, ptrdiff_t *moved, ptrdiff_t *looked)
{
    const float slack = (float)(2 * c->D + 16) * 0x1p-23f;
    THIS(dp_found) found;
    dp_centres table, centres;
    int32_t list[DP_TILE];
    ptrdiff_t at[DP_TILE], place = start;
    int hot = 0;
    memset(&table, 0, sizeof table);
    table.D = c->D, table.single = c->single, table.ref = c->ref, table.ref_single = c->ref_single, table.scale = c->scale;
    while (place < stop) {
        ptrdiff_t n = 0, next = place;
        if (hot > 0 || sums->weight) {
            const int went = THIS(dp_settle)(c, X, rows, sums, order ? order[place] : place);
            if (went < 0)
                return place;
            *moved += went, *looked += 1;
            hot = went ? DP_HOT : hot - 1;
            place++;
            continue;
        }
        for (; next < stop && n < ROWS; next++) {
            const ptrdiff_t i = order ? order[next] : next;
            if (!THIS(dp_rests)(c, rows, sums, i)) {
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
        *looked += n;
        for (ptrdiff_t r = 0; r < n && !hot; r++) {
            const ptrdiff_t i = list[r];
            const int32_t own = rows.labels[i];
            int went;
            if (found.arg[r] == own && sums->counts[own] > 1) {
                const float size = sqrtf(found.norm[r]) + c->reach, error = slack * size * size + DP_TINY;
                const float S = (float)(c->unit * (double)sums->counts[own]), others = 2.0f * found.second[r] - error;
                const float distance = sqrtf((2.0f * found.best[r] + error) * ((S + 1.0f) / S)) * (1.0f + 0x1p-20f);
                const float stay = THIS(dp_stay)(c, sums->counts[own], distance);
                if (stay < others && (stay < c->inside || c->n_clusters >= c->cap)) {
                    rows.upper[i] = distance;
                    rows.lower[i] = sqrtf(others) * (1.0f - 0x1p-21f);
                    continue;
                }
            }
            went = THIS(dp_settle)(c, X, rows, sums, i);
            if (went < 0)
                return at[r];
            if (went) {
                ++*moved;
                hot = DP_HOT;
                next = at[r] + 1;
            }
        }
        place = next;
    }
    return place;
}

#undef THIS
#undef W
#undef NV
#undef NC
#undef VF
#undef VI
#undef LOAD
#undef STORE
#undef STORE_I
#undef LOAD_I
#undef ALL
#undef ALL_I
#undef LESS_PRODUCT
#undef MIN
#undef MAX
#undef PICK
#undef WHERE_LESS
#undef ROWS
#undef DP_LEVEL
#undef DP_SUFFIX
#undef DP_ATTRIBUTE
