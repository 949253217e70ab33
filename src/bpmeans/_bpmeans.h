/* Feature models: every row is a sum of some of K features.
 *
 * With G = A A' and b = A x, the choice of a row depends on K numbers: c = b - G z are the inner products of
 * its residual with the features, and flipping bit k changes |r|^2 by G_kk -+ 2 c_k. A row's features are the
 * bits of one 64-bit mask.
 *
 * Where the products come from is the only difference between the two forms. "Rows": b = A x from the table,
 * features kept as A. "Gram" (no more rows than columns): every feature is a combination of rows, so that b,
 * G and the fit need the inner products S = X X' of the rows alone, whatever the number of columns.
 *
 * All sums over a row run in one order whatever the block, the thread or the instruction set. */
#ifndef CRAFTC_BPMEANS_H
#define CRAFTC_BPMEANS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common/_int128.h"
#include "common/_simd.h"

#define BP_MOST 64              /* features: the bits of a mask */
#define BP_EXACT 16             /* features up to which all 2^K combinations can be compared */
#define BP_TILE 8               /* rows of a tile, and lanes of a block of features */
/* features up to which all rows of a tile look for the first of the best combinations together */
#define BP_FEW 6
#define BP_TRIALS 8             /* proposals of one step of a start */
/* rows whose gains are one partial sum, and rows of a piece of parallel work */
#define BP_BLOCK 512
#define BP_PIECE 256            /* columns of a piece of a parallel fit */
#define BP_COLUMNS 1024         /* columns of a run of sums */
/* a flip must lower |r|^2 by more than this share of |x|^2 + tr G, which bounds the rounding error */
#define BP_MARGIN 0x1p-44

typedef struct {
    ptrdiff_t n, D, K, most;    /* K features in use, `most` there is room for (at most BP_MOST) */
    ptrdiff_t lanes;            /* doubles from row to row of G, H, Q, M and B: `most` rounded up to whole
                                   blocks */
    int single, gram, exact;    /* exact: features up to which all combinations are compared, 0: never */
    const void *X;              /* (n, D) */
    const double *S;            /* (n, n) X X' on a grid on which sums are exact; gram form */
    const double *norm;         /* (n) |x|^2 */
    uint64_t *mask;             /* (n) features of every row */
    double *residual;           /* (n) |r|^2 */
    double *A;                  /* (most, D) features; rows form */
    double *table;              /* (D, width) their transpose, padded with zeros; rows form */
    double *B;                  /* (n, lanes) X A'; gram form */
    double *P;                  /* (most, n) S Z, exact; gram form */
    double *W;                  /* (most, D) Z'X; rows form */
    double *G;                  /* (lanes, lanes) A A'; a feature without rows has norm inf */
    double *M, *H, *Q;          /* (lanes, lanes) Z'Z, its (pseudo-)inverse, Z'X X'Z */
    double *q;                  /* (2^exact) z G z' */
    double *least;              /* (2^(exact / 2)) the least q for every upper half of z */
    double trace;               /* tr G of the features in use */
} bp_model;

/* proposals of one step of a start: residuals of some rows as features */
typedef struct {
    ptrdiff_t n;                /* proposals */
    ptrdiff_t rows[BP_TRIALS];
    double norm[BP_TRIALS];     /* their squared norms */
    double *table;              /* (D, BP_TRIALS) as lanes; rows form */
    double against[BP_MOST * BP_TRIALS];    /* (K, BP_TRIALS) inner products with the features */
} bp_proposals;

ALWAYS_INLINE ptrdiff_t bp_width(ptrdiff_t K)
{
    return (K + BP_TILE - 1) / BP_TILE * BP_TILE;
}

