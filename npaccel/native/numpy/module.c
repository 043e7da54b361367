/* module.c: what Python sees of the core. */
#include "numpy/numpy.h"
#include "numpy/module.h"
#include "native_docs.h"
#include "small/small.h"

#include <string.h>

static struct { const char *name; PyObject **slot; } hooks[] = {
    {"rule", &npa_hook_rule}, {"fold", &npa_hook_fold}, {"ufunc", &npa_hook_ufunc},
    {"getitem", &npa_hook_getitem}, {"setitem", &npa_hook_setitem}, {"plan", &npa_hook_plan},
    {"warn", &npa_hook_warn}, {"filters", &npa_hook_filters}, {"shown", &npa_hook_shown}};

static PyObject *install(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *type, *table, *prefixes;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyType_Type, &type, &PyDict_Type, &table, &PyTuple_Type,
                          &prefixes)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        PyObject *hook = PyDict_GetItemString(table, hooks[i].name);
        if (hook == NULL) {
            return PyErr_Format(PyExc_KeyError, "hook %s is missing", hooks[i].name);
        }
        Py_XSETREF(*hooks[i].slot, Py_NewRef(hook));
    }
    npa_internal_prefixes(prefixes);
    Py_INCREF(type);
    npa_array_type = (PyTypeObject *)type;
    npa_array_type->tp_name = PyArray_Type.tp_name; /* what errors of Python's name */
    npa_restore_sequence(npa_array_type);
    npa_small_memory_init();
    Py_RETURN_NONE;
}

/* --------------------------------------------------------------------------------- recording */

/* ----------------------------------------------------------------------------------- views */

/* ----------------------------------------------------------------------- what is pending */

/* -------------------------------------------------------------------------------- settings */

/* With the lock: guard 0: all arrays are opened; 1: faults are handled, if they were not. 0, or an
 * errno. */
static int prepare_guard(int guard)
{
    if (guard == 0) {
        npa_open_all();
    }
    if (guard <= 0 || npa_guard_on) {
        return 0;
    }
    int failed = npa_memory_init();
    failed = failed ? failed : npa_guard_install(npa_serve_fault, npa_touch_served);
    failed = failed ? failed : npa_watch_forks();
    npa_guard_watch(npa_watch_fault, npa_serve_write);
    return failed;
}

static PyObject *py_configure(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"threshold_bytes", "queue_limit", "memory_limit", "threads",
                            "nursery_bytes", "guard", "check", "boundscheck", "numpy", "fast",
                            "divide", NULL};
    long long threshold = -1, queue = -1, memory = -1, threads = -1, nursery = -1;
    int guard = -1, check = -1, boundscheck = -1, numpy = -1, fast = -1, divide = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$LLLLLiiiiii", names, &threshold, &queue,
                                     &memory, &threads, &nursery, &guard, &check, &boundscheck,
                                     &numpy, &fast, &divide) ||
        npa_flush() < 0) {
        return NULL;
    }
    npa_fault_forget(); /* it would be planned under other settings */
    npa_threshold = threshold >= 0 ? (size_t)threshold : npa_threshold;
    npa_queue_limit = queue > 0 ? (int)queue : npa_queue_limit;
    npa_memory_limit = memory > 0 ? (size_t)memory : npa_memory_limit;
    npa_check_mode = check >= 0 ? check > 0 : npa_check_mode;
    npa_check_every = check > 0 ? check : npa_check_every;
    npa_boundscheck = boundscheck >= 0 ? boundscheck > 0 : npa_boundscheck;
    npa_fast = fast >= 0 ? fast > 0 : npa_fast;
    npa_divide = divide >= 0 ? divide : npa_divide;
    npa_numpy_chosen = numpy >= 0 ? numpy > 0 : npa_numpy_chosen;
    if (threads >= 0) {
        npa_pool_threads((int)threads); /* 0: what affinity and quota allow */
    }
    npa_lock();
    int failed = prepare_guard(guard);
    if (nursery >= 0) {
        npa_nursery_limit((size_t)nursery);
    }
    npa_unlock();
    if (npa_guard_set(guard < 0 ? npa_guard_on : guard > 0 && failed == 0) < 0) {
        return NULL;
    }
    if (!npa_guard_on) {
        npa_leave_calls();
    } else if (!npa_calls_tried) {
        npa_serve_calls();
    }
    return PyLong_FromLong(failed);
}

