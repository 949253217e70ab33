/* One step of the flows inside a cluster, over its edges, specialised by the numbers per node. */
#ifndef CRAFTC_FLOWS_H
#define CRAFTC_FLOWS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "common/_simd.h"

#define FLOWS_PARTS 8 /* fewer numbers per node have a version of their own */

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

/* Edges start..stop - 1: y = lam + momentum (lam - previous); new = Proj(y - step (potential_i -
 * potential_j)). Returns sum (y - new) (new - lam), which is positive where the step goes against the
 * momentum. */
ALWAYS_INLINE double flows_of(const ptrdiff_t q, const Flows *c, ptrdiff_t start, ptrdiff_t stop)
{
    const double momentum = c->momentum;
    double uphill = 0.0, y[FLOWS_PARTS], x[FLOWS_PARTS];
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

#define LEAVES "fusion/_flows_lanes.h"
#include "common/_lanes.h"

static inline double flows_step(const Flows *c, ptrdiff_t start, ptrdiff_t stop)
{
    switch (c->q) {
    case 1: return flows_of(1, c, start, stop);
    case 2: return flows_of(2, c, start, stop);
    case 3: return flows_of(3, c, start, stop);
    case 4: return flows_of(4, c, start, stop);
    case 5: return flows_of(5, c, start, stop);
    case 6: return flows_of(6, c, start, stop);
    case 7: return flows_of(7, c, start, stop);
    default: return SIMD_DISPATCH(flows_wide, (c, start, stop));
    }
}

#endif
