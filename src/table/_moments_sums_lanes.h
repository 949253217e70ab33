/* One clone of the leaves of _moments_sums.h, included once per instruction set by _lanes.h. */

#define EXPONENT 0x4330000000000000u    /* of q + SIMD_MAGIC where |q| < 2^51 */
#define EXPONENT_UNIT ((uint64_t)1 << 52)
#define HALF_WORD 0x3ffffffu         /* 26 bits */

#if defined(__GNUC__)
typedef uint64_t THIS(words) __attribute__((vector_size(W * sizeof(uint64_t)), aligned(8), may_alias));
#else
typedef uint64_t THIS(words);
#endif
#define WORDS THIS(words)

/* products of numbers below 2^32 */
#if LEVEL == 4
#define TIMES(a, b) ((WORDS)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#elif LEVEL == 3
#define TIMES(a, b) ((WORDS)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#elif CRAFTC_CLONES
#define TIMES(a, b) ((WORDS)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#else
#define TIMES(a, b) ((a) * (b))
#endif

/* sums of squares of words: by products of their halves, or by AVX-512 IFMA, which multiplies 52 bits: no
 * mixed products then */
#define SQUARES_OF_HALVES(v, u)                             \
    const WORDS high = u << 12 >> 38, low = u & HALF_WORD;  \
    high_high[v] += TIMES(high, high);                      \
    high_low[v] += TIMES(high, low);                        \
    low_low[v] += TIMES(low, low);
#define SQUARES_BY_IFMA(v, u)                                                                         \
    high_high[v] = (WORDS)_mm512_madd52hi_epu64((__m512i)high_high[v], (__m512i)(u), (__m512i)(u));   \
    low_low[v] = (WORDS)_mm512_madd52lo_epu64((__m512i)low_low[v], (__m512i)(u), (__m512i)(u));

/* The columns from d on, as many as fill some vectors; cells after the last column, those of the next row, do
 * not count. Rows whose vectors would end beyond the table are copied. */
