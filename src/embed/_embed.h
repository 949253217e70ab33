/* The public C functions (craftc/craftc.h) over the kernels' leaves: what is wrong is found here, the
 * arithmetic stands there. */
#ifndef CRAFTC_EMBED_H
#define CRAFTC_EMBED_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "craftc/craftc.h"
#include "craft/_craft.h"
#include "dpmeans/_dpmeans.h"
#include "fusion/_edges.h"
#include "table/_moments.h"
#include "common/_simd.h"

struct craftc_costs {
    craft_tables tables;
    const int32_t *missing;     /* (q) code of the missing level, the highest there is */
};
typedef struct craftc_costs embed_costs;

#define EMBED_GRID_BITS 40          /* of a column's range */
#define EMBED_REACH 549755813888.0  /* 2^39 steps */

static uint32_t embed_api_version(void) { return CRAFTC_API_VERSION; }
static int embed_simd_level(void) { return simd_level(); }

static inline int embed_is_float(int type) { return type == CRAFTC_FLOAT64 || type == CRAFTC_FLOAT32; }
static inline int embed_is_code(int type) { return type == CRAFTC_UINT8 || type == CRAFTC_UINT16; }

/* ---- nearest centres ---- */

static ptrdiff_t embed_nearest_scratch_size(ptrdiff_t n_columns, ptrdiff_t n_centres)
{
    dp_places places;
    return n_columns < 0 || n_centres < 0 ? 0 : dp_nearest_places(n_columns, n_centres, NULL, &places);
}

static int embed_nearest(const void *x, int x_type, ptrdiff_t n_rows, ptrdiff_t n_columns, ptrdiff_t x_stride,
                         const double *centres, ptrdiff_t n_centres, ptrdiff_t centre_stride, int32_t *labels,
                         double *squared, double *scratch)
{
    dp_centres c;
    dp_places places;
    int scan;
    if (!embed_is_float(x_type))
        return CRAFTC_BAD_TYPE;
    if (n_rows < 0 || n_columns < 1 || n_centres < 1 || n_centres > INT32_MAX - DP_PAD || x_stride < n_columns
        || centre_stride < n_columns)
        return CRAFTC_BAD_SIZE;
    if (n_rows == 0)
        return CRAFTC_OK;
    if (!x || !centres || !labels || !scratch)
        return CRAFTC_NO_POINTER;
    dp_nearest_places(n_columns, n_centres, scratch, &places);
    memset(&c, 0, sizeof c);
    c.D = n_columns, c.K = n_centres, c.single = x_type == CRAFTC_FLOAT32, c.mu = centres;
    scan = n_centres >= DP_WORTH_SCAN && n_rows >= DP_WORTH_TILE && dp_prepare(&c, centre_stride, &places);
    dp_nearest_rows(&c, centre_stride, (const char *)x, n_rows, x_stride, labels, squared, places.rows,
                    scan ? places.tile : NULL);
    return CRAFTC_OK;
}

/* ---- CRAFT ---- */

static int embed_craft_shape(const craftc_costs *model, ptrdiff_t *n_clusters, ptrdiff_t *n_numeric,
                             ptrdiff_t *n_categorical)
{
    if (!model)
        return CRAFTC_NO_POINTER;
    if (n_clusters)
        *n_clusters = model->tables.n_clusters;
    if (n_numeric)
        *n_numeric = model->tables.p;
    if (n_categorical)
        *n_categorical = model->tables.q;
    return CRAFTC_OK;
}

/* behind the kernel's scratch: a tile of rows and a tile of codes side by side */
static ptrdiff_t embed_craft_scratch_size(const craftc_costs *model)
{
    if (!model)
        return 0;
    return simd_lines(craft_scratch_size(model->tables.p, model->tables.q, model->tables.lanes))
           + simd_lines(CRAFT_TILE * model->tables.p) + simd_lines(CRAFT_TILE * model->tables.q);
}

static int embed_codes_fit(const craftc_costs *model, const char *codes, int bytes, ptrdiff_t stride,
                           ptrdiff_t n)
{
    const int32_t *missing = model->missing;
    int beyond = 0;
    for (ptrdiff_t r = 0; r < n; r++)
        for (ptrdiff_t d = 0; d < model->tables.q; d++)
            beyond |= (bytes == 1 ? ((const uint8_t *)codes)[r * stride + d]
                       : ((const uint16_t *)codes)[r * stride + d]) > missing[d];
    return !beyond;
}

