/* template.c: programs for all sizes of one structure: those of the latest sizes are kept, those of
 * others made of them, without Python. Note [Templates]
 *
 *     key -> outline -> structure -> numbers -> the program of these sizes, or a copy of one
 *                                               without numbers, filled (fill.c) */
#include "run/template.h"

#include <stdlib.h>
#include <string.h>

/* So many structures whose outlines are alike; latest sizes of each that are kept. */
enum { SETS = 32, WAYS = 4, SIZES = 4 };

/* numbers: that it was filled with. */
typedef struct {
    npa_program *program; /* NULL: there is none */
    int64_t *numbers;
    uint64_t used;
} sized;

typedef struct {
    uint64_t outline, backend;
    char *structure;
    size_t size, key_size;
    npa_filling *filling;
    npa_program *blank; /* without numbers */
    npa_program *spare; /* a copy of it, for when there is no GIL; or NULL */
    sized sizes[SIZES];
    int latest;
} template;

static template *table[SETS][WAYS];
static int ntemplates;
static uint64_t turn;
static atomic_bool is_short; /* a spare one has been used */

/* Room for numbers; with the lock. */
static int64_t *now;
static int room;

static int64_t *numbers_of(const template *t, const char *words)
{
    int n = npa_filling_count(t->filling);
    if (n > room) {
        free(now);
        now = malloc(16 * (size_t)n);
        room = now != NULL ? 2 * n : 0;
    }
    if (now != NULL) {
        npa_filling_read(t->filling, words, now);
    }
    return now;
}

/* What is the same for all sizes, as far as that is soon seen. */
static uint64_t outline_of(const npa_traced *t)
{
    uint64_t hash = ((uint64_t)t->nrequests << 32) + (uint64_t)t->nbuffers;
    const npa_words *r = (const npa_words *)t->words;
    for (int i = 0; i < t->nrequests; i++) {
        hash = (hash ^ r->rule ^ (uint64_t)r->axes << 32 ^ (uint64_t)r->ndim << 56) *
               0x9E3779B97F4A7C15u;
        const npa_operand *o = npa_words_first(r);
        for (int k = 0; k < npa_words_count(r); k++, o = npa_words_next(r, o)) {
            hash = (hash ^ (uint32_t)o->buffer) * 0x100000001b3u;
        }
        hash ^= hash >> 29;
        r = (const npa_words *)o;
    }
    return hash ^ hash >> 32;
}

static uint64_t backend_of(const char *bytes, size_t size)
{
    uint64_t backend;
    memcpy(&backend, bytes + size - 8, sizeof backend);
    return backend;
}

/* ----------------------------------------------------------------------------------- sizes */

/* With the lock: for what ran over these sizes there is a program no longer; `with` has its
 * counts. */
static void replace(sized *s, npa_program *with, int64_t *numbers)
{
    if (s->program != NULL) {
        npa_ledger_pass(&s->program->ledger, &with->ledger);
        npa_drop_later((PyObject *)s->program);
    }
    free(s->numbers);
    *s = (sized){with, numbers, ++turn};
}

/* One that nobody else has, without numbers; NULL: there is none. */
static npa_program *new_program(template *t, bool python)
{
    npa_program *found = t->spare;
    if (python) {
        found = npa_program_copy(t->blank);
        if (found == NULL) {
            PyErr_Clear(); /* no memory */
        }
    } else if (found != NULL) {
        t->spare = NULL;
        atomic_store(&is_short, true);
    }
    return found;
}

/* The program of the numbers at hand is made, of the latest one. */
static npa_program *add_size(template *t, bool python)
{
    size_t bytes = 8 * (size_t)npa_filling_count(t->filling);
    int64_t *numbers = malloc(bytes + 1);
    npa_program *made = numbers != NULL ? new_program(t, python) : NULL;
    if (made == NULL) {
        free(numbers);
        return NULL;
    }
    memcpy(numbers, now, bytes);
    const sized *like = &t->sizes[t->latest];
    npa_fill(t->filling, made, like->program, like->numbers, numbers);
    int oldest = 0;
    for (int i = 1; i < SIZES; i++) {
        oldest = t->sizes[i].used < t->sizes[oldest].used ? i : oldest;
    }
    replace(&t->sizes[oldest], made, numbers);
    t->latest = oldest;
    return made;
}

