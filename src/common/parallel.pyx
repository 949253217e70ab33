"""Properties of the build and the machine: OpenMP, threads, instruction set."""

from craftc._kernels._common cimport (
    CRAFTC_NATIVE_INT128, CRAFTC_OPENMP, MOST_THREADS as _MOST_THREADS, check, omp_get_max_threads,
    omp_get_num_procs, simd_level, simd_missing,
)

MOST_THREADS = _MOST_THREADS    # kernels refuse more

cdef extern from *:
    """
    #ifdef CRAFTC_DEBUG
    #define CRAFTC_DEBUG_BUILD 1
    #else
    #define CRAFTC_DEBUG_BUILD 0
    #endif
    """
    int CRAFTC_DEBUG_BUILD

if simd_missing() is not NULL:
    raise ImportError(
        f"craftc's kernels were compiled for processors with {simd_missing().decode()}, which this processor "
        "lacks. Install a wheel: "
        "`pip install --force-reinstall craftc`; or build from source without -march in CFLAGS: `pip install "
        "--no-binary craftc craftc`."
    )


def openmp() -> bool:
    """Whether the kernels were built with OpenMP."""
    return bool(CRAFTC_OPENMP)


def max_threads() -> int:
    """Default number of OpenMP threads (the runtime reads OMP_NUM_THREADS once, when it starts)."""
    return omp_get_max_threads()


def n_processors() -> int:
    """Number of processors available to OpenMP."""
    return omp_get_num_procs()


def simd() -> str:
    """Instruction set of the SIMD functions: "baseline", "v3" (AVX2) or "v4" (AVX-512)."""
    return {0: "baseline", 3: "v3", 4: "v4"}[simd_level()]


def native_int128() -> bool:
    """Whether sums use the 128-bit type of the compiler; results are bit-identical without it."""
    return bool(CRAFTC_NATIVE_INT128)


def debug() -> bool:
    """Whether this is a debug build, with bounds checks and the assertion that the objective never rises."""
    return bool(CRAFTC_DEBUG_BUILD)


def first_aligned(
    const double[::1] room not None,        # IN  (m,), m > 0
) -> int:
    """Position of the first number of an array that begins a cache line."""
    check(room.shape[0] > 0, "room")
    return (64 - <size_t> &room[0] % 64) % 64 // sizeof(double)
