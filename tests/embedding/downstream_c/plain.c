/* Every function of craftc.h, over anything that has a buffer. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "craftc/craftc.h"

static const craftc_api *api;

#define MOST 8
typedef struct {
    Py_buffer view[MOST];
    int n;
} buffers;

static void drop(buffers *b)
{
    while (b->n > 0)
        PyBuffer_Release(&b->view[--b->n]);
}

/* the arguments from `first` on as buffers */
static int take(PyObject *args, int first, int count, buffers *b)
{
    b->n = 0;
    for (int i = 0; i < count; i++) {
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(args, first + i), &b->view[b->n], PyBUF_STRIDES) < 0) {
            drop(b);
            return -1;
        }
        b->n++;
    }
    return 0;
}

static Py_ssize_t stride(const Py_buffer *view) { return view->strides[0] / view->itemsize; }

static int width_of(PyObject *args, Py_ssize_t expected)
{
    if (PyTuple_GET_SIZE(args) == expected)
        return 0;
    PyErr_Format(PyExc_TypeError, "%zd arguments, please", expected);
    return -1;
}

static PyObject *version(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    return Py_BuildValue("Ii", (unsigned)api->api_version(), api->simd_level());
}

/* x, centres, labels, squared */
static PyObject *nearest(PyObject *self, PyObject *args)
{
    buffers b;
    int status;
    double *scratch;
    (void)self;
    if (width_of(args, 4) || take(args, 0, 4, &b))
        return NULL;
    const Py_buffer *x = &b.view[0], *c = &b.view[1], *squared = &b.view[3];
    scratch = PyMem_Malloc((size_t)api->nearest_scratch_size(x->shape[1], c->shape[0]) * sizeof(double));
    Py_BEGIN_ALLOW_THREADS
    status = api->nearest(x->buf, (int)x->itemsize, x->shape[0], x->shape[1], stride(x), c->buf, c->shape[0], stride(c), b.view[2].buf,
                          squared->shape[0] ? squared->buf : NULL, scratch);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
    drop(&b);
    return PyLong_FromLong(status);
}

static PyObject *shape(PyObject *self, PyObject *capsule)
{
    ptrdiff_t K, p, q;
    const craftc_costs *model = craftc_costs_of(capsule);
    (void)self;
    if (!model || api->craft_shape(model, &K, &p, &q))
        return NULL;
    return Py_BuildValue("nnn", (Py_ssize_t)K, (Py_ssize_t)p, (Py_ssize_t)q);
}

/* capsule, x, codes, labels, least, costs */
static PyObject *craft(PyObject *self, PyObject *args)
{
    buffers b;
    int status;
    double *scratch;
    const craftc_costs *model;
    (void)self;
    if (width_of(args, 6) || !(model = craftc_costs_of(PyTuple_GET_ITEM(args, 0))) || take(args, 1, 5, &b))
        return NULL;
    const Py_buffer *x = &b.view[0], *codes = &b.view[1], *costs = &b.view[4];
    scratch = PyMem_Malloc((size_t)api->craft_scratch_size(model) * sizeof(double));
    Py_BEGIN_ALLOW_THREADS
    status = api->craft_assign(model, x->buf, (int)x->itemsize, stride(x), codes->buf, (int)codes->itemsize, stride(codes), x->shape[0],
                               b.view[2].buf, b.view[3].buf, costs->buf, stride(costs), scratch);
    Py_END_ALLOW_THREADS
    PyMem_Free(scratch);
    drop(&b);
    return PyLong_FromLong(status);
}

/* low, high, centre, scale */
static PyObject *grid(PyObject *self, PyObject *args)
{
    buffers b;
    int status;
    (void)self;
    if (width_of(args, 4) || take(args, 0, 4, &b))
        return NULL;
    status = api->moments_grid(b.view[0].buf, b.view[1].buf, b.view[0].shape[0], b.view[2].buf, b.view[3].buf);
    drop(&b);
    return PyLong_FromLong(status);
}

/* the arguments of all that follow begin with centre, scale, level_start, n_levels */
static int grid_of(PyObject *args, craftc_grid *g, buffers *b)
{
    if (take(args, 0, 3, b))
        return -1;
    g->n_numeric = b->view[0].shape[0];
    g->n_categorical = b->view[2].shape[0];
    g->n_levels = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 3));
    g->centre = b->view[0].buf;
    g->scale = b->view[1].buf;
    g->level_start = b->view[2].buf;
    return 0;
}

