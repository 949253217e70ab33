"""Whether a valley of the density lies between two clusters of CRAFT: positions of their rows along Fisher's
discriminant.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, pow, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memset

from craftc._kernels._common cimport check, check_lengths

cdef extern from "craft/_craft_valley.h" nogil:
    void valley_density(const double *at, Py_ssize_t n_points, const double *middle, const double *count,
                        Py_ssize_t n_bins, double width, double *density)

cdef enum:
    BINS = 500      # of the histogram of the positions
    POINTS = 200    # at which its smoothed density is computed

cdef struct side_t:     # the rows of one cluster
    double weight
    double centre       # mean position
    double spread       # standard deviation of the positions


def valley_depth(
    const double[:, ::1] z not None,        # IN (m, P) rows, of these and of other clusters
    const double[::1] weight not None,      # IN (m,)
    const int32_t[::1] labels not None,     # IN (m,)
    int32_t first,
    int32_t second,
    const double[:, ::1] inverse not None,  # IN (P, P) of the covariance inside the two clusters
    const double[:, ::1] mean not None,     # IN (2, P) of the clusters
    const double[::1] size not None,        # IN (2,) weights of the clusters; the rows may be a sample of
                                            # them
    double fewest,                          # weight of the rows of a cluster below which there is nothing to
                                            # see
) -> float:
    """Least density between two clusters over the lower of the peaks on its two sides; 1: one hump.

    Every row is projected onto the discriminant of all other rows. A direction that a row has helped to
    choose moves the row away from the other cluster; with many columns and few rows this alone opens a
    valley. With W the covariance inside the clusters, d = m_1 - m_2, r = x - m_1 and c = n_1 / (n (n_1 - 1)),
    the discriminant without the row is (W - c r r')^-1 (d - r / (n_1 - 1)), and its product with x - (m_1 +
    m_2) / 2 follows from r'W^-1 r, r'W^-1 d and d'W^-1 d by the formula of Sherman and Morrison.
    """
    cdef Py_ssize_t m = z.shape[0], P = z.shape[1]
    check_lengths(m, "weight, labels", weight.shape[0], labels.shape[0])
    check(first != second, "second")
    check(inverse.shape[0] == P and inverse.shape[1] == P, "inverse")
    check(mean.shape[0] == 2 and mean.shape[1] == P, "mean")
    check(size.shape[0] == 2, "size")
    cdef double[::1] position = np.empty(m), rest = np.empty(P)
    cdef double[2] sizes
    cdef double between, depth = 1.0
    cdef side_t[2] sides
    cdef int32_t[2] clusters
    cdef Py_ssize_t i
    cdef int s
    sizes[0], sizes[1], clusters[0], clusters[1] = size[0], size[1], first, second
    with nogil:
        between = _half_between(inverse, mean)
        for i in range(m):
            for s in range(2):
                if labels[i] == clusters[s]:
                    position[i] = _position(z, i, inverse, mean, sizes, s, between, rest)
        for s in range(2):
            sides[s] = _side(position, weight, labels, clusters[s])
        if min(sides[0].weight, sides[1].weight) >= fewest:
            depth = _depth(position, weight, labels, clusters, sides)
    return depth


cdef double _half_between(const double[:, ::1] inverse, const double[:, ::1] mean) noexcept nogil:
    """d'W^-1 d / 2."""
    cdef Py_ssize_t a, b
    cdef double total = 0.0
    for a in range(inverse.shape[0]):
        for b in range(inverse.shape[0]):
            total += (mean[0, a] - mean[1, a]) * inverse[a, b] * (mean[0, b] - mean[1, b])
    return 0.5 * total


