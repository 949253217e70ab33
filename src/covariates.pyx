"""Edges of a fusion penalty: what they add to a Newton system, flows inside clusters, and groups.

Nodes are covariates or clusters of them, each with a vector of q numbers; edge e joins nodes i and j and holds its dual variable lam_e in
a ball of radius r_e. Node `ground`, if there is one, stands for the zero vector: edges to it are the group lasso. Whether an edge is
fused is the branch its projection took, never equality of numbers.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.math cimport sqrt
from libc.stdint cimport int32_t, uint8_t

cdef extern from "_edges.h":
    ctypedef struct Edges:
        Py_ssize_t q
        const double *b
        const int32_t *edge
        const double *radius
        const double *step
        double relax
        double *lam
        uint8_t *fused
    double edges_some(const Edges *c, Py_ssize_t start, Py_ssize_t stop, double *sums) noexcept nogil


def edge_pass(
    const double[:, ::1] b not None,        # IN  (m, q) vectors of the nodes, the ground's zeros among them
    const int32_t[:, ::1] edge not None,    # IN  (l, 2), sorted by their first node
    const double[::1] radius not None,      # IN  (l,)
    const double[::1] step not None,        # IN  (l,) > 0
    double relax,
    double[:, ::1] lam not None,            # IN/OUT (l, q)
    uint8_t[::1] fused not None,            # OUT (l,) whether the projection changed nothing
    double[:, ::1] sums not None,           # OUT (m, q) signed sums of the projections at every node
    double[:, :, ::1] work not None,        # WORK (blocks, m, q): the edges are cut into so many blocks, whose sums are added in order
    int n_threads,
):
    """lam <- lam + relax (Proj(lam + step (b_i - b_j)) - lam), and the node sums of the projections.

    Returns
    -------
    float
        sum over edges of |Proj - lam|^2 / step.
    """
    cdef Py_ssize_t edges = edge.shape[0], m = b.shape[0], blocks = work.shape[0], k, i, a
    cdef double moved = 0.0
    cdef Edges c
    if edges == 0:
        sums[:] = 0.0
        return 0.0
    found = np.empty(blocks)
    cdef double[::1] part = found
    c.q, c.b, c.edge, c.radius, c.lam, c.fused = b.shape[1], &b[0, 0], &edge[0, 0], &radius[0], &lam[0, 0], &fused[0]
    c.step, c.relax = &step[0], relax
    for k in prange(blocks, nogil=True, schedule="static", num_threads=n_threads):
        work[k] = 0.0
        part[k] = edges_some(&c, edges * k // blocks, edges * (k + 1) // blocks, &work[k, 0, 0])
    with nogil:
        sums[:] = work[0]
        for k in range(1, blocks):
            for i in range(m):
                for a in range(b.shape[1]):
                    sums[i, a] += work[k, i, a]
        for k in range(blocks):
            moved += part[k]
    return moved


def newton_terms(
    const double[:, ::1] theta not None,    # IN  (m, q) vectors of the nodes
    const int32_t[:, ::1] edge not None,    # IN  (l, 2) nodes; m is the ground
    const double[::1] radius not None,      # IN  (l,)
    const double[::1] sigma not None,       # IN  (l,) penalties of the augmented Lagrangian
    const double[:, ::1] lam not None,      # IN  (l, q)
    double[:, ::1] new not None,            # OUT (l, q) projections of lam + sigma (theta_i - theta_j)
    uint8_t[::1] fused not None,            # OUT (l,) whether the projection changed nothing
    double[:, ::1] gradient not None,       # IN/OUT (>= m, q) to which the edges' forces are added
    double[:, ::1] hessian not None,        # IN/OUT (>= m q, >= m q), or one cell: not wanted
):
    """The edges' part of the augmented Lagrangian: its value, gradient, and generalised Hessian (both triangles).

    Returns
    -------
    float
        sum over edges of (|v|^2 - dist(v, ball)^2 - |lam|^2) / (2 sigma), v = lam + sigma (theta_i - theta_j).
    """
    cdef Py_ssize_t edges = edge.shape[0], m = theta.shape[0], q = theta.shape[1], e, a, b, i, j
    cdef bint wanted = hessian.shape[0] > 1
    cdef double v, norm, r, value = 0.0, before, along, across, outside, x
    if q > 64:
        raise ValueError("more than 65 classes")
    cdef double[64] w
    with nogil:
        for e in range(edges):
            i, j, r = edge[e, 0], edge[e, 1], radius[e]
            norm = before = 0.0
            for a in range(q):
                v = lam[e, a] + sigma[e] * ((theta[i, a] if i < m else 0.0) - (theta[j, a] if j < m else 0.0))
                w[a] = v
                norm += v * v
                before += lam[e, a] * lam[e, a]
            norm = sqrt(norm)
            fused[e] = norm <= r
            outside = 0.0 if fused[e] else norm - r
            value += (norm * norm - outside * outside - before) / (2.0 * sigma[e])
            # Proj = w inside, r w / |w| outside; its Jacobian I, or (r / |w|) (I - w w' / |w|^2)
            across = 1.0 if fused[e] else r / norm
            along = 0.0 if fused[e] else across / (norm * norm)
            for a in range(q):
                x = w[a] if fused[e] else across * w[a]
                new[e, a] = x
                if i < m:
                    gradient[i, a] += x
                if j < m:
                    gradient[j, a] -= x
            if wanted:
                for a in range(q):
                    for b in range(q):
                        x = sigma[e] * ((across if a == b else 0.0) - along * w[a] * w[b])
                        if i < m:
                            hessian[i * q + a, i * q + b] += x
                        if j < m:
                            hessian[j * q + a, j * q + b] += x
                        if i < m and j < m:
                            hessian[i * q + a, j * q + b] -= x
                            hessian[j * q + a, i * q + b] -= x
    return value


cdef Py_ssize_t root(int32_t[::1] parent, Py_ssize_t i) noexcept nogil:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


def components(Py_ssize_t n, const int32_t[:, ::1] edge not None, const uint8_t[::1] joined not None):
    """(n,) connected components over the joined edges, numbered by their smallest member, and how many."""
    label = np.arange(n, dtype=np.int32)
    cdef int32_t[::1] parent = label
    cdef Py_ssize_t e, i, j, count = 0
    with nogil:
        for e in range(edge.shape[0]):
            if joined[e]:
                i, j = root(parent, edge[e, 0]), root(parent, edge[e, 1])
                if i < j:
                    parent[j] = <int32_t> i
                else:
                    parent[i] = <int32_t> j
        for i in range(n):
            parent[i] = <int32_t> root(parent, i)
        # roots are smallest members, so they come before all others of their component
        for i in range(n):
            if parent[i] == i:
                parent[i] = <int32_t> -(count + 1)
                count += 1
            else:
                parent[i] = parent[parent[i]]
        for i in range(n):
            parent[i] = -parent[i] - 1
    return label, count


def flows(
    const double[:, ::1] load not None,     # IN  (d, q) h: what the flows of a cluster must cancel at every node
    const int32_t[:, ::1] edge not None,    # IN  (l, 2) edges inside clusters, cluster after cluster; d is the ground
    const double[::1] radius not None,      # IN  (l,)
    const Py_ssize_t[::1] first not None,   # IN  (C + 1,) edges of every cluster
    const int32_t[::1] node not None,       # IN  nodes (the ground left out), cluster after cluster
    const Py_ssize_t[::1] first_node not None,  # IN  (C + 1,)
    const double[::1] least not None,       # IN  (C,) squared residual that is small enough
    int max_passes,
    double[:, ::1] lam not None,            # IN/OUT (l, q)
    uint8_t[::1] saturated not None,        # OUT (l,) whether the last projection shrank the edge
    double[:, ::1] residual not None,       # OUT (d + 1, q) load + flow
    int32_t[::1] verdict not None,          # OUT (C,) 0: the flows cancel the load; 1: none can; 2: not known after max_passes
    double[:, ::1] work not None,           # WORK (2 l + d + 1, q)
    double[::1] step not None,              # WORK (l + d + 1,)
):
    """Flows inside clusters that leave the least residual: min |h + A' lam|^2 over |lam_e| <= r_e, by FISTA with restarts.

    That none can is proved by u = -residual, along which the objective falls: sum h u + sum r_e |u_i - u_j| < 0.
    """
    cdef Py_ssize_t C = least.shape[0], c
    with nogil:
        for c in range(C):
            verdict[c] = _flow(load, edge, radius, first[c], first[c + 1], node, first_node[c], first_node[c + 1], least[c], max_passes,
                               lam, saturated, residual, work, step)


cdef enum:
    LOOK = 8                    # passes between two looks at the residual
    MANY = 20_000_000           # numbers visited between two looks whether Ctrl-C was pressed


cdef double _residual(const double[:, ::1] load, const int32_t[:, ::1] edge, Py_ssize_t start, Py_ssize_t stop, const int32_t[::1] node,
                      Py_ssize_t n0, Py_ssize_t n1, const double[:, ::1] lam, Py_ssize_t from_, double[:, ::1] out) noexcept nogil:
    """out = load + A' lam at the nodes; its squared norm. Rows of lam are those from `from_` on."""
    cdef Py_ssize_t q = load.shape[1], ground = load.shape[0], e, k, a, i, j
    cdef double sum = 0.0
    for k in range(n0, n1):
        for a in range(q):
            out[node[k], a] = load[node[k], a]
    for e in range(start, stop):
        i, j = edge[e, 0], edge[e, 1]
        for a in range(q):
            out[i, a] += lam[from_ + e, a]
            out[j, a] -= lam[from_ + e, a]
    for a in range(q):
        out[ground, a] = 0.0
    for k in range(n0, n1):
        for a in range(q):
            sum += out[node[k], a] * out[node[k], a]
    return sum


