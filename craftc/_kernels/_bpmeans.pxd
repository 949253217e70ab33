"""Feature models: the SIMD leaves of src/bpmeans/_bpmeans.h, and the state of one restart."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from craftc._kernels.dpmeans cimport dp_sums

cdef extern from "bpmeans/_bpmeans.h" nogil:
    enum:
        BP_MOST, BP_EXACT, BP_TILE, BP_TRIALS, BP_BLOCK, BP_PIECE
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
        Py_ssize_t[BP_TRIALS] rows
        double[BP_TRIALS] norm
        double *table
        double[BP_MOST * BP_TRIALS] against
    Py_ssize_t bp_width(Py_ssize_t K)
    int simd_lowest(uint64_t mask)
    int bp_count(uint64_t mask)
    uint64_t bp_first(Py_ssize_t K)
    uint64_t bp_extract(uint64_t mask, uint64_t keep)
    const void *bp_row(const bp_model *m, Py_ssize_t i)
    void bp_products(const void **rows, int single, Py_ssize_t n_rows, Py_ssize_t D, const double *table,
                     Py_ssize_t width, double *out)
    void bp_norms(const void *X, int single, Py_ssize_t D, Py_ssize_t start, Py_ssize_t stop, double *norm)
    uint64_t bp_choose(const bp_model *m, const double *b, double norm, uint64_t mask, int passes,
                       double *residual, double *scratch)
    void bp_propose(
        const bp_model *m, const int32_t *order, Py_ssize_t start, Py_ssize_t stop, int passes,
        uint64_t *chosen, double *scratch,
    )
    void bp_gains(const bp_model *m, const bp_proposals *p, Py_ssize_t start, Py_ssize_t stop,
                  Py_ssize_t taken, double *won)
    void bp_quadratic(const double *C, const double *linear, double times, double start, Py_ssize_t K,
                      Py_ssize_t lanes, double *out)
    void bp_words(const uint64_t *mask, Py_ssize_t n, Py_ssize_t K, uint64_t *words)
    void bp_add(double *sums, const double *row, double sign, Py_ssize_t n)
    void bp_fit_products(const bp_model *m)
    void bp_solve(const double *H, const double *M, const double *right, double *out, Py_ssize_t K,
                  Py_ssize_t lanes)
    Py_ssize_t bp_scratch(int exact)
    double bp_residual_product(const bp_model *m, Py_ssize_t i, Py_ssize_t j)
    void bp_residual_against(const bp_model *m, Py_ssize_t i, double *c)
    void bp_residual(const bp_model *m, Py_ssize_t i, double *r)
    void bp_new_combinations(bp_model *m)

ctypedef struct descent:
    bp_model m
    dp_sums *places             # (n_threads) exact sums of the rows of each feature; rows form
    const double *mean          # (D)
    const double *mean_products  # (n) inner products of the rows with the mean
    const double *middle        # (D) centre of the grid of the sums
    const double *step          # (D) value of one count of a sum
    int n_threads
    # the problem
    double penalty              # lambda^2; 0: the number of features is fixed
    double scatter              # sum |x|^2
    Py_ssize_t cap, max_iter
    bint collapsed, reseed
    bint dependent              # features that depend linearly on others stay
    const int32_t *order        # (n) or NULL
    # the state
    uint64_t *before            # (n) memberships that the sums belong to
    uint64_t *chosen            # (n)
    int64_t[BP_MOST] counts     # rows of every feature during a sweep
    double *path                # (max_iter) J after every sweep
    double objective
    Py_ssize_t n_iter
    bint converged
    Py_ssize_t place            # rows of the present sweep that are done
    Py_ssize_t K_before         # features before it
    bint changed                # whether any row has changed in it
    double *scratch             # (n_threads, room)
    Py_ssize_t room
    double *parts               # BP_TRIALS for every block of rows
