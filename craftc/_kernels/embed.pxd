"""The stable C surface, for Cython.

What every function does stands in craftc/craftc.h; cimport it from craftc.api.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef extern from "craftc/craftc.h" nogil:
    enum:
        CRAFTC_API_VERSION
        CRAFTC_OK
        CRAFTC_BAD_SIZE
        CRAFTC_BAD_TYPE
        CRAFTC_NO_POINTER
        CRAFTC_BAD_CODE
        CRAFTC_OFF_GRID
        CRAFTC_BAD_EDGE
        CRAFTC_FLOAT64
        CRAFTC_FLOAT32
        CRAFTC_UINT8
        CRAFTC_UINT16
    ctypedef struct craftc_costs:
        pass
    ctypedef struct craftc_grid:
        Py_ssize_t n_numeric, n_categorical, n_levels
        const double *centre
        const double *scale
        const Py_ssize_t *level_start
    ctypedef struct craftc_edges:
        Py_ssize_t n_nodes, width
        const double *b
        const int32_t *edge
        const double *radius
        const double *step
        double relax
        double *lam
        uint8_t *fused

cdef extern from "craftc/craftc.h":
    const craftc_costs *craftc_costs_of(object capsule) except NULL

cdef uint32_t craftc_api_version() noexcept nogil
cdef int craftc_simd_level() noexcept nogil

cdef Py_ssize_t craftc_nearest_scratch_size(Py_ssize_t n_columns, Py_ssize_t n_centres) noexcept nogil
cdef int craftc_nearest(
    const void *x, int x_type, Py_ssize_t n_rows, Py_ssize_t n_columns, Py_ssize_t x_stride,
    const double *centres, Py_ssize_t n_centres, Py_ssize_t centre_stride, int32_t *labels, double *squared,
    double *scratch,
) noexcept nogil

cdef int craftc_craft_shape(
    const craftc_costs *model, Py_ssize_t *n_clusters, Py_ssize_t *n_numeric, Py_ssize_t *n_categorical,
) noexcept nogil
cdef Py_ssize_t craftc_craft_scratch_size(const craftc_costs *model) noexcept nogil
cdef int craftc_craft_assign(
    const craftc_costs *model, const void *x, int x_type, Py_ssize_t x_stride, const void *codes,
    int code_type, Py_ssize_t code_stride, Py_ssize_t n_rows, int32_t *labels, double *least, double *costs,
    Py_ssize_t cost_stride, double *scratch,
) noexcept nogil

cdef int craftc_moments_grid(
    const double *low, const double *high, Py_ssize_t n_numeric, double *centre, double *scale,
) noexcept nogil
cdef Py_ssize_t craftc_moments_size(const craftc_grid *grid) noexcept nogil
cdef int craftc_moments_add(
    const craftc_grid *grid, int64_t *group, const void *x, int x_type, const void *codes, int code_type,
    int64_t weight,
) noexcept nogil
cdef int craftc_moments_merge(const craftc_grid *grid, int64_t *to, const int64_t *source,
                              int64_t sign) noexcept nogil
cdef int craftc_moments_mean(const craftc_grid *grid, const int64_t *group, double *mean,
                             double *deviations) noexcept nogil

cdef int craftc_edges_check(const int32_t *edge, Py_ssize_t n_edges, Py_ssize_t n_nodes) noexcept nogil
cdef int craftc_edges_pass(
    const craftc_edges *edges, Py_ssize_t start, Py_ssize_t stop, double *sums, double *moved,
) noexcept nogil
