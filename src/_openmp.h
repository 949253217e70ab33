/* OpenMP where it is, one thread where it is not. */
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

#endif