static PyObject *moments_size(PyObject *self, PyObject *args)
{
    craftc_grid g;
    buffers b;
    Py_ssize_t size;
    (void)self;
    if (width_of(args, 4) || grid_of(args, &g, &b))
        return NULL;
    size = api->moments_size(&g);
    drop(&b);
    return PyLong_FromSsize_t(size);
}

/* ..., group, x, codes, weight */
static PyObject *moments_add(PyObject *self, PyObject *args)
{
    craftc_grid g;
    buffers b, rest;
    int status;
    (void)self;
    if (width_of(args, 8) || grid_of(args, &g, &b))
        return NULL;
    if (take(args, 4, 3, &rest)) {
        drop(&b);
        return NULL;
    }
    status = api->moments_add(&g, rest.view[0].buf, rest.view[1].buf, (int)rest.view[1].itemsize, rest.view[2].buf,
                              (int)rest.view[2].itemsize, PyLong_AsLongLong(PyTuple_GET_ITEM(args, 7)));
    drop(&b);
    drop(&rest);
    return PyLong_FromLong(status);
}

/* ..., to, from, sign */
static PyObject *moments_merge(PyObject *self, PyObject *args)
{
    craftc_grid g;
    buffers b, rest;
    int status;
    (void)self;
    if (width_of(args, 7) || grid_of(args, &g, &b))
        return NULL;
    if (take(args, 4, 2, &rest)) {
        drop(&b);
        return NULL;
    }
    status = api->moments_merge(&g, rest.view[0].buf, rest.view[1].buf, PyLong_AsLongLong(PyTuple_GET_ITEM(args, 6)));
    drop(&b);
    drop(&rest);
    return PyLong_FromLong(status);
}

/* ..., group, mean, deviations */
static PyObject *moments_mean(PyObject *self, PyObject *args)
{
    craftc_grid g;
    buffers b, rest;
    int status;
    (void)self;
    if (width_of(args, 7) || grid_of(args, &g, &b))
        return NULL;
    if (take(args, 4, 3, &rest)) {
        drop(&b);
        return NULL;
    }
    status = api->moments_mean(&g, rest.view[0].buf, rest.view[1].buf, rest.view[2].buf);
    drop(&b);
    drop(&rest);
    return PyLong_FromLong(status);
}

/* edge, n_nodes */
static PyObject *edges_check(PyObject *self, PyObject *args)
{
    buffers b;
    int status;
    (void)self;
    if (width_of(args, 2) || take(args, 0, 1, &b))
        return NULL;
    status = api->edges_check(b.view[0].buf, b.view[0].shape[0], PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 1)));
    drop(&b);
    return PyLong_FromLong(status);
}

/* b, edge, radius, step, relax, lam, fused, start, stop, sums */
static PyObject *edges_pass(PyObject *self, PyObject *args)
{
    buffers b, state, out;
    craftc_edges e;
    double moved = 0.0;
    int status;
    (void)self;
    if (width_of(args, 10) || take(args, 0, 4, &b) || take(args, 5, 2, &state) || take(args, 9, 1, &out))
        return NULL;
    e.n_nodes = b.view[0].shape[0];
    e.width = b.view[0].shape[1];
    e.b = b.view[0].buf;
    e.edge = b.view[1].buf;
    e.radius = b.view[2].buf;
    e.step = b.view[3].buf;
    e.relax = PyFloat_AsDouble(PyTuple_GET_ITEM(args, 4));
    e.lam = state.view[0].buf;
    e.fused = state.view[1].buf;
    status = api->edges_pass(&e, PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 7)), PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 8)), out.view[0].buf,
                             &moved);
    drop(&b);
    drop(&state);
    drop(&out);
    return Py_BuildValue("id", status, moved);
}

static PyMethodDef methods[] = {
    {"version", version, METH_NOARGS, NULL},
    {"nearest", nearest, METH_VARARGS, NULL},
    {"shape", shape, METH_O, NULL},
    {"craft", craft, METH_VARARGS, NULL},
    {"grid", grid, METH_VARARGS, NULL},
    {"moments_size", moments_size, METH_VARARGS, NULL},
    {"moments_add", moments_add, METH_VARARGS, NULL},
    {"moments_merge", moments_merge, METH_VARARGS, NULL},
    {"moments_mean", moments_mean, METH_VARARGS, NULL},
    {"edges_check", edges_check, METH_VARARGS, NULL},
    {"edges_pass", edges_pass, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "plain", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_plain(void)
{
    api = craftc_import();
    return api ? PyModule_Create(&module) : NULL;
}
