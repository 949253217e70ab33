"""The code of the masks of CRAFT between local and global selection.

For a share s of feature sharing, the masks v (K, D) of K clusters with q_k features each, and c_d clusters
that select feature d, cost

    (1 - s) sum_k [log(D + 1) + log C(D, q_k)]  -  s log integral_0^1 prod_d B_m(c_d) dm ,

    B_m(c) = prod_{i<c} (m (1 - s) + i s) prod_{i<K-c} ((1 - m) (1 - s) + i s) / prod_{i<K} (1 - s + i s) .

The first code is the local one: every cluster has its own share of features. The second is that of the CRAFT
paper's prior on the column of a mask: pi_d has a beta distribution of mean m and variance s m (1 - m), every
cluster selects the feature with probability pi_d, and m is uniform. B_m is the beta-binomial probability of
one set of c clusters; it is Polya's urn, in which the selections of two clusters have correlation s.

Both are codes, so that their weighted sum is one: by Hoelder's inequality, sum_v P(v)^(1-s) Q(v)^s <= 1. At
s = 0 the cost is the local code. At s = 1 a feature is selected by all clusters or by none, and the cost is
log(D + 1) + log C(D, q) for the one mask of all clusters. Between them the cost is continuous in s. The code
of K clusters is never longer than that of one cluster more, so that a cluster that loses its rows does not
raise it. It depends on the numbers of columns with c = 0, .., K only.

A column of weight w counts as w columns.

The integral is a sum over RATES values of m, Fejer's first rule. These are the prior, so that nothing is
approximated. The sum is the integral where K D < RATES, and close to it elsewhere.
"""

import math

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.string cimport memset

from craftc._kernels._common cimport check

cdef enum:
    RATES = 64

cdef double LEAST = 1e-300  # a column of a smaller relative probability costs as much as one of this


