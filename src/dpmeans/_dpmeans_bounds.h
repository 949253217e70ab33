/* Rows whose bounds keep them in their clusters (Hamerly 2010). Included by _dpmeans_scan.h. */

TARGET static ptrdiff_t THIS(dp_not_kept)(dp_rows rows, const dp_drift *drift, ptrdiff_t start, ptrdiff_t n,
                                          int32_t *list)
{
    const int32_t *restrict labels = rows.labels + start;
    const float *moved = drift->n_moved ? drift->moved_gap : drift->half_gap;
    const float root = drift->root, none = drift->n_moved ? 0.0f : INFINITY;
    float *restrict upper = rows.upper + start, *restrict lower = rows.lower + start;
    /* of the clusters of the rows */
    float own[DP_BOUNDED], others[DP_BOUNDED], half[DP_BOUNDED], gap[DP_BOUNDED];
    int32_t leaves[DP_BOUNDED];
    ptrdiff_t found = 0;
    for (ptrdiff_t r = 0; r < n; r += 64 / (ptrdiff_t)sizeof(float)) {
        SIMD_PREFETCH((const char *)(labels + r) + DP_FETCHED);
        SIMD_PREFETCH((const char *)(upper + r) + DP_FETCHED);
        SIMD_PREFETCH((const char *)(lower + r) + DP_FETCHED);
    }
    for (ptrdiff_t r = 0; r < n; r++) {
        const int32_t k = labels[r];
        own[r] = drift->own[k];
        others[r] = drift->others[k];
        half[r] = drift->half_gap[k];
        gap[r] = moved[k];
    }
    for (ptrdiff_t r = 0; r < n; r++) {
        const float before = lower[r], held = upper[r];
        const float most = (fabsf(held) + own[r]) * DP_UP, least = (before - others[r]) * DP_DOWN;
        const float guard = least > half[r] ? least : half[r], far = (gap[r] - most) * DP_DOWN + none;
        const int stays = (most <= guard) & (most <= root) & (far >= most);
        leaves[r] = !stays;
        upper[r] = stays ? most : held;
        lower[r] = stays ? (least < far ? least : far) : before;
    }
    for (ptrdiff_t r = 0; r < n; r++) {
        list[found] = (int32_t)(start + r);
        found += leaves[r];
    }
    return found;
}
