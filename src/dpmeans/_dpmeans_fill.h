/* Tiles of rows, transposed: lanes are rows. Included by _dpmeans_scan.h. */

#if LEVEL == 4
/* 16 x 16 cells: rows in, columns out */
TARGET static inline void THIS(dp_transpose)(FLOATS cells[WF])
{
    __m512 t[16];
    for (int i = 0; i < 16; i += 4) {
        const __m512 r[4]
            = {(__m512)cells[i], (__m512)cells[i + 1], (__m512)cells[i + 2], (__m512)cells[i + 3]};
        __m512 a = _mm512_unpacklo_ps(r[0], r[1]), b = _mm512_unpackhi_ps(r[0], r[1]);
        __m512 e = _mm512_unpacklo_ps(r[2], r[3]), f = _mm512_unpackhi_ps(r[2], r[3]);
        t[i] = _mm512_shuffle_ps(a, e, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, e, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, f, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, f, 0xee);
    }
    for (int i = 0; i < 4; i++) {
        __m512 a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        __m512 e = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88),
            f = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        cells[i] = (FLOATS)_mm512_shuffle_f32x4(a, e, 0x88);
        cells[i + 4] = (FLOATS)_mm512_shuffle_f32x4(b, f, 0x88);
        cells[i + 8] = (FLOATS)_mm512_shuffle_f32x4(a, e, 0xdd);
        cells[i + 12] = (FLOATS)_mm512_shuffle_f32x4(b, f, 0xdd);
    }
}

/* a run of m <= 16 cells of a row from column d on, centred and scaled, zeros behind them */
TARGET static inline FLOATS THIS(dp_cells_float)(const dp_centres *c, const float *x, ptrdiff_t d,
                                                 ptrdiff_t m)
{
    const __mmask16 some = (__mmask16)(0xffffu >> (16 - m));
    const __m512 ref = _mm512_maskz_loadu_ps(some, c->ref_single + d);
    return (FLOATS)_mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(some, x + d), ref),
                                 _mm512_set1_ps((float)c->scale));
}

TARGET static inline FLOATS THIS(dp_cells_double)(const dp_centres *c, const double *x, ptrdiff_t d,
                                                  ptrdiff_t m)
{
    const __mmask8 one = (__mmask8)(0xffffu >> (16 - m)), other = (__mmask8)(0xffffu >> (16 - m) >> 8);
    const __m512d scale = _mm512_set1_pd(c->scale);
    __m512d low = _mm512_maskz_loadu_pd(one, x + d), high = _mm512_maskz_loadu_pd(other, x + d + 8);
    low = _mm512_mul_pd(_mm512_sub_pd(low, _mm512_maskz_loadu_pd(one, c->ref + d)), scale);
    high = _mm512_mul_pd(_mm512_sub_pd(high, _mm512_maskz_loadu_pd(other, c->ref + d + 8)), scale);
    return (FLOATS)_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

/* 16 rows, a run of m <= 16 cells of each from column d on, centred and scaled */
TARGET ALWAYS_INLINE void THIS(dp_read)(const dp_centres *c, const char *const x[WF], ptrdiff_t d,
                                        ptrdiff_t m, FLOATS cells[WF])
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
        const __m256 r[4]
            = {(__m256)cells[i], (__m256)cells[i + 1], (__m256)cells[i + 2], (__m256)cells[i + 3]};
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
    return m >= 4 ? _mm_loadu_ps(x)
        : _mm_maskload_ps(x, _mm_cmpgt_epi32(_mm_set1_epi32((int)m), _mm_setr_epi32(0, 1, 2, 3)));
}

TARGET static inline __m256d THIS(dp_four_double)(const double *x, ptrdiff_t m)
{
    const __m256i some = _mm256_cmpgt_epi64(_mm256_set1_epi64x(m), _mm256_setr_epi64x(0, 1, 2, 3));
    return m >= 4 ? _mm256_loadu_pd(x) : _mm256_maskload_pd(x, some);
}

