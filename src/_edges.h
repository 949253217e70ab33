/* The inner loop over the edges of a fusion penalty, specialised by the numbers per node (classes less one), so that those of an edge
 * stay in registers. */
#ifndef CRAFTC_EDGES_H
#define CRAFTC_EDGES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "_simd.h"

#define EDGES_MOST 4  /* numbers per node that are kept in registers */
#define EDGES_SIDE 32 /* edges of one first node that are processed together */

typedef struct {
    ptrdiff_t q;            /* numbers per node */
    const double *b;        /* (nodes, q) */
    const int32_t *edge;    /* (l, 2) */
    const double *radius;   /* (l) */
    const double *step;     /* (l) > 0 */
    double relax;
    double *lam;            /* (l, q) */
    uint8_t *fused;         /* (l) */
} Edges;

/* Edges start..stop - 1, sorted by their first node: p = Proj(lam + step (b_i - b_j)); lam += relax (p - lam);
 * p is added to the sums of node i and subtracted from those of j. Returns the sum of |p - lam|^2 / step. Edges of one first node are
 * processed together, so that their square roots and quotients are vectorised. */
ALWAYS_INLINE double edges_of(const ptrdiff_t q, const Edges *c, ptrdiff_t start, ptrdiff_t stop, double *restrict sums)
{
    const double *restrict b = c->b;
    const int32_t *restrict edge = c->edge;
    const double relax = c->relax;
    double moved = 0.0, v[EDGES_SIDE * EDGES_MOST], square[EDGES_SIDE], scale[EDGES_SIDE], per_step[EDGES_SIDE];
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

/* The same for any q. */
static double edges_wide(const Edges *c, ptrdiff_t start, ptrdiff_t stop, double *sums)
{
    const ptrdiff_t q = c->q;
    double moved = 0.0;
    for (ptrdiff_t e = start; e < stop; e++) {
        const ptrdiff_t i = c->edge[2 * e] * q, j = c->edge[2 * e + 1] * q;
        const double s = c->step[e];
        double *lam = c->lam + e * q, square = 0.0, far = 0.0;
        for (ptrdiff_t a = 0; a < q; a++) {
            const double x = lam[a] + s * (c->b[i + a] - c->b[j + a]);
            square += x * x;
        }
        const double shrunk = c->radius[e] / sqrt(square), scale = shrunk < 1.0 ? shrunk : 1.0;
        c->fused[e] = !(shrunk < 1.0);
        for (ptrdiff_t a = 0; a < q; a++) {
            const double p = scale * (lam[a] + s * (c->b[i + a] - c->b[j + a])), change = p - lam[a];
            far += change * change;
            lam[a] += c->relax * change;
            sums[i + a] += p;
            sums[j + a] -= p;
        }
        moved += far / s;
    }
    return moved;
}

static double edges_some(const Edges *c, ptrdiff_t start, ptrdiff_t stop, double *sums)
{
    switch (c->q) {
    case 1: return edges_of(1, c, start, stop, sums);
    case 2: return edges_of(2, c, start, stop, sums);
    case 3: return edges_of(3, c, start, stop, sums);
    case 4: return edges_of(4, c, start, stop, sums);
    default: return edges_wide(c, start, stop, sums);
    }
}

#endif