static PyObject *py_boundscheck(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return PyBool_FromLong(npa_boundscheck_now());
}

static PyObject *py_boundscheck_here(PyObject *self, PyObject *value)
{
    (void)self;
    long now = PyLong_AsLong(value), before = npa_boundscheck_here;
    if (now == -1 && PyErr_Occurred()) {
        return NULL;
    }
    npa_boundscheck_here = (signed char)(now < 0 ? -1 : now > 0);
    return PyLong_FromLong(before);
}

static PyObject *py_limit_memory(PyObject *self, PyObject *bytes)
{
    (void)self;
    size_t most = PyLong_AsSize_t(bytes);
    if (most == (size_t)-1 && PyErr_Occurred()) {
        return NULL;
    }
    npa_lock();
    npa_memory_most(most);
    npa_unlock();
    Py_RETURN_NONE;
}

static PyObject *py_memory_limit(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return PyLong_FromSize_t(npa_limit_memory());
}

static PyObject *py_guarded(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return PyBool_FromLong(npa_guard_on);
}

static PyObject *py_portable(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return PyBool_FromLong(NPA_IS_PORTABLE);
}

static PyObject *py_passing_reason(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    const char *reason = npa_passing_reason();
    return PyUnicode_FromString(reason != NULL ? reason : "");
}

/* By this name threadpoolctl knows the library. */
__attribute__((visibility("default"))) int npaccel_pool_threads(void);

int npaccel_pool_threads(void) { return npa_pool_size(); }

static PyObject *py_threads(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return PyLong_FromLong(npa_pool_size());
}

static PyObject *py_jobs(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return PyLong_FromLongLong(npa_pool_jobs());
}

static PyObject *py_lend(PyObject *self, PyObject *from)
{
    (void)self;
    long descriptor = PyLong_AsLong(from);
    if (PyErr_Occurred()) {
        return NULL;
    }
    npa_pool_lend((int)descriptor);
    Py_RETURN_NONE;
}

static PyObject *py_lends(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return PyBool_FromLong(npa_pool_lends());
}

/* Of npa_counters what is told as it is. */
#define COUNTER(name, member) {name, offsetof(npa_counters, member)}
static const struct { const char *name; size_t offset; } counters[] = {
    COUNTER("requests", requests),
    COUNTER("flushes", flushes),
    COUNTER("kernel_requests", kernel_requests),
    COUNTER("chained_kernels", chained_kernels),
    COUNTER("native_requests", native_requests),
    COUNTER("dead_requests", dead_requests),
    COUNTER("sliced", sliced),
    COUNTER("pieces", pieces),
    COUNTER("bytes_read", bytes_read),
    COUNTER("bytes_written", bytes_written),
    COUNTER("plan_hits", plan_hits),
    COUNTER("plan_misses", plan_misses),
    COUNTER("fault_evaluations", fault_evaluations),
    COUNTER("fault_programs", fault_programs),
    COUNTER("fault_misses", fault_misses),
    COUNTER("rests", rests),
    COUNTER("left_to_numpy", passed),
    COUNTER("snapshots", snapshots),
    COUNTER("early_reads", early_reads),
    COUNTER("not_deferred", not_deferred),
    COUNTER("uploads", uploads),
    COUNTER("uploads_ahead", uploads_ahead),
    COUNTER("cluster_runs", cluster_runs),
    COUNTER("cluster_requests", cluster_requests),
    COUNTER("cluster_refused", cluster_refused),
    COUNTER("downloads", downloads),
    COUNTER("looks", looks),
    COUNTER("uploaded_bytes", moved.bytes_up),
    COUNTER("downloaded_bytes", moved.bytes_down),
    COUNTER("uploading_ns", moved.up_ns),
    COUNTER("downloading_ns", moved.down_ns),
    COUNTER("pinned_bytes", pinned_bytes),
    COUNTER("evictions", evictions),
    COUNTER("filled", filled),
    COUNTER("background_runs", flights)};

/* The value goes into the table, which is given up where it can't. `value` is taken over. */
static void put_row(PyObject **table, const char *name, PyObject *value)
{
    if (value == NULL || (*table != NULL && PyDict_SetItemString(*table, name, value) < 0)) {
        Py_CLEAR(*table);
    }
    Py_XDECREF(value);
}