/* That of the numbers at hand, which it fits; NULL: it is not there yet. */
static npa_program *with_size(template *t)
{
    for (int i = 0; i < SIZES; i++) {
        sized *s = &t->sizes[i];
        if (s->program != NULL && npa_filling_alike(t->filling, s->numbers, now)) {
            s->used = ++turn, t->latest = i;
            return s->program;
        }
    }
    return NULL;
}

static npa_program *serve(template *t, const npa_key *key, bool python)
{
    if (numbers_of(t, key->bytes) == NULL || !npa_filling_fits(t->filling, now)) {
        return NULL;
    }
    npa_program *found = with_size(t);
    if (found == NULL && (found = add_size(t, python)) != NULL) {
        npa_count.filled++;
        found->key = malloc(key->size);
        found->key_size = found->key != NULL ? key->size : 0;
        if (found->key != NULL) {
            memcpy(found->key, key->bytes, key->size);
        }
    }
    return found;
}

/* ---------------------------------------------------------------------------------- finding */

npa_program *npa_template_find(const npa_key *key, bool python)
{
    if (ntemplates == 0) {
        return NULL;
    }
    npa_traced traced = npa_traced_key(key);
    uint64_t outline = outline_of(&traced), backend = backend_of(key->bytes, key->size);
    const char *structure = NULL;
    npa_program *found = NULL;
    size_t size = 0;
    for (int k = 0; k < WAYS && found == NULL; k++) {
        template *t = table[outline % SETS][k];
        if (t == NULL || t->outline != outline || t->backend != backend ||
            t->key_size != key->size) {
            continue;
        }
        if (structure == NULL &&
            (structure = npa_structure_of(&traced, npa_filling_limits(t->filling), &size)) ==
                NULL) {
            return NULL;
        }
        found = t->size == size && memcmp(t->structure, structure, size) == 0
                    ? serve(t, key, python) : NULL;
    }
    return found;
}

/* ---------------------------------------------------------------------------------- keeping */

/* With the GIL, and without the lock: it is not in the table. */
static void drop(template *t)
{
    for (int i = 0; t != NULL && i < SIZES; i++) {
        Py_XDECREF(t->sizes[i].program);
        free(t->sizes[i].numbers);
    }
    if (t != NULL) {
        Py_XDECREF(t->blank), Py_XDECREF(t->spare);
        npa_filling_drop(t->filling);
        free(t->structure), free(t);
    }
}

/* With the lock and the GIL: references that were lent are real ones. */
static template *taken(template **place)
{
    template *t = *place;
    *place = NULL;
    ntemplates -= t != NULL;
    for (int i = 0; t != NULL && i < SIZES; i++) {
        if (t->sizes[i].program != NULL) {
            npa_program_settle((PyObject *)t->sizes[i].program);
        }
    }
    return t;
}

void npa_templates_clear(void)
{
    for (int i = 0; i < SETS * WAYS; i++) {
        npa_lock();
        template *t = taken(&table[i / WAYS][i % WAYS]);
        npa_unlock();
        drop(t);
    }
}

void npa_templates_prepare(void)
{
    if (!atomic_load_explicit(&is_short, memory_order_relaxed)) {
        return;
    }
    npa_lock();
    atomic_store(&is_short, false);
    for (int i = 0; i < SETS * WAYS; i++) {
        template *t = table[i / WAYS][i % WAYS];
        if (t != NULL && t->spare == NULL) {
            t->spare = new_program(t, true);
        }
    }
    npa_unlock();
}

/* It serves the same requests. */
static bool is_same(const template *a, const template *b)
{
    return a->outline == b->outline && a->backend == b->backend && a->size == b->size &&
           memcmp(a->structure, b->structure, a->size) == 0 &&
           npa_filling_same(a->filling, b->filling);
}