cdef int _flow(const double[:, ::1] load, const int32_t[:, ::1] edge, const double[::1] radius, Py_ssize_t start, Py_ssize_t stop,
               const int32_t[::1] node, Py_ssize_t n0, Py_ssize_t n1, double least, int max_passes, double[:, ::1] lam,
               uint8_t[::1] saturated, double[:, ::1] residual, double[:, ::1] work, double[::1] step) except -1 nogil:
    cdef Py_ssize_t q = load.shape[1], edges = edge.shape[0], ground = load.shape[0], visits = 0, e, k, a, i, j
    cdef int passes
    cdef double squares, t = 1.0, next_t, momentum, norm, x, turn, fall, difference
    # steps r_e / (R_i + R_j), R_i the sum of r_e at a node: A A' is below that diagonal's inverse
    for k in range(n0, n1):
        step[edges + node[k]] = 0.0
    for e in range(start, stop):
        step[edges + edge[e, 0]] += radius[e]
        step[edges + edge[e, 1]] += radius[e]
    step[edges + ground] = 0.0
    for e in range(start, stop):
        x = step[edges + edge[e, 0]] + step[edges + edge[e, 1]]
        step[e] = radius[e] / x if x > 0 else 0.0
        for a in range(q):
            work[e, a] = lam[e, a]      # the extrapolated point
    for passes in range(max_passes + 1):
        visits += (stop - start) * q
        if visits > MANY:
            visits = 0
            with gil:
                PyErr_CheckSignals()
        if passes % LOOK == 0 or passes == max_passes:
            squares = _residual(load, edge, start, stop, node, n0, n1, lam, 0, residual)
            if squares <= least:
                return 0
            fall = 0.0
            for k in range(n0, n1):
                for a in range(q):
                    fall -= load[node[k], a] * residual[node[k], a]
            for e in range(start, stop):
                norm = 0.0
                for a in range(q):
                    difference = residual[edge[e, 0], a] - residual[edge[e, 1], a]
                    norm += difference * difference
                fall += radius[e] * sqrt(norm)
            if passes > 0 and fall < -0.5 * squares:
                return 1
        _residual(load, edge, start, stop, node, n0, n1, work, 0, residual)
        turn = 0.0
        for e in range(start, stop):
            i, j = edge[e, 0], edge[e, 1]
            norm = 0.0
            for a in range(q):
                x = work[e, a] - step[e] * (residual[i, a] - residual[j, a])
                work[edges + e, a] = x
                norm += x * x
            saturated[e] = norm > radius[e] * radius[e]
            x = radius[e] / sqrt(norm) if saturated[e] else 1.0
            for a in range(q):
                work[edges + e, a] *= x
                turn += (work[e, a] - work[edges + e, a]) * (work[edges + e, a] - lam[e, a])
        next_t = 0.5 * (1.0 + sqrt(1.0 + 4.0 * t * t))
        momentum = (t - 1.0) / next_t
        t = next_t
        if turn > 0.0:
            t, momentum = 1.0, 0.0
        for e in range(start, stop):
            for a in range(q):
                x = work[edges + e, a]
                work[e, a] = x + momentum * (x - lam[e, a])
                lam[e, a] = x
    return 2
