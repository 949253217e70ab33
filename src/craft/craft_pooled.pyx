"""The pooled background of CRAFT: masks of all clusters together, exact cost of a partition, and the
distributions that clusters share.

The clusters R_d that do not select feature d share one distribution, that of their own cells. With g_d(.) the
gain of a group of cells over the distribution of the whole table, a partition with masks v costs, beyond the
background of the whole table,

    J - J_0 = sum_k [ h + log(D + 1) + log C(D, q_k) - S_k log(S_k / N) + sum_{d in v_k} (p_d h - g_d(k)) ]
              - sum_d [ g_d(pool of R_d), or p_d h if R_d is empty ]

The codes of the masks are those of local selection; src/craft/craft_sharing.pyx defines the others. Moments
are integers and pools are exact sums of them, so the result depends on the partition alone, whichever threads
summed it.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

from craftc._kernels._common cimport check
from craftc._kernels.craft_masks cimport (
    ANEW, CONTINUE, KEEP, THOROUGH, add_cells, first_cell, fit_levels, price_masks,
)
from craftc._kernels.craft_price cimport (
    Pricing, existence_cost, fit_group, mask_code, parts_in, parts_length, parts_t, shared_likelihood,
    weight_of,
)

EFFORTS = {"keep": KEEP, "continue": CONTINUE, "anew": ANEW, "thorough": THOROUGH}  # type: dict[str, int]


def price_partition(
    const int64_t[:, ::1] groups not None,  # IN    (K, width), none empty
    Pricing pricing not None,               # OUT   its shared distributions; becomes relative to them
    int effort,                             # one of EFFORTS
    double[:, ::1] work not None,           # WORK  (K, parts_size); shift, precision, spread stay there
    uint8_t[:, ::1] mask not None,          # INOUT (K, D); read by KEEP and CONTINUE
    double[::1] cost not None,              # OUT   (K,) of the clusters against the shared distributions
) -> float:
    """Masks of all clusters, the distributions that they share, and J - J_0 in nats."""
    cdef double total
    cdef Py_ssize_t k, d
    check_room(pricing, groups.shape[0], groups, work, mask, cost)
    for k in range(groups.shape[0] if effort in (KEEP, CONTINUE) else 0):
        for d in range(pricing.D):  # the code of a mask counts usable features
            check(not mask[k, d] or pricing.usable[d], "mask")
    with nogil:
        total = price_pooled(pricing, groups, groups.shape[0], effort, work, mask, cost)
    return total


cdef int check_room(
    Pricing pricing, Py_ssize_t K, const int64_t[:, ::1] groups, double[:, ::1] work, uint8_t[:, ::1] mask,
    double[::1] cost,
) except -1:
    """Raise unless the buffers have room for K clusters, and all features are columns of levels."""
    cdef Py_ssize_t d
    if pricing.shared is None or K > pricing.shared.room:
        raise ValueError(f"The pricing has no room for the shared distributions of {K} clusters.")
    if (K > min(groups.shape[0], work.shape[0], mask.shape[0], cost.shape[0])
            or work.shape[1] < parts_length(pricing)
            or mask.shape[1] != pricing.D or groups.shape[1] != pricing.grid.width):
        raise ValueError(f"The buffers do not fit {K} clusters.")
    for d in range(pricing.grid.p):
        check(not pricing.usable[d], "usable numeric columns")
    return 0


cdef double price_pooled(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, int effort, double[:, ::1] work,
    uint8_t[:, ::1] mask, double[::1] cost,
) noexcept nogil:
    cdef Py_ssize_t k
    cdef double total
    P.relative = False
    for k in range(K):
        fit_group(P, &groups[k, 0], parts_in(P, &work[k, 0]), True)
    total = price_masks(P, groups, K, effort, work, mask)
    share_rest(P, groups, K, work, mask, cost)
    return total


cdef void share_rest(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, double[:, ::1] work, const uint8_t[:, ::1] mask,
    double[::1] cost,
) noexcept nogil:
    """Fit the distributions that the clusters share under these masks, and price each fitted group against
    them.
    """
    cdef Py_ssize_t k, d
    cdef double selected
    cdef parts_t parts
    _share(P, groups, K, mask)
    P.relative = True
    for k in range(K):
        parts = parts_in(P, &work[k, 0])
        cost[k] = existence_cost(P, &groups[k, 0]) + P.code
        selected = 0.0
        for d in range(P.D):
            if mask[k, d]:
                selected += weight_of(P, d)
                cost[k] += P.price[d] - parts.gain[d] + shared_likelihood(P, &groups[k, 0], parts, d)
        cost[k] += mask_code(P, selected)


def subtract_shared(
    const int64_t[:, ::1] groups not None,  # IN    (K, width)
    Pricing pricing not None,
    double[:, ::1] work not None,           # INOUT (K, parts_size) as `price_partition` leaves it
):
    """Make the gains among the parts of groups those over the shared distributions."""
    cdef Py_ssize_t k, d
    cdef parts_t parts
    check(pricing.shared is not None, "pricing")
    check(groups.shape[1] == pricing.grid.width, "groups")
    check(work.shape[0] >= groups.shape[0] and work.shape[1] >= parts_length(pricing), "work")
    with nogil:
        for k in range(groups.shape[0]):
            parts = parts_in(pricing, &work[k, 0])
            for d in range(pricing.grid.p, pricing.D):
                if pricing.usable[d]:
                    parts.gain[d] -= shared_likelihood(pricing, &groups[k, 0], parts, d)


def use_shared(Pricing pricing not None, const int64_t[::1] group not None):
    """Make the gains of a pricing relative to the distributions of these pooled cells."""
    if pricing.shared is None or group.shape[0] != pricing.grid.width:
        raise ValueError("The pooled cells do not fit the pricing.")
    share_cells(pricing, &group[0])


cdef void share_cells(Pricing P, const int64_t *group) noexcept nogil:
    memcpy(P.shared.group_, group, P.grid.width * sizeof(int64_t))
    _fit_shared(P)
    P.relative = True


cdef void _share(
    Pricing P, const int64_t[:, ::1] groups, Py_ssize_t K, const uint8_t[:, ::1] mask,
) noexcept nogil:
    """Pool the cells of the clusters that do not select each feature, and fit their distributions."""
    cdef Py_ssize_t d, k
    cdef int64_t *to
    memset(P.shared.group_, 0, P.grid.width * sizeof(int64_t))
    for d in range(P.grid.p, P.D):
        to = P.shared.group_ + first_cell(P, d)
        for k in range(K):
            if not mask[k, d]:
                add_cells(P, d, to, &groups[k, 0] + first_cell(P, d), 1)
    _fit_shared(P)


cdef void _fit_shared(Pricing P) noexcept nogil:
    cdef Py_ssize_t d
    for d in range(P.grid.q):
        fit_levels(P, d, P.shared.group_ + 1 + P.grid.level_start_[d],
                   P.shared.level_ + P.grid.level_start_[d], &P.shared.theta_[d])
