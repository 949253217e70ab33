/* OpenMP if available, otherwise replacements for one thread. */
#ifndef CRAFTC_OPENMP_H
#define CRAFTC_OPENMP_H

#ifdef _OPENMP
#include <omp.h>
#define CRAFTC_OPENMP 1
#else
#define CRAFTC_OPENMP 0
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_thread_num(void) { return 0; }
static inline int omp_get_num_procs(void) { return 1; }
#endif

#include <stddef.h>
#include <stdlib.h>

/* Rows per block of a parallel loop: 1024, or CRAFTC_BLOCK. Results do not depend on it; the variable exists
 * to test that. */
static inline ptrdiff_t block_rows(void)
{
    static ptrdiff_t rows = 0;
    if (rows == 0) {
        const char *asked = getenv("CRAFTC_BLOCK");
        ptrdiff_t found = asked ? (ptrdiff_t)atol(asked) : 0;
        rows = found > 0 ? found : 1024;
    }
    return rows;
}

#endif
