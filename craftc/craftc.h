/* craftc for compiled code: nearest centres, CRAFT's assignment, exact sums, the edge pass of a fusion
 * penalty.
 *
 * A C or C++ extension includes Python.h first, then this file (include directory: craftc.get_include()),
 * calls craftc_import() once in its module init and keeps the table of functions it returns. Nothing is
 * linked. Cython code cimports the same functions from craftc.api. docs/embedding.md has complete examples of
 * both.
 *
 * Every function works on memory that the caller owns, allocates nothing, needs no GIL and starts no thread:
 * cut the rows into blocks and call it from threads of your own, each with its own scratch. The result of a
 * row depends on that row and the model alone, so no bit depends on the blocks. Strides count elements from
 * row to row; the cells of a row lie side by side. Codes below 0 say what was wrong.
 *
 * This file is the stable surface: a change that breaks a caller comes with a new name of the capsule and a
 * new major version of craftc; new functions are appended and raise CRAFTC_API_VERSION. */
#ifndef CRAFTC_CRAFTC_H
#define CRAFTC_CRAFTC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CRAFTC_API_VERSION 1u
#define CRAFTC_API_CAPSULE "craftc._C_API.v1"
#define CRAFTC_COSTS_CAPSULE "craftc.craft_costs.v1"

/* what a function returns */
enum {
    CRAFTC_OK = 0,
    CRAFTC_BAD_SIZE = -1,       /* a size below 0, no centre or node at all, a stride shorter than its row, or
                                   more than int32 counts */
    CRAFTC_BAD_TYPE = -2,       /* numbers or codes of a type that is not one of those below */
    CRAFTC_NO_POINTER = -3,     /* NULL where there is something to read or to write */
    CRAFTC_BAD_CODE = -4,       /* a code beyond the missing level of its column */
    CRAFTC_OFF_GRID = -5,       /* a cell further than 2^39 steps from its column's centre */
    CRAFTC_BAD_EDGE = -6        /* edges not sorted by their first node, a node that is not there, an edge
                                   from a node to itself */
};

/* types of the cells of a block: bytes of one */
enum { CRAFTC_FLOAT64 = 8, CRAFTC_FLOAT32 = 4, CRAFTC_UINT8 = 1, CRAFTC_UINT16 = 2 };

/* Cost tables of a fitted CRAFT. craftc.embed.CraftCosts(model) makes them in Python; its capsule keeps them
 * alive. */
typedef struct craftc_costs craftc_costs;

/* Where the cells of a table fall in a group. A group of rows is craftc_moments_size() int64 words:
 *     [ weight | weight of every level of every categorical column, its missing level last |
 *       per numeric column: weight of the present cells, sum q (2 words), sum q^2 (2 words) ]
 * with q = rint((x - centre) * scale). Words are sums of integers: any order of adding, removing and merging
 * gives the same ones. Sums are exact as long as the weights of a group add up to less than 2^46. A group
 * begins as zeros. */
typedef struct {
    ptrdiff_t n_numeric, n_categorical;
    ptrdiff_t n_levels;             /* of all categorical columns, a missing level for each among them */
    const double *centre, *scale;   /* (n_numeric), see moments_grid */
    const ptrdiff_t *level_start;   /* (n_categorical) first level of every column in the list of all levels
                                       */
} craftc_grid;

/* Edges of a fusion penalty, sorted by their first node. Arrays are contiguous. */
typedef struct {
    ptrdiff_t n_nodes, width;       /* width: numbers of a node */
    const double *b;                /* (n_nodes, width) */
    const int32_t *edge;            /* (edges, 2) */
    const double *radius;           /* (edges) */
    const double *step;             /* (edges) > 0 */
    double relax;                   /* 1: the projection itself */
    double *lam;                    /* (edges, width) dual variables, read and written */
    uint8_t *fused;                 /* (edges) written: whether the projection changed nothing */
} craftc_edges;

