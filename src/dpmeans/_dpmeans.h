/* Nearest centres, exactly.
 *
 * Which centre is nearest is decided by one formula in double precision, sum_d (x_d - mu_d)^2 in eight
 * running sums, whatever the block, the thread or the instruction set. Most rows never see it: a scan in
 * single precision over a tile of rows (lanes are rows, cells are centred and scaled first) finds the best
 * and the second best centre with a bound E on the error, and where they are further apart than E the exact
 * formula could not say otherwise. Only the others are looked at again. So the scan may fuse, round and
 * reorder as the machine likes, and float64 tables are scanned as fast as float32 ones.
 *
 * With t = (x - ref) * scale and c = (mu - ref) * scale in single precision, s_k = |c_k|^2 / 2 - t . c_k
 * orders the centres and d_k^2 = |t|^2 + 2 s_k. Every cell carries a relative error of 2^-24 and every sum
 * adds D more: both d_k^2 and 2 (s_k - s_j) are off by at most E = (D + 8) 2^-24 (|t| + max |c|)^2. */
#ifndef CRAFTC_DPMEANS_H
#define CRAFTC_DPMEANS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "common/_simd.h"

#if defined(__GNUC__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DP_SHUFFLES 1           /* vectors without intrinsics can be transposed */
#endif
#endif
#ifndef DP_SHUFFLES
#define DP_SHUFFLES 0
#endif
#define DP_TILE 64              /* rows of a tile at most */
#define DP_BOUNDED 256          /* rows at most whose bounds are compared at once */
#define DP_CHECKED 4            /* centres of a quick check: the row's own and up to three others */
/* centres and columns from which a quick check is much cheaper than a scan of all centres */
#define DP_WORTH_CLUSTERS 24
#define DP_WORTH_COLUMNS 64
/* centres and rows from which the scan is cheaper than the exact formula alone */
#define DP_WORTH_SCAN 3
#define DP_WORTH_TILE 16
#define DP_FETCHED 4096         /* bytes that passes over rows in order fetch ahead */
#define DP_AHEAD 4              /* rows that quick checks fetch ahead */
#define DP_SINGLE 4             /* rows taken one by one after a collapsed move */
#define DP_PAD 8                /* centres to spare behind the last */
#define DP_TINY 1e-30f          /* what underflow may cost */

/* factors that keep bounds valid: rounding of a few operations, and of a few more with a root */
#define DP_UP (1.0f + 0x1p-22f)
#define DP_DOWN (1.0f - 0x1p-22f)
#define DP_ROOT_UP (1.0f + 0x1p-21f)
#define DP_ROOT_DOWN (1.0f - 0x1p-21f)

typedef struct {
    ptrdiff_t D, K;             /* columns, centres */
    int single;                 /* float32 table */
    const double *mu;           /* (K, D) centres */
    const double *ref;          /* (D) what cells are centred on, representable in single precision */
    const float *ref_single;
    double scale;               /* power of two: the largest |x - ref| comes near 1 */
    const float *centre;        /* (K + DP_PAD, D) c, zeros beyond K */
    const float *half;          /* (K + DP_PAD) |c|^2 / 2, +inf beyond K */
    float reach;                /* max |c|, rounded up */
    double limit;               /* lambda^2 in the table's own units */
    float inside, outside;      /* scaled: d^2 <= inside is surely within the limit, d^2 > outside surely
                                   beyond */
} dp_centres;

/* what a row carries from sweep to sweep, scaled, single precision: |upper| >= distance to its centre, lower
 * <= distance to every other; a negative upper says that the row is beyond its limit and may open a cluster
 */
typedef struct {
    int32_t *labels;            /* -1: in the first cluster, but not in its sums */
    float *upper, *lower;       /* both NULL: bounds are not kept */
} dp_rows;

/* how the centres moved since the bounds of the rows were set, scaled */
typedef struct {
    const float *own;           /* (K) how far the centre moved; NULL: there are no bounds */
    const float *others;        /* (K) how far any other moved, the moved centres below left out */
    const float *half_gap;      /* (K) half the distance to the nearest other centre */
    const int32_t *moved;       /* centres that the bounds do not cover: new ones, and some that moved much
                                   further than the others */
    ptrdiff_t n_moved;
    const float *moved_gap;     /* (K) distance to the nearest other of the moved centres */
    float root;                 /* distances up to this are within the limit */
} dp_drift;

