"""Kernels of convex clustering: the ADMM edge pass, Newton terms of the edges, connected components, flows
inside clusters.

Nodes are covariates, rows, or clusters of them, each with a vector of q numbers. Edge e joins nodes i and j;
its dual variable lam_e lies in a ball of radius r_e. The zero node, if there is one, stands for the zero
vector; edges to it are the group lasso. An edge counts as fused if its projection onto the ball changed
nothing, never because two numbers are equal.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.math cimport sqrt
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from craftc._kernels._common cimport check, check_indices, check_lengths, check_shapes, check_threads

cdef extern from "fusion/_edges.h":
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

cdef extern from "fusion/_flows.h":
    ctypedef struct Flows:
        Py_ssize_t q
        const int32_t *edge
        const double *radius
        const double *step
        const double *potential
        double momentum
        const double *lam
        double *previous
        double *sums
        double *row
        uint8_t *saturated
    double flows_step(const Flows *c, Py_ssize_t start, Py_ssize_t stop) noexcept nogil


def edge_pass(
    const double[:, ::1] b not None,        # IN  (m, q) vectors of the nodes, with the zeros of the zero node
    const int32_t[:, ::1] edge not None,    # IN  (l, 2), sorted by their first node
    const double[::1] radius not None,      # IN  (l,)
    const double[::1] step not None,        # IN  (l,) > 0
    double relax,
    double[:, ::1] lam not None,            # IN/OUT (l, q)
    uint8_t[::1] fused not None,            # OUT (l,) whether the projection changed nothing
    double[:, ::1] sums not None,           # OUT (m, q) signed sums of the projections at every node
    double[:, :, ::1] work not None,        # WORK (blocks, m, q) node sums of each block of edges, added in
                                            # block order
    int n_threads,
) -> float:
    """The ADMM edge pass: lam <- lam + relax (Proj(lam + step (b_i - b_j)) - lam), and the node sums of the
    projections.

    Returns
    -------
    float
        sum over edges of |Proj - lam|^2 / step.
    """
    check_threads(n_threads)
    check(edge.shape[1] == 2, "edge")
    check_lengths(edge.shape[0], "radius, step, fused", radius.shape[0], step.shape[0], fused.shape[0])
    check(lam.shape[0] == edge.shape[0] and lam.shape[1] == b.shape[1], "lam")
    check(sums.shape[0] == b.shape[0] and sums.shape[1] == b.shape[1], "sums")
    check(work.shape[0] >= (edge.shape[0] > 0) and work.shape[1] == b.shape[0]
          and work.shape[2] == b.shape[1], "work")
    cdef Py_ssize_t edges = edge.shape[0], m = b.shape[0], blocks = work.shape[0], k, i, a
    cdef double moved = 0.0
    cdef Edges c
    if edges == 0:
        sums[:] = 0.0
        return 0.0
    cdef double[::1] part = np.empty(blocks)
    c.q, c.b, c.edge = b.shape[1], &b[0, 0], &edge[0, 0]
    c.radius, c.lam, c.fused = &radius[0], &lam[0, 0], &fused[0]
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
    const int32_t[:, ::1] edge not None,    # IN  (l, 2) nodes; m is the zero node
    const double[::1] radius not None,      # IN  (l,)
    const double[::1] sigma not None,       # IN  (l,) penalties of the augmented Lagrangian
    const double[:, ::1] lam not None,      # IN  (l, q)
    double[:, ::1] projected not None,      # OUT (l, q) projections of lam + sigma (theta_i - theta_j)
    uint8_t[::1] fused not None,            # OUT (l,) whether the projection changed nothing
    double[:, ::1] gradient not None,       # IN/OUT (>= m, q), increased by the gradient of the edge terms
    double[:, ::1] hessian not None,        # IN/OUT (>= m q, >= m q), increased likewise; of one number: not
                                            # computed
) -> float:
    """Edge terms of the augmented Lagrangian: value, gradient and generalised Hessian (both triangles).

    Returns
    -------
    float
        sum over edges of (|v|^2 - dist(v, ball)^2 - |lam|^2) / (2 sigma), v = lam + sigma (theta_i -
        theta_j).
    """
    check(edge.shape[1] == 2, "edge")
    check_lengths(edge.shape[0], "radius, sigma, fused", radius.shape[0], sigma.shape[0], fused.shape[0])
    check_shapes(edge.shape[0], theta.shape[1], "lam, projected", lam.shape, projected.shape)
    check(gradient.shape[0] >= theta.shape[0] and gradient.shape[1] == theta.shape[1], "gradient")
    check(hessian.shape[0] <= 1 or (hessian.shape[0] >= theta.shape[0] * theta.shape[1]
          and hessian.shape[1] >= theta.shape[0] * theta.shape[1]), "hessian")
    check_indices(nodes_of(edge), 0, theta.shape[0] + 1, "nodes of edges")
    cdef Py_ssize_t edges = edge.shape[0], m = theta.shape[0], q = theta.shape[1], e, a, b, i, j
    cdef bint with_hessian = hessian.shape[0] > 1
    cdef double v, norm, r, value = 0.0, lam_squared, along, across, outside, x
    if q > 64:
        raise ValueError(f"newton_terms takes at most 64 numbers per node, got {q}")
    cdef double[64] w
    with nogil:
        for e in range(edges):
            i, j, r = edge[e, 0], edge[e, 1], radius[e]
            norm = lam_squared = 0.0
            for a in range(q):
                v = lam[e, a] + sigma[e] * ((theta[i, a] if i < m else 0.0) - (theta[j, a] if j < m else 0.0))
                w[a] = v
                norm += v * v
                lam_squared += lam[e, a] * lam[e, a]
            norm = sqrt(norm)
            fused[e] = norm <= r
            outside = 0.0 if fused[e] else norm - r
            value += (norm * norm - outside * outside - lam_squared) / (2.0 * sigma[e])
            # Proj = w inside, r w / |w| outside; its Jacobian I, or (r / |w|) (I - w w' / |w|^2)
            across = 1.0 if fused[e] else r / norm
            along = 0.0 if fused[e] else across / (norm * norm)
            for a in range(q):
                x = w[a] if fused[e] else across * w[a]
                projected[e, a] = x
                if i < m:
                    gradient[i, a] += x
                if j < m:
                    gradient[j, a] -= x
            if with_hessian:
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


cdef const int32_t[::1] nodes_of(const int32_t[:, ::1] edge):
    """The nodes of all edges, one after the other."""
    return np.asarray(edge).reshape(-1)


def components(
    Py_ssize_t n, const int32_t[:, ::1] edge not None, const uint8_t[::1] joined not None,
) -> tuple[Integers32, int]:
    """Connected components of n nodes over the joined edges: (n,) labels numbered by smallest member, and
    their count.
    """
    check(0 <= n < 1 << 31, "n")
    check(edge.shape[1] == 2 and joined.shape[0] == edge.shape[0], "edge or joined")
    check_indices(nodes_of(edge), 0, n, "nodes of edges")
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


cdef enum:
    FOUND, NONE_EXISTS, UNDECIDED
    CHECK_EVERY = 8             # FISTA steps between two tests for convergence
    MANY = 20_000_000           # numbers visited between two checks for Ctrl-C

cdef double EXACT = 0.99        # share of the squared residual that a separation reaches

FLOW_FOUND = FOUND
NO_FLOW = NONE_EXISTS
FLOW_UNDECIDED = UNDECIDED


cdef bint bounds_fit(const Py_ssize_t[::1] first, Py_ssize_t n) noexcept:
    """Whether consecutive entries bound runs of 0..n-1."""
    cdef Py_ssize_t c
    for c in range(first.shape[0]):
        if not (first[c - 1] if c > 0 else 0) <= first[c] <= n:
            return False
    return True


cdef struct Cluster:            # its edges and nodes are contiguous
    Py_ssize_t first_edge, stop_edge, first_node, stop_node
    Py_ssize_t parts            # aggregates of its nodes; 0: none


cdef struct State:              # of the flows of a cluster; of nodes (d + 1, q), of edges (l, q)
    Py_ssize_t q
    const double *load
    double *lam
    double *before              # flows of the step before
    double *sums                # A' lam
    double *sums_before
    double *residual
    double *potential
    double momentum
    double *row                 # (2, q)
    # (2, q, parts) sums of the residual over aggregates, and what the inverse makes of them
    double *coarse
    const double *inverse       # (parts, parts)


def flows(
    const double[:, ::1] load not None,     # IN  (d, q) what the flows of a cluster must cancel at every node
    const int32_t[:, ::1] edge not None,    # IN  (l, 2) edges inside clusters, cluster after cluster; d is
                                            # the zero node
    const double[::1] radius not None,      # IN  (l,)
    const Py_ssize_t[::1] first_edge not None,  # IN  (C + 1,) first edge of every cluster
    const int32_t[::1] node not None,       # IN  nodes (without the zero node), cluster after cluster
    const Py_ssize_t[::1] first_node not None,  # IN  (C + 1,) first node of every cluster
    const double[::1] tolerance not None,   # IN  (C,) squared residual at which a flow is found
    int max_iter,
    double[:, ::1] lam not None,            # IN/OUT (l, q) flows of the edges
    uint8_t[::1] saturated not None,        # OUT (l,) whether the last projection shrank the edge
    double[:, ::1] residual not None,       # OUT (d + 1, q) load + flow
    int32_t[::1] status not None,           # OUT (C,) FLOW_FOUND, NO_FLOW (proved) or FLOW_UNDECIDED after
                                            # max_iter
    double[:, :, ::1] work not None,        # WORK (2, l, q)
    double[::1] step not None,              # WORK (l,)
    double[::1] capacity not None,          # WORK (d + 1,)
    const int32_t[::1] aggregate=None,      # IN  (d,) aggregate of every node, numbered within its cluster
    const Py_ssize_t[::1] parts=None,       # IN  (C,) number of aggregates of every cluster; 0: its flows
                                            # take plain steps
    const double[::1] inverse=None,         # IN  (sum of parts^2,) of every cluster, see below
    double[:, ::1] potential=None,          # OUT (d + 1, q) the preconditioned residual; without aggregates
                                            # the residual
):
    """Flows inside clusters with the least residual: min |load + A' lam|^2 over |lam_e| <= r_e, by FISTA with
    restarts.

    A is the incidence matrix of the cluster's edges. Flows that cancel the load prove that the cluster is
    fused at the optimum.

    With aggregates the norm of the residual is that of I + P C P', P the membership of the nodes and C the
    inverse of the Laplacian of the aggregates whose weights are the steps of :func:`step_sizes`. One step
    then moves flow between distant parts of a cluster.
    """
    check(edge.shape[1] == 2, "edge")
    check_lengths(edge.shape[0], "radius, saturated", radius.shape[0], saturated.shape[0])
    check_lengths(tolerance.shape[0] + 1, "first_edge, first_node", first_edge.shape[0], first_node.shape[0])
    check(lam.shape[0] == edge.shape[0] and lam.shape[1] == load.shape[1], "lam")
    check(residual.shape[0] == load.shape[0] + 1 and residual.shape[1] == load.shape[1], "residual")
    check(status.shape[0] == tolerance.shape[0], "status")
    check(work.shape[0] >= 2 and work.shape[1] >= edge.shape[0] and work.shape[2] >= load.shape[1], "work")
    check(step.shape[0] >= edge.shape[0], "step")
    check(capacity.shape[0] == load.shape[0] + 1, "capacity")
    check(bounds_fit(first_edge, edge.shape[0]), "first_edge")
    check(bounds_fit(first_node, node.shape[0]), "first_node")
    check_indices(nodes_of(edge), 0, load.shape[0] + 1, "nodes of edges")
    check_indices(node, 0, load.shape[0], "nodes")
    cdef Py_ssize_t d = load.shape[0], q = load.shape[1], visits = 0, most = 0, c, k, a
    if parts is not None:
        most = check_aggregates(node, first_node, aggregate, parts, inverse)
    if potential is None:
        potential = np.empty((d + 1, q))
    check(potential.shape[0] == d + 1 and potential.shape[1] == q, "potential")
    cdef double[:, ::1] sums = np.zeros((2, (d + 1) * q))
    cdef double[::1] buffer = np.empty(2 * q * (most + 1))
    cdef Cluster own
    cdef State s
    cdef double squares, t
    if q == 0:
        status[:] = FOUND
        return
    s.q, s.load, s.row = q, &load[0, 0] if d > 0 else NULL, &buffer[0]
    s.coarse, s.inverse = &buffer[0] + 2 * q, NULL
    s.sums, s.sums_before = &sums[0, 0], &sums[1, 0]
    s.residual, s.potential = &residual[0, 0], &potential[0, 0]
    own.parts = 0
    with nogil:
        for a in range(q):
            s.residual[d * q + a] = s.potential[d * q + a] = 0.0
        for c in range(tolerance.shape[0]):
            own.first_edge, own.stop_edge = first_edge[c], first_edge[c + 1]
            own.first_node, own.stop_node = first_node[c], first_node[c + 1]
            if most > 0:
                s.inverse = &inverse[0] if c == 0 else s.inverse + own.parts * own.parts
                own.parts = parts[c]
            step_sizes(own, edge, radius, node, step, capacity)
            start_flows(own, edge, node, lam, work, &s)
            status[c], t = UNDECIDED, 1.0
            for k in range(max_iter + 1):
                visits += (own.stop_edge - own.first_edge) * q + own.parts * own.parts
                if visits > MANY:
                    visits = 0
                    with gil:
                        PyErr_CheckSignals()
                if k % CHECK_EVERY == 0 or k == max_iter:
                    squares = flow_residual(own, node, aggregate, 0.0, &s)
                    if squares <= tolerance[c]:
                        status[c] = FOUND
                    elif k > 0 and separation(own, edge, radius, node, &s) < 0.0:
                        status[c] = NONE_EXISTS
                    if status[c] != UNDECIDED or k == max_iter:
                        break
                flow_residual(own, node, aggregate, s.momentum, &s)
                t = fista_step(own, edge, radius, step, node, t, saturated, &s)
            if own.stop_edge > own.first_edge and s.lam != &lam[0, 0]:
                memcpy(&lam[own.first_edge, 0], s.lam + own.first_edge * q,
                       (own.stop_edge - own.first_edge) * q * sizeof(double))


cdef Py_ssize_t check_aggregates(const int32_t[::1] node, const Py_ssize_t[::1] first_node,
                                 const int32_t[::1] aggregate, const Py_ssize_t[::1] parts,
                                 const double[::1] inverse) except -1:
    """The largest number of aggregates of a cluster."""
    cdef Py_ssize_t most = 0, total = 0, c, k
    check(aggregate is not None and inverse is not None, "aggregate or inverse")
    check(parts.shape[0] == first_node.shape[0] - 1, "parts")
    for c in range(parts.shape[0]):
        check(0 <= parts[c] < 1 << 31, "parts")
        total += parts[c] * parts[c]
        check(total <= inverse.shape[0], "inverse")
        most = max(most, parts[c])
        if parts[c] > 0:
            for k in range(first_node[c], first_node[c + 1]):
                check(node[k] < aggregate.shape[0] and 0 <= aggregate[node[k]] < parts[c], "aggregate")
    return most


cdef void step_sizes(Cluster own, const int32_t[:, ::1] edge, const double[::1] radius,
                     const int32_t[::1] node, double[::1] step, double[::1] capacity) noexcept nogil:
    """step_e = r_e / (R_i + R_j), where the capacity R_i of a node is the sum of its edges' r_e: A A' is
    below diag(1 / step).

    With aggregates half of it, as the norms of I and of P C P' add up.
    """
    cdef Py_ssize_t e, k
    cdef double both, share = 0.5 if own.parts else 1.0
    for k in range(own.first_node, own.stop_node):
        capacity[node[k]] = 0.0
    for e in range(own.first_edge, own.stop_edge):
        capacity[edge[e, 0]] += radius[e]
        capacity[edge[e, 1]] += radius[e]
    capacity[capacity.shape[0] - 1] = 0.0   # the zero node takes any flow
    for e in range(own.first_edge, own.stop_edge):
        both = capacity[edge[e, 0]] + capacity[edge[e, 1]]
        step[e] = share * radius[e] / both if both > 0 else 0.0


cdef void start_flows(Cluster own, const int32_t[:, ::1] edge, const int32_t[::1] node, double[:, ::1] lam,
                      double[:, :, ::1] work, State *s) noexcept nogil:
    """The state of a cluster whose flows have no momentum yet."""
    cdef Py_ssize_t q = s.q, e, k, a, i, j
    s.momentum = 0.0
    for k in range(own.first_node, own.stop_node):
        for a in range(q):
            s.sums[node[k] * q + a] = s.sums_before[node[k] * q + a] = 0.0
    if own.stop_edge == own.first_edge:
        return
    s.lam, s.before = &lam[0, 0], &work[0, 0, 0]
    for e in range(own.first_edge, own.stop_edge):
        i, j = edge[e, 0], edge[e, 1]
        for a in range(q):
            s.before[e * q + a] = lam[e, a]
            s.sums[i * q + a] += lam[e, a]
            s.sums[j * q + a] -= lam[e, a]


cdef double flow_residual(
    Cluster own, const int32_t[::1] node, const int32_t[::1] aggregate, double momentum, State *s,
) noexcept nogil:
    """The residual load + A' lam, of flows extrapolated by the momentum, and its potential; returns its
    squared norm.
    """
    cdef Py_ssize_t q = s.q, parts = own.parts, k, a, b, i
    cdef double squares = 0.0, x
    cdef double *image = s.coarse + q * parts
    for k in range(own.first_node, own.stop_node):
        i = node[k] * q
        for a in range(i, i + q):
            x = s.load[a] + (s.sums[a] + momentum * (s.sums[a] - s.sums_before[a]))
            s.residual[a] = s.potential[a] = x
            squares += x * x
    if parts == 0:
        return squares
    for k in range(2 * q * parts):
        s.coarse[k] = 0.0
    for k in range(own.first_node, own.stop_node):
        for a in range(q):
            s.coarse[a * parts + aggregate[node[k]]] += s.residual[node[k] * q + a]
    for k in range(parts):
        for a in range(q):
            x = s.coarse[a * parts + k]
            for b in range(parts):
                image[a * parts + b] += x * s.inverse[k * parts + b]
    for k in range(own.first_node, own.stop_node):
        for a in range(q):
            s.potential[node[k] * q + a] += image[a * parts + aggregate[node[k]]]
    return squares


cdef double separation(Cluster own, const int32_t[:, ::1] edge, const double[::1] radius,
                       const int32_t[::1] node, const State *s) noexcept nogil:
    """sum load u + sum r_e |u_i - u_j| for u = -potential, and a margin: a negative value proves that no flow
    cancels the load.

    The margin also bounds the flows' duality gap by a small share of the squared residual. The differences of
    the potential then show where the cluster comes apart.
    """
    cdef Py_ssize_t q = s.q, e, k, a, i, j
    cdef double value = 0.0, norm, difference
    for k in range(own.first_node, own.stop_node):
        i = node[k] * q
        for a in range(i, i + q):
            value += (EXACT * s.residual[a] - s.load[a]) * s.potential[a]
    for e in range(own.first_edge, own.stop_edge):
        i, j, norm = edge[e, 0] * q, edge[e, 1] * q, 0.0
        for a in range(q):
            difference = s.potential[i + a] - s.potential[j + a]
            norm += difference * difference
        value += radius[e] * sqrt(norm)
    return value


cdef double fista_step(Cluster own, const int32_t[:, ::1] edge, const double[::1] radius,
                       const double[::1] step, const int32_t[::1] node, double t, uint8_t[::1] saturated,
                       State *s) noexcept nogil:
    """One FISTA step of the flows of a cluster from their extrapolation; returns the next t, 1 after a
    restart.
    """
    cdef Py_ssize_t k, a
    cdef double next_t = 0.5 * (1.0 + sqrt(1.0 + 4.0 * t * t))
    cdef Flows f
    if own.stop_edge == own.first_edge:
        return t
    f.q, f.edge, f.radius, f.step, f.saturated = s.q, &edge[0, 0], &radius[0], &step[0], &saturated[0]
    f.potential, f.momentum, f.lam = s.potential, s.momentum, s.lam
    f.previous, f.sums, f.row = s.before, s.sums_before, s.row
    for k in range(own.first_node, own.stop_node):
        for a in range(s.q):
            s.sums_before[node[k] * s.q + a] = 0.0
    s.momentum = (t - 1.0) / next_t
    if flows_step(&f, own.first_edge, own.stop_edge) > 0.0:     # the step goes against the momentum: restart
        next_t, s.momentum = 1.0, 0.0
    s.lam, s.before = s.before, s.lam
    s.sums, s.sums_before = s.sums_before, s.sums
    return next_t
