"""Feature models: rows as sums of some of K features, see src/_bpmeans.h."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from craftc._kernels.dpmeans cimport dp_sums

cdef extern from "_bpmeans.h" nogil:
    const int BP_MOST, BP_EXACT, BP_TILE, BP_TRIALS, BP_BLOCK, BP_PIECE
    const double BP_MARGIN
    ctypedef struct bp_model:
        Py_ssize_t n, D, K, most, lanes
        int single, gram, exact
        const void *X
        const double *S
        const double *norm
        uint64_t *mask
        double *residual
        double *A
        double *table
        double *B
        double *P
        double *W
        double *G
        double *M
        double *H
        double *Q
        double *q
        double *least
        double trace
    ctypedef struct bp_proposals:
        Py_ssize_t n
        Py_ssize_t rows[8]
        double norm[8]
        double *table
        double against[512]
    ctypedef struct bp_others:
        Py_ssize_t K
        uint64_t keep, present
    Py_ssize_t bp_width(Py_ssize_t K)
    int bp_lowest(uint64_t mask)
    int bp_count(uint64_t mask)
    uint64_t bp_first(Py_ssize_t K)
    uint64_t bp_extract(uint64_t mask, uint64_t keep)
    const void *bp_row(const bp_model *m, Py_ssize_t i)
    void bp_products(const void **rows, int single, Py_ssize_t n_rows, Py_ssize_t D, const double *table, Py_ssize_t width, double *out)
    void bp_norms(const void *X, int single, Py_ssize_t D, Py_ssize_t start, Py_ssize_t stop, double *norm)
    uint64_t bp_choose(const bp_model *m, const double *b, double norm, uint64_t mask, int passes, double *residual, double *scratch)
    void bp_propose(
        const bp_model *m, const int32_t *order, Py_ssize_t start, Py_ssize_t stop, int passes, uint64_t *chosen, double *scratch,
    )
    void bp_gains(const bp_model *m, const bp_proposals *p, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t taken, double *won)
    void bp_fit_products(const bp_model *m)
    Py_ssize_t bp_scratch(int exact)
    double bp_residual_product(const bp_model *m, Py_ssize_t i, Py_ssize_t j)
    void bp_residual_against(const bp_model *m, Py_ssize_t i, double *c)
    void bp_residual(const bp_model *m, Py_ssize_t i, double *r)
    void bp_new_combinations(bp_model *m)
    void bp_words(const uint64_t *mask, Py_ssize_t n, Py_ssize_t K, uint64_t *words)
    uint64_t bp_independent(const bp_model *m, Py_ssize_t without)
    void bp_inverse(const double *M, double *H, Py_ssize_t K, Py_ssize_t lanes)
    void bp_pseudo_inverse(const double *M, double *H, Py_ssize_t K, Py_ssize_t lanes, uint64_t independent)
    void bp_count_pairs(const bp_model *m)
    void bp_lay_out(const bp_model *m, const double *features)
    void bp_fit_features(const bp_model *m, Py_ssize_t start, Py_ssize_t stop)
    void bp_inner_products(const bp_model *m, const double *features, double *out)
    void bp_add(double *sums, const double *row, double sign, Py_ssize_t n)
    void bp_gram_of_fit(const double *H, const double *M, const double *Q, double *G, Py_ssize_t K, Py_ssize_t lanes)
    double bp_explained(const bp_model *m)
    int bp_collapse(
        const bp_model *m, Py_ssize_t i, const double *p, double penalty, Py_ssize_t cap, double slack, bp_others *o, uint64_t *chosen,
        double *scratch,
    )

ctypedef struct descent:
    bp_model m
    dp_sums *places             # (n_threads) where rows add themselves to the sums of their features; rows form
    const double *mean           # (D)
    const double *mean_products  # (n) of the rows with the mean
    const double *middle        # (D) what the sums are centred on
    const double *step          # (D) what one count of a sum is worth
    int n_threads
    # the problem
    double penalty              # lambda^2; 0: the number of features is fixed
    double scatter              # sum |x|^2
    Py_ssize_t cap, max_iter
    bint collapsed, reseed
    const int32_t *order        # (n) or NULL
    # the state
    uint64_t *before            # (n) memberships the sums belong to
    uint64_t *chosen            # (n)
    int64_t counts[64]          # rows of every feature while a sweep runs
    double *path                # (max_iter) J after every sweep
    double objective
    Py_ssize_t n_iter
    bint converged
    double *scratch             # (n_threads, room)
    Py_ssize_t room
    double *parts               # BP_TRIALS for every block of rows

cdef void greedy(
    descent *c, int base, Py_ssize_t n_features, const double *draws, Py_ssize_t n_columns, Py_ssize_t n_trials,
) noexcept nogil
cdef void grow(descent *c, const double *draws, Py_ssize_t trials) noexcept nogil
cdef void move_sums(descent *c) noexcept nogil
cdef void move_rows(descent *c, Py_ssize_t start, Py_ssize_t stop, dp_sums *place) noexcept nogil
cdef void keep_features(descent *c, uint64_t keep) noexcept nogil
cdef bint tidy(descent *c) noexcept nogil
cdef void refill(descent *c) noexcept nogil
cdef void fit(descent *c) noexcept nogil
cdef void weigh(descent *c, Py_ssize_t k) noexcept nogil
cdef void settle(descent *c) noexcept nogil