/* where the cells of rows that move are summed: integers, so that adding and removing commute */
typedef struct {
    const double *centre, *scale;   /* (D) q = rint((x - centre) * scale) */
    int64_t *sums;                  /* (K, D) sum w q, or sum rint(w (x - centre) scale) */
    int64_t *counts;                /* (K) sum w */
    const int64_t *weight;          /* (n) or NULL = all one */
    const double *share;            /* (n) w where it is not whole, else NULL: then it enters the product
                                       before that is rounded */
    const double *unit_weight;      /* (n) min(w, 1) or NULL = all one */
} dp_sums;

/* what the scan finds about the rows of a tile */
typedef struct {
    float best[DP_TILE], second[DP_TILE];   /* s of the two nearest centres */
    float norm[DP_TILE];                    /* |t|^2 */
    int32_t arg[DP_TILE];                   /* the nearest one, ties: the lowest */
} dp_found;

/* clusters while single rows move */
typedef struct {
    ptrdiff_t D, K, n_clusters, capacity, cap;  /* K numbers in use, n_clusters of them not empty; cap: the
                                                   largest K */
    int single;
    double *mu;                 /* (capacity, D) means */
    float *centre, *half;       /* (capacity + DP_PAD, D + 1), (capacity + DP_PAD): for a scan of (t, -|t|^2 /
                                   2) */
    const double *step;         /* (D) grid step: mean = centre + sum / count * step */
    const double *ref;
    const float *ref_single;
    double scale, unit, limit, slack;   /* unit: weight of a count; slack: a move must win more than that */
    float reach, inside;
    float *travelled, *shrunk;  /* (capacity) path length of a mean and share of its f that is left, since the
                                   sweep began */
    float far, least_shrunk;    /* the most and the least of them */
} dp_collapsed;

static inline const void *dp_row(const void *X, int single, ptrdiff_t D, ptrdiff_t i)
{
    return single ? (const void *)((const float *)X + i * D) : (const void *)((const double *)X + i * D);
}

/* row i where the rows are read one after the other: cells further on are fetched meanwhile, over the edges
 * of pages, too */
static inline const void *dp_row_in_order(const void *X, int single, ptrdiff_t D, ptrdiff_t i)
{
    const char *x = (const char *)dp_row(X, single, D, i);
    const ptrdiff_t bytes = D * (single ? (ptrdiff_t)sizeof(float) : (ptrdiff_t)sizeof(double));
    for (ptrdiff_t at = 0; at < bytes; at += 64)
        SIMD_PREFETCH(x + DP_FETCHED + at);
    return x;
}

/* the first cells of rows that are scanned soon, which lie apart */
static inline void dp_fetch_rows(const dp_centres *c, const void *X, const int32_t *list, ptrdiff_t n)
{
    for (ptrdiff_t r = 0; r < n; r++)
        SIMD_PREFETCH(dp_row(X, c->single, c->D, list[r]));
}

static inline float dp_above(double distance)
{
    return (float)(distance * (1.0 + 0x1p-22)) + FLT_MIN;
}

static inline float dp_below(double distance)
{
    float least = (float)(distance * (1.0 - 0x1p-22)) - FLT_MIN;
    return least > 0.0f ? least : 0.0f;
}

/* error of the scan's squared distances of a row; differences of two of them have the same */
static inline float dp_error(const dp_centres *c, float norm)
{
    const float size = sqrtf(norm) + c->reach;
    return (float)(c->D + 8) * 0x1p-24f * size * size + DP_TINY;
}

#define LEAVES "dpmeans/_dpmeans_scan.h"
#include "common/_lanes.h"

/* squared distance, the one formula */
static inline double dp_distance(const void *x, int single, const double *mu, ptrdiff_t D)
{
    return SIMD_DISPATCH(dp_distance, (x, single, mu, D));
}

/* squared distances of rows [start, stop) to the centres of their clusters, 0 where the label is -1 */
static inline void dp_own_distances(const void *X, int single, ptrdiff_t D, const double *mu,
                                    const int32_t *labels, double *squared, ptrdiff_t start, ptrdiff_t stop)
{
    SIMD_DISPATCH(dp_own_distances, (X, single, D, mu, labels, squared, start, stop));
}

/* nearest centres of n rows (ties: the lowest; -1 where no distance is finite), and with `squared` their
 * squared distances. Rows are `x_stride` and centres `centre_stride` cells apart; rows: room for a tile of
 * rows that are not contiguous; tile == NULL: the exact formula alone */
