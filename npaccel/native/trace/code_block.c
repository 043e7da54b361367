/* code_block.c: the blocks of code in which plain arrays are taken, see redirect.c.
 *
 * A block is open from enter to leave. A context variable names the innermost one, so each thread
 * and each asyncio task has its own; a block that was closed from elsewhere (another thread's
 * garbage collector, a generator closed by another task) is passed over where it is still named. */
#include "trace/trace.h"

#include <stddef.h>

typedef struct npa_code_block npa_code_block;
struct npa_code_block {
    PyObject_HEAD
    PyObject *outer;       /* the block around it, or NULL */
    Py_ssize_t min_size;   /* bytes; -1: as configured */
    PyObject *backend;     /* str, or None: as configured */
    PyObject *place;       /* a DeviceMemory: where new arrays are to live; or None */
    unsigned long thread;
    bool open, everywhere; /* everywhere: for threads and contexts without a block of their own */
    npa_code_block *previous, *next; /* among the open ones */
};

static PyObject *innermost; /* ContextVar */
static npa_code_block *open_blocks, *everywhere;
static int overrides; /* open blocks with a min_size of their own */
static int named;     /* and those with a backend */
static int placing;   /* and those with a place */
size_t npa_least = SIZE_MAX, npa_least_ours = SIZE_MAX, npa_least_made = SIZE_MAX;
__thread int npa_suspended, npa_passed, npa_coarse, npa_whole;

/* Where a trial may leave it to NumPy operators take smaller arrays. Below some size what is
 * recorded rarely gains: a request takes as long as NumPy does on 20 KiB. */
static size_t tried_from(size_t ours)
{
    enum { LEAST = 64 << 10, PARTS = 4 };
    bool smaller = npa_autotune_on && ours > LEAST && ours < SIZE_MAX;
    return !smaller ? ours : ours / PARTS > LEAST ? ours / PARTS : LEAST;
}

/* Where a trial has found that smaller arrays are better left to NumPy, nobody asks for a while:
 * that would cost a twentieth of what NumPy takes for them. Nor does anybody at first: to find out
 * costs a tenth of a second, with what the compiler takes from the program meanwhile. */
static double rests_until; /* seconds; 0: no */
static bool begun;         /* the first block was opened */

bool npa_rests(void) { return rests_until > 0; }

void npa_rest(double seconds)
{
    rests_until = seconds > 0 ? npa_seconds() + seconds : 0;
    begun = true;
    npa_forget_young();
    npa_find_least();
}

/* Before a block is opened. */
static void rest_at_first(void)
{
    enum { AT_FIRST = 1 }; /* seconds */
    if (!begun) {
        npa_rest(AT_FIRST);
    }
}

void npa_rest_is_over(double now)
{
    if (rests_until > 0 && now >= rests_until) {
        rests_until = 0;
        npa_forget_young();
        npa_find_least();
    }
}

/* What the smallest array is that any thread's operations are recorded for: none without the
 * guard. */
void npa_find_least(void)
{
    npa_least_ours = open_blocks != NULL && npa_guard_on ? npa_threshold : SIZE_MAX;
    for (npa_code_block *b = open_blocks; b != NULL && npa_guard_on; b = b->next) {
        if (b->min_size >= 0 && (size_t)b->min_size < npa_least_ours) {
            npa_least_ours = (size_t)b->min_size;
        }
    }
    size_t tried = tried_from(npa_least_ours);
    npa_least = npa_rests() ? npa_least_ours : tried;
    /* Where there is little room for results it is not for what may never be in a block. What is
     * made while nobody asks may be what a loop works on for hours. */
    bool roomy = npa_guard_on && !npa_memory_limited();
    npa_least_made = tried == SIZE_MAX && roomy ? npa_threshold : tried;
}

/* The innermost open block that this code runs in, borrowed, or NULL. */
static npa_code_block *here(void)
{
    PyObject *now = NULL;
    if (open_blocks == NULL) {
        return NULL;
    }
    if (PyContextVar_Get(innermost, NULL, &now) < 0) {
        PyErr_Clear();
    }
    bool known = now != NULL && Py_IS_TYPE(now, &npa_code_block_type);
    npa_code_block *b = known ? (npa_code_block *)now : NULL;
    Py_XDECREF(now); /* the context has it */
    while (b != NULL && (!b->open || b->thread != PyThread_get_thread_ident())) {
        b = (npa_code_block *)b->outer;
    }
    return b != NULL ? b : everywhere;
}

bool npa_in_block(void) { return here() != NULL; }

size_t npa_ours_here(void)
{
    if (!npa_guard_on) {
        return SIZE_MAX;
    }
    npa_code_block *b = overrides > 0 ? here() : NULL;
    return b != NULL && b->min_size >= 0 ? (size_t)b->min_size : npa_threshold;
}

