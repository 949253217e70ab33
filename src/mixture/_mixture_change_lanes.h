/* One clone of the leaf of _mixture_change.h, included once per instruction set by _lanes.h. The lanes are
 * columns. */

#define VECTORS (MC_PARTS / W)
#define FROM(pointer) (*(const LANE *)((pointer) + d + v * W))

TARGET static double THIS(mc_change)(const double *p, const double *own, const double *noise, ptrdiff_t D,
                                     double *last,
                              double *moved, double *size)
{
    LANE squares[VECTORS], large[VECTORS];
    double change[MC_PARTS], both[MC_PARTS];
    ptrdiff_t d = 0;
    for (int v = 0; v < VECTORS; v++)
        squares[v] = large[v] = ALL(LANE, 0.0);
    for (; d + MC_PARTS <= D; d += MC_PARTS)
        for (int v = 0; v < VECTORS; v++) {
            const LANE now = FROM(p) * (FROM(own) - FROM(noise)), before = FROM(last), step = now - before;
            const LANE far = LARGER(now, -now) + LARGER(before, -before);
            squares[v] += step * step;
            large[v] += far * far;
            *(LANE *)(last + d + v * W) = now;
            *(LANE *)(moved + d + v * W) = step;
        }
    for (int v = 0; v < VECTORS; v++) {
        *(LANE *)(change + v * W) = squares[v];
        *(LANE *)(both + v * W) = large[v];
    }
    for (; d < D; d++) {
        const double now = p[d] * (own[d] - noise[d]), before = last[d], step = now - before;
        const double far = (now < 0.0 ? -now : now) + (before < 0.0 ? -before : before);
        change[d % MC_PARTS] += step * step;
        both[d % MC_PARTS] += far * far;
        last[d] = now;
        moved[d] = step;
    }
    *size = simd_total(both);
    return simd_total(change);
}

#undef VECTORS
#undef FROM