static inline void dp_nearest_rows(const dp_centres *c, ptrdiff_t centre_stride, const void *x, ptrdiff_t n,
                                   ptrdiff_t x_stride, int32_t *labels, double *squared, double *rows,
                                   float *tile)
{
    SIMD_DISPATCH(dp_nearest_rows, (c, centre_stride, x, n, x_stride, labels, squared, rows, tile));
}

/* which of n rows are further than the limit from all centres; a row's squared distance counts times its
 * share, of at most 1, unless share is NULL */
static inline void dp_beyond_rows(const dp_centres *c, const void *x, ptrdiff_t n, const double *share,
                                  uint8_t *beyond, float *tile)
{
    SIMD_DISPATCH(dp_beyond_rows, (c, x, n, share, beyond, tile));
}

/* moves the bounds of rows [start, start + n), n <= DP_BOUNDED, with the centres where a row certainly stays
 * in its cluster and within its limit; writes the other rows to `list` (n) and returns their number */
static inline ptrdiff_t dp_not_kept(dp_rows rows, const dp_drift *drift, ptrdiff_t start, ptrdiff_t n,
                                    int32_t *list)
{
    return SIMD_DISPATCH(dp_not_kept, (rows, drift, start, n, list));
}

/* rows of a tile of this instruction set, at most DP_TILE */
static inline ptrdiff_t dp_tile_rows(void)
{
    return SIMD_DISPATCH(dp_tile_rows, ());
}

/* the n rows of `list` to their nearest centres, by the scan or, where its error leaves a doubt, by the exact
 * formula; returns rows of weight that moved and counts those beyond the limit */
static inline ptrdiff_t dp_assign_tile(const dp_centres *c, const void *X, dp_rows rows, const dp_sums *sums,
                                       const int32_t *list, ptrdiff_t n, float *tile, ptrdiff_t *beyond_limit)
{
    return SIMD_DISPATCH(dp_assign_tile, (c, X, rows, sums, list, n, tile, beyond_limit));
}

/* squared distances of one row to a few centres, scaled, in single precision; returns the bound on their
 * error */
static inline float dp_quick_check(const dp_centres *c, const void *x, const int32_t some[DP_CHECKED],
                                   float distance[DP_CHECKED])
{
    return SIMD_DISPATCH(dp_quick_check, (c, x, some, distance));
}

/* row i is added to a cluster (sign 1) or removed from it (-1) */
static inline void dp_add(const dp_sums *sums, const void *x, int single, ptrdiff_t D, int32_t cluster,
                          ptrdiff_t i, int sign)
{
    SIMD_DISPATCH(dp_add, (sums, x, single, D, cluster, i, sign));
}

/* rows [start, stop) are added to the first cluster */
static inline void dp_sum_rows(const dp_sums *sums, const void *X, int single, ptrdiff_t D, ptrdiff_t start,
                               ptrdiff_t stop)
{
    SIMD_DISPATCH(dp_sum_rows, (sums, X, single, D, start, stop));
}

/* rows [start, stop) are added to their clusters */
static inline void dp_add_rows(const dp_sums *sums, const void *X, int single, ptrdiff_t D,
                               const int32_t *labels, ptrdiff_t start, ptrdiff_t stop)
{
    SIMD_DISPATCH(dp_add_rows, (sums, X, single, D, labels, start, stop));
}

/* rows [start, stop) to the sides of their clusters, by planes unless directions are NULL, and into the sums
 * of these; returns the weight of the rows that change sides */
static inline int64_t dp_cut_rows(const dp_sums *sums, const void *X, int single, ptrdiff_t D,
                                  const int32_t *labels, const double *origins, const double *directions,
                                  uint8_t *sides, ptrdiff_t start, ptrdiff_t stop)
{
    return SIMD_DISPATCH(dp_cut_rows, (sums, X, single, D, labels, origins, directions, sides, start, stop));
}

/* rows at positions [start, stop) to the nearest of centres [first, K), which are `some`, where it is
 * strictly nearer than their own; returns rows of weight that moved. One leaf: with two columns a leaf call
 * for every row costs 7 % of a serial fit */
