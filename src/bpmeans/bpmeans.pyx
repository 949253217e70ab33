"""BP-means and K-features: sweeps, and whole restarts in parallel."""

import numpy as np

from cython.parallel cimport prange
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from craftc._kernels._bpmeans cimport (
    BP_BLOCK, BP_EXACT, BP_MARGIN, BP_MOST, BP_TILE, BP_TRIALS, bp_choose, bp_count, bp_extract, bp_first,
    bp_model, bp_new_combinations, bp_norms, bp_products, bp_propose, bp_residual, bp_residual_against,
    bp_residual_product, bp_row, bp_scratch, bp_width, descent, simd_lowest,
)
from craftc._kernels._common cimport (
    check, check_indices, check_lengths, check_threads, doubles_in, doubles_out, omp_get_thread_num, rows_in,
)
from craftc._kernels.bpmeans_collapsed cimport other_rows, sweep_collapsed
from craftc._kernels.bpmeans_fit cimport (
    VISITS_AT_ONCE, drop_redundant, fit_features, fit_memberships, lay_out, move_sums, reseed_empty,
    visits_of_row,
)
from craftc._kernels.bpmeans_start cimport add_feature, greedy, trials_for
from craftc._kernels.dpmeans cimport dp_sums

MOST, EXACT, TRIALS = BP_MOST, BP_EXACT, BP_TRIALS
cdef enum:
    # rows of the first window of a sweep, and of each one after a feature was created or lost
    WINDOW = 64
    MAX_WINDOW = 65536


# ---- a sweep ----

cdef void _sweep_some(descent *c) noexcept nogil:
    """More rows choose their features; with a penalty, rows in their order, and features are created and
    lost.
    """
    cdef bp_model *m = &c.m
    cdef Py_ssize_t stop, i, k, window = WINDOW, reached
    cdef double visits = 0.0
    if c.penalty == 0.0:
        stop = min(m.n,
                   c.place + max(WINDOW,
                                 <Py_ssize_t> (<double> VISITS_AT_ONCE * c.n_threads / visits_of_row(c))))
        _propose(c, c.place, stop)
        c.place = stop
        if stop < m.n:
            return
        for i in range(m.n):
            c.changed |= m.mask[i] != c.chosen[i]
        memcpy(m.mask, c.chosen, m.n * sizeof(uint64_t))
        return
    if c.place == 0:
        memset(c.counts, 0, sizeof(c.counts))
        if c.n_iter > 0:
            for k in range(m.K):
                c.counts[k] = <int64_t> m.M[k * m.lanes + k]
        else:
            for i in range(m.n):
                _count(c, m.mask[i])
    while c.place < m.n and visits < <double> VISITS_AT_ONCE * c.n_threads:
        stop = min(c.place + window, m.n)
        visits += (stop - c.place) * visits_of_row(c)
        _propose(c, c.place, stop)
        reached = _accept_in_order(c, c.place, stop, &c.changed)
        window = min(2 * window, MAX_WINDOW) if reached == stop else WINDOW
        c.place = reached


cdef void _count(descent *c, uint64_t mask) noexcept nogil:
    while mask:
        c.counts[simd_lowest(mask)] += 1
        mask &= mask - 1


