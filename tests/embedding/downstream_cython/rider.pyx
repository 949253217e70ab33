"""Every function of craftc.api, over arrays."""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t

from craftc.api cimport (
    craftc_api_version, craftc_costs, craftc_costs_of, craftc_craft_assign, craftc_craft_scratch_size,
    craftc_craft_shape, craftc_edges, craftc_edges_check, craftc_edges_pass, craftc_grid, craftc_moments_add,
    craftc_moments_grid, craftc_moments_mean, craftc_moments_merge, craftc_moments_size, craftc_nearest,
    craftc_nearest_scratch_size, craftc_simd_level,
)

ctypedef fused code_t:
    uint8_t
    uint16_t


def version():
    return craftc_api_version(), craftc_simd_level()


def nearest(const floating[:, :] x, const double[:, :] centres, int32_t[::1] labels, double[::1] squared):
    cdef Py_ssize_t K = centres.shape[0], d = x.shape[1]
    cdef double *scratch = <double *> PyMem_Malloc(craftc_nearest_scratch_size(d, K) * sizeof(double))
    cdef int status
    with nogil:
        status = craftc_nearest(&x[0, 0], sizeof(floating), x.shape[0], d,
                                x.strides[0] // <Py_ssize_t> sizeof(floating), &centres[0, 0], K,
                                centres.strides[0] // 8, &labels[0],
                                &squared[0] if squared.shape[0] else NULL, scratch)
    PyMem_Free(scratch)
    return status


def shape(capsule):
    cdef Py_ssize_t K, p, q
    craftc_craft_shape(craftc_costs_of(capsule), &K, &p, &q)
    return K, p, q


def craft(
    capsule, const floating[:, :] x, const code_t[:, :] codes, int32_t[::1] labels, double[::1] least,
    double[:, :] costs,
):
    cdef const craftc_costs *model = craftc_costs_of(capsule)
    cdef double *scratch = <double *> PyMem_Malloc(craftc_craft_scratch_size(model) * sizeof(double))
    cdef int status
    with nogil:
        status = craftc_craft_assign(
            model, &x[0, 0] if x.shape[1] else NULL, sizeof(floating),
            x.strides[0] // <Py_ssize_t> sizeof(floating), &codes[0, 0] if codes.shape[1] else NULL,
            sizeof(code_t), codes.strides[0] // <Py_ssize_t> sizeof(code_t), labels.shape[0], &labels[0],
            &least[0], &costs[0, 0], costs.strides[0] // 8, scratch)
    PyMem_Free(scratch)
    return status


def grid(const double[::1] low, const double[::1] high, double[::1] centre, double[::1] scale):
    return craftc_moments_grid(&low[0], &high[0], low.shape[0], &centre[0], &scale[0])


cdef craftc_grid grid_of(
    const double[::1] centre, const double[::1] scale, const Py_ssize_t[::1] start, Py_ssize_t n_levels,
):
    cdef craftc_grid found
    found.n_numeric, found.n_categorical, found.n_levels = centre.shape[0], start.shape[0], n_levels
    found.centre, found.scale, found.level_start = &centre[0], &scale[0], &start[0]
    return found


def moments_size(centre, scale, start, n_levels):
    cdef craftc_grid g = grid_of(centre, scale, start, n_levels)
    return craftc_moments_size(&g)


def moments_add(
    centre, scale, start, n_levels, int64_t[::1] group, const floating[::1] x, const code_t[::1] codes,
    weight,
):
    cdef craftc_grid g = grid_of(centre, scale, start, n_levels)
    return craftc_moments_add(&g, &group[0], &x[0], sizeof(floating), &codes[0], sizeof(code_t), weight)


def moments_merge(centre, scale, start, n_levels, int64_t[::1] to, const int64_t[::1] source, sign):
    cdef craftc_grid g = grid_of(centre, scale, start, n_levels)
    return craftc_moments_merge(&g, &to[0], &source[0], sign)


def moments_mean(
    centre, scale, start, n_levels, const int64_t[::1] group, double[::1] mean, double[::1] deviations,
):
    cdef craftc_grid g = grid_of(centre, scale, start, n_levels)
    return craftc_moments_mean(&g, &group[0], &mean[0], &deviations[0])


def edges_check(const int32_t[:, ::1] edge, n_nodes):
    return craftc_edges_check(&edge[0, 0], edge.shape[0], n_nodes)


def edges_pass(const double[:, ::1] b, const int32_t[:, ::1] edge, const double[::1] radius,
               const double[::1] step, relax, double[:, ::1] lam, uint8_t[::1] fused, start, stop,
               double[:, ::1] sums):
    cdef craftc_edges e
    cdef double moved
    e.n_nodes, e.width, e.relax = b.shape[0], b.shape[1], relax
    e.b, e.edge, e.radius = &b[0, 0], &edge[0, 0], &radius[0]
    e.step, e.lam, e.fused = &step[0], &lam[0, 0], &fused[0]
    return craftc_edges_pass(&e, start, stop, &sums[0, 0], &moved), moved