size_t npa_tried_here(void)
{
    size_t ours = npa_ours_here();
    return open_blocks != NULL && npa_in_block() ? tried_from(ours) : ours;
}

size_t npa_threshold_here(void) { return npa_rests() ? npa_ours_here() : npa_tried_here(); }

bool npa_is_enough(size_t bytes)
{
    if (overrides > 0 || !npa_guard_on) {
        return bytes >= npa_threshold_here();
    }
    /* In between it matters only whether this is in a block */
    return bytes >= npa_threshold || (bytes >= npa_least && npa_in_block());
}

/* Memory comes from us in this context from now on, or from NumPy, but where the user had a say. It
 * does from us after a block, too: the next block writes into what was made meanwhile. */
static int take_memory(bool ours)
{
    PyObject *memory = PyDataMem_GetHandler();
    PyObject *usual = ours ? npa_made_handler() : PyDataMem_DefaultHandler;
    if (memory == NULL || (ours && memory == usual)) {
        Py_XDECREF(memory);
        return memory != NULL ? 0 : -1;
    }
    PyObject *before = PyDataMem_SetHandler(npa_usual_handler(memory) ? usual : memory);
    int status = before != NULL ? 0 : -1;
    Py_XDECREF(before), Py_DECREF(memory);
    return status;
}

PyObject *npa_py_memory(PyObject *module, PyObject *ours)
{
    (void)module;
    int is = PyObject_IsTrue(ours);
    return is < 0 || take_memory(is > 0) < 0 ? NULL : Py_NewRef(Py_None);
}

/* Where nothing may stay pending, nothing is recorded: what was redirected is NumPy's again, and so
 * is all that is asked of our arrays. */
int npa_guard_set(bool on)
{
    npa_guard_on = on;
    npa_find_least();
    if (open_blocks != NULL && on) {
        npa_trace_hooks.redirect(true);
    } else if (open_blocks != NULL) {
        npa_trace_hooks.redirect(false);
    }
    return on ? take_memory(true) : 0;
}

static void link_block(npa_code_block *b)
{
    b->next = open_blocks, b->previous = NULL;
    if (open_blocks != NULL) {
        open_blocks->previous = b;
    }
    open_blocks = b;
    overrides += b->min_size >= 0;
    named += b->backend != Py_None;
    placing += b->place != Py_None;
    if (b->everywhere) {
        everywhere = b;
    }
}

static void unlink_block(npa_code_block *b)
{
    *(b->previous != NULL ? &b->previous->next : &open_blocks) = b->next;
    if (b->next != NULL) {
        b->next->previous = b->previous;
    }
    overrides -= b->min_size >= 0;
    named -= b->backend != Py_None;
    placing -= b->place != Py_None;
    everywhere = everywhere == b ? NULL : everywhere;
}

static void close_block(npa_code_block *b)
{
    if (b->open) {
        b->open = false;
        unlink_block(b);
        npa_find_least();
        if (open_blocks == NULL) {
            npa_trace_hooks.redirect(false);
        }
    }
}

/* A block that is not open yet. min_size < 0, backend None: as configured. */
PyObject *npa_code_block_new(Py_ssize_t min_size, PyObject *backend, PyObject *place, bool all)
{
    npa_code_block *b = (npa_code_block *)npa_code_block_type.tp_alloc(&npa_code_block_type, 0);
    if (b != NULL) {
        b->min_size = min_size, b->backend = Py_NewRef(backend), b->everywhere = all;
        b->place = Py_NewRef(place);
    }
    return (PyObject *)b;
}

/* NumPy looks up two context variables per operation. What is set is found in a cache; what is not
 * is looked for each time, once the context holds anything: so both are set. The context of an
 * earlier block has its errstate already, and mostly its memory. */
static int set_variables(bool first)
{
    PyObject *errstate = NULL, *token = NULL;
    if (!first) {
        return take_memory(true);
    }
    int status = PyContextVar_Get(npa_errstate_var, NULL, &errstate);
    if (status == 0 && errstate != NULL) {
        token = PyContextVar_Set(npa_errstate_var, errstate);
        status = token != NULL ? 0 : -1;
    }
    Py_XDECREF(errstate), Py_XDECREF(token);
    return status == 0 ? take_memory(true) : -1;
}

/* glibc gives memory of arrays above 128 KiB back as they die, and the next ones touch new pages:
 * that may take as long as computing them. Once a large piece has been freed it has learnt better,
 * and keeps as much (mallopt(3), M_MMAP_THRESHOLD, of which 32 MiB is the most). So one is,
 * untouched. */