static int embed_craft_assign(const craftc_costs *model, const void *x, int x_type, ptrdiff_t x_stride,
                              const void *codes, int code_type, ptrdiff_t code_stride, ptrdiff_t n_rows,
                              int32_t *labels, double *least, double *costs, ptrdiff_t cost_stride,
                              double *scratch)
{
    const craft_tables *t;
    char *tile_x, *tile_codes;
    if (!model)
        return CRAFTC_NO_POINTER;
    t = &model->tables;
    if ((t->p && !embed_is_float(x_type)) || (t->q && !embed_is_code(code_type)))
        return CRAFTC_BAD_TYPE;
    if (n_rows < 0 || (t->p && x_stride < t->p) || (t->q && code_stride < t->q)
        || (costs && cost_stride < t->n_clusters))
        return CRAFTC_BAD_SIZE;
    if (n_rows == 0)
        return CRAFTC_OK;
    if ((t->p && !x) || (t->q && !codes) || !labels || !scratch)
        return CRAFTC_NO_POINTER;
    tile_x = (char *)(scratch + simd_lines(craft_scratch_size(t->p, t->q, t->lanes)));
    tile_codes = tile_x + sizeof(double) * (size_t)simd_lines(CRAFT_TILE * t->p);
    for (ptrdiff_t first = 0; first < n_rows; first += CRAFT_TILE) {
        const ptrdiff_t n = n_rows - first < CRAFT_TILE ? n_rows - first : CRAFT_TILE;
        const char *row = t->p ? (const char *)x + first * x_stride * x_type : NULL;
        const char *code = t->q ? (const char *)codes + first * code_stride * code_type : NULL;
        double best[CRAFT_TILE];
        int32_t arg[CRAFT_TILE];
        const double *cost;
        if (t->q && !embed_codes_fit(model, code, code_type, code_stride, n))
            return CRAFTC_BAD_CODE;
        if (t->p && x_stride != t->p) {
            for (ptrdiff_t r = 0; r < n; r++)
                memcpy(tile_x + r * t->p * x_type, row + r * x_stride * x_type, (size_t)(t->p * x_type));
            row = tile_x;
        }
        if (t->q && code_stride != t->q) {
            for (ptrdiff_t r = 0; r < n; r++)
                memcpy(tile_codes + r * t->q * code_type, code + r * code_stride * code_type,
                       (size_t)(t->q * code_type));
            code = tile_codes;
        }
        cost = craft_tile(t, row, x_type == CRAFTC_FLOAT32, code, code_type == CRAFTC_UINT16, 0, n, scratch,
                          best);
        craft_cheapest(t, cost, best, arg);
        memcpy(labels + first, arg, sizeof(int32_t) * (size_t)n);
        if (least)
            memcpy(least + first, best, sizeof(double) * (size_t)n);
        if (costs)
            for (ptrdiff_t r = 0; r < n; r++)
                memcpy(costs + (first + r) * cost_stride, cost + r * t->lanes,
                       sizeof(double) * (size_t)t->n_clusters);
    }
    return CRAFTC_OK;
}

/* ---- exact sums ---- */

static int embed_moments_grid(const double *low, const double *high, ptrdiff_t n_numeric, double *centre,
                              double *scale)
{
    if (n_numeric < 0)
        return CRAFTC_BAD_SIZE;
    if (n_numeric && (!low || !high || !centre || !scale))
        return CRAFTC_NO_POINTER;
    for (ptrdiff_t d = 0; d < n_numeric; d++)
        if (!(fabs(low[d]) < INFINITY) || !(fabs(high[d]) < INFINITY) || low[d] > high[d])
            return CRAFTC_BAD_SIZE;
    for (ptrdiff_t d = 0; d < n_numeric; d++) {
        const double half = high[d] / 2 - low[d] / 2;
        int exponent = 0;
        frexp(half, &exponent);
        centre[d] = low[d] / 2 + high[d] / 2;
        scale[d] = half > 0 ? ldexp(1.0, EMBED_GRID_BITS - 1 - exponent) : 1.0;
    }
    return CRAFTC_OK;
}

static int embed_grid_fits(const craftc_grid *grid)
{
    if (!grid)
        return CRAFTC_NO_POINTER;
    if (grid->n_numeric < 0 || grid->n_categorical < 0 || grid->n_levels < grid->n_categorical)
        return CRAFTC_BAD_SIZE;
    if ((grid->n_numeric && (!grid->centre || !grid->scale)) || (grid->n_categorical && !grid->level_start))
        return CRAFTC_NO_POINTER;
    return CRAFTC_OK;
}

static ptrdiff_t embed_moments_size(const craftc_grid *grid)
{
    return embed_grid_fits(grid) == CRAFTC_OK ? 1 + grid->n_levels + CRAFTC_NUMERIC_CELLS * grid->n_numeric
        : 0;
}

static inline double embed_offset(const craftc_grid *grid, const void *x, int single, ptrdiff_t d)
{
    return ((single ? (double)((const float *)x)[d] : ((const double *)x)[d]) - grid->centre[d])
        * grid->scale[d];
}

static inline ptrdiff_t embed_level(const craftc_grid *grid, const void *codes, int bytes, ptrdiff_t d)
{
    return grid->level_start[d] + (bytes == 1 ? ((const uint8_t *)codes)[d] : ((const uint16_t *)codes)[d]);
}