cdef double _position(
    const double[:, ::1] z, Py_ssize_t i, const double[:, ::1] inverse, const double[:, ::1] mean,
    const double *size, int s, double between, double[::1] rest,
) noexcept nogil:
    """Position of row i of cluster s of the two along the discriminant of all other rows."""
    cdef Py_ssize_t a, b, P = z.shape[1]
    cdef double towards, own = 0.0, other = 0.0, side = 1.0 if s == 0 else -1.0
    cdef double left = max(size[s] - 1.0, 1.0), half, share
    for a in range(P):
        rest[a] = z[i, a] - mean[s, a]
    for b in range(P):
        towards = 0.0
        for a in range(P):
            towards += rest[a] * inverse[a, b]
        own += towards * rest[b]
        other += towards * (mean[0, b] - mean[1, b])
    half = own + side * 0.5 * other
    share = size[s] / ((size[0] + size[1]) * left)
    return (other + side * between - side * half / left
            + share * (other - side * own / left) * half / (1.0 - share * own))


cdef side_t _side(
    const double[::1] position, const double[::1] weight, const int32_t[::1] labels, int32_t cluster,
) noexcept nogil:
    cdef side_t side
    cdef double total = 0.0, squares = 0.0
    cdef Py_ssize_t i
    side.weight = 0.0
    for i in range(labels.shape[0]):
        if labels[i] == cluster:
            side.weight += weight[i]
            total += weight[i] * position[i]
    side.centre = total / side.weight
    for i in range(labels.shape[0]):
        if labels[i] == cluster:
            squares += weight[i] * (position[i] - side.centre) * (position[i] - side.centre)
    side.spread = sqrt(squares / side.weight)
    return side


cdef double _depth(
    const double[::1] position, const double[::1] weight, const int32_t[::1] labels, const int32_t *clusters,
    const side_t *sides,
) noexcept nogil:
    """Depth of the valley in the density of the positions."""
    cdef double[BINS] middle, count
    cdef double[POINTS] at, density
    cdef double low = INFINITY, high = -INFINITY, width
    cdef Py_ssize_t i, n_bins, left, right, lowest
    for i in range(labels.shape[0]):
        if labels[i] == clusters[0] or labels[i] == clusters[1]:
            low, high = min(low, position[i]), max(high, position[i])
    if not 0.0 < high - low < INFINITY:
        return 1.0
    n_bins = _histogram(position, weight, labels, clusters, low, high, middle, count)
    for i in range(POINTS):
        at[i] = low + i * ((high - low) / (POINTS - 1))
    width = max(0.9 * min(sides[0].spread, sides[1].spread) * pow(min(sides[0].weight, sides[1].weight),
                                                                  -0.2),
                1e-3 * (high - low) + 1e-12)
    valley_density(at, POINTS, middle, count, n_bins, width, density)
    left, right = _nearest(at, sides[0].centre), _nearest(at, sides[1].centre)
    left, right = min(left, right), max(left, right)
    lowest = left
    for i in range(left, right + 1):
        if density[i] < density[lowest]:
            lowest = i
    return density[lowest] / min(_highest(density, 0, lowest + 1), _highest(density, lowest, POINTS))


cdef Py_ssize_t _histogram(
    const double[::1] position, const double[::1] weight, const int32_t[::1] labels, const int32_t *clusters,
    double low, double high, double *middle, double *count,
) noexcept nogil:
    """Middles and weights of the bins that hold positions; returns their number."""
    cdef Py_ssize_t i, b, n = 0
    cdef double share, step = (high - low) / BINS
    memset(count, 0, BINS * sizeof(double))
    for i in range(labels.shape[0]):
        if labels[i] == clusters[0] or labels[i] == clusters[1]:
            share = (position[i] - low) / step
            count[<Py_ssize_t> share if share < BINS else BINS - 1] += weight[i]
    for b in range(BINS):
        if count[b] > 0.0:
            middle[n], count[n] = low + (b + 0.5) * step, count[b]
            n += 1
    return n


cdef Py_ssize_t _nearest(const double *at, double x) noexcept nogil:
    """The first of the points that are nearest to x."""
    cdef Py_ssize_t i, nearest = 0
    for i in range(1, POINTS):
        if fabs(at[i] - x) < fabs(at[nearest] - x):
            nearest = i
    return nearest


cdef double _highest(const double *density, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t i
    cdef double highest = density[start]
    for i in range(start, stop):
        highest = max(highest, density[i])
    return highest
