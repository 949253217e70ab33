"""Mixture with feature selection: the variational distribution as structs, and its updates.

See src/mixture/mixture_updates.pyx.
"""

cdef extern from "mixture/_mixture_constants.h" nogil:
    const double HALF_LN_2PI, LN_2PI, MX_CERTAIN

ctypedef enum:
    GAUSSIAN, POISSON, BERNOULLI

# Normal(0, 1 / (k0 tau)) Gamma(a0, b0) of a Gaussian column, Gamma(a0, b0) of a rate, Beta(a0, b0)
ctypedef struct Prior:
    double k0, a0
    const double *b0            # (D)
    const double *value         # (D) a0 ln b0 - ln Gamma(a0); of a Beta distribution -ln B(a0, b0)

ctypedef struct Density:        # E ln p(x) of a cell = reach * constant + x * linear + x^2 * square
    double *constant
    double *linear
    double *square

ctypedef struct Beta:           # q of Beta variables
    double *a                   # shapes
    double *b
    double *log_mean            # E ln x
    double *log_rest            # E ln(1 - x)
    double *value               # ln B(a, b)

ctypedef struct Model:
    Py_ssize_t K, D             # components there is room for, columns
    int kind                    # of the columns
    bint own_noise              # every column has its own noise precision
    bint tied                   # one y_d for all components
    bint all_selected           # tied, and y_d = 1 in every column: no masks, no lambda
    double concentration        # alpha
    bint own_fractions          # a fraction m_k of every component in the place of lambda_d of every column
    double share_a, share_b     # Beta prior of lambda_d, or of m_k
    Prior prior, noise_prior
    # sufficient statistics of the E-step
    double *size                # (K) N_k
    double *reach               # (K, D) sums over the present cells
    double *s1
    double *s2
    double *entropy             # (1) of the responsibilities
    # q(theta | y = 1), and the noise
    Density own, noise          # (K, D), (D)
    double *divergence          # (K, D) KL of q(theta) from the prior
    double *noise_divergence    # (1)
    # q(y), q(lambda), q(v)
    double *p                   # (K, D)
    double *mask_entropy        # (K) of q(y); tied: all of it in the first
    Beta share, stick           # (D), or (K) with own fractions; (K)
    double *weight              # (K) E ln pi

# the part of a Gaussian posterior that depends on the amount of data only, cached
ctypedef struct Counts:
    double reach, kappa, a, log_kappa, log_gamma_a, digamma_a

cdef class Mixture:
    cdef Model m
    cdef readonly object size, reach, s1, s2, entropy, own, noise, divergence  # type: Floats
    cdef readonly object noise_divergence, p, mask_entropy, share, stick, weight  # type: Floats
    cdef readonly object priors  # type: tuple[Any, ...]
    cdef object arrays
    cdef Py_ssize_t *order
    cdef double *work
    cdef double *pooled

cdef double log_gamma(double x) noexcept nogil
cdef double log_gamma_fall(double x, double step) noexcept nogil
cdef double log_beta(double a, double b) noexcept nogil
cdef double above_zero(double x) noexcept nogil
cdef Counts no_counts() noexcept nogil
cdef void count(Counts *c, const Prior *prior, double reach) noexcept nogil
cdef double evidence_of_reach(const Counts *c) noexcept nogil
cdef bint same_reach(const Model *m, Py_ssize_t k) noexcept nogil
cdef double log_evidence(const Prior *prior, int kind, Counts *c, Py_ssize_t d, double reach, double s1,
                         double s2) noexcept nogil
cdef double gain_over_noise(const Model *m, Counts *c, Py_ssize_t d, double reach, double s1,
                            double s2) noexcept nogil
cdef double own_log_likelihood(const Model *m, Py_ssize_t k, Py_ssize_t d) noexcept nogil
cdef Py_ssize_t share_of(const Model *m, Py_ssize_t k, Py_ssize_t d) noexcept nogil
cdef double selected(const Model *m, Py_ssize_t i, double *all) noexcept nogil
cdef void pool_scatter(const Model *m, const double *pooled, double *a, double *b) noexcept nogil
cdef void update_components(Model *m) noexcept nogil
cdef void update_component(Model *m, Py_ssize_t k) noexcept nogil
cdef void update_masks_of(Model *m, Py_ssize_t k) noexcept nogil
cdef void update_masks(Model *m) noexcept nogil
cdef void update_noise(Model *m, double *pooled) noexcept nogil
cdef void update_shares(Model *m) noexcept nogil
cdef void update_sticks(Model *m) noexcept nogil
cdef double evidence_lower_bound(const Model *m) noexcept nogil
