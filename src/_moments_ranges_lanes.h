/* One clone of the leaves of _moments_ranges.h, included once per instruction set by _lanes.h. */

#define RANGES_OF(type)                                                                                                   \
TARGET ALWAYS_INLINE int THIS(moments_strip_##type)(const type *restrict x, ptrdiff_t width, type *restrict low, type *restrict high) \
{                                                                                                                         \
    int missing = 0;                                                                                                      \
    for (ptrdiff_t j = 0; j < width; j++) {                                                                               \
        low[j] = x[j] < low[j] ? x[j] : low[j];                                                                           \
        high[j] = x[j] > high[j] ? x[j] : high[j];                                                                        \
        missing |= x[j] != x[j];                                                                                          \
    }                                                                                                                     \
    return missing;                                                                                                       \
}                                                                                                                         \
                                                                                                                          \
TARGET static int THIS(moments_ranges_##type)(const void *cells, ptrdiff_t p, ptrdiff_t n, double *low, double *high)     \
{                                                                                                                         \
    type least[MOMENTS_STRIP], most[MOMENTS_STRIP];                                                                       \
    int missing = 0;                                                                                                      \
    for (ptrdiff_t d = 0; d < p; d += MOMENTS_STRIP) {                                                                    \
        const ptrdiff_t some = p - d < MOMENTS_STRIP ? p - d : MOMENTS_STRIP;                       \
        const ptrdiff_t rows = p < MOMENTS_STRIP ? MOMENTS_STRIP / p : 1;                                                 \
        const type *x = (const type *)cells + d;                                                                          \
        for (ptrdiff_t j = 0; j < rows * some; j++) {                                                                     \
            least[j] = (type)INFINITY;                                                                                    \
            most[j] = -(type)INFINITY;                                                                                    \
        }                                                                                                                 \
        for (ptrdiff_t i = 0; i < n; i += rows, x += rows * p)                                                            \
            missing |= THIS(moments_strip_##type)(x, (n - i < rows ? n - i : rows) * some, least, most);                  \
        for (ptrdiff_t j = 0; j < rows * some; j++) {                                                                     \
            low[d + j % some] = least[j] < low[d + j % some] ? (double)least[j] : low[d + j % some];                      \
            high[d + j % some] = most[j] > high[d + j % some] ? (double)most[j] : high[d + j % some];                     \
        }                                                                                                                 \
    }                                                                                                                     \
    return missing;                                                                                                       \
}

RANGES_OF(float)
RANGES_OF(double)
#undef RANGES_OF
