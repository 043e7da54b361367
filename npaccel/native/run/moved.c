/* moved.c: programs that serve requests which are like their own but lie elsewhere, as rounds of
 * u[t + 1] = f(u[t]) do. Note [Moved] */
#include "run/program.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

/* So many requests that are alike but for where they lie may have programs of their own, as those
 * may whose arrays begin with a line, and others. */
enum { SETS = 64, WAYS = 4, LINE = 64, MOST_APART = 256 };

/* An operand that is an array: its buffer, where it begins; the first one with that buffer, where
 * it is noted whether any writes it; whether that it begins with a line counts. */
typedef struct {
    int64_t offset;
    int32_t request, operand, buffer, first;
    bool written, aligned;
} spot;

typedef struct {
    uint64_t hash;
    char *words; /* the key, without offsets; then spots */
    size_t size;
    spot *spots;
    int nspots, npositions;
    int32_t *positions; /* of scalars with these values: request, input, request, input ... */
    PyObject *values, *program;
} moved;

static moved *table[SETS][WAYS];

/* Room for what is looked up; with the lock. */
static struct { char *at; size_t size; } room;

static void *room_of(size_t size)
{
    if (room.size < size) {
        free(room.at);
        room.at = malloc(2 * size);
        room.size = room.at != NULL ? 2 * size : 0;
    }
    return room.at;
}

/* How many spots there are at most. */
static size_t most_spots(size_t size) { return size / sizeof(npa_operand); }

/* Takes the offsets out of the words of requests; how many there were. */
static int take_offsets(char *words, size_t size, spot *spots)
{
    uint64_t end[2];
    memcpy(end, words + size - NPA_KEY_END, sizeof end);
    int n = 0;
    const char *p = words;
    for (int32_t i = 0; i < (int32_t)end[0]; i++) {
        const npa_words *r = (const npa_words *)p;
        const npa_operand *o = npa_words_first(r);
        for (int k = 0; k < npa_words_count(r); k++, o = npa_words_next(r, o)) {
            if (o->buffer >= 0) {
                bool written = k >= r->nin && k < r->nin + r->nout;
                spots[n++] = (spot){o->offset, i, k, o->buffer, 0, written, false};
                ((npa_operand *)o)->offset = 0;
            }
        }
        p = (const char *)o;
    }
    return n;
}

static void drop(moved *m)
{
    if (m != NULL) {
        Py_XDECREF(m->values), Py_XDECREF(m->program);
        free(m->words), free(m->spots), free(m->positions), free(m);
    }
}

/* ------------------------------------------------------------------------------- searching */

/* Whether the same ones of a buffer's operands begin at one place. */
static bool begin_alike(const moved *m, const spot *now, int i)
{
    bool alike = true;
    for (int k = m->spots[i].first; alike && k < i; k++) {
        const spot *was = &m->spots[k];
        alike = was->first != m->spots[i].first ||
                (now[k].offset == now[i].offset) == (was->offset == m->spots[i].offset);
    }
    return alike;
}

/* Whether operands of a buffer lie to each other as they did: all went as far; or nobody writes it,
 * and the same ones begin at one place. */
static bool lie_alike(const moved *m, const spot *now)
{
    bool apart = false, alike = true;
    for (int i = 0; i < m->nspots; i++) {
        int first = m->spots[i].first;
        bool together = now[i].offset - m->spots[i].offset ==
                        now[first].offset - m->spots[first].offset;
        if (!together && (m->spots[first].written || m->nspots > MOST_APART)) {
            return false;
        }
        apart |= !together;
    }
    for (int i = 0; apart && alike && i < m->nspots; i++) {
        alike = begin_alike(m, now, i);
    }
    return alike;
}

static bool have_values(const moved *m)
{
    for (int i = 0; i < m->npositions; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[m->positions[2 * i]]);
        const char *value = PyBytes_AS_STRING(m->values) + 16 * i;
        if (memcmp(npa_operand_at(r, m->positions[2 * i + 1])->at, value, 16) != 0) {
            return false;
        }
    }
    return true;
}

static bool begin_with_lines_alike(const moved *m, const spot *now)
{
    bool alike = true;
    for (int i = 0; alike && i < m->nspots; i++) {
        alike = !m->spots[i].aligned ||
                (m->spots[i].offset % LINE == 0) == (now[i].offset % LINE == 0);
    }
    return alike;
}

npa_program *npa_moved_find(const npa_key *key)
{
    size_t spots = most_spots(key->size) * sizeof(spot);
    char *words = room_of(key->size + spots);
    if (words == NULL) {
        return NULL;
    }
    spot *now = (spot *)words;
    words += spots;
    memcpy(words, key->bytes, key->size);
    int n = take_offsets(words, key->size, now);
    uint64_t hash = npa_hash(words, key->size);
    for (int k = 0; k < WAYS; k++) {
        const moved *m = table[hash % SETS][k];
        if (m != NULL && m->hash == hash && m->size == key->size && m->nspots == n &&
            memcmp(m->words, words, key->size) == 0 && begin_with_lines_alike(m, now) &&
            lie_alike(m, now) && have_values(m)) {
            return (npa_program *)m->program;
        }
    }
    return NULL;
}

/* --------------------------------------------------------------------------------- entries */

