/* Dissimilarities between a tile of rows and all prototypes at once.
 *
 * A row costs sum (x - mean)^2 over its present numbers, plus gamma times the dissimilarity of its
 * categories. The tables store the clusters ("lanes") contiguously, padded to a multiple of KP_PAD with base
 * = +inf: one load serves several clusters. The costs of a row are one fixed sequence of operations: they do
 * not depend on the tile, the block, the clone or the other rows. */
#ifndef CRAFTC_KPROTOTYPES_H
#define CRAFTC_KPROTOTYPES_H

#include <stddef.h>
#include <stdint.h>
#include "common/_cheapest.h"
#include "common/_simd.h"

#define KP_TILE 8               /* rows */
#define KP_PAD 8                /* lanes */

/* The dissimilarity of categories. KP_MATCHING counts the cells that differ from the mode; KP_NG weighs cells
 * that equal it by their share in the cluster; both are sums of table entries. The others are 1 - |A and B| /
 * |A or B| for the sets of a row and a prototype: of the columns that hold the second level (KP_BINARY), or
 * of the codes, whatever their columns (KP_LABELS). */
enum { KP_MATCHING, KP_NG, KP_BINARY, KP_LABELS };

typedef struct {
    ptrdiff_t n_clusters, lanes;    /* lanes = n_clusters rounded up to KP_PAD */
    ptrdiff_t p, q;                 /* columns of the table */
    int kind;
    double gamma;
    const double *base;             /* (lanes) 0, +inf in the padding */
    const double *mean;             /* (p, lanes) */
    const double *level;            /* (entries, lanes): of a level in a sum, or 1 where it belongs to the set
                                       of the prototype */
    const double *size;             /* (lanes) of the sets of the prototypes */
    const ptrdiff_t *level_start;   /* (q) first entry of a column in `level` */
    const ptrdiff_t *n_levels;      /* (q) */
    ptrdiff_t none;                 /* an entry of zeros */
} kp_tables;

/* scratch of one thread, in doubles, whole cache lines: cells, entries, costs, sizes of the sets of the rows
 */
static inline ptrdiff_t kp_scratch_size(ptrdiff_t p, ptrdiff_t q, ptrdiff_t lanes)
{
    return KP_TILE * (p + q + lanes + 1);
}

/* The entry of a cell in the intersection of its row with a prototype, and what it adds to the size of the
 * set of the row. A missing cell adds nothing, nor does a code that an earlier column of the row has under
 * KP_LABELS. */
static inline ptrdiff_t kp_entry(const kp_tables *t, const ptrdiff_t *code, ptrdiff_t d, double *size)
{
    if (code[d] >= t->n_levels[d])
        return t->none;
    if (t->kind == KP_BINARY) {
        *size += code[d] == 1;
        return t->level_start[d] + code[d];
    }
    for (ptrdiff_t e = 0; e < d; e++)
        if (code[e] == code[d] && code[e] < t->n_levels[e])
            return t->none;
    *size += 1.0;
    return code[d];
}

#define KP_SETS(t) ((t)->kind == KP_BINARY || (t)->kind == KP_LABELS)

#if defined(__GNUC__)
#define KP_UNROLL _Pragma("GCC unroll 8")
/* Prefetches the cells 2 KiB after a tile: a tile takes less time than a load from memory. */
#define KP_PREFETCH(block, start, cells, size)                                          \
    for (ptrdiff_t j = 0; j < (cells); j += 64 / (size))                                \
        __builtin_prefetch((const char *)(block) + ((start) + j) * (size) + 2048);
#else
#define KP_UNROLL
#define KP_PREFETCH(block, start, cells, size)
#endif

#define LEAVES "kprototypes/_kprototypes_lanes.h"
#include "common/_lanes.h"

/* Costs of rows [first, first + rows), rows <= KP_TILE; x and codes are the whole blocks. Returns the (rows,
 * lanes) costs, stored in scratch, the least cost of each row and the lowest cluster that has it. */
static inline const double *kp_tile(const kp_tables *t, const void *x, int single, const void *codes,
                                    int wide, ptrdiff_t first, ptrdiff_t rows, double *scratch, double *best,
                                    int32_t *arg)
{
    double *cost = scratch + KP_TILE * (t->p + t->q);
    ptrdiff_t *entry = (ptrdiff_t *)(scratch + KP_TILE * t->p);
    SIMD_DISPATCH(kp_costs,
                  (t, x, single, codes, wide, first, rows, scratch, entry, cost, cost + KP_TILE * t->lanes));
    SIMD_DISPATCH(least, (t->lanes, rows, cost, best));
    SIMD_DISPATCH(cheapest, (t->lanes, rows, cost, best, arg));
    for (ptrdiff_t r = 0; r < rows; r++)
        if (arg[r] >= t->n_clusters)        /* NaN: no prototype compares as nearest */
            arg[r] = 0;
    return cost;
}

static inline void kp_mismatches(const void *codes, int wide, ptrdiff_t n, ptrdiff_t q, const void *mode,
                                 const void *n_levels, int32_t *out)
{
    if (wide)
        SIMD_DISPATCH(kp_mismatches_uint16_t, (codes, n, q, mode, n_levels, out));
    else
        SIMD_DISPATCH(kp_mismatches_uint8_t, (codes, n, q, mode, n_levels, out));
}

#endif
