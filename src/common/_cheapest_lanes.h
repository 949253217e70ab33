/* One clone of the leaves of _cheapest.h, included once per instruction set by _lanes.h. */

/* the least cost of every row; `lanes` is a multiple of 8 */
TARGET static void THIS(least)(ptrdiff_t lanes, ptrdiff_t rows, const double *cost, double *best)
{
    for (ptrdiff_t r = 0; r < rows; r++, cost += lanes) {
#if W == 8
        __m512d least = _mm512_loadu_pd(cost);
        for (ptrdiff_t k = 8; k < lanes; k += 8)
            least = _mm512_min_pd(least, _mm512_loadu_pd(cost + k));
        best[r] = _mm512_reduce_min_pd(least);
#elif W == 4
        __m256d least = _mm256_loadu_pd(cost);
        for (ptrdiff_t k = 4; k < lanes; k += 4)
            least = _mm256_min_pd(least, _mm256_loadu_pd(cost + k));
        __m128d pair = _mm_min_pd(_mm256_castpd256_pd128(least), _mm256_extractf128_pd(least, 1));
        best[r] = _mm_cvtsd_f64(_mm_min_sd(pair, _mm_unpackhi_pd(pair, pair)));
#elif CRAFTC_CLONES
        __m128d least = _mm_loadu_pd(cost);
        for (ptrdiff_t k = 2; k < lanes; k += 2)
            least = _mm_min_pd(least, _mm_loadu_pd(cost + k));
        best[r] = _mm_cvtsd_f64(_mm_min_sd(least, _mm_unpackhi_pd(least, least)));
#else
        best[r] = cost[0];
        for (ptrdiff_t k = 1; k < lanes; k++)
            best[r] = cost[k] < best[r] ? cost[k] : best[r];
#endif
    }
}

/* The lowest lane of every row that has the least cost, or `lanes`: 64 lanes in one word, so that no branch
 * depends on the winner. */
TARGET static void THIS(cheapest)(ptrdiff_t lanes, ptrdiff_t rows, const double *cost, const double *best,
                                  int32_t *arg)
{
    for (ptrdiff_t r = 0; r < rows; r++, cost += lanes) {
#if CRAFTC_CLONES
        arg[r] = (int32_t)lanes;
        for (ptrdiff_t from = 0; from < lanes; from += 64) {
            uint64_t equal = 0;
            for (ptrdiff_t k = from; k < lanes && k < from + 64; k += W)
#if W == 8
                equal |= (uint64_t)_mm512_cmp_pd_mask(_mm512_loadu_pd(cost + k), _mm512_set1_pd(best[r]),
                                                      _CMP_EQ_OQ) << (k - from);
#elif W == 4
                equal |= (uint64_t)(unsigned)_mm256_movemask_pd(
                    _mm256_cmp_pd(_mm256_loadu_pd(cost + k), _mm256_set1_pd(best[r]), _CMP_EQ_OQ))
                    << (k - from);
#else
                equal |= (uint64_t)(unsigned)_mm_movemask_pd(_mm_cmpeq_pd(_mm_loadu_pd(cost + k),
                                                                          _mm_set1_pd(best[r])))
                                                                          << (k - from);
#endif
            if (equal) {
                arg[r] = (int32_t)(from + __builtin_ctzll(equal));
                break;
            }
        }
#else
        arg[r] = 0;
        while (arg[r] < lanes && !(cost[arg[r]] == best[r]))
            arg[r]++;
#endif
    }
}