static int embed_moments_add(const craftc_grid *grid, int64_t *group, const void *x, int x_type,
                             const void *codes, int code_type, int64_t weight)
{
    const int status = embed_grid_fits(grid), single = x_type == CRAFTC_FLOAT32;
    int64_t *at;
    if (status != CRAFTC_OK)
        return status;
    if ((grid->n_numeric && !embed_is_float(x_type)) || (grid->n_categorical && !embed_is_code(code_type)))
        return CRAFTC_BAD_TYPE;
    if (!group || (grid->n_numeric && !x) || (grid->n_categorical && !codes))
        return CRAFTC_NO_POINTER;
    for (ptrdiff_t d = 0; d < grid->n_categorical; d++)
        if (embed_level(grid, codes, code_type, d) >= (d + 1 < grid->n_categorical ? grid->level_start[d + 1]
                                                       : grid->n_levels))
            return CRAFTC_BAD_CODE;
    for (ptrdiff_t d = 0; d < grid->n_numeric; d++)
        if (fabs(embed_offset(grid, x, single, d)) > EMBED_REACH)     /* false for a missing cell */
            return CRAFTC_OFF_GRID;
    group[0] += weight;
    for (ptrdiff_t d = 0; d < grid->n_categorical; d++)
        group[1 + embed_level(grid, codes, code_type, d)] += weight;
    at = group + 1 + grid->n_levels;
    for (ptrdiff_t d = 0; d < grid->n_numeric; d++, at += CRAFTC_NUMERIC_CELLS) {
        const double offset = embed_offset(grid, x, single, d);
        if (offset == offset)
            moments_add_cell(at, offset, weight);
    }
    return CRAFTC_OK;
}

static int embed_moments_merge(const craftc_grid *grid, int64_t *to, const int64_t *from, int64_t sign)
{
    const int status = embed_grid_fits(grid);
    if (status != CRAFTC_OK)
        return status;
    if (!to || !from)
        return CRAFTC_NO_POINTER;
    moments_merge(to, from, sign, 1 + grid->n_levels, embed_moments_size(grid));
    return CRAFTC_OK;
}

static int embed_moments_mean(const craftc_grid *grid, const int64_t *group, double *mean, double *deviations)
{
    const int status = embed_grid_fits(grid);
    if (status != CRAFTC_OK)
        return status;
    if (!group || (grid->n_numeric && (!mean || !deviations)))
        return CRAFTC_NO_POINTER;
    for (ptrdiff_t d = 0; d < grid->n_numeric; d++) {
        const int64_t *cell = group + 1 + grid->n_levels + CRAFTC_NUMERIC_CELLS * d;
        const double scale = grid->scale[d];
        mean[d] = NAN;
        deviations[d] = 0.0;
        if (cell[0] > 0) {
            mean[d] = grid->centre[d] + moments_mean(cell, deviations + d) / scale;
            deviations[d] = deviations[d] / scale / scale;
        }
    }
    return CRAFTC_OK;
}

/* ---- edges ---- */

static int embed_edges_check(const int32_t *edge, ptrdiff_t n_edges, ptrdiff_t n_nodes)
{
    if (n_edges < 0 || n_nodes < 0)
        return CRAFTC_BAD_SIZE;
    if (n_edges && !edge)
        return CRAFTC_NO_POINTER;
    for (ptrdiff_t e = 0; e < n_edges; e++) {
        const int32_t i = edge[2 * e], j = edge[2 * e + 1];
        if (i < 0 || j < 0 || i >= n_nodes || j >= n_nodes || i == j || (e && i < edge[2 * e - 2]))
            return CRAFTC_BAD_EDGE;
    }
    return CRAFTC_OK;
}

static int embed_edges_pass(const craftc_edges *edges, ptrdiff_t start, ptrdiff_t stop, double *sums,
                            double *moved)
{
    Edges c;
    if (!edges || !moved)
        return CRAFTC_NO_POINTER;
    if (edges->n_nodes < 1 || edges->width < 1 || start < 0 || stop < start)
        return CRAFTC_BAD_SIZE;
    *moved = 0.0;
    if (start == stop)
        return CRAFTC_OK;
    if (!edges->b || !edges->edge || !edges->radius || !edges->step || !edges->lam || !edges->fused || !sums)
        return CRAFTC_NO_POINTER;
    c.q = edges->width, c.b = edges->b, c.edge = edges->edge, c.radius = edges->radius, c.step = edges->step;
    c.relax = edges->relax, c.lam = edges->lam, c.fused = edges->fused;
    *moved = edges_some(&c, start, stop, sums);
    return CRAFTC_OK;
}

static const craftc_api embed_api = {
    CRAFTC_API_VERSION, sizeof(craftc_api), embed_api_version, embed_simd_level, embed_nearest_scratch_size,
        embed_nearest,
    embed_craft_shape, embed_craft_scratch_size, embed_craft_assign, embed_moments_grid, embed_moments_size,
        embed_moments_add,
    embed_moments_merge, embed_moments_mean, embed_edges_check, embed_edges_pass,
};

#endif
