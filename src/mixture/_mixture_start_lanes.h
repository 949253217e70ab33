/* One clone of the leaves of _mixture_start.h, included once per instruction set by _lanes.h. The lanes are
 * rows, and the columns are added in fours, in order. */

#define FOUR(type, i)                                                                                     \
    do {                                                                                                  \
        const type p = *(const type *)(y + (i)) - a, q = *(const type *)(y + n + (i)) - b;                \
        const type r = *(const type *)(y + 2 * n + (i)) - c, s = *(const type *)(y + 3 * n + (i)) - e;    \
        *(type *)(out + (i)) += (p * p + q * q) + (r * r + s * s);                                        \
    } while (0)

TARGET static void THIS(ms_squares)(const double *x, ptrdiff_t n, ptrdiff_t D, const double *centre,
                                    ptrdiff_t stride, double *out)
{
    ptrdiff_t d = 0;
    memset(out, 0, (size_t)n * sizeof(double));
    for (; d + 4 <= D; d += 4) {
        const double a = centre[d * stride], b = centre[(d + 1) * stride], c = centre[(d + 2) * stride],
            e = centre[(d + 3) * stride];
        const double *y = x + d * n;
        ptrdiff_t i = 0;
        for (; i + W <= n; i += W)
            FOUR(LANE, i);
        for (; i < n; i++)
            FOUR(double, i);
    }
    for (; d < D; d++) {
        const double a = centre[d * stride], *y = x + d * n;
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] += (y[i] - a) * (y[i] - a);
    }
}

#undef FOUR