static void put_number(PyObject **table, const char *name, uint64_t value)
{
    put_row(table, name, PyLong_FromUnsignedLongLong(value));
}

static void put_counters(PyObject **table, const npa_counters *c)
{
    uint64_t kernels = 0;
    PyObject *launches = PyTuple_New(NPA_OWNERS);
    for (int i = 0; launches != NULL && i < NPA_OWNERS; i++) {
        npa_fill_in(&launches, i, PyLong_FromUnsignedLongLong(c->launches[i]));
        kernels += c->launches[i];
    }
    put_row(table, "launches", launches);
    put_number(table, "kernels", kernels);
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        uint64_t value;
        memcpy(&value, (const char *)c + counters[i].offset, sizeof value);
        put_number(table, counters[i].name, value);
    }
}

static void put_memory(PyObject **table, const npa_memory_stats *m, const npa_watch_stats *w)
{
    put_number(table, "write_faults", w->faults + m->broken);
    put_number(table, "armed_blocks", w->armed + m->sealed);
    put_number(table, "guard_faults", npa_guard_on ? npa_guard_faults() : 0);
    put_number(table, "published", m->published);
    put_number(table, "live_ranges", m->live_ranges);
    put_number(table, "live_bytes", m->live_bytes);
    put_number(table, "used_bytes", m->used_bytes);
    put_number(table, "nursery_bytes", m->nursery_bytes);
    put_number(table, "part_bytes", m->part_bytes);
    put_number(table, "mappings", m->mappings);
    put_number(table, "code_bytes", npa_code_bytes());
}

static PyObject *py_stats(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"reset", NULL};
    int reset = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", names, &reset)) {
        return NULL;
    }
    npa_memory_stats m = {0};
    npa_watch_stats w;
    npa_lock();
    npa_watch_read_stats(&w);
    if (npa_guard_on) {
        npa_memory_read_stats(&m);
    }
    npa_counters c = npa_count;
    if (reset) {
        npa_count = (npa_counters){0};
        npa_ledger_reset();
    }
    npa_unlock();
    PyObject *table = PyDict_New();
    put_counters(&table, &c);
    put_memory(&table, &m, &w);
    return table;
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void))(f)

static PyObject *py_device_error(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return npa_device_errors();
}