static void teach_malloc(void)
{
    static bool done;
    if (!done) {
        done = true;
        /* volatile: lest both be left out */
        void *volatile piece = malloc((32u << 20) - (16u << 10));
        free(piece);
    }
}

/* From now on arrays are taken in this thread and task. -1: an error, and the block is not open. */
int npa_code_block_enter(PyObject *self)
{
    npa_code_block *b = (npa_code_block *)self;
    PyObject *outer = NULL;
    if (PyContextVar_Get(innermost, NULL, &outer) < 0) {
        return -1;
    }
    bool first_here = outer == NULL, first = open_blocks == NULL;
    if (outer != NULL && !Py_IS_TYPE(outer, &npa_code_block_type)) {
        Py_CLEAR(outer); /* None, after an earlier one */
    }
    while (outer != NULL && !((npa_code_block *)outer)->open) { /* or chains would grow */
        Py_XSETREF(outer, Py_XNewRef(((npa_code_block *)outer)->outer));
    }
    b->outer = outer;
    PyObject *token = PyContextVar_Set(innermost, self);
    Py_XDECREF(token);
    if (token == NULL || set_variables(first_here) < 0) {
        return -1;
    }
    b->thread = PyThread_get_thread_ident();
    b->open = true;
    link_block(b);
    npa_find_least();
    if (first && npa_guard_on) {
        npa_trace_hooks.redirect(true);
    }
    if (first) {
        teach_malloc();
        rest_at_first();
    }
    return 0;
}

/* From anywhere; a second time is nothing. */
int npa_code_block_leave(PyObject *self)
{
    PyObject *now = NULL, *outer = ((npa_code_block *)self)->outer;
    close_block((npa_code_block *)self);
    if (PyContextVar_Get(innermost, NULL, &now) < 0) {
        return -1;
    }
    PyObject *token = now == self ? PyContextVar_Set(innermost, outer != NULL ? outer : Py_None)
                                  : NULL;
    int status = now == self && token == NULL ? -1 : 0;
    Py_XDECREF(token), Py_XDECREF(now);
    return status;
}

static void block_free(PyObject *self)
{
    npa_code_block *b = (npa_code_block *)self;
    close_block(b);
    /* A loop, since each outer block may be the last reference to a long chain. */
    PyObject *outer = b->outer;
    b->outer = NULL;
    Py_XDECREF(b->backend), Py_XDECREF(b->place);
    Py_TYPE(self)->tp_free(self);
    Py_XDECREF(outer);
}

/* Whether leaving it here undoes entering it: the innermost open one of this context, or around. */
bool npa_code_block_is_mine(PyObject *self)
{
    PyObject *now = NULL;
    if (PyContextVar_Get(innermost, NULL, &now) < 0) {
        PyErr_Clear();
    }
    PyObject *b = now != NULL && Py_IS_TYPE(now, &npa_code_block_type) ? now : NULL;
    Py_XDECREF(now); /* the context has it */
    while (b != NULL && b != self) {
        b = ((npa_code_block *)b)->outer;
    }
    return b != NULL && ((npa_code_block *)b)->open;
}

PyTypeObject npa_code_block_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Block",
    .tp_basicsize = sizeof(npa_code_block),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = block_free,
};

static npa_code_block *that_names_backend(void)
{
    npa_code_block *b = named > 0 ? here() : NULL;
    while (b != NULL && !(b->open && b->backend != Py_None)) {
        b = (npa_code_block *)b->outer;
    }
    return b;
}

/* The backend that the innermost block names; new reference, None: it names none. */
PyObject *npa_code_block_backend(void)
{
    npa_code_block *b = that_names_backend();
    return Py_NewRef(b != NULL ? b->backend : Py_None);
}

npa_store *npa_place_here(void)
{
    npa_code_block *b = placing > 0 ? here() : NULL;
    while (b != NULL && !(b->open && b->place != Py_None)) {
        b = (npa_code_block *)b->outer;
    }
    return b != NULL ? (npa_store *)b->place : NULL;
}

/* The same in every process, since it is part of a plan's key. */
static uint64_t number_of(const char *name)
{
    uint64_t hash = 0;
    for (; name != NULL && *name; name++) {
        hash = hash * 131 + (unsigned char)*name;
    }
    return hash;
}

uint64_t npa_backend_here(void)
{
    npa_code_block *b = that_names_backend();
    return number_of(b != NULL ? PyUnicode_AsUTF8(b->backend) : "");
}

bool npa_is_numpys_backend(uint64_t backend)
{
    return backend != 0 ? backend == number_of("numpy") : npa_numpy_chosen;
}

int npa_code_block_init(void)
{
    innermost = PyContextVar_New("npaccel.block", NULL);
    return innermost != NULL ? PyType_Ready(&npa_code_block_type) : -1;
}