cdef void _propose(descent *c, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """What rows choose, provided that no feature is created or lost in the meantime and that none of them is
    the only row of a feature.
    """
    cdef Py_ssize_t b, first
    if c.n_threads == 1 or stop - start < 2 * BP_BLOCK:
        bp_propose(&c.m, c.order, start, stop, 1, c.chosen + start, c.scratch)
        return
    for b in prange((stop - start + BP_BLOCK - 1) // BP_BLOCK, num_threads=c.n_threads, schedule="static"):
        first = start + b * BP_BLOCK
        bp_propose(&c.m, c.order, first, min(first + BP_BLOCK, stop), 1, c.chosen + first,
                   c.scratch + omp_get_thread_num() * c.room)


cdef Py_ssize_t _accept_in_order(descent *c, Py_ssize_t start, Py_ssize_t stop, bint *changed) noexcept nogil:
    """Rows take what they chose, in order, up to the first that loses or creates a feature; returns the place
    after it.
    """
    cdef bp_model *m = &c.m
    cdef Py_ssize_t place, i, k, alive = 0
    cdef uint64_t flips, single = 0, chosen
    cdef bint event
    for k in range(m.K):
        alive += c.counts[k] > 0
        single |= <uint64_t> (c.counts[k] == 1) << k
    for place in range(start, stop):
        i = c.order[place] if c.order != NULL else place
        chosen, event = c.chosen[place], False
        if m.mask[i] & single:
            chosen = _choose_as_only_row(c, i, single)
        flips = chosen ^ m.mask[i]
        m.mask[i] = chosen
        changed[0] |= flips != 0
        while flips:
            k = simd_lowest(flips)
            flips &= flips - 1
            c.counts[k] += 1 if chosen >> k & 1 else -1
            single &= ~(<uint64_t> 1 << k)
            single |= <uint64_t> (c.counts[k] == 1) << k
            if c.counts[k] == 0:
                m.trace -= m.G[k * m.lanes + k]
                m.G[k * m.lanes + k] = INFINITY
                alive -= 1
                event = True
        if (m.residual[i] > c.penalty * (1.0 - 1e-6) and alive < c.cap and m.K < m.most
                and _create_feature(c, i)):
            event = True
        if event:
            bp_new_combinations(m)
            return place + 1
    return stop


cdef uint64_t _choose_as_only_row(descent *c, Py_ssize_t i, uint64_t single) noexcept nogil:
    """What a row chooses that saves the penalty by leaving a feature which no other row has (`single`:
    features of one row).
    """
    cdef bp_model *m = &c.m
    cdef uint64_t chosen, own = m.mask[i] & single, z = own
    cdef const void *row = bp_row(m, i)
    cdef double *b = c.scratch
    if m.gram:
        memcpy(b, m.B + i * m.lanes, bp_width(m.K) * sizeof(double))
    else:
        bp_products(&row, m.single, 1, m.D, m.table, bp_width(m.K), b)
    while z:
        b[simd_lowest(z)] -= 0.5 * c.penalty
        z &= z - 1
    chosen = bp_choose(m, b, m.norm[i], m.mask[i], 1, m.residual + i, c.scratch + BP_TILE * BP_MOST)
    m.residual[i] = max(0.0, m.residual[i] - c.penalty * bp_count(chosen & own))
    return chosen


cdef bint _create_feature(descent *c, Py_ssize_t i) noexcept nogil:
    """A row further than lambda from the sum of its features becomes a feature: its residual."""
    cdef bp_model *m = &c.m
    cdef Py_ssize_t K = m.K, k, d, j
    cdef double norm = m.residual[i]
    cdef double *r = m.A + K * m.D
    cdef double *g = m.G + K * m.lanes
    cdef const void *row = r
    if not m.gram:
        bp_residual(m, i, r)
        bp_norms(r, 0, m.D, 0, 1, &norm)
    if not norm - c.penalty > BP_MARGIN * (m.norm[i] + m.trace):
        m.residual[i] = norm
        return False
    memset(g, 0, m.lanes * sizeof(double))
    if m.gram:
        bp_residual_against(m, i, g)
        for j in range(m.n):
            m.B[j * m.lanes + K] = bp_residual_product(m, i, j)
    elif K:
        bp_products(&row, 0, 1, m.D, m.table, bp_width(K), g)
    for k in range(K):
        m.G[k * m.lanes + K] = g[k]
    g[K] = norm
    m.K = K + 1
    if not m.gram:
        if bp_width(K) == bp_width(K + 1):
            for d in range(m.D):
                m.table[d * bp_width(K) + K] = r[d]
        else:
            lay_out(m, m.A)
    m.trace += norm
    m.mask[i] |= <uint64_t> 1 << K
    m.residual[i] = 0.0
    c.counts[K] = 1
    return True


# ---- a restart ----

cdef bint _advance(descent *c) noexcept nogil:
    """Some rows of a sweep, as many as take a fraction of a second; after the last one the features follow.

    Whether the sweep has ended.
    """
    cdef bp_model *m = &c.m
    cdef bint first = c.n_iter == 0
    if c.place == 0:
        if c.collapsed and first:
            fit_memberships(c)
        c.changed, c.K_before = False, m.K
    if c.collapsed:
        sweep_collapsed(c)
    else:
        _sweep_some(c)
    if c.place < m.n:
        return False
    c.place = 0
    if not c.collapsed:
        c.changed |= m.K != c.K_before
        if c.reseed:
            reseed_empty(c)
        move_sums(c)
    c.changed |= drop_redundant(c)
    memcpy(c.before, m.mask, m.n * sizeof(uint64_t))
    fit_features(c)
    c.path[c.n_iter] = c.objective
    c.n_iter += 1
    # before the first sweep the features of a start are not least squares features
    c.converged = not c.changed and (c.collapsed or not first)
    return True


cdef bint _is_over(const descent *c) noexcept nogil:
    return c.converged or c.n_iter >= c.max_iter


cdef class Run:
    """Memory and state of one restart at a time.

    Parameters
    ----------
    X : ndarray (n, D) of float32 or float64, contiguous
    products : ndarray (n, n) of float64, or None
        X X' on a grid on which sums over rows are exact: the gram form.
    norm : ndarray (n,) of float64
    mean, mean_products : ndarray (D,), (n,)
        Mean row, and the products of the rows with it.
    middle, scale, step : ndarray (D,)
        Grid of the sums: q = rint((x - middle) scale), x = middle + q step.
    penalty : float
        lambda^2; 0: the number of features is fixed.
    cap : int
        Largest number of features.
    collapsed, reseed : bool
        Collapsed sweeps; an empty feature gets the row of largest residual.
    dependent : bool
        Features that depend linearly on others stay (not in collapsed sweeps, which need independent ones).
    exact : int
        Number of features up to which a row compares all combinations.
    max_iter : int
    order : ndarray (n,) of int32, or empty
    n_threads : int
        Threads within the restart.
    """

    def __cinit__(self, X, products: Floats | None, const double[::1] norm not None,
                  const double[::1] mean not None, const double[::1] mean_products not None,
                  const double[::1] middle not None, const double[::1] scale not None,
                  const double[::1] step not None, double penalty, Py_ssize_t cap, bint collapsed,
                  bint reseed, bint dependent, int exact, Py_ssize_t max_iter,
                  const int32_t[::1] order not None, int n_threads):
        cdef const void *first_cell = rows_in(X)
        # features lost and created within one sweep both need room
        cdef Py_ssize_t n = X.shape[0], D = X.shape[1]
        cdef Py_ssize_t most = BP_MOST if penalty > 0.0 else min(cap, BP_MOST), t
        cdef Py_ssize_t lanes = bp_width(max(most, 1))
        cdef bint gram = products is not None
        cdef Py_ssize_t rows = 1 if gram else most
        cdef bp_model *m = &self.c.m
        check(n >= 1 and D >= 1, "X")
        check(products is None or products.shape == (n, n), "products")
        check_lengths(n, "norm, mean_products", norm.shape[0], mean_products.shape[0])
        check(mean.shape[0] == D, "mean")
        check(middle.shape[0] == D and scale.shape[0] == D and step.shape[0] == D, "middle, scale or step")
        check(0 <= cap <= BP_MOST, "cap")
        check(0 <= exact <= BP_EXACT, "exact")
        check(max_iter >= 0, "max_iter")
        check(order.shape[0] == 0 or order.shape[0] == n, "order")
        check_indices(order, 0, n, "order")
        check_threads(n_threads)
        m.n, m.D, m.K, m.most, m.lanes = n, D, 0, most, lanes
        m.single, m.gram, m.exact = X.dtype == np.float32, gram, exact
        self.c.room = (bp_scratch(exact) + (sizeof(other_rows) + 7) // 8 + (0 if gram else 2 * D * BP_TRIALS)
                       + 15) // 16 * 16
        a = {
            "X": X, "products": products, "norm": norm, "order": order, "mean": mean,
            "mean_products": mean_products, "middle": middle, "scale": scale, "step": step,
            "mask": np.zeros(n, np.uint64), "before": np.zeros(n, np.uint64),
            "chosen": np.zeros(n, np.uint64), "residual": np.zeros(n), "square": _lines((4, lanes, lanes)),
            "q": _lines(((1 << exact) + (1 << (exact // 2)),)), "A": np.zeros((rows, D)),
            "W": np.zeros((rows, D)), "table": _lines((1 if gram else D, lanes)),
            "B": _lines((n if gram else 1, lanes)), "P": np.zeros((most if gram else 1, n)),
            "sums": np.zeros((n_threads, rows, 1 if gram else D), np.int64),
            "counts": np.zeros((n_threads, BP_MOST), np.int64),
            "places": np.zeros((n_threads, sizeof(dp_sums)), np.uint8), "path": np.zeros(max_iter),
            "scratch": _lines((n_threads, self.c.room)),
            "parts": np.zeros(((n + BP_BLOCK - 1) // BP_BLOCK, BP_TRIALS)),
        }
        self.arrays = a
        m.X = first_cell
        m.S = doubles_in(products) if gram else NULL
        m.norm = &norm[0]
        m.mask, self.c.before, self.c.chosen = _words(a["mask"]), _words(a["before"]), _words(a["chosen"])
        m.residual, m.A = doubles_out(a["residual"]), doubles_out(a["A"])
        m.W, m.table = doubles_out(a["W"]), doubles_out(a["table"])
        m.B, m.P, m.q = doubles_out(a["B"]), doubles_out(a["P"]), doubles_out(a["q"])
        m.least = m.q + (1 << exact)
        m.G = doubles_out(a["square"])
        m.M, m.H, m.Q = m.G + lanes * lanes, m.G + 2 * lanes * lanes, m.G + 3 * lanes * lanes
        self.c.places = <dp_sums *> <Py_ssize_t> a["places"].ctypes.data
        for t in range(n_threads):
            self.c.places[t].centre, self.c.places[t].scale = &middle[0], &scale[0]
            self.c.places[t].sums = <int64_t *> <Py_ssize_t> a["sums"][t].ctypes.data
            self.c.places[t].counts = <int64_t *> <Py_ssize_t> a["counts"][t].ctypes.data
        self.c.middle, self.c.step, self.c.n_threads = &middle[0], &step[0], n_threads
        self.c.penalty, self.c.cap, self.c.max_iter = penalty, cap, max_iter
        self.c.collapsed, self.c.reseed, self.c.dependent = collapsed, reseed, dependent and not collapsed
        self.c.scatter = float(np.add.reduce(norm))
        # rows that choose independently of each other need no order
        self.c.order = &order[0] if order.shape[0] and (penalty > 0.0 or collapsed) else NULL
        self.c.path, self.c.scratch = doubles_out(a["path"]), doubles_out(a["scratch"])
        self.c.parts = doubles_out(a["parts"])
        self.c.mean, self.c.mean_products = &mean[0], &mean_products[0]

    def greedy(
        self, int base, Py_ssize_t n_features, const double[:, ::1] draws not None, Py_ssize_t n_trials,
    ):
        """Start from residuals of drawn rows; `base`: 0 none, 1 mean, 2 zero; n_features 0: as long as J
        falls.
        """
        self.check_start(base, n_features, draws.shape[0], draws.shape[1], n_trials)
        with nogil:
            greedy(&self.c, base, n_features, &draws[0, 0], draws.shape[1], n_trials)

    cdef int check_start(
        self, int base, Py_ssize_t n_features, Py_ssize_t steps, Py_ssize_t trials, Py_ssize_t n_trials,
    ) except -1:
        """Raise unless a start of that base, with draws (steps, trials), has room for its features and the
        draws that it needs.
        """
        cdef Py_ssize_t most = n_features if n_features else self.c.cap
        check(0 <= base <= 2, "base")
        # with a penalty, J decides
        check(0 <= n_features <= (0 if self.c.penalty > 0.0 else self.c.m.most), "n_features")
        check(0 <= n_trials <= BP_TRIALS, "n_trials")
        check(steps >= most and trials >= (n_trials if n_trials else trials_for(most)), "draws")
        return 0

    def start(self, const uint64_t[::1] masks not None, Py_ssize_t n_features):
        """Start from memberships."""
        check(masks.shape[0] == self.c.m.n, "masks")
        check(0 <= n_features <= self.c.m.most, "n_features")
        with nogil:
            self._begin(&masks[0], n_features, bp_first(n_features))

    def exchange(
        self, const uint64_t[::1] masks not None, Py_ssize_t n_features, int dropped,
        const double[::1] draws not None,
    ):
        """Start from memberships without feature `dropped` (-1: with all), and the best of the proposals as
        one more feature.
        """
        check(masks.shape[0] == self.c.m.n, "masks")
        check(0 <= n_features <= self.c.m.most, "n_features")
        check(-1 <= dropped < n_features, "dropped")
        check(1 <= draws.shape[0] <= BP_TRIALS, "draws")
        cdef uint64_t keep = bp_first(n_features) & ~(<uint64_t> (dropped >= 0) << max(dropped, 0))
        with nogil:
            self._begin(&masks[0], n_features, keep)
            add_feature(&self.c, &draws[0], draws.shape[0])

    cdef void _begin(self, const uint64_t *masks, Py_ssize_t n_features, uint64_t keep) noexcept nogil:
        cdef bp_model *m = &self.c.m
        cdef Py_ssize_t i
        self.c.n_iter, self.c.converged, self.c.place, m.K = 0, False, 0, bp_count(keep)
        for i in range(m.n):
            m.mask[i] = bp_extract(masks[i], keep)
        memset(self.c.before, 0, m.n * sizeof(uint64_t))
        if m.gram:
            memset(m.P, 0, m.most * m.n * sizeof(double))
        else:
            memset(self.c.places[0].sums, 0, m.most * m.D * sizeof(int64_t))
        fit_memberships(&self.c)

    def advance(self, Py_ssize_t sweeps, stop: Event | None = None) -> bool:
        """At most `sweeps` sweeps, fewer if nothing changes; returns whether the restart is over: converged,
        or max_iter reached.

        Between some rows and the next, signals are handled. `stop`: an Event by which another thread ends the
        call early; then the state is that amid a sweep.
        """
        cdef bint ended
        while sweeps > 0 and not _is_over(&self.c):
            with nogil:
                ended = _advance(&self.c)
            sweeps -= ended
            PyErr_CheckSignals()
            if not ended and stop is not None and stop.is_set():
                return True
        return bool(_is_over(&self.c))

    @property
    def n_features(self) -> int:
        return self.c.m.K

    @property
    def n_iter(self) -> int:
        return self.c.n_iter

    @property
    def converged(self) -> bool:
        return bool(self.c.converged)

    @property
    def objective(self) -> float:
        return self.c.objective

    def removal_costs(self) -> Floats:
        """(K,) increase of the squared error by the removal of each feature: |A_k|^2 / inv(Z'Z)_kk."""
        K = self.c.m.K
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.diag(self.arrays["square"][0])[:K] / np.diag(self.arrays["square"][2])[:K]

    @property
    def features(self) -> Floats:
        """(K, D) least squares features; rows form."""
        return self.arrays["A"][: self.c.m.K]

    @property
    def scatter(self) -> float:
        """Sum of |x|^2."""
        return self.c.scatter

    @property
    def masks(self) -> Masks:
        """(n,) memberships, a bit for every feature."""
        return self.arrays["mask"]

    @property
    def path(self) -> Floats:
        """J after every sweep."""
        return self.arrays["path"][: self.c.n_iter]


cdef object _lines(tuple shape):
    """An array of zeros that starts at a cache line, where loads of whole vectors are fastest."""
    size = int(np.prod(shape))
    room = np.zeros(size + 7)
    first = -room.ctypes.data % 64 // 8
    return room[first:first + size].reshape(shape)


cdef uint64_t *_words(array) noexcept:
    return <uint64_t *> <Py_ssize_t> array.ctypes.data


def restarts(
    list runs: list[Run],                   # INOUT of Run with equal settings, one per thread
    const int32_t[::1] bases not None,      # IN    (R,) base of every restart
    Py_ssize_t n_features,                  # 0: as long as J falls
    const double[:, :, ::1] draws not None,  # IN    (R, steps, trials) uniform numbers
    const int32_t[::1] n_trials not None,   # IN    (R,) rows drawn for a feature, 0: more with every feature
    double[::1] objective not None,         # OUT   (R,)
    int64_t[:, ::1] outcome not None,       # OUT   (R, 3) features, sweeps, converged
):
    """Whole restarts in parallel, one per thread at a time.

    The result of a restart does not depend on the others.
    """
    cdef Py_ssize_t R = bases.shape[0], r, n_threads = len(runs)
    cdef int t
    cdef bint many = n_threads > 1
    check_threads(n_threads)
    check(len({id(run) for run in runs}) == n_threads, "runs")
    check(draws.shape[0] >= bases.shape[0], "draws")
    check(n_trials.shape[0] >= bases.shape[0], "n_trials")
    check(objective.shape[0] >= bases.shape[0], "objective")
    check(outcome.shape[0] >= bases.shape[0] and outcome.shape[1] == 3, "outcome")
    for run in runs:
        for r in range(R):
            (<Run?> run).check_start(bases[r], n_features, draws.shape[1], draws.shape[2], n_trials[r])
    cdef descent **places = <descent **> calloc(n_threads, sizeof(descent *))
    if places == NULL:
        raise MemoryError("There is no memory left for the restarts.")
    try:
        for t in range(n_threads):
            places[t] = &(<Run?> runs[t]).c
        for r in prange(R, nogil=True, num_threads=n_threads, use_threads_if=many, schedule="dynamic",
                        chunksize=1):
            t = omp_get_thread_num() if many else 0
            _restart(places[t], bases[r], n_features, &draws[r, 0, 0], draws.shape[2], n_trials[r])
            objective[r] = places[t].objective
            outcome[r, 0], outcome[r, 1], outcome[r, 2] = places[t].m.K, places[t].n_iter, places[t].converged
    finally:
        free(places)


cdef void _restart(descent *c, int base, Py_ssize_t n_features, const double *draws, Py_ssize_t n_columns,
                   Py_ssize_t n_trials) noexcept nogil:
    """One restart from its start until convergence or max_iter."""
    greedy(c, base, n_features, draws, n_columns, n_trials)
    while not _is_over(c):
        _advance(c)
