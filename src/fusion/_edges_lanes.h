/* One clone of the leaves of _edges.h, included once per instruction set by _lanes.h. */

/* Edges start..stop - 1, sorted by their first node: p = Proj(lam + step (b_i - b_j)); lam += relax (p -
 * lam); p is added to the sums of node i and subtracted from those of j. Returns the sum of |p - lam|^2 /
 * step. Edges of one first node are processed together, so that their square roots and quotients are
 * vectorised. */
TARGET ALWAYS_INLINE double THIS(edges_of)(const ptrdiff_t q, const Edges *c, ptrdiff_t start, ptrdiff_t stop,
                                           double *restrict sums)
{
    const double *restrict b = c->b;
    const int32_t *restrict edge = c->edge;
    const double relax = c->relax;
    double moved = 0.0, v[EDGES_SIDE * EDGES_MOST], square[EDGES_SIDE], scale[EDGES_SIDE],
        per_step[EDGES_SIDE];
    while (start < stop) {
        const int32_t i = edge[2 * start];
        const double *restrict radius = c->radius + start, *restrict step = c->step + start;
        const int32_t *restrict to = edge + 2 * start + 1;
        double *restrict lam = c->lam + start * q;
        uint8_t *restrict fused = c->fused + start;
        double from[EDGES_MOST], sum[EDGES_MOST];
        ptrdiff_t many = 1;
        while (many < EDGES_SIDE && start + many < stop && edge[2 * (start + many)] == i)
            many++;
        for (ptrdiff_t a = 0; a < q; a++) {
            from[a] = b[i * q + a];
            sum[a] = sums[i * q + a];
        }
        for (ptrdiff_t e = 0; e < many; e++) {
            square[e] = 0.0;
            for (ptrdiff_t a = 0; a < q; a++) {
                const double x = lam[e * q + a] + step[e] * (from[a] - b[to[2 * e] * q + a]);
                v[e * q + a] = x;
                square[e] += x * x;
            }
        }
        for (ptrdiff_t e = 0; e < many; e++) {
            const double shrunk = radius[e] / sqrt(square[e]);
            scale[e] = shrunk < 1.0 ? shrunk : 1.0; /* 0 / 0 counts as fused */
            per_step[e] = 1.0 / step[e];
        }
        for (ptrdiff_t e = 0; e < many; e++) {
            double far = 0.0;
            fused[e] = !(scale[e] < 1.0);
            for (ptrdiff_t a = 0; a < q; a++) {
                const double p = scale[e] * v[e * q + a], change = p - lam[e * q + a];
                far += change * change;
                lam[e * q + a] += relax * change;
                sum[a] += p;
                sums[to[2 * e] * q + a] -= p;
            }
            moved += far * per_step[e];
        }
        for (ptrdiff_t a = 0; a < q; a++)
            sums[i * q + a] = sum[a];
        start += many;
    }
    return moved;
}

#if EDGES_QUADS && LEVEL < 4
/* The same for four numbers per node: those of an edge are one vector, and sums over them those of four edges
 * at once. */
TARGET static double THIS(edges_quads)(const Edges *c, ptrdiff_t start, ptrdiff_t stop, double *restrict sums)
{
    const double *restrict b = c->b;
    const int32_t *restrict edge = c->edge;
    const four_lane relax = ALL(four_lane, c->relax);
    double moved = 0.0, scale[EDGES_SIDE], far[EDGES_SIDE];
    four_lane v[EDGES_SIDE];
    while (start < stop) {
        const int32_t i = edge[2 * start];
        const double *restrict radius = c->radius + start, *restrict step = c->step + start;
        const int32_t *restrict to = edge + 2 * start + 1;
        double *restrict lam = c->lam + start * 4;
        uint8_t *restrict fused = c->fused + start;
        const four_lane from = *(const four_lane *)(b + i * 4);
        four_lane sum = *(four_lane *)(sums + i * 4);
        ptrdiff_t many = 1;
        while (many < EDGES_SIDE && start + many < stop && edge[2 * (start + many)] == i)
            many++;
        for (ptrdiff_t e = 0; e < many; e++)
            v[e] = *(four_lane *)(lam + e * 4)
                + ALL(four_lane, step[e]) * (from - *(const four_lane *)(b + to[2 * e] * 4));
        for (ptrdiff_t e = many; e < (many + 3) / 4 * 4; e++)
            v[e] = ALL(four_lane, 1.0);
        for (ptrdiff_t e = 0; e < many; e += 4)
            SUMS_OF_SQUARES(v + e, far + e);
        for (ptrdiff_t e = 0; e < many; e++) {
            const double shrunk = radius[e] / sqrt(far[e]);
            scale[e] = shrunk < 1.0 ? shrunk : 1.0; /* 0 / 0 counts as fused */
        }
        for (ptrdiff_t e = 0; e < many; e++) {
            const four_lane p = ALL(four_lane, scale[e]) * v[e];
            v[e] = p - *(four_lane *)(lam + e * 4);
            *(four_lane *)(lam + e * 4) += relax * v[e];
            sum += p;
            *(four_lane *)(sums + to[2 * e] * 4) -= p;
            fused[e] = !(scale[e] < 1.0);
        }
        for (ptrdiff_t e = 0; e < many; e += 4)
            SUMS_OF_SQUARES(v + e, far + e);
        for (ptrdiff_t e = 0; e < many; e++)
            far[e] /= step[e];
        for (ptrdiff_t e = 0; e < many; e++)
            moved += far[e];
        *(four_lane *)(sums + i * 4) = sum;
        start += many;
    }
    return moved;
}
#endif

TARGET static double THIS(edges_few)(const Edges *c, ptrdiff_t start, ptrdiff_t stop, double *sums)
{
    switch (c->q) {
    case 1: return THIS(edges_of)(1, c, start, stop, sums);
    case 2: return THIS(edges_of)(2, c, start, stop, sums);
    case 3: return THIS(edges_of)(3, c, start, stop, sums);
#if EDGES_QUADS && LEVEL == 4 /* its longer vectors have no use here and take longer */
    default: return edges_quads_v3(c, start, stop, sums);
#elif EDGES_QUADS
    default: return THIS(edges_quads)(c, start, stop, sums);
#else
    default: return THIS(edges_of)(4, c, start, stop, sums);
#endif
    }
}