static PyObject *py_device_inject(PyObject *self, PyObject *args)
{
    (void)self;
    int launches, reads = 0, midway = 0, after = 0;
    unsigned long long room = 0;
    if (!PyArg_ParseTuple(args, "i|iiiK", &launches, &reads, &midway, &after, &room)) {
        return NULL;
    }
    npa_device_inject(launches, reads, midway, after, (size_t)room);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"install", install, METH_VARARGS, NPA_DOC_install},
    {"rule", KEYWORDS(npa_make_rule), METH_VARARGS | METH_KEYWORDS, NPA_DOC_rule},
    {"wrap", npa_py_wrap, METH_O, NPA_DOC_wrap},
    {"plain", npa_py_plain, METH_O, NPA_DOC_plain},
    {"number", npa_py_number, METH_O, NPA_DOC_number},
    {"view_plain", npa_py_view_plain, METH_O, NPA_DOC_view_plain},
    {"map", KEYWORDS(npa_py_map), METH_VARARGS | METH_KEYWORDS, NPA_DOC_map},
    {"reduce", KEYWORDS(npa_py_reduce), METH_VARARGS | METH_KEYWORDS, NPA_DOC_reduce},
    {"scan", KEYWORDS(npa_py_scan), METH_VARARGS | METH_KEYWORDS, NPA_DOC_scan},
    {"product", KEYWORDS(npa_product_py), METH_FASTCALL, NPA_DOC_product},
    {"iota", npa_py_iota, METH_VARARGS, NPA_DOC_iota},
    {"gather", npa_py_gather, METH_VARARGS, NPA_DOC_gather},
    {"index_bounds", npa_py_index_bounds, METH_VARARGS, NPA_DOC_index_bounds},
    {"fetched", npa_fetched_py, METH_O, NPA_DOC_fetched},
    {"put_back", npa_put_back_py, METH_VARARGS, NPA_DOC_put_back},
    {"rebased", npa_rebased_py, METH_VARARGS, NPA_DOC_rebased},
    {"is_far", npa_is_far_py, METH_O, NPA_DOC_is_far},
    {"clusters", npa_clusters, METH_NOARGS, NPA_DOC_clusters},
    {"copies_exist", npa_copies_exist_py, METH_NOARGS, NPA_DOC_copies_exist},
    {"take_homes", npa_take_homes, METH_NOARGS, NPA_DOC_take_homes},
    {"held_up", npa_held_up, METH_VARARGS, NPA_DOC_held_up},
    {"take_fallbacks", npa_take_fallbacks, METH_NOARGS, NPA_DOC_take_fallbacks},
    {"take_hindrances", npa_take_hindrances, METH_NOARGS, NPA_DOC_take_hindrances},
    {"empty", npa_py_empty, METH_VARARGS, NPA_DOC_empty},
    {"empty_like", npa_py_empty_like, METH_VARARGS, NPA_DOC_empty_like},
    {"copy", npa_py_copy, METH_VARARGS, NPA_DOC_copy},
    {"wants", KEYWORDS(npa_py_wants), METH_FASTCALL, NPA_DOC_wants},
    {"is_pending", npa_py_is_pending, METH_O, NPA_DOC_is_pending},
    {"composites", npa_composites_py, METH_O, NPA_DOC_composites},
    {"direct", npa_direct_new, METH_VARARGS, NPA_DOC_direct},
    {"evaluate", npa_py_evaluate, METH_NOARGS, NPA_DOC_evaluate},
    {"launch", npa_launch_py, METH_VARARGS, NPA_DOC_launch},
    {"sleep", npa_sleep_py, METH_VARARGS, NPA_DOC_sleep},
    {"wake", npa_wake_py, METH_NOARGS, NPA_DOC_wake},
    {"resume", npa_resume_py, METH_O, NPA_DOC_resume},
    {"landed", npa_landed_py, METH_O, NPA_DOC_landed},
    {"issue", npa_issue_py, METH_NOARGS, NPA_DOC_issue},
    {"flights_end", npa_flights_end_py, METH_O, NPA_DOC_flights_end},
    {"touch", KEYWORDS(npa_py_touch), METH_VARARGS | METH_KEYWORDS, NPA_DOC_touch},
    {"may_warn", npa_py_may_warn, METH_O, NPA_DOC_may_warn},
    {"give_scope", npa_py_give_scope, METH_O, NPA_DOC_give_scope},
    {"prepare", npa_prepare, METH_VARARGS, NPA_DOC_prepare},
    {"prepare_end", npa_prepare_end, METH_NOARGS, NPA_DOC_prepare_end},
    {"spawn", npa_spawn, METH_VARARGS, NPA_DOC_spawn},
    {"spawned", npa_spawned, METH_O, NPA_DOC_spawned},
    {"kill_spawned", npa_kill_spawned, METH_O, NPA_DOC_kill_spawned},
    {"new_sizes", npa_new_sizes, METH_NOARGS, NPA_DOC_new_sizes},
    {"forget_looks", npa_forget_looks, METH_NOARGS, NPA_DOC_forget_looks},
    {"trials", npa_autotune_trials, METH_VARARGS, NPA_DOC_trials},
    {"tried", npa_tried, METH_NOARGS, NPA_DOC_tried},
    {"looked_up", npa_looked_up, METH_O, NPA_DOC_looked_up},
    {"smaller", npa_smaller, METH_O, NPA_DOC_smaller},
    {"plans", npa_py_plans, METH_NOARGS, NPA_DOC_plans},
    {"pending", npa_pending_now, METH_NOARGS, NPA_DOC_pending},
    {"history", npa_py_history, METH_O, NPA_DOC_history},
    {"serial", npa_py_serial, METH_O, NPA_DOC_serial},
    {"configure", KEYWORDS(py_configure), METH_VARARGS | METH_KEYWORDS, NPA_DOC_configure},
    {"boundscheck", py_boundscheck, METH_NOARGS, NPA_DOC_boundscheck},
    {"boundscheck_here", py_boundscheck_here, METH_O, NPA_DOC_boundscheck_here},
    {"limit_memory", py_limit_memory, METH_O, NPA_DOC_limit_memory},
    {"memory_limit", py_memory_limit, METH_NOARGS, NPA_DOC_memory_limit},
    {"guarded", py_guarded, METH_NOARGS, NPA_DOC_guarded},
    {"portable", py_portable, METH_NOARGS, NPA_DOC_portable},
    {"memory", npa_py_memory, METH_O, NPA_DOC_memory},
    {"system_calls", npa_system_calls, METH_NOARGS, NPA_DOC_system_calls},
    {"exact_loops", npa_exact_loops_py, METH_VARARGS, NPA_DOC_exact_loops},
    {"primitives", npa_primitives_py, METH_VARARGS, NPA_DOC_primitives},
    {"exp_s", npa_exp_s_py, METH_NOARGS, NPA_DOC_exp_s},
    {"rules", npa_rules_known, METH_NOARGS, NPA_DOC_rules},
    {"cpu", npa_cpu, METH_NOARGS, NPA_DOC_cpu},
    {"passing_reason", py_passing_reason, METH_NOARGS, NPA_DOC_passing_reason},
    {"threads", py_threads, METH_NOARGS, NPA_DOC_threads},
    {"jobs", py_jobs, METH_NOARGS, NPA_DOC_jobs},
    {"lend", py_lend, METH_O, NPA_DOC_lend},
    {"lends", py_lends, METH_NOARGS, NPA_DOC_lends},
    {"device_error", py_device_error, METH_NOARGS, NPA_DOC_device_error},
    {"device_inject", py_device_inject, METH_VARARGS, NPA_DOC_device_inject},
    {"cluster_memory", npa_cluster_memory, METH_VARARGS, NPA_DOC_cluster_memory},
    {"echo", npa_echo, METH_O, NPA_DOC_echo},
    {"cuda_functions", npa_cuda_functions, METH_O, NPA_DOC_cuda_functions},
    {"cuda_queue", npa_cuda_queue, METH_VARARGS, NPA_DOC_cuda_queue},
    {"cuda_kernel", npa_cuda_kernel, METH_VARARGS, NPA_DOC_cuda_kernel},
    {"place_of", npa_place_of, METH_O, NPA_DOC_place_of},
    {"ledger", npa_ledger_told, METH_NOARGS, NPA_DOC_ledger},
    {"stats", KEYWORDS(py_stats), METH_VARARGS | METH_KEYWORDS, NPA_DOC_stats},
    {NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_doc = "The C core.", .m_size = -1,
    .m_methods = methods};