static inline ptrdiff_t dp_reassign_to_new(const dp_centres *c, const int32_t *some, ptrdiff_t first,
                                           const float *gap, const void *X, dp_rows rows, const dp_sums *sums,
                                           const int32_t *order, ptrdiff_t start, ptrdiff_t stop, float *tile)
{
    return SIMD_DISPATCH(dp_reassign_to_new, (c, some, first, gap, X, rows, sums, order, start, stop, tile));
}

/* ---- collapsed moves ---- */

/* cluster k after its sums changed: mean, and the centre of the scan, f mu, f, f |mu|^2 / 2 with f = S / (S +
 * 1) */
static inline void dp_refresh(dp_collapsed *c, const dp_sums *sums, ptrdiff_t k)
{
    SIMD_DISPATCH(dp_refresh, (c, sums, k));
}

/* collapsed moves of the rows at positions [start, stop); returns the position reached */
static inline ptrdiff_t dp_collapse(dp_collapsed *c, const void *X, dp_rows rows, const dp_sums *sums,
                                    const int32_t *order, ptrdiff_t start, ptrdiff_t stop, float *tile,
                                    ptrdiff_t *moved, ptrdiff_t *computed)
{
    return SIMD_DISPATCH(dp_collapse, (c, X, rows, sums, order, start, stop, tile, moved, computed));
}

/* ---- nearest centres of rows that carry no bounds ---- */

/* what the scan reads: the reference point in both precisions, a tile of rows, the centres in single
 * precision, the tile that is scanned */
typedef struct {
    double *ref, *rows;
    float *ref_single, *centre, *half, *tile;
} dp_places;

/* doubles of scratch that dp_prepare and dp_nearest_rows need; `places` are set within `scratch` unless it is
 * NULL */
static inline ptrdiff_t dp_nearest_places(ptrdiff_t D, ptrdiff_t K, double *scratch, dp_places *places)
{
    const ptrdiff_t size[] = {D, DP_TILE * D, (D + 1) / 2, ((K + DP_PAD) * D + 1) / 2, (K + DP_PAD + 1) / 2,
                              (DP_TILE * D + 1) / 2};
    double *at[6] = {NULL};
    ptrdiff_t total = 0;
    for (int i = 0; i < 6; i++) {
        if (scratch)
            at[i] = scratch + total;
        total += simd_lines(size[i]);
    }
    places->ref = at[0], places->rows = at[1], places->ref_single = (float *)at[2];
    places->centre = (float *)at[3], places->half = (float *)at[4], places->tile = (float *)at[5];
    return total;
}

/* the centres of c (D, K, single and mu are set) as the scan reads them, centred on their mean; 0 where their
 * distances are no numbers to scale by */
static inline int dp_prepare(dp_centres *c, ptrdiff_t stride, dp_places *places)
{
    const ptrdiff_t D = c->D, K = c->K;
    const double *mu = c->mu;
    double reach = 0.0, most = 0.0;
    int exponent, bound = c->single ? 126 : 1000;
    for (ptrdiff_t d = 0; d < D; d++) {
        double sum = 0.0;
        for (ptrdiff_t k = 0; k < K; k++)
            sum += mu[k * stride + d] / (double)K;
        places->ref_single[d] = (float)sum;
        places->ref[d] = c->single ? (double)places->ref_single[d] : sum;
        for (ptrdiff_t k = 0; k < K; k++) {
            const double far = fabs(mu[k * stride + d] - places->ref[d]);
            reach = far > reach ? far : reach;
            most += far;    /* NaN stays */
        }
    }
    if (!(most < INFINITY))
        return 0;
    frexp(reach, &exponent);
    exponent = exponent > bound ? bound : exponent < -bound ? -bound : exponent;
    c->scale = ldexp(1.0, -exponent);
    most = 0.0;
    for (ptrdiff_t k = 0; k < K; k++) {
        double square = 0.0;
        for (ptrdiff_t d = 0; d < D; d++) {
            const double cell = (mu[k * stride + d] - places->ref[d]) * c->scale;
            square += cell * cell;
            places->centre[k * D + d] = (float)cell;
        }
        places->half[k] = (float)(0.5 * square);
        most = square > most ? square : most;
    }
    memset(places->centre + K * D, 0, sizeof(float) * (size_t)(DP_PAD * D));
    for (ptrdiff_t k = K; k < K + DP_PAD; k++)
        places->half[k] = INFINITY;
    c->ref = places->ref, c->ref_single = places->ref_single, c->centre = places->centre,
        c->half = places->half;
    c->reach = dp_above(sqrt(most));
    return 1;
}

#endif