/* In the place of the same one, or an empty one, or by turns. */
static void put(template *made)
{
    static unsigned next;
    template **set = table[made->outline % SETS];
    int k = 0;
    npa_lock();
    while (k < WAYS && set[k] != NULL && !is_same(set[k], made)) {
        k++;
    }
    template **place = &set[k < WAYS ? k : (int)(next++ % WAYS)], *old = taken(place);
    *place = made;
    ntemplates++;
    npa_unlock();
    drop(old);
}

/* Takes the filling over; NULL: no memory. */
static template *template_new(npa_program *blank, const npa_traced *s, PyObject *key,
                              npa_filling *filling)
{
    const char *bytes = PyBytes_AS_STRING(key);
    size_t size = (size_t)PyBytes_GET_SIZE(key);
    template *t = calloc(1, sizeof *t);
    if (t == NULL) {
        npa_filling_drop(filling);
        return NULL;
    }
    *t = (template){.outline = outline_of(s), .backend = backend_of(bytes, size),
                    .key_size = size, .filling = filling,
                    .blank = (npa_program *)Py_NewRef((PyObject *)blank)};
    npa_lock();
    const char *structure = npa_structure_of(s, npa_filling_limits(filling), &t->size);
    t->structure = structure != NULL ? malloc(t->size) : NULL;
    if (t->structure != NULL) {
        memcpy(t->structure, structure, t->size);
    }
    npa_unlock();
    if (t->structure == NULL) {
        drop(t);
        return NULL;
    }
    return t;
}

/* A program for these requests, of a template that is found for others, too, if `keep`; a new
 * reference, or None. */
static PyObject *first_of(template *t, const npa_snapshot *s, bool keep)
{
    npa_lock();
    bool fits = numbers_of(t, s->words) != NULL && npa_filling_fits(t->filling, now);
    npa_program *made = fits ? add_size(t, true) : NULL;
    t->spare = made != NULL && keep ? new_program(t, true) : NULL;
    npa_unlock();
    PyObject *found = Py_NewRef(made != NULL ? (PyObject *)made : Py_None);
    if (made != NULL && keep) {
        put(t);
    } else {
        drop(t);
    }
    return found;
}

/* fill(pending, words, keep): a program for these requests, of this one, which has no numbers;
 * None: it is not for them. keep: it is found for others by their structure, too. */
PyObject *npa_program_fill(PyObject *self, PyObject *args)
{
    PyObject *pending, *words;
    int keep;
    if (!PyArg_ParseTuple(args, "O!Sp", &npa_pending_type, &pending, &words, &keep)) {
        return NULL;
    }
    const npa_snapshot *s = npa_pending_of(pending);
    npa_traced traced = npa_traced_snapshot(s);
    npa_filling *filling = npa_filling_new(words, (npa_program *)self);
    if (filling == NULL) {
        return NULL;
    }
    if (!npa_filling_place(filling, &traced)) {
        npa_filling_drop(filling);
        return PyErr_Format(PyExc_ValueError, "fill: these requests have not its places");
    }
    PyObject *key = PyObject_GetAttrString(pending, "key");
    template *t = template_new((npa_program *)self, &traced, key, filling);
    Py_XDECREF(key);
    return t != NULL ? first_of(t, s, keep) : PyErr_NoMemory();
}

/* Note [Templates]
 *
 * The key of requests has their sizes and offsets, so the rounds of a loop over u[t], or over ever
 * shorter slices, are as many programs. But what is planned only depends on how numbers compare
 * (Note [Structure]), and code knows no numbers at all. So what was planned once is a template: a
 * program without numbers, and the places of those in the words of requests. For requests of the
 * same structure they are put in by a few loops. Whether it is a template for them is looked at
 * each time: lengths of rows have bounds, and which arrays are stored past the cache hangs on sizes
 * and on where they begin.
 *
 * A program is for one size but for all offsets: its kernels' addresses are asked of the requests
 * at hand (npa_patch_offset). Those of the latest sizes are kept. A new one is a Python object,
 * which needs the GIL; for a touch, which has none, there is a spare one. Steps of requests that
 * NumPy's loops run have no numbers. Devices' steps, and arrays that go around, have no
 * templates. */
