/* The mixture with feature selection: the table, the present q as lists of selected columns, and one pass
 * over the rows (the E-step). The updates of q are in mixture_updates.pyx. */
#ifndef CRAFTC_MIXTURE_H
#define CRAFTC_MIXTURE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "mixture/_mixture_scores.h"
#include "common/_simd.h"

/* keeps a vector that is used twice in a register: the loop over columns is limited by loads */
#if CRAFTC_CLONES
#define MX_HOLD(vector) __asm__("" : "+v"(vector))
#else
#define MX_HOLD(vector) ((void)0)
#endif

#define MX_CELLS 16384          /* of a block of rows, approximately */
#define MX_MOST_ROWS 256        /* of a block, at most */

/* the table as the model sees it: z = (x - centre) * scale of some columns */
typedef struct {
    const void *X;              /* (n, width) */
    int single, all;            /* float32; whether the model has all columns, in order */
    ptrdiff_t width, D, stride; /* columns of X, of the model, and those padded */
    const int32_t *column;      /* (D) */
    const double *centre, *scale;   /* (D) */
    const double *exposure;     /* (n), or NULL: all 1 */
    const double *weight;       /* (n) of the rows in all sums, or NULL: all 1 */
    const int32_t *order;       /* (n) the rows in the order in which they are visited, or NULL: their own */
    const double *kept;         /* (n, stride) z of all rows in this order, or NULL: read anew in every pass;
                                   no cell is missing */
    int missing;                /* whether cells may be missing: NaN */
} mx_table;

/* sums over a segment of rows: size (K), reach (K), entropy, s1 (K, stride), s2 (K, stride), missing reach
 * (K, stride) if cells may be missing. All are zero at first, but s1 and s2 of components of size 0 */
typedef struct {
    double *size, *reach, *entropy, *s1, *s2, *missing;
} mx_sums;

typedef struct {
    double *z;                  /* (rows, stride) */
    double *tile;               /* (MX_COLUMNS, MX_TILE) */
    double *r;                  /* (K, rows) */
    double *weight;             /* (rows) */
    int32_t *row;               /* (rows) */
    int32_t *live;              /* (tiles of a block, K) components that take part */
    uint32_t *tiles;            /* (K) the same as bits, one for every tile of the block */
    int64_t *missing;           /* (rows * D) row * D + d of the missing cells */
} mx_scratch;

/* input and output of a pass over the rows; outputs that are NULL are not computed */
typedef struct {
    int hard;                   /* hard assignment: each row belongs to its best component alone */
    const double *given;        /* (n, K of the model) responsibilities to use instead of new ones */
    double *proba;              /* (n, K of the lists) */
    int32_t *label, *second;    /* (n) indices in the lists of the best component and of the second one */
    double *evidence;           /* (n) log-sum-exp of the scores */
} mx_request;

static inline ptrdiff_t mx_place(const mx_table *t, ptrdiff_t i)
{
    return t->order ? t->order[i] : i;
}

static inline ptrdiff_t mx_block(ptrdiff_t D)
{
    const ptrdiff_t rows = MX_CELLS / mx_stride(D > 0 ? D : 1) / MX_TILE * MX_TILE;
    return rows < MX_TILE ? MX_TILE : rows > MX_MOST_ROWS ? MX_MOST_ROWS : rows;
}

#define LEAVES "mixture/_mixture_rows.h"
#include "common/_lanes.h"

/* z (n, stride) of all rows, in the order in which they are visited */
static inline void mx_keep(const mx_table *t, ptrdiff_t n, double *z)
{
    SIMD_DISPATCH(mx_keep, (t, n, z));
}

/* rows [start, stop) from the start of a tile on: their responsibilities, with bounds (NULL: none) only where
 * they are not zero, and the sums of a segment (NULL: not computed) */
static inline void mx_rows(const mx_table *t, const mx_lists *l, const mx_bounds *bounds,
                           const mx_request *request, ptrdiff_t K, int linear, ptrdiff_t start,
                           ptrdiff_t stop, mx_sums *sums, mx_scratch *scratch)
{
    SIMD_DISPATCH(mx_rows, (t, l, bounds, request, K, linear, start, stop, sums, scratch));
}

#endif