/* Where operand k of a request is among the spots; -1: it is not there. */
static int spot_of(const moved *m, int32_t request, int32_t operand)
{
    int i = 0;
    while (i < m->nspots &&
           (m->spots[i].request != request || m->spots[i].operand != operand)) {
        i++;
    }
    return i < m->nspots ? i : -1;
}

/* A kernel's array is where that operand is. */
typedef struct { int32_t request, operand, aligned; } place;

/* The kernels' addresses come from operands; false: these are not their places. */
static bool follow(npa_program *p, moved *m, const char *places, size_t n)
{
    size_t at = 0;
    for (int i = 0; i < p->nsteps; i++) {
        step *s = &p->steps[i];
        bool host = s->owner == 0 && s->device == NULL && s->nwraps == 0;
        for (int k = 0; s->request < 0 && k < s->npatches; k++) {
            patch *to = &s->patches[k];
            place from;
            if (to->kind != PATCH_ADDRESS) {
                continue;
            }
            if (!host || at == n) {
                return false;
            }
            memcpy(&from, places + sizeof from * at++, sizeof from);
            int number = spot_of(m, from.request, from.operand);
            if (number < 0 || m->spots[number].buffer != to->a ||
                m->spots[number].offset != to->b) {
                return false;
            }
            to->request = from.request, to->operand = from.operand;
            m->spots[number].aligned |= from.aligned != 0;
        }
    }
    return at == n;
}

static moved *moved_new(PyObject *key, PyObject *positions, PyObject *values)
{
    size_t size = (size_t)PyBytes_GET_SIZE(key);
    Py_ssize_t n = PyTuple_GET_SIZE(positions);
    moved *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return NULL;
    }
    m->words = malloc(size), m->spots = calloc(most_spots(size) + 1, sizeof *m->spots);
    m->positions = calloc((size_t)n + 1, sizeof *m->positions);
    m->size = size, m->npositions = (int)(n / 2), m->values = Py_NewRef(values);
    if (m->words == NULL || m->spots == NULL || m->positions == NULL) {
        drop(m);
        return NULL;
    }
    memcpy(m->words, PyBytes_AS_STRING(key), size);
    m->nspots = take_offsets(m->words, size, m->spots);
    m->hash = npa_hash(m->words, size);
    for (int i = 0; i < m->nspots; i++) {
        spot *mine = &m->spots[i];
        while (m->spots[mine->first].buffer != mine->buffer) {
            mine->first++;
        }
        m->spots[mine->first].written |= mine->written;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        m->positions[i] = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(positions, i));
    }
    return m;
}

/* With the GIL: `with` is in the table, and *place no longer, which kept its program alive. */
static void exchange(moved **place, moved *with)
{
    npa_lock();
    moved *old = *place;
    *place = with;
    if (old != NULL) {
        npa_program_settle(old->program);
    }
    npa_unlock();
    drop(old);
}

void npa_moved_forget(PyObject *program)
{
    for (int i = 0; i < SETS * WAYS; i++) {
        moved **place = &table[i / WAYS][i % WAYS];
        if (*place != NULL && (*place)->program == program) {
            exchange(place, NULL);
        }
    }
}

/* In the place of one that is not there, or by turns. */
static void put(moved **set, moved *made)
{
    static unsigned turn;
    int k = 0;
    while (k < WAYS && set[k] != NULL) {
        k++;
    }
    exchange(&set[k < WAYS ? k : (int)(turn++ % WAYS)], made);
}

/* serve(key, places, positions, values) */
PyObject *npa_program_serve(PyObject *self, PyObject *args)
{
    PyObject *key, *places, *positions, *values;
    if (!PyArg_ParseTuple(args, "SSO!S", &key, &places, &PyTuple_Type, &positions, &values)) {
        return NULL;
    }
    if (PyBytes_GET_SIZE(key) < NPA_KEY_END ||
        PyBytes_GET_SIZE(values) != 8 * PyTuple_GET_SIZE(positions)) {
        PyErr_SetString(PyExc_ValueError, "serve: a key, and 16 bytes for each scalar are needed");
        return NULL;
    }
    moved *m = moved_new(key, positions, values);
    if (m == NULL || PyErr_Occurred()) {
        drop(m);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    size_t n = (size_t)PyBytes_GET_SIZE(places) / sizeof(place);
    if (!follow((npa_program *)self, m, PyBytes_AS_STRING(places), n)) {
        drop(m);
        Py_RETURN_FALSE;
    }
    m->program = Py_NewRef(self);
    put(table[m->hash % SETS], m);
    Py_RETURN_TRUE;
}

/* Note [Moved]
 *
 * The key of requests has their offsets, so the rounds of a loop over u[t] are as many programs. To
 * make one by a template (runtime/programs/templates.py) takes Python a tenth of a millisecond,
 * longer than many a round runs. But a kernel's code knows no offsets, and a plan only knows how
 * operands of one buffer lie to each other: which are the same, which may meet where one is
 * written. So a program that was filled from a template also serves requests whose words are the
 * same but for offsets, where all operands of a buffer have gone as far, or where nobody writes the
 * buffer and the same ones begin at one place. Which kernel it is may hang on an array beginning
 * with a line of the cache, as stores past the cache do: then that stays so. Where its kernels'
 * arrays begin is asked of the requests at hand (npa_patch_offset). Steps that know offsets in
 * another way (devices, arrays that go around) are not among them. */