/* The functions. New ones are appended; what is here stays as it is. */
typedef struct {
    uint32_t version, size;         /* CRAFTC_API_VERSION and sizeof(craftc_api) of the craftc that runs */

    uint32_t (*api_version)(void);
    int (*simd_level)(void);        /* 0 baseline, 3 AVX2, 4 AVX-512: the bits are the same on all */

    /* Nearest centre of every row: squared Euclidean distance in eight running sums, ties to the lower
     * number, the same bits as DPMeans.predict. labels and squared (or NULL) take one number a row; a row
     * without a finite distance gets label -1 and a squared distance that is not finite. scratch:
     * nearest_scratch_size() doubles. */
    ptrdiff_t (*nearest_scratch_size)(ptrdiff_t n_columns, ptrdiff_t n_centres);
    int (*nearest)(const void *x, int x_type, ptrdiff_t n_rows, ptrdiff_t n_columns, ptrdiff_t x_stride,
                   const double *centres, ptrdiff_t n_centres, ptrdiff_t centre_stride,
                   int32_t *labels, double *squared, double *scratch);

    /* CRAFT: the cheapest cluster of every row, ties to the lower number. x (n_numeric columns, NaN =
     * missing) and codes (n_categorical columns) are the blocks of CraftCosts.encode(), or rows written the
     * same way; a type is not looked at where there is no such column. costs: nats of every row under every
     * cluster less those under the model's background, (n_rows, cost_stride), or NULL; least: those of the
     * cheapest, or NULL. Before CRAFTC_BAD_CODE the rows in front of the first bad one are done, up to a tile
     * of eight. */
    int (*craft_shape)(const craftc_costs *model, ptrdiff_t *n_clusters, ptrdiff_t *n_numeric,
                       ptrdiff_t *n_categorical);
    ptrdiff_t (*craft_scratch_size)(const craftc_costs *model);
    int (*craft_assign)(const craftc_costs *model, const void *x, int x_type, ptrdiff_t x_stride,
                        const void *codes, int code_type, ptrdiff_t code_stride, ptrdiff_t n_rows,
                        int32_t *labels, double *least, double *costs, ptrdiff_t cost_stride,
                        double *scratch);

    /* Exact sums of a group of rows. moments_grid: centre and scale of columns whose cells lie in [low,
     * high], 2^40 steps over the next power of two of that range, as the estimators choose them. moments_add:
     * one row, in with weight > 0, out with weight < 0; a row that is refused leaves the group as it was.
     * moments_merge: to += sign * from. moments_mean: mean and sum of squared deviations of every numeric
     * column in its own units, exact up to the last roundings; NaN and 0 where no cell is present. */
    int (*moments_grid)(const double *low, const double *high, ptrdiff_t n_numeric, double *centre,
                        double *scale);
    ptrdiff_t (*moments_size)(const craftc_grid *grid);
    int (*moments_add)(const craftc_grid *grid, int64_t *group, const void *x, int x_type, const void *codes,
                       int code_type, int64_t weight);
    int (*moments_merge)(const craftc_grid *grid, int64_t *to, const int64_t *from, int64_t sign);
    int (*moments_mean)(const craftc_grid *grid, const int64_t *group, double *mean, double *deviations);

    /* Edges start..stop - 1 in one pass: p = v min(1, radius / |v|) with v = lam + step (b_i - b_j); lam +=
     * relax (p - lam); p is added to sums (n_nodes, width) at node i and taken off at j. moved: the sum of |p
     * - lam|^2 / step. edges_check looks at the edges once, before the first pass; edges_pass takes them as
     * they are. */
    int (*edges_check)(const int32_t *edge, ptrdiff_t n_edges, ptrdiff_t n_nodes);
    int (*edges_pass)(const craftc_edges *edges, ptrdiff_t start, ptrdiff_t stop, double *sums,
                      double *moved);
} craftc_api;

/* With Python.h included first. */
#ifdef Py_PYTHON_H

/* The functions of the craftc that is installed; NULL and an ImportError where there is none that fits. */
static inline const craftc_api *craftc_import(void)
{
    const craftc_api *api = NULL;
    const char *found;
    PyObject *capsule, *module = PyImport_ImportModule("craftc._kernels.embed");
    if (module == NULL)
        return NULL;
    capsule = PyObject_GetAttrString(module, "_C_API");
    Py_DECREF(module);
    if (capsule == NULL)
        return NULL;
    if (PyCapsule_IsValid(capsule, CRAFTC_API_CAPSULE)) {
        api = (const craftc_api *)PyCapsule_GetPointer(capsule, CRAFTC_API_CAPSULE);
        if (api != NULL && (api->version < CRAFTC_API_VERSION || api->size < sizeof(craftc_api))) {
            PyErr_Format(PyExc_ImportError,
                         "The installed craftc offers version %u of its C interface (%u bytes), and this "
                         "extension was compiled against "
                         "version %u (%u bytes): upgrade craftc, or rebuild the extension against the craftc "
                         "that is installed.",
                         (unsigned)api->version, (unsigned)api->size, (unsigned)CRAFTC_API_VERSION,
                         (unsigned)sizeof(craftc_api));
            api = NULL;
        }
    } else {
        found = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : NULL;
        PyErr_Clear();
        PyErr_Format(PyExc_ImportError,
                     "The installed craftc offers the C interface '%s', and this extension was compiled "
                     "against '%s': rebuild the "
                     "extension against the craftc that is installed, or install a craftc of the release it "
                     "was built for.",
                     found ? found : "(none)", CRAFTC_API_CAPSULE);
    }
    Py_DECREF(capsule);     /* the table is static memory of a module that stays loaded */
    return api;
}

/* The tables behind CraftCosts.capsule, good for as long as the capsule lives; NULL and a ValueError if it is
 * another one. */
static inline const craftc_costs *craftc_costs_of(PyObject *capsule)
{
    return (const craftc_costs *)PyCapsule_GetPointer(capsule, CRAFTC_COSTS_CAPSULE);
}

#endif

#ifdef __cplusplus
}
#endif
#endif