PyMODINIT_FUNC PyInit__native(void)
{
    npa_hooks_fill();
    if (npa_numpy_init() < 0 || npa_site_init() < 0) {
        return NULL;
    }
    if (PyType_Ready(&npa_rule_type) < 0 || PyType_Ready(&npa_direct_type) < 0 ||
        npa_program_ready() < 0 || PyType_Ready(&npa_code_type) < 0 || npa_device_ready() < 0 ||
        npa_buffer_init() < 0 || npa_rules_init() < 0 || npa_hinder_init() < 0 ||
        PyType_Ready(&npa_pending_type) < 0 || npa_program_cache_init() < 0 ||
        npa_foreign_init() < 0 ||
        npa_exports_init() < 0 || npa_evaluate_init() < 0 || npa_intercept_init() < 0 ||
        npa_folds_init() < 0 || npa_small_init() < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition), *base = npa_array_base();
    if (module == NULL || base == NULL || PyModule_AddObject(module, "ArrayBase", base) < 0 ||
        PyModule_AddObject(module, "ArrayType", npa_array_metatype()) < 0 ||
        npa_redirect_init(module) < 0 || npa_section_init(module) < 0 ||
        npa_macro_block_init(module) < 0 || npa_macro_init(module) < 0 ||
        npa_match_init(module) < 0 || npa_philox_init(module) < 0 ||
        PyModule_AddObjectRef(module, "Rule", (PyObject *)&npa_rule_type) < 0 ||
        PyModule_AddObjectRef(module, "Program", (PyObject *)&npa_program_type) < 0 ||
        PyModule_AddObjectRef(module, "Pending", (PyObject *)&npa_pending_type) < 0 ||
        PyModule_AddObjectRef(module, "DeviceKernel", (PyObject *)&npa_device_type) < 0 ||
        PyModule_AddObjectRef(module, "DeviceMemory", (PyObject *)&npa_store_type) < 0 ||
        PyModule_AddObjectRef(module, "Code", (PyObject *)&npa_code_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
