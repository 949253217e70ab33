"""Nonnegative factorisation of a mixed table by hierarchical alternating least squares (HALS): sweeps.

A sweep updates the scores of all rows, then the loadings. A team of threads shares out runs of rows; it is
woken once for many sweeps. States, and sums over runs, as in `spectral`.
"""

import numpy as np

from cython.parallel cimport parallel
from libc.string cimport memset

from craftc._kernels._common cimport check, check_threads, doubles_in, doubles_out, omp_get_thread_num
from craftc._kernels._team cimport team, team_end, team_help, team_start, team_step
from craftc._kernels.spectral cimport SP_LANES, check_positions, line_start, mixed_rows, numbers, read_rows

cdef extern from "spectral/_spectral_factor.h":
    ctypedef struct nf_table:
        mixed_rows rows
        Py_ssize_t k, width
        const double *low
        const double *scale
        const double *fill

    Py_ssize_t nf_padded(Py_ssize_t) noexcept nogil
    Py_ssize_t nf_scratch(Py_ssize_t, Py_ssize_t) noexcept nogil
    void nf_rows(const nf_table *, const double *, const double *, const double *, Py_ssize_t, Py_ssize_t,
                 double *, double *, double *, double *, double *) noexcept nogil
    void nf_loadings(Py_ssize_t, Py_ssize_t, const double *, const double *, double *,
                     double *) noexcept nogil
    void nf_gram(Py_ssize_t, Py_ssize_t, Py_ssize_t, const double *, double *) noexcept nogil


cdef struct Factors:
    nf_table t
    Py_ssize_t n, p2, runs, size    # doubles of the sums of a run
    double root
    const Py_ssize_t *first         # (P + 1)
    const Py_ssize_t *state_of      # (p2)
    const Py_ssize_t *missing_state     # (P)
    const double *shares            # (p2)
    double *scores                  # (n, k)
    double *loadings                # (p1 + p2, k)
    # rows of factors are padded to `width` and start at cache lines; runs, of different threads, are a pair
    # of lines apart
    double *padded                  # (p1 + p2, width) loadings, and of the states (C, width)
    double *gram                    # (k, width) of the loadings, and (k, k)
    double *product                 # (p1 + p2, k) columns of the table times scores
    double *square                  # (k, k) Gram matrix of the scores
    double *scratch                 # (2, k, LANES)
    double *rooms                   # (runs, room) sums of the runs: Gram matrix, by column, by state
    Py_ssize_t room
    double *sums                    # (k + p1 + C, k)
    team threads


cdef void spread_loadings(Factors *f) noexcept nogil:
    """Loadings of the states, of a missing one the mean of its variable's, and the Gram matrix of all
    loadings.
    """
    cdef Py_ssize_t k = f.t.k, width = f.t.width, p1 = f.t.rows.p1, p = p1 + f.p2, i, v, at, a
    cdef double *of_state = f.padded + p * width
    cdef double *row
    for i in range(p):
        for a in range(k):
            f.padded[i * width + a] = f.loadings[i * k + a]
    for at in range(f.p2):
        row = of_state + f.state_of[at] * width
        for a in range(k):
            row[a] = f.root * f.loadings[(p1 + at) * k + a]
    for v in range(f.t.rows.P):
        row = of_state + f.missing_state[v] * width
        for a in range(k):
            row[a] = 0.0
        for at in range(f.first[v], f.first[v + 1]):
            for a in range(k):
                row[a] += f.shares[at] * (f.root * f.loadings[(p1 + at) * k + a])
    nf_gram(k, width, p, f.padded, f.gram)
    for i in range(k):
        for a in range(k):
            f.gram[k * width + i * k + a] = f.gram[i * width + a]


cdef void score_run(void *context, int run, int thread) noexcept nogil:
    """New scores of a run of rows, and its sums for the update of the loadings."""
    cdef Factors *f = <Factors *> context
    cdef Py_ssize_t width = f.t.width, k = f.t.k, p1 = f.t.rows.p1
    cdef double *room = line_start(f.rooms + run * f.room)
    memset(room, 0, sizeof(double) * f.size)
    nf_rows(&f.t, f.padded, f.padded + (p1 + f.p2) * width, f.gram + k * width, f.n * run // f.runs,
            f.n * (run + 1) // f.runs, f.scores, room, room + k * width, room + (k + p1) * width,
            room + f.size)


cdef void add_runs(Factors *f) noexcept nogil:
    """The sums of the runs, added in order."""
    cdef Py_ssize_t run, i, a, k = f.t.k, many = k + f.t.rows.p1 + f.t.rows.C
    cdef const double *room
    memset(f.sums, 0, sizeof(double) * many * k)
    for run in range(f.runs):
        room = line_start(f.rooms + run * f.room)
        for i in range(many):
            for a in range(k):
                f.sums[i * k + a] += room[i * f.t.width + a]


cdef void multiply(Factors *f) noexcept nogil:
    """The columns of the table times the scores, from sums by numeric column and by state."""
    cdef Py_ssize_t k = f.t.k, p1 = f.t.rows.p1, i, v, at, a
    cdef const double *by_state = f.sums + (k + p1) * k
    for i in range(p1 * k):
        f.product[i] = f.sums[k * k + i]
    for v in range(f.t.rows.P):
        for at in range(f.first[v], f.first[v + 1]):
            for a in range(k):
                f.product[(p1 + at) * k + a] = f.root * (
                    by_state[f.state_of[at] * k + a] + f.shares[at] * by_state[f.missing_state[v] * k + a])


