# distutils: include_dirs = .
# distutils: depends = craftc/craftc.h
"""craftc for compiled code: the functions of craftc/craftc.h, for `cimport` and as one table in a capsule."""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetContext, PyCapsule_New, PyCapsule_SetContext
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint32_t

from craftc._kernels.craft cimport CostTables, craft_tables
from craftc._kernels.embed cimport CRAFTC_API_VERSION, craftc_costs, craftc_edges, craftc_grid

cdef extern from "embed/_embed.h":
    const char *CRAFTC_API_CAPSULE
    const char *CRAFTC_COSTS_CAPSULE
    ctypedef struct embed_costs:
        craft_tables tables
        const int32_t *missing
    ctypedef struct craftc_api:
        pass
    const craftc_api embed_api

cdef extern from "embed/_embed.h" nogil:
    uint32_t embed_api_version() noexcept
    int embed_simd_level() noexcept
    Py_ssize_t embed_nearest_scratch_size(Py_ssize_t n_columns, Py_ssize_t n_centres) noexcept
    int embed_nearest(
        const void *x, int x_type, Py_ssize_t n_rows, Py_ssize_t n_columns, Py_ssize_t x_stride,
        const double *centres, Py_ssize_t n_centres, Py_ssize_t centre_stride, int32_t *labels,
        double *squared, double *scratch) noexcept
    int embed_craft_shape(
        const craftc_costs *model, Py_ssize_t *n_clusters, Py_ssize_t *n_numeric,
        Py_ssize_t *n_categorical) noexcept
    Py_ssize_t embed_craft_scratch_size(const craftc_costs *model) noexcept
    int embed_craft_assign(
        const craftc_costs *model, const void *x, int x_type, Py_ssize_t x_stride, const void *codes,
        int code_type, Py_ssize_t code_stride, Py_ssize_t n_rows, int32_t *labels, double *least,
        double *costs, Py_ssize_t cost_stride, double *scratch) noexcept
    int embed_moments_grid(const double *low, const double *high, Py_ssize_t n_numeric, double *centre,
                           double *scale) noexcept
    Py_ssize_t embed_moments_size(const craftc_grid *grid) noexcept
    int embed_moments_add(
        const craftc_grid *grid, int64_t *group, const void *x, int x_type, const void *codes, int code_type,
        int64_t weight) noexcept
    int embed_moments_merge(const craftc_grid *grid, int64_t *to, const int64_t *source,
                            int64_t sign) noexcept
    int embed_moments_mean(const craftc_grid *grid, const int64_t *group, double *mean,
                           double *deviations) noexcept
    int embed_edges_check(const int32_t *edge, Py_ssize_t n_edges, Py_ssize_t n_nodes) noexcept
    int embed_edges_pass(const craftc_edges *edges, Py_ssize_t start, Py_ssize_t stop, double *sums,
                         double *moved) noexcept

API_VERSION = CRAFTC_API_VERSION
_C_API = PyCapsule_New(<void *> &embed_api, CRAFTC_API_CAPSULE, NULL)  # type: object


cdef class _Costs:
    """What a capsule of cost tables points at, and keeps alive."""

    cdef embed_costs c
    cdef object tables, missing


cdef void _release(object capsule) noexcept:
    Py_DECREF(<_Costs> PyCapsule_GetContext(capsule))


def craft_costs(CostTables tables not None) -> object:
    """A capsule "craftc.craft_costs.v1" over the cost tables of K clusters, which it keeps alive."""
    cdef _Costs costs = _Costs()
    grid = tables.grid
    costs.tables = tables
    costs.missing = (np.diff(np.append(grid.level_start, grid.n_levels)) - 1).astype(np.int32)
    cdef const int32_t[::1] missing = costs.missing
    costs.c.tables = tables.c
    costs.c.missing = &missing[0] if missing.shape[0] else NULL
    capsule = PyCapsule_New(&costs.c, CRAFTC_COSTS_CAPSULE, _release)
    Py_INCREF(costs)
    PyCapsule_SetContext(capsule, <void *> costs)
    return capsule


cdef uint32_t craftc_api_version() noexcept nogil:
    return embed_api_version()


cdef int craftc_simd_level() noexcept nogil:
    return embed_simd_level()


cdef Py_ssize_t craftc_nearest_scratch_size(Py_ssize_t n_columns, Py_ssize_t n_centres) noexcept nogil:
    return embed_nearest_scratch_size(n_columns, n_centres)


cdef int craftc_nearest(
    const void *x, int x_type, Py_ssize_t n_rows, Py_ssize_t n_columns, Py_ssize_t x_stride,
    const double *centres, Py_ssize_t n_centres, Py_ssize_t centre_stride, int32_t *labels, double *squared,
    double *scratch,
) noexcept nogil:
    return embed_nearest(x, x_type, n_rows, n_columns, x_stride, centres, n_centres, centre_stride, labels,
                         squared, scratch)


cdef int craftc_craft_shape(
    const craftc_costs *model, Py_ssize_t *n_clusters, Py_ssize_t *n_numeric, Py_ssize_t *n_categorical,
) noexcept nogil:
    return embed_craft_shape(model, n_clusters, n_numeric, n_categorical)


cdef Py_ssize_t craftc_craft_scratch_size(const craftc_costs *model) noexcept nogil:
    return embed_craft_scratch_size(model)


cdef int craftc_craft_assign(
    const craftc_costs *model, const void *x, int x_type, Py_ssize_t x_stride, const void *codes,
    int code_type, Py_ssize_t code_stride, Py_ssize_t n_rows, int32_t *labels, double *least, double *costs,
    Py_ssize_t cost_stride, double *scratch,
) noexcept nogil:
    return embed_craft_assign(model, x, x_type, x_stride, codes, code_type, code_stride, n_rows, labels,
                              least, costs, cost_stride, scratch)


cdef int craftc_moments_grid(
    const double *low, const double *high, Py_ssize_t n_numeric, double *centre, double *scale,
) noexcept nogil:
    return embed_moments_grid(low, high, n_numeric, centre, scale)


cdef Py_ssize_t craftc_moments_size(const craftc_grid *grid) noexcept nogil:
    return embed_moments_size(grid)


cdef int craftc_moments_add(
    const craftc_grid *grid, int64_t *group, const void *x, int x_type, const void *codes, int code_type,
    int64_t weight,
) noexcept nogil:
    return embed_moments_add(grid, group, x, x_type, codes, code_type, weight)


cdef int craftc_moments_merge(
    const craftc_grid *grid, int64_t *to, const int64_t *source, int64_t sign,
) noexcept nogil:
    return embed_moments_merge(grid, to, source, sign)


cdef int craftc_moments_mean(
    const craftc_grid *grid, const int64_t *group, double *mean, double *deviations,
) noexcept nogil:
    return embed_moments_mean(grid, group, mean, deviations)


cdef int craftc_edges_check(const int32_t *edge, Py_ssize_t n_edges, Py_ssize_t n_nodes) noexcept nogil:
    return embed_edges_check(edge, n_edges, n_nodes)


cdef int craftc_edges_pass(
    const craftc_edges *edges, Py_ssize_t start, Py_ssize_t stop, double *sums, double *moved,
) noexcept nogil:
    return embed_edges_pass(edges, start, stop, sums, moved)
