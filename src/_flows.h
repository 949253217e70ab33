/* One step of the flows inside a cluster, over its edges, specialised by the numbers per node, so that those of an edge stay in registers. */
#ifndef CRAFTC_FLOWS_H
#define CRAFTC_FLOWS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "_simd.h"

#define FLOWS_MOST 16 /* numbers per node for which a version exists */

typedef struct {
    ptrdiff_t q;             /* numbers per node */
    const int32_t *edge;     /* (l, 2) */
    const double *radius;    /* (l) */
    const double *step;      /* (l) */
    const double *potential; /* (nodes, q) */
    double momentum;
    const double *lam;       /* (l, q) flows */
    double *previous;        /* (l, q) in: the flows before lam; out: the new flows */
    double *sums;            /* (nodes, q), increased by the signed sums of the new flows */
    double *row;             /* (2, q) work */
    uint8_t *saturated;      /* (l) whether the projection shrank the edge */
} Flows;

/* Edges start..stop - 1: y = lam + momentum (lam - previous); new = Proj(y - step (potential_i - potential_j)).
 * Returns sum (y - new) (new - lam), which is positive where the step goes against the momentum. */
ALWAYS_INLINE double flows_of(const ptrdiff_t q, const Flows *c, ptrdiff_t start, ptrdiff_t stop, double *restrict y, double *restrict x)
{
    const double momentum = c->momentum;
    double uphill = 0.0;
    for (ptrdiff_t e = start; e < stop; e++) {
        const ptrdiff_t i = c->edge[2 * e] * q, j = c->edge[2 * e + 1] * q;
        const double *restrict lam = c->lam + e * q, step = c->step[e], radius = c->radius[e];
        double *restrict previous = c->previous + e * q, norm = 0.0, along = 0.0;
        for (ptrdiff_t a = 0; a < q; a++) {
            y[a] = lam[a] + momentum * (lam[a] - previous[a]);
            x[a] = y[a] - step * (c->potential[i + a] - c->potential[j + a]);
        }
        for (ptrdiff_t a = 0; a < q; a++)
            norm += x[a] * x[a];
        const int outside = norm > radius * radius;
        c->saturated[e] = (uint8_t)outside;
        const double scale = outside ? radius / sqrt(norm) : 1.0;
        for (ptrdiff_t a = 0; a < q; a++) {
            const double p = scale * x[a];
            x[a] = (y[a] - p) * (p - lam[a]);
            previous[a] = p;
            c->sums[i + a] += p;
            c->sums[j + a] -= p;
        }
        for (ptrdiff_t a = 0; a < q; a++)
            along += x[a];
        uphill += along;
    }
    return uphill;
}

static double flows_step(const Flows *c, ptrdiff_t start, ptrdiff_t stop)
{
    double y[FLOWS_MOST], x[FLOWS_MOST];
    switch (c->q) {
#define FLOWS_CASE(n) case n: return flows_of(n, c, start, stop, y, x);
    FLOWS_CASE(1) FLOWS_CASE(2) FLOWS_CASE(3) FLOWS_CASE(4) FLOWS_CASE(5) FLOWS_CASE(6) FLOWS_CASE(7) FLOWS_CASE(8)
    FLOWS_CASE(9) FLOWS_CASE(10) FLOWS_CASE(11) FLOWS_CASE(12) FLOWS_CASE(13) FLOWS_CASE(14) FLOWS_CASE(15) FLOWS_CASE(16)
#undef FLOWS_CASE
    default: return flows_of(c->q, c, start, stop, c->row, c->row + c->q);
    }
}

#endif
