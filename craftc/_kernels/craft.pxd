"""The pass of CRAFT over a block of rows and its cost tables, for other kernels.

Cost tables are described in src/craft/_craft.h.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from craftc._kernels.craft_shared cimport craft_tilt, tilted_t
from craftc._kernels.moments cimport Grid, table_rows

cdef extern from "craft/_craft.h" nogil:
    int CRAFT_PAD
    int CRAFT_FEW
    double CRAFT_FAR
    ctypedef struct craft_rounded:
        const float *constant
    ctypedef struct craft_tables:
        Py_ssize_t n_clusters, lanes, n_numeric, n_categorical, p, q, repeat
        const Py_ssize_t *numeric
        const Py_ssize_t *categorical
        const double *centre
        const double *scale
        const double *base
        const double *constant
        const double *square
        const double *linear
        const double *offset
        const double *level
        const int32_t *level_offset
        craft_rounded rounded
    Py_ssize_t craft_scratch_size(Py_ssize_t p, Py_ssize_t q, Py_ssize_t lanes)
    Py_ssize_t craft_rows_scratch_size(Py_ssize_t p, Py_ssize_t q, Py_ssize_t lanes)
    void craft_fill(const craft_tables *t, const void *x, int single, const void *codes, int wide,
                    Py_ssize_t first, Py_ssize_t rows, double *scratch, const double **start)
    const double *craft_costs_of(const craft_tables *t, const double **start, Py_ssize_t rows,
                                 double *scratch, double *best)
    void craft_least(const craft_tables *t, const double *cost, double *best)
    void craft_cheapest(const craft_tables *t, const double *cost, const double *best, int32_t *arg)

cdef extern from "craft/_craft_screen.h" nogil:
    int CRAFT_SCREENED
    Py_ssize_t craft_rounded_size(Py_ssize_t p, Py_ssize_t n_levels, Py_ssize_t lanes)
    void craft_round(craft_tables *t, Py_ssize_t n_levels, double *room)
    ctypedef enum craft_certainty:
        CRAFT_UNSURE, CRAFT_KEPT, CRAFT_CERTAIN
    craft_certainty craft_screen_tile(const craft_tables *t, const void *x, int single, const void *codes,
                                      int wide, Py_ssize_t first, Py_ssize_t rows, const int32_t *labels,
                                      double *scratch, int32_t *cheapest)

cdef enum:
    TILE = 16           # CRAFT_TILE


cdef class CostTables:
    cdef readonly object base, constant, square, linear, offset, level, centre, scale  # type: Floats
    cdef readonly object numeric, categorical  # type: Positions
    cdef readonly object level_offset  # type: Integers32
    cdef readonly Grid grid
    cdef craft_tables c


cdef Py_ssize_t levels_of(Grid grid, Py_ssize_t d) noexcept nogil


cdef void numeric_lane(
    Py_ssize_t d, Py_ssize_t k, Py_ssize_t lanes, const int64_t *group, Grid grid, const double *shift,
    const double *precision, uint8_t selected, bint background, double *constant, double *square,
    double *linear, double *offset,
) noexcept nogil


cdef void level_lane(
    Py_ssize_t d, Py_ssize_t k, Py_ssize_t lanes, const int64_t *group, Grid grid, double count_weight,
    const double *frequency, uint8_t selected, double prior, const double *shared_level, double *level,
    const craft_tilt *tilt, double weight, const tilted_t *fitted,
) noexcept nogil


cdef Py_ssize_t assign_block(
    const table_rows *table, const int32_t[::1] rows, const craft_tables *t, Grid grid, int32_t[::1] labels,
    double[::1] best, Py_ssize_t start, Py_ssize_t stop, double *scratch, bint moving, int64_t[:, ::1] groups,
) noexcept nogil


cdef repeated(array, Py_ssize_t times)


cdef const double *tile_costs(
    const table_rows *table, const int32_t[::1] rows, const craft_tables *t, Py_ssize_t first, Py_ssize_t n,
    double *scratch, double *least,
) noexcept nogil


cdef Py_ssize_t reassign_block(
    const table_rows *table, CostTables tables, int32_t new_cluster, Py_ssize_t start, Py_ssize_t stop,
    int32_t[::1] labels, double[::1] best, double *scratch, bint moving, int64_t[:, ::1] groups,
    const int32_t[::1] all_rows,
) noexcept nogil