static inline int bp_count(uint64_t mask)
{
    mask -= mask >> 1 & 0x5555555555555555u;
    mask = (mask & 0x3333333333333333u) + (mask >> 2 & 0x3333333333333333u);
    mask = (mask + (mask >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (int)(mask * 0x0101010101010101u >> 56);
}

/* the bits of the first K features */
static inline uint64_t bp_first(ptrdiff_t K)
{
    return K ? ~(uint64_t)0 >> (BP_MOST - K) : 0;
}

/* the bits of `mask` at the places of `keep`, moved together */
static inline uint64_t bp_extract(uint64_t mask, uint64_t keep)
{
    uint64_t out = 0;
    for (int k = 0; keep; keep &= keep - 1, k++)
        out |= (mask >> simd_lowest(keep) & 1) << k;
    return out;
}

static inline const void *bp_row(const bp_model *m, ptrdiff_t i)
{
    return m->single ? (const void *)((const float *)m->X + i * m->D)
        : (const void *)((const double *)m->X + i * m->D);
}

/* gram form: the residual of row i times row j */
static inline double bp_residual_product(const bp_model *m, ptrdiff_t i, ptrdiff_t j)
{
    double product = m->S[i * m->n + j];
    for (uint64_t z = m->mask[i]; z; z &= z - 1)
        product -= m->B[j * m->lanes + simd_lowest(z)];
    return product;
}

/* the lower triangle of a symmetric matrix from the upper one */
static inline void bp_mirror(double *Q, ptrdiff_t K, ptrdiff_t lanes)
{
    for (ptrdiff_t k = 0; k < K; k++)
        for (ptrdiff_t l = 0; l < k; l++)
            Q[k * lanes + l] = Q[l * lanes + k];
}

#define LEAVES "bpmeans/_bpmeans_rows.h"
#include "common/_lanes.h"

/* out (n_rows <= BP_TILE, width): inner products of rows with a table (D, width) of vectors as lanes */
static inline void bp_products(const void *const *rows, int single, ptrdiff_t n_rows, ptrdiff_t D,
                               const double *table, ptrdiff_t width, double *out)
{
    SIMD_DISPATCH(bp_products, (rows, single, n_rows, D, table, width, out));
}

/* |x|^2 of rows [start, stop) */
static inline void bp_norms(const void *X, int single, ptrdiff_t D, ptrdiff_t start, ptrdiff_t stop,
                            double *norm)
{
    SIMD_DISPATCH(bp_norms, (X, single, D, start, stop, norm));
}

/* the features a row chooses, given b; `passes`: over the bits, unless all combinations are compared; 0: it
 * keeps its own */
static inline uint64_t bp_choose(const bp_model *m, const double *b, double norm, uint64_t mask, int passes,
                                 double *residual, double *scratch)
{
    return SIMD_DISPATCH(bp_choose, (m, b, norm, mask, passes, residual, scratch));
}

/* what the rows at places [start, stop) choose, each for itself, into chosen[place - first]; their residuals
 * follow */
static inline void bp_propose(const bp_model *m, const int32_t *order, ptrdiff_t start, ptrdiff_t stop,
                              int passes, uint64_t *chosen, double *scratch)
{
    SIMD_DISPATCH(bp_propose, (m, order, start, stop, passes, chosen, scratch));
}

/* gain of every proposal in rows [start, stop), added to won; `taken` >= 0: this proposal becomes feature K
 * of the rows that gain */
static inline void bp_gains(const bp_model *m, const bp_proposals *p, ptrdiff_t start, ptrdiff_t stop,
                            int taken, double *won)
{
    SIMD_DISPATCH(bp_gains, (m, p, start, stop, taken, won));
}

/* out[z] = start + times z linear + z C z' for all z of K bits, C with `lanes` from row to row; linear may be
 * NULL */
static inline void bp_quadratic(const double *C, const double *linear, double times, double start,
                                ptrdiff_t K, ptrdiff_t lanes, double *out)
{
    SIMD_DISPATCH(bp_quadratic, (C, linear, times, start, K, lanes, out));
}

/* memberships of up to 64 rows as words of bits, one per feature */
static inline void bp_words(const uint64_t *mask, ptrdiff_t n, ptrdiff_t K, uint64_t *words)
{
    SIMD_DISPATCH(bp_words, (mask, n, K, words));
}

static inline void bp_add(double *sums, const double *row, double sign, ptrdiff_t n)
{
    SIMD_DISPATCH(bp_add, (sums, row, sign, n));
}

/* B = P' H and Q = Z'P; gram form */
static inline void bp_fit_products(const bp_model *m)
{
    SIMD_DISPATCH(bp_fit_products, (m));
}

/* out (K, K) = transpose of H right, refined; columns of `right` up to a whole block are read */
static inline void bp_solve(const double *H, const double *M, const double *right, double *out, ptrdiff_t K,
                            ptrdiff_t lanes)
{
    SIMD_DISPATCH(bp_solve, (H, M, right, out, K, lanes));
}

/* doubles of scratch for one thread */
static inline ptrdiff_t bp_scratch(int exact)
{
    const ptrdiff_t halves = (ptrdiff_t)2 * BP_TILE << (exact + 1) / 2, all = (ptrdiff_t)2 << exact;
    return 3 * BP_TILE * BP_MOST + (halves > all ? halves : all);
}

/* r = x - z A */
static inline void bp_residual(const bp_model *m, ptrdiff_t i, double *restrict r)
{
    if (m->single)
        for (ptrdiff_t d = 0; d < m->D; d++)
            r[d] = ((const float *)m->X)[i * m->D + d];
    else
        memcpy(r, (const double *)m->X + i * m->D, sizeof(double) * (size_t)m->D);
    for (uint64_t z = m->mask[i]; z; z &= z - 1) {
        const double *restrict a = m->A + simd_lowest(z) * m->D;
        for (ptrdiff_t d = 0; d < m->D; d++)
            r[d] -= a[d];
    }
}

/* q and its least values follow the features */
static inline void bp_new_combinations(bp_model *m)
{
    const ptrdiff_t n_low = (ptrdiff_t)1 << (m->K + 1) / 2, n_high = (ptrdiff_t)1 << m->K / 2;
    if (m->K > m->exact)
        return;
    bp_quadratic(m->G, NULL, 0.0, 0.0, m->K, m->lanes, m->q);
    for (ptrdiff_t h = 0; h < n_high; h++) {
        m->least[h] = INFINITY;
        for (ptrdiff_t z = 0; z < n_low; z++)
            m->least[h] = m->q[h * n_low + z] < m->least[h] ? m->q[h * n_low + z] : m->least[h];
    }
}

/* gram form: c = b - G z, the residual of row i times the features */
static inline void bp_residual_against(const bp_model *m, ptrdiff_t i, double *c)
{
    memcpy(c, m->B + i * m->lanes, sizeof(double) * (size_t)m->K);
    for (uint64_t z = m->mask[i]; z; z &= z - 1)
        for (ptrdiff_t k = 0; k < m->K; k++)
            c[k] -= m->G[simd_lowest(z) * m->lanes + k];
}

#endif