cdef double error_of(const Factors *f) noexcept nogil:
    """The squared error less the sum of squares of the table."""
    cdef Py_ssize_t i
    cdef double explained = 0.0, square = 0.0
    for i in range((f.t.rows.p1 + f.p2) * f.t.k):
        explained += f.product[i] * f.loadings[i]
    for i in range(f.t.k * f.t.k):
        square += f.sums[i] * f.gram[f.t.k * f.t.width + i]
    return square - 2.0 * explained


cdef void descend(Factors *f, double *errors, Py_ssize_t sweeps) noexcept nogil:
    cdef Py_ssize_t sweep
    spread_loadings(f)
    for sweep in range(sweeps):
        team_step(&f.threads, score_run, f, <int> f.runs)
        add_runs(f)
        multiply(f)
        nf_loadings(f.t.rows.p1 + f.p2, f.t.k, f.product, f.sums, f.loadings, f.scratch)
        spread_loadings(f)
        errors[sweep] = error_of(f)


def hals(
    numeric: Array,                         # IN  (n, width) float32 or float64, NaN: missing
    column: Positions,                      # IN  (p1,) of it
    low: Floats,                            # IN  (p1,)
    scale: Floats,                          # IN  (p1,) columns are factorised as (x - low) * scale
    fill: Floats,                           # IN  (p1,) what a missing number is factorised as
    codes,                                  # IN  (n, q) uint8 or uint16
    variable: Positions,                    # IN  (P,) of it
    first_state: Positions,                 # IN  (P,)
    first: Positions,                       # IN  (P + 1,) first indicators
    state_of: Positions,                    # IN  (p2,) the state that switches an indicator on
    missing_state: Positions,               # IN  (P,)
    shares: Floats,                         # IN  (p2,) what an indicator of a missing cell is factorised as,
                                            # in units of the root
    double root,                            # an indicator that is on is factorised as this number
    double[:, ::1] scores not None,         # IN/OUT (n, k) >= 0
    double[:, ::1] loadings not None,       # IN/OUT (p1 + p2, k) >= 0
    double[:, ::1] sums not None,           # OUT (k + p1 + C, k) scores' Gram, and their sums with the
                                            # columns and by state
    double[::1] errors not None,            # OUT (sweeps,) squared errors less the sum of squares of the
                                            # table
    Py_ssize_t runs,                        # of rows, each with its own sums, which are added in order
    int n_threads,
):
    """Sweeps of HALS: every factor's scores, then every factor's loadings, are optimal given the others."""
    check_threads(n_threads)
    cdef Factors f
    cdef Py_ssize_t n = scores.shape[0], k = scores.shape[1], p1 = len(column), p2 = len(state_of)
    cdef Py_ssize_t P = len(variable), C
    C = sums.shape[0] - k - p1
    check(np.ndim(codes) == 2 and codes.shape[0] == n, "codes")
    check(np.shape(low) == np.shape(scale) == np.shape(fill) == (p1,), "low, scale or fill")
    check(k >= 1 and loadings.shape[0] == p1 + p2 and loadings.shape[1] == k, "loadings")
    check(C >= 0 and sums.shape[1] == k, "sums")
    check(np.shape(first) == (P + 1,) and first[0] == 0 and first[P] == p2 and (np.diff(first) >= 0).all(),
          "first")
    check(np.shape(missing_state) == (P,) and np.shape(shares) == (p2,), "missing_state or shares")
    check_positions(state_of, C, "state_of")
    check_positions(missing_state, C, "missing_state")
    check(1 <= runs <= max(n, 1), "runs")
    read_rows(&f.t.rows, numeric, column, codes, variable, first_state, C)
    f.t.k, f.t.width, f.t.low = k, nf_padded(k), doubles_in(low)
    f.t.scale, f.t.fill = doubles_in(scale), doubles_in(fill)
    f.n, f.p2, f.runs, f.root, f.size = n, p2, runs, root, (k + p1 + C) * f.t.width
    f.first, f.state_of = numbers(first), numbers(state_of)
    f.missing_state, f.shares = numbers(missing_state), doubles_in(shares)
    f.room = f.size + nf_scratch(f.t.width, p1) + 3 * SP_LANES
    padded, gram = np.zeros((p1 + p2 + C) * f.t.width + SP_LANES), np.zeros(k * (f.t.width + k) + SP_LANES)
    product, scratch = np.zeros((p1 + p2, k)), np.zeros(2 * k * SP_LANES + SP_LANES)
    rooms = np.zeros(runs * f.room)
    f.padded, f.gram = line_start(doubles_out(padded)), line_start(doubles_out(gram))
    f.product, f.scratch, f.rooms = doubles_out(product), line_start(doubles_out(scratch)), doubles_out(rooms)
    f.scores, f.loadings = doubles_out(np.asarray(scores)), doubles_out(np.asarray(loadings))
    f.sums = doubles_out(np.asarray(sums))
    cdef Py_ssize_t sweeps = errors.shape[0]
    cdef double *error = doubles_out(np.asarray(errors))
    team_start(&f.threads)
    with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
        if omp_get_thread_num() == 0:
            descend(&f, error, sweeps)
            team_end(&f.threads)
        else:
            team_help(&f.threads, omp_get_thread_num())