/* the first m of four cells of two rows, centred and scaled */
TARGET static inline FLOATS THIS(dp_cells_float)(const float *x, const float *y, const float *ref,
                                                 double scale, ptrdiff_t m)
{
    const __m128 middle = THIS(dp_four_float)(ref, m);
    const __m256 cells = _mm256_set_m128(THIS(dp_four_float)(y, m), THIS(dp_four_float)(x, m));
    return (FLOATS)_mm256_mul_ps(_mm256_sub_ps(cells, _mm256_set_m128(middle, middle)),
                                 _mm256_set1_ps((float)scale));
}

TARGET static inline FLOATS THIS(dp_cells_double)(const double *x, const double *y, const double *ref,
                                                  double scale, ptrdiff_t m)
{
    const __m256d middle = THIS(dp_four_double)(ref, m), factor = _mm256_set1_pd(scale);
    const __m256d one = _mm256_mul_pd(_mm256_sub_pd(THIS(dp_four_double)(x, m), middle), factor);
    const __m256d other = _mm256_mul_pd(_mm256_sub_pd(THIS(dp_four_double)(y, m), middle), factor);
    return (FLOATS)_mm256_set_m128(_mm256_cvtpd_ps(other), _mm256_cvtpd_ps(one));
}

/* 8 rows, a run of m <= 8 cells of each from column d on, centred and scaled */
#define READ(type, ref)                                                                            \
    for (int r = 0; r < 4; r++) {                                                                  \
        const type *one = (const type *)x[r] + d, *other = (const type *)x[r + 4] + d;             \
        cells[r] = THIS(dp_cells_##type)(one, other, ref + d, c->scale, m);                        \
        cells[r + 4] = THIS(dp_cells_##type)(one + 4, other + 4, ref + d + 4, c->scale, m - 4);    \
    }
TARGET ALWAYS_INLINE void THIS(dp_read)(const dp_centres *c, const char *const x[WF], ptrdiff_t d,
                                        ptrdiff_t m, FLOATS cells[WF])
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
    FLOATS a = __builtin_shufflevector(cells[0], cells[1], 0, 4, 1, 5),
        b = __builtin_shufflevector(cells[0], cells[1], 2, 6, 3, 7);
    FLOATS e = __builtin_shufflevector(cells[2], cells[3], 0, 4, 1, 5),
        f = __builtin_shufflevector(cells[2], cells[3], 2, 6, 3, 7);
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

TARGET static inline FLOATS THIS(dp_cells_double)(const double *x, const double *ref, double scale,
                                                  ptrdiff_t m)
{
    FLOATS cells = ALL(FLOATS, 0.0f);
    for (ptrdiff_t j = 0; j < m; j++)
        cells[j] = (float)((x[j] - ref[j]) * scale);
    return cells;
}

/* 4 rows, a run of m <= 4 cells of each from column d on, centred and scaled */
TARGET ALWAYS_INLINE void THIS(dp_read)(const dp_centres *c, const char *const x[WF], ptrdiff_t d,
                                        ptrdiff_t m, FLOATS cells[WF])
{
    if (c->single)
        for (int r = 0; r < 4; r++)
            cells[r] = THIS(dp_cells_float)((const float *)x[r] + d, c->ref_single + d, c->scale, m);
    else
        for (int r = 0; r < 4; r++)
            cells[r] = THIS(dp_cells_double)((const double *)x[r] + d, c->ref + d, c->scale, m);
}
#endif

/* tile[d * ROWS + r] = (x_r[d] - ref[d]) * scale and the squared norms; rows beyond n repeat the last. Of
 * rows in order, the row as many rows further on is fetched meanwhile: tiles are pages, and hardware does not
 * look over their edge (to fetch beyond the table is harmless). */
TARGET static void THIS(dp_fill)(const dp_centres *c, const void *X, const int32_t *list, ptrdiff_t n,
                                 float *restrict tile, float *restrict norm)
{
    const ptrdiff_t D = c->D, cell = c->single ? 4 : 8,
        ahead = list[n - 1] - list[0] == n - 1 ? ROWS * D * cell : 0;
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
