/* The inner loop over the edges of a fusion penalty, specialised by the numbers per node (classes less one),
 * so that those of an edge stay in registers. */
#ifndef CRAFTC_EDGES_H
#define CRAFTC_EDGES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "common/_simd.h"

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

/* four doubles as one vector, whatever the instruction set */
#if defined(__GNUC__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define EDGES_QUADS 1
typedef double four_lane __attribute__((vector_size(32), aligned(8), may_alias));

#define SHUFFLE __builtin_shufflevector
/* of four quads the sums of squares, each in the order of its numbers */
#define SUMS_OF_SQUARES(quads, out)                                                                   \
    do {                                                                                              \
        const four_lane s0 = (quads)[0] * (quads)[0], s1 = (quads)[1] * (quads)[1];                   \
        const four_lane s2 = (quads)[2] * (quads)[2], s3 = (quads)[3] * (quads)[3];                   \
        const four_lane even01 = SHUFFLE(s0, s1, 0, 4, 2, 6), odd01 = SHUFFLE(s0, s1, 1, 5, 3, 7);    \
        const four_lane even23 = SHUFFLE(s2, s3, 0, 4, 2, 6), odd23 = SHUFFLE(s2, s3, 1, 5, 3, 7);    \
        const four_lane first = SHUFFLE(even01, even23, 0, 1, 4, 5),                                  \
            second = SHUFFLE(odd01, odd23, 0, 1, 4, 5);                                               \
        const four_lane third = SHUFFLE(even01, even23, 2, 3, 6, 7),                                  \
            fourth = SHUFFLE(odd01, odd23, 2, 3, 6, 7);                                               \
        *(four_lane *)(out) = ((first + second) + third) + fourth;                                    \
    } while (0)
#endif
#endif
#ifndef EDGES_QUADS
#define EDGES_QUADS 0
#endif

#define LEAVES "fusion/_edges_lanes.h"
#include "common/_lanes.h"

/* Edges start..stop - 1, for any q: see edges_of. */
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
    return c->q <= EDGES_MOST ? SIMD_DISPATCH(edges_few, (c, start, stop, sums))
        : edges_wide(c, start, stop, sums);
}

#endif
