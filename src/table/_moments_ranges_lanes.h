/* One clone of the leaves of _moments_ranges.h, included once per instruction set by _lanes.h.
 *
 * Memory is read in its order, since only then the processor fetches it ahead: narrow rows in short blocks,
 * two at a time. */

#define BLOCK 256       /* bytes of a block of narrow rows, at most */

#define RANGES_OF(type)                                                                                     \
TARGET ALWAYS_INLINE int THIS(moments_strip_##type)(const type *restrict x, ptrdiff_t step, int blocks,     \
                                                    ptrdiff_t width, type *restrict low,                    \
                                                        type *restrict high)                                \
{                                                                                                           \
    int missing = 0;                                                                                        \
    for (ptrdiff_t j = 0; j < width; j++) {                                                                 \
        type least = low[j], most = high[j];                                                                \
        for (int i = 0; i < blocks; i++) {                                                                  \
            const type cell = x[i * step + j];                                                              \
            least = cell < least ? cell : least;                                                            \
            most = cell > most ? cell : most;                                                               \
            missing |= cell != cell;                                                                        \
        }                                                                                                   \
        low[j] = least;                                                                                     \
        high[j] = most;                                                                                     \
    }                                                                                                       \
    return missing;                                                                                         \
}                                                                                                           \
                                                                                                            \
TARGET static int THIS(moments_ranges_##type)(const void *cells, ptrdiff_t p, ptrdiff_t n, double *low,     \
                                              double *high)                                                 \
{                                                                                                           \
    type least[MOMENTS_STRIP], most[MOMENTS_STRIP];                                                         \
    int missing = 0;                                                                                        \
    for (ptrdiff_t d = 0; d < p; d += MOMENTS_STRIP) {                                                      \
        const ptrdiff_t some = p - d < MOMENTS_STRIP ? p - d : MOMENTS_STRIP;                               \
        const ptrdiff_t fitting = BLOCK / (ptrdiff_t)sizeof(type) / p, rows = fitting > 0 ? fitting : 1;    \
        const type *x = (const type *)cells + d;                                                            \
        ptrdiff_t i = 0;                                                                                    \
        for (ptrdiff_t j = 0; j < rows * some; j++) {                                                       \
            least[j] = (type)INFINITY;                                                                      \
            most[j] = -(type)INFINITY;                                                                      \
        }                                                                                                   \
        for (; fitting > 0 && i + 2 * rows <= n; i += 2 * rows)                                             \
            missing |= THIS(moments_strip_##type)(x + i * p, rows * p, 2, rows * some, least, most);        \
        for (; i < n; i += rows)                                                                            \
            missing |= THIS(moments_strip_##type)(x + i * p, 0, 1, (n - i < rows ? n - i : rows) * some,    \
                                                  least, most);                                             \
        for (ptrdiff_t j = 0; j < rows * some; j++) {                                                       \
            low[d + j % some] = least[j] < low[d + j % some] ? (double)least[j] : low[d + j % some];        \
            high[d + j % some] = most[j] > high[d + j % some] ? (double)most[j] : high[d + j % some];       \
        }                                                                                                   \
    }                                                                                                       \
    return missing;                                                                                         \
}

RANGES_OF(float)
RANGES_OF(double)
#undef RANGES_OF
#undef BLOCK