#define SUMS_OF(type, how, FOR, SQUARES)                                                                     \
FOR ALWAYS_INLINE void THIS(moments_some_##how##type)(int64_t *cells, const double *centre,                  \
                                                      const double *scale, const type *x,                    \
                                                    ptrdiff_t p, ptrdiff_t beyond, ptrdiff_t ahead,          \
                                                        const int32_t *list,                                 \
                                                    ptrdiff_t n, ptrdiff_t d, const int vectors)             \
{                                                                                                            \
    const ptrdiff_t some = p - d < vectors * W ? p - d : vectors * W;                                        \
    double padded[2][2 * W] = {{0.0}};                                                                       \
    uint64_t words[5][2 * W];                                                                                \
    type row[2 * W] = {0};                                                                                   \
    LANE middle[2], steps[2];                                                                                \
    WORDS sum[2], high_high[2], high_low[2], low_low[2], odd[2];                                             \
    memcpy(padded[0], centre + d, sizeof(double) * (size_t)some);                                            \
    memcpy(padded[1], scale + d, sizeof(double) * (size_t)some);                                             \
    for (int v = 0; v < vectors; v++) {                                                                      \
        middle[v] = *(const LANE *)(padded[0] + v * W);                                                      \
        steps[v] = *(const LANE *)(padded[1] + v * W);                                                       \
        sum[v] = high_high[v] = high_low[v] = low_low[v] = odd[v] = ALL(WORDS, 0u);                          \
    }                                                                                                        \
    for (ptrdiff_t i = 0; i < n; i++) {                                                                      \
        const type *own = x + list[i] * p + d;                                                               \
        if (list[i] * p + d + vectors * W > beyond) {                                                        \
            memcpy(row, own, sizeof(type) * (size_t)some);                                                   \
            own = row;                                                                                       \
        }                                                                                                    \
        for (ptrdiff_t at = 0; at < vectors * W; at += 64 / (ptrdiff_t)sizeof(type))                         \
            SIMD_PREFETCH(own + ahead + at);                                                                 \
        for (int v = 0; v < vectors; v++) {                                                                  \
            const LANE q = (CELLS_##type(own + v * W) - middle[v]) * steps[v];                               \
            const WORDS u = (WORDS)BITS_OF(q + SIMD_MAGIC);                                                  \
            sum[v] += u;                                                                                     \
            SQUARES(v, u)                                                                                    \
            odd[v] |= u ^ EXPONENT;                                                                          \
        }                                                                                                    \
    }                                                                                                        \
    for (int v = 0; v < vectors; v++) {                                                                      \
        *(WORDS *)(words[0] + v * W) = sum[v];                                                               \
        *(WORDS *)(words[1] + v * W) = high_high[v];                                                         \
        *(WORDS *)(words[2] + v * W) = high_low[v];                                                          \
        *(WORDS *)(words[3] + v * W) = low_low[v];                                                           \
        *(WORDS *)(words[4] + v * W) = odd[v];                                                               \
    }                                                                                                        \
    for (ptrdiff_t j = 0; j < some; j++) {                                                                   \
        const moments_sums sums = {words[0][j], words[1][j], words[2][j], words[3][j]};                      \
        int64_t *cell = cells + CRAFTC_NUMERIC_CELLS * (d + j);                                              \
        if (words[4][j] < EXPONENT_UNIT) {                                                                   \
            moments_add_sums(cell, sums, n);                                                                 \
            continue;                                                                                        \
        }                                                                                                    \
        for (ptrdiff_t i = 0; i < n; i++)                                                                    \
            moments_add_numbers(cell, centre + d + j, scale + d + j, x + list[i] * p + d + j,                \
                                sizeof(type) == sizeof(float), 1, 1);                                        \
    }                                                                                                        \
}                                                                                                            \
FOR static void THIS(moments_sum_##how##type)(int64_t *cells, const double *centre, const double *scale,     \
                                              const table_rows *t,                                           \
                                            ptrdiff_t start, const int32_t *list, ptrdiff_t n)               \
{                                                                                                            \
    const type *x = (const type *)rows_numeric(t, start);                                                    \
    const ptrdiff_t p = t->p, beyond = (t->n - start) * p, run = moments_run(t);                             \
    const int near = p * (ptrdiff_t)sizeof(type) <= MOMENTS_AHEAD && beyond >= 2 * run * p;                  \
    const ptrdiff_t ahead = near ? run * p : 2 * W;     /* the same row of the next run, or the next cells */\
    for (ptrdiff_t first = 0, piece; first < n; first += piece) {                                            \
        ptrdiff_t d = 0;                                                                                     \
        piece = p * MOMENTS_PIECE < MOMENTS_CELLS ? MOMENTS_CELLS / p : MOMENTS_PIECE;                       \
        piece = n - first < piece ? n - first : piece;                                                       \
        for (; d + W < p; d += 2 * W)                                                                        \
            THIS(moments_some_##how##type)(cells, centre, scale, x, p, beyond, ahead, list + first, piece,   \
                                           d, 2);                                                            \
        if (d < p)                                                                                           \
            THIS(moments_some_##how##type)(cells, centre, scale, x, p, beyond, ahead, list + first, piece,   \
                                           d, 1);                                                            \
    }                                                                                                        \
}
SUMS_OF(float, , TARGET, SQUARES_OF_HALVES)
SUMS_OF(double, , TARGET, SQUARES_OF_HALVES)
#if LEVEL == 4
#define IFMA_TARGET __attribute__((target(SIMD_V4 ",avx512ifma")))
SUMS_OF(float, ifma_, IFMA_TARGET, SQUARES_BY_IFMA)
SUMS_OF(double, ifma_, IFMA_TARGET, SQUARES_BY_IFMA)
#undef IFMA_TARGET
#endif
#undef SUMS_OF
#undef SQUARES_OF_HALVES
#undef SQUARES_BY_IFMA

#undef EXPONENT
#undef EXPONENT_UNIT
#undef HALF_WORD
#undef WORDS
#undef TIMES
