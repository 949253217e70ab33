"""Merges of clusters under the pooled background of CRAFT, each priced with the masks of all clusters."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from craftc._kernels._common cimport check
from craftc._kernels.craft_pooled cimport CONTINUE, KEEP, check_room, price_fitted, price_masks
from craftc._kernels.craft_price cimport Pricing, fit_group, parts_in, parts_length
from craftc._kernels.moments cimport moments_merge


def best_merge(
    const int64_t[:, ::1] groups not None,  # IN    (K, width), none empty
    const uint8_t[:, ::1] mask not None,    # IN    (K, D)
    const Py_ssize_t[:, ::1] pairs not None,  # IN  (n, 2) clusters i < j that may be merged; those behind j move one down
    Pricing pricing not None,               # OUT   as in price_partition
    double[:, ::1] fits not None,           # WORK  (K, parts_size)
    double[:, ::1] work not None,           # WORK  (K - 1, parts_size)
    int64_t[:, :, ::1] merged not None,     # OUT   (2, K - 1, width)
    uint8_t[:, :, ::1] chosen not None,     # OUT   (2, K - 1, D)
    double[:, ::1] cost not None,           # OUT   (2, K - 1)
    int64_t[:, ::1] shared not None,        # OUT   (2, width) moments of the cells that clusters share
):
    """The merge of the lowest J, ties to the earlier pair: its position, where in the outputs it is (0 or 1), and J - J_0.

    A union selects what both select, or what one selects, whichever costs less; the masks are then continued from there.
    """
    cdef Py_ssize_t K = groups.shape[0], D = pricing.D, n, k, best = -1
    cdef int at = 0, best_at = 0
    cdef double total, least = INFINITY
    check(mask.shape[0] == K and mask.shape[1] == D, "mask")
    check(pairs.shape[0] > 0 and pairs.shape[1] == 2, "pairs")
    for n in range(pairs.shape[0]):
        check(0 <= pairs[n, 0] < pairs[n, 1] < K, "pairs")
    check(merged.shape[0] == 2 and chosen.shape[0] == 2 and cost.shape[0] == 2, "merged")
    check(shared.shape[0] == 2 and shared.shape[1] == pricing.grid.width, "shared")
    check(groups.shape[1] == pricing.grid.width, "groups")
    check(fits.shape[0] >= K and fits.shape[1] == work.shape[1], "fits")
    check_room(pricing, K - 1, merged[0], work, chosen[0], cost[0])
    with nogil:
        pricing.relative = False
        for k in range(K):
            fit_group(pricing, &groups[k, 0], parts_in(pricing, &fits[k, 0]))
        for n in range(pairs.shape[0]):
            total = _price_merge(pricing, groups, mask, pairs[n, 0], pairs[n, 1], fits, work, merged[at], chosen[at], cost[at])
            memcpy(&shared[at, 0], pricing.shared.group_, pricing.grid.width * sizeof(int64_t))
            if best < 0 or total < least:
                best, least, best_at = n, total, at
                at = 1 - at
    return best, best_at, least


cdef double _price_merge(
    Pricing P, const int64_t[:, ::1] groups, const uint8_t[:, ::1] mask, Py_ssize_t i, Py_ssize_t j, double[:, ::1] fits,
    double[:, ::1] work, int64_t[:, ::1] merged, uint8_t[:, ::1] chosen, double[::1] cost,
) noexcept nogil:
    """Clusters, masks and J - J_0 after a merge, from the fits of the clusters."""
    cdef Py_ssize_t K = groups.shape[0], D = P.D, k, d
    cdef double with_both, with_either
    for k in range(K - 1):
        memcpy(&merged[k, 0], &groups[k + (k >= j), 0], P.grid.width * sizeof(int64_t))
        memcpy(&chosen[k, 0], &mask[k + (k >= j), 0], D)
        memcpy(&work[k, 0], &fits[k + (k >= j), 0], parts_length(P) * sizeof(double))
    moments_merge(&merged[i, 0], &groups[j, 0], 1, P.grid.first_numeric, P.grid.width)
    P.relative = False
    fit_group(P, &merged[i, 0], parts_in(P, &work[i, 0]))
    for d in range(D):
        chosen[i, d] = mask[i, d] & mask[j, d]
    with_both = price_masks(P, merged, K - 1, KEEP, work, chosen)
    for d in range(D):
        chosen[i, d] = mask[i, d] | mask[j, d]
    with_either = price_masks(P, merged, K - 1, KEEP, work, chosen)
    for d in range(D if with_both < with_either else 0):
        chosen[i, d] = mask[i, d] & mask[j, d]
    return price_fitted(P, merged, K - 1, CONTINUE, work, chosen, cost)