cdef class Sharing:
    """Tables and scratch of the code of columns.

    Parameters
    ----------
    share : float
        s in [0, 1]; 0: masks have no code by columns.
    room : int
        Most clusters.
    """

    def __cinit__(self, double share, Py_ssize_t room):
        check(0.0 <= share <= 1.0, "share")
        check(room >= 0, "room")
        self.share, self.room = share, room
        angles = [math.pi * (2 * j + 1) / (2 * RATES) for j in range(RATES if share > 0 else 0)]
        weights = [1.0 - 2.0 * sum(math.cos(2 * i * angle) / (4 * i * i - 1)
                                   for i in range(1, RATES // 2 + 1)) for angle in angles]
        total = math.fsum(weights)
        self.rates = np.array([math.sin(0.5 * angle) ** 2 for angle in angles] + [0.5])
        self.log_weights = np.array([math.log(weight / total) for weight in weights] + [0.0])
        self.work = np.zeros((room + 1) * (2 + 2 * len(angles)) + len(angles) + 1)
        self.counts = np.zeros(room + 1)
        cdef const double[::1] rates = self.rates, log_weights = self.log_weights
        cdef double[::1] work = self.work, counts = self.counts
        cdef sharing_t *s = &self.parts
        s.share, s.K, s.n_rates = share, 0, len(angles)
        s.rate, s.log_weight, s.n_columns = &rates[0], &log_weights[0], &counts[0]
        s.most, s.code = &work[0], &work[room + 1]
        s.relative = s.code + room + 1
        s.log_ratio = s.relative + (room + 1) * s.n_rates
        s.posterior = s.log_ratio + (room + 1) * s.n_rates

    def __reduce__(self):
        return Sharing, (self.share, self.room)

    def code(self, const double[::1] n_columns not None) -> float:
        """Code of masks (nats), s times, by the weights (K + 1,) of the columns that 0, .., K clusters
        select.
        """
        cdef Py_ssize_t c
        check(1 < n_columns.shape[0] <= self.room + 1, "n_columns")
        if self.share == 0.0:
            return 0.0
        sharing_tables(&self.parts, n_columns.shape[0] - 1)
        for c in range(n_columns.shape[0]):
            check(n_columns[c] >= 0, "n_columns")
            self.parts.n_columns[c] = n_columns[c]
        return columns_code(&self.parts)


cdef void sharing_tables(sharing_t *s, Py_ssize_t K) noexcept nogil:
    """log B_m(c) of K clusters, and no columns."""
    cdef Py_ssize_t j, c
    cdef double m, selected, others, total
    memset(s.n_columns, 0, (K + 1) * sizeof(double))
    if s.K == K:
        return
    s.K = K
    for j in range(s.n_rates):
        m, total = s.rate[j], 0.0
        # the first draw of either kind, over the first factor of the denominator
        selected, others = log(m), log(1.0 - m)
        s.log_ratio[j] = 0.0
        for c in range(1, K + 1):           # prod_{i<c} of the selecting clusters
            s.log_ratio[c * s.n_rates + j] = selected
            selected += log(m * (1.0 - s.share) + c * s.share)
        for c in range(1, K):
            total += log(1.0 - s.share + c * s.share)
        for c in range(K - 1, -1, -1):      # prod_{i<K-c} of the others
            s.log_ratio[c * s.n_rates + j] += others
            if c > 0:
                s.log_ratio[c * s.n_rates + j] += log(1.0 - s.share)
            others += log((1.0 - m) * (1.0 - s.share) + (K - c) * s.share)
        for c in range(K + 1):
            s.log_ratio[c * s.n_rates + j] -= total
    for c in range(K + 1):
        s.most[c] = -INFINITY
        for j in range(s.n_rates):
            s.most[c] = max(s.most[c], s.log_ratio[c * s.n_rates + j])
        for j in range(s.n_rates if s.most[c] > -INFINITY else 0):
            s.log_ratio[c * s.n_rates + j] -= s.most[c]
            s.relative[c * s.n_rates + j] = exp(s.log_ratio[c * s.n_rates + j])


cdef double _weigh(sharing_t *s) noexcept nogil:
    """posterior: probability of the columns and of each m, over the largest; returns the logarithm of the
    largest. Columns that are impossible for every m are left out.
    """
    cdef Py_ssize_t c, j
    cdef double n, most = -INFINITY, outside = 0.0
    for j in range(s.n_rates):
        s.posterior[j] = s.log_weight[j]
    for c in range(s.K + 1):
        if s.n_columns[c] > 0 and s.most[c] > -INFINITY:
            n = s.n_columns[c]
            outside += n * s.most[c]
            for j in range(s.n_rates):
                s.posterior[j] += n * s.log_ratio[c * s.n_rates + j]
    for j in range(s.n_rates):
        most = max(most, s.posterior[j])
    for j in range(s.n_rates):
        s.posterior[j] = exp(s.posterior[j] - most)
    return most + outside


cdef double columns_code(sharing_t *s) noexcept nogil:
    """Code of all columns, s times; infinite if a column is impossible."""
    cdef Py_ssize_t c, j
    cdef double total = 0.0, largest
    for c in range(s.K + 1):
        if s.n_columns[c] > 0 and s.most[c] == -INFINITY:
            return INFINITY
    largest = _weigh(s)
    for j in range(s.n_rates):
        total += s.posterior[j]
    return -s.share * (largest + log(total))


cdef void column_codes(sharing_t *s, double weight) noexcept nogil:
    """What one more column of this weight costs, given the others, if c clusters select it; s times, but for
    a constant.
    """
    cdef Py_ssize_t c, j
    cdef double total
    _weigh(s)
    for c in range(s.K + 1):
        total = 0.0
        for j in range(s.n_rates if s.most[c] > -INFINITY else 0):
            total += s.posterior[j] * (s.relative[c * s.n_rates + j] if weight == 1.0 else
                                       exp(weight * s.log_ratio[c * s.n_rates + j]))
        s.code[c] = -s.share * (weight * s.most[c] + log(max(total, LEAST)))
