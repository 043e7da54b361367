/* autotune.c: in a block, whether NumPy is to do at once what would be recorded, since that takes
 * less time, as was measured by turns. Note [Trials] */
#include "run/run.h"

#include <stdatomic.h>

/* The usual way, and the other one. */
enum { RECORDED = NPA_WAY_USUAL, NUMPYS = NPA_WAY_OTHER };

/* An operation at a line, on operands of about one size. What comes after `loops` is of those that
 * begin rounds: they found nothing pending, and come again before anything else does twice. */
typedef struct {
    uint64_t key;     /* 0: free */
    uint64_t since;   /* left_to_numpy when is_new first met it; 0: not yet */
    uint64_t head;    /* what began the round that it was last met in */
    uint64_t round;   /* the number of the round in which it found nothing pending, last */
    uint64_t met;     /* the number of the round in which it came last */
    uint32_t times;   /* it came in that round */
    uint32_t usual;   /* the same of the latest round that was recorded */
    bool begins;      /* it found nothing pending, and was recorded */
    bool loops;
    bool many;        /* of a line: npa_autotune_note_many */
    uint32_t skipped; /* rounds that were NumPy's since one was recorded */
    uint64_t path;    /* of the latest round that was recorded; on trial of the first one */
    uint64_t news;    /* the same of what was new in it */
    bool settled;     /* they are that one's */
    npa_choice choice;
} place;

enum {
    PLACES = 4096, NEIGHBOURS = 4,
    RUN_NS = 20000, REQUEST_NS = 1000, /* what recording costs at most, about */
    LARGE = 32 << 20,   /* bytes from which it costs nothing in comparison */
    LARGE_NEW = 4 << 20, LARGEST_NEW = 16 << 20, /* the same of what is new, by `missed` */
    MOST_MISSED = 3,
    LEAST_LOOKED_AT = 1 << 20, /* bytes from which looking at each costs nothing in comparison */
    MOST_CALLS = 64,    /* of one function in a round */
    WORTH = 32 << 20,   /* bytes that NumPy works on in about the time that something new costs */
    TRIALS_WORTH = 500, /* rounds: a trial has some ten recorded ones */
    MOST_REST_NS = 500000000,
};

/* NumPy's way is not kept as long, for what is compiled meanwhile is to be met. */
static const npa_choice_rules rules = {16, 4, 256, {8192, 1024}};

/* What runs took; where twice that, with what recording costs, is less than clear_ns, they win. */
static struct { _Atomic uint64_t runs, requests, ns, clear_ns; } spent;
static _Atomic uint64_t weight = 1;

/* Of places that had a trial, for those who are told: where the user's code is. */
enum { SITES = 256 };
static struct { uint64_t key; npa_site site; } sites[SITES];
static uint64_t paces[2]; /* for tests: ns that a round is said to take; 0: as long as it does */
static place places[PLACES];
static uint64_t left_to_numpy = 1, worth = WORTH; /* bytes */
static unsigned missed; /* programs that were not on disk, since one was */
static uint64_t rounds; /* the number of the latest one */
static struct { uint64_t recorded, left; } smaller; /* operations on arrays below the threshold */
static __thread uint64_t arrived; /* the operation that this thread is about to record */
static __thread uint64_t latest;  /* the one that it has recorded last */
static __thread struct {
    uint64_t head; /* 0: none */
    uint64_t number, begun, path;
    uint64_t news; /* what was left to NumPy since it is new */
    uint64_t site; /* the latest one on the path */
    enum npa_way way;
    bool mixed; /* begun by NumPy, and recorded from something new on */
    bool again; /* the head has come again, and found something pending */
    bool full;  /* and a limit has made rounds of the loop run */
    uint64_t tail; /* what came before the head then */
    size_t largest; /* bytes of an operand */
    npa_spending before;
} current;

npa_spending npa_autotune_spent(void)
{
    return (npa_spending){atomic_load(&spent.runs), atomic_load(&spent.requests),
                      atomic_load(&spent.ns), atomic_load(&spent.clear_ns)};
}

void npa_autotune_ran(uint64_t requests, uint64_t ns, bool single, uint64_t loops_ns)
{
    atomic_fetch_add(&spent.runs, 1), atomic_fetch_add(&spent.requests, requests);
    atomic_fetch_add(&spent.ns, ns);
    /* Block by block one thread may take longer than NumPy does: nothing is clear then */
    uint64_t blocks_ns = npa_pool_size() > 1 ? 2 * ns + ns / 8 : 0;
    atomic_fetch_add(&spent.clear_ns, single     ? blocks_ns
                                      : loops_ns ? loops_ns
                                                 : 2 * ns + ns / 2);
}

/* Where those between were NumPy's. */
uint64_t npa_autotune_weight(void) { return atomic_load(&weight); }
void npa_autotune_weigh(uint64_t rounds) { atomic_store(&weight, rounds); }

static uint64_t now(void) { return (uint64_t)npa_clock_ns(); }

/* Where an operation is, or may be put: in one of a few neighbours. */
static place *at(uint64_t key)
{
    place *free = NULL;
    for (uint64_t i = 0; i < NEIGHBOURS; i++) {
        place *p = &places[(key + i) % PLACES];
        if (p->key == key) {
            return p;
        }
        free = free == NULL && p->key == 0 ? p : free;
    }
    return free != NULL ? free : &places[key % PLACES];
}

static void begin(place *p, uint64_t time)
{
    p->loops = true;
    current.head = p->head = p->key;
    current.number = p->round = p->met = ++rounds;
    p->times = 1;
    current.path = current.news = current.site = current.largest = current.tail = 0;
    current.mixed = current.again = current.full = false;
    current.way = npa_autotune_way(&p->choice);
    atomic_store(&weight, current.way == RECORDED ? 1 + p->skipped : 1);
    p->skipped = current.way == RECORDED ? 0 : p->skipped + 1;
    current.before = npa_autotune_spent();
    current.begun = time;
}

/* Whether NumPy might do in less time what was recorded since, in so many ns: else there is no
 * trial. Most of a round may be what lies between runs: new memory, whose results nobody reads,
 * copies of small operands, pages that are hidden and shown. */
static bool may_lose(npa_spending before, uint64_t took)
{
    npa_spending after = npa_autotune_spent();
    uint64_t runs = after.runs - before.runs, requests = after.requests - before.requests;
    uint64_t ours = after.ns - before.ns + runs * RUN_NS + requests * REQUEST_NS;
    uint64_t clear_ns = after.clear_ns - before.clear_ns;
    return runs > 0 && (2 * ours > clear_ns || took > clear_ns);
}

void npa_autotune_took(npa_choice *c, enum npa_way way, uint64_t ns, bool alike,
                       npa_spending before)
{
    ns = paces[way] != 0 ? paces[way] : ns;
    if (npa_choice_took(c, &rules, way, ns, alike)) {
        bool lasts = c->on_trial || c->way == NUMPYS;
        uint64_t best = c->best[RECORDED]; /* this round may have been disturbed */
        npa_choice_decide(c, &rules, lasts || paces[NUMPYS] != 0 ||
                                         may_lose(before, best < ns ? best : ns));
    }
}

enum npa_way npa_autotune_way(npa_choice *c) { return npa_choice_way(c, &rules); }

static void note_site(uint64_t key)
{
    npa_site before = sites[key % SITES].site;
    sites[key % SITES].key = key;
    npa_capture_site(&sites[key % SITES].site);
    Py_XDECREF(before.code), Py_XDECREF(before.globals);
}

/* Rounds of small arrays that are NumPy's are not even looked at, until a trial more costs a small
 * part of what they took. */
static void rest(place *p)
{
    npa_choice *c = &p->choice;
    if (c->way != NUMPYS || current.largest >= npa_ours_here()) {
        return;
    }
    uint64_t ns = c->best[NUMPYS], more = c->best[RECORDED] > ns ? c->best[RECORDED] - ns : 0;
    uint64_t kept = c->kept * ns, worth = TRIALS_WORTH * more;
    uint64_t rests = kept > worth ? kept : worth;
    rests = rests < MOST_REST_NS ? rests : MOST_REST_NS;
    p->skipped += (uint32_t)(rests / (ns + 1));
    smaller.left += rests / (ns + 1);
    c->left = 0; /* rounds of NumPy's until there is a trial again */
    npa_rest(1e-9 * (double)rests);
}

/* Whether the round that is over went the way of the one that it is compared with. In NumPy's
 * rounds nothing is new. */
static bool is_alike(const place *p)
{
    return p->path == current.path && !current.mixed &&
           (current.way == NUMPYS || p->news == current.news);
}

/* The round is over. One that went another way through the program is not compared. */
static void end(place *p, uint64_t time)
{
    bool alike = is_alike(p), tried = p->choice.on_trial;
    if (current.way == RECORDED && !current.mixed && !(tried && p->settled)) {
        p->path = current.path, p->news = current.news;
        p->settled = tried;
    }
    npa_autotune_took(&p->choice, current.way, time - current.begun, alike, current.before);
    if (tried && !p->choice.on_trial) {
        note_site(p->key);
        rest(p);
    }
}

static bool possible(size_t bytes)
{
    return npa_autotune_on && bytes <= LARGE && npa_suspended == 0 && npa_here == NULL &&
           !npa_match_inside() && !npa_copies_exist() && npa_placeholders == 0 && !npa_check_mode &&
           npa_guard_on && !npa_run_stopped();
}

static uint64_t mix(const npa_site *site, const void *what, size_t bytes)
{
    uint64_t key = (uint64_t)(uintptr_t)site->code ^ (uint64_t)(uintptr_t)what << 16;
    key = (key ^ (uint32_t)site->lasti) * 0x9E3779B97F4A7C15u;
    key = (key ^ key >> 32 ^ (uint64_t)(bytes != 0 ? 64 - __builtin_clzll(bytes) : 0)) *
          0x9E3779B97F4A7C15u;
    return (key ^ key >> 32) | 1;
}

/* *where: the line; 0: not the user's code asks, but what it has called. */
static uint64_t key_of(const void *what, size_t bytes, bool call, uint64_t *where)
{
    npa_site site;
    bool asks = npa_capture_site(&site);
    site.lasti = call ? npa_call_at(&site) : site.lasti;
    uint64_t key = mix(&site, what, bytes);
    *where = asks ? ((uint64_t)(uintptr_t)site.code << 8) + (uint32_t)site.lasti : 0;
    Py_XDECREF(site.code), Py_XDECREF(site.globals); /* the frame has them */
    return key;
}

void npa_autotune_note_many(const npa_site *site)
{
    uint64_t key = mix(site, &places, 0);
    place *p = at(key);
    *p = p->key == key ? *p : (place){.key = key};
    p->many = true;
}

bool npa_autotune_sees_many(const npa_site *site)
{
    uint64_t key = mix(site, &places, 0);
    const place *p = at(key);
    return npa_autotune_on && !npa_check_mode && p->key == key && p->many;
}

/* The round goes by a line of the user's, whose own operators, ufuncs and subscripts are its way.
 * Functions and methods are not, nor what they call: with an array of ours they are other code than
 * with a plain one. */
static void go_by(uint64_t site)
{
    if (site != current.site) {
        current.path = (current.path ^ site) * 0x9E3779B97F4A7C15u;
        current.site = site;
    }
}

/* Whether too little was left to NumPy since this was first met; no, where there is no place for
 * it. Note [New operations] */
static bool is_new(uint64_t key, size_t bytes)
{
    place *p = at(key);
    if (p->key == 0) {
        *p = (place){.key = key};
    }
    if (p->key != key) {
        return false;
    }
    p->since = p->since != 0 ? p->since : left_to_numpy;
    bool new = left_to_numpy - p->since < worth;
    left_to_numpy += new ? bytes : 0;
    return new;
}

/* Whether an operation that came twice before the round's beginning came again belongs to a loop
 * that is NumPy's: then only this round was another, as where a loop ends and is begun anew. */
static bool resumes(place *p)
{
    place *loop = at(current.head);
    if (loop->key != current.head || p->head != current.head || p->loops ||
        loop->choice.way != NUMPYS || loop->choice.on_trial || loop->choice.left == 0) {
        return false;
    }
    loop->choice.left--, loop->skipped++;
    current.number = loop->round = ++rounds;
    current.way = NUMPYS, current.mixed = true;
    return true;
}

/* The operation of the place comes: whether a round is over if it is the head. In NumPy's rounds it
 * has to come oftener than in the latest one that was recorded. */
static bool comes(place *p, uint64_t key)
{
    if (p->key != key) {
        return true;
    }
    p->times = p->met == current.number ? p->times + 1 : 1;
    p->met = current.number;
    return current.way == RECORDED || p->times > p->usual;
}

/* Whether so many calls of a function are no more than there are in a round. */
static bool is_usual(const place *p) { return p->times <= MOST_CALLS || p->times <= p->usual; }

/* Whether rounds are another operation's from now on, which found nothing pending and is not the
 * head. Functions that NumPy's rounds call need not be known from recorded ones. */
static bool others(place *p, bool more, bool call)
{
    if (call && current.way == NUMPYS && is_usual(p)) {
        return false;
    }
    return current.head == 0 || (p->round == current.number && more && !resumes(p)) ||
           (current.way == NUMPYS && p->loops && p->head != current.head);
}

/* Whether a function may be one of the round's. It need not be known from one that was recorded,
 * where an array of ours takes it past here; but where it comes again and again before the round
 * does, the loop is over. */
static bool is_called(place *p, uint64_t key)
{
    if (p->key == 0) {
        *p = (place){.key = key, .head = current.head, .met = current.number, .times = 1};
    }
    return p->key == key && (p->head == current.head || p->met == current.number) &&
           is_usual(p);
}

/* Smaller ones are met only if something is pending, and functions are not the round's way. */
static bool is_on_path(size_t bytes, uint64_t site, bool call)
{
    return !call && site != 0 && npa_is_enough(bytes);
}

/* An operation that is new is left to NumPy. */
static void pass_new(uint64_t key, size_t bytes, uint64_t site, bool call)
{
    if (is_on_path(bytes, site, call)) {
        go_by(site);
    }
    if (current.way == RECORDED) {
        current.news = (current.news ^ key) * 0x9E3779B97F4A7C15u;
    }
    npa_count.passed++;
    npa_look_next(NPA_RARE);
}

/* An operation that found nothing pending: a round may end with it, and another one begin. */
static void perhaps_begin(place *p, uint64_t key, bool more, bool call)
{
    if (key == current.head && more) {
        uint64_t time = now();
        end(p, time);
        begin(p, time);
    } else if (key != current.head && others(p, more, call)) {
        at(current.head)->loops &= p->round != current.number; /* it did not come again */
        begin(p, now());
    }
    p->round = current.number;
}

/* An operation that found something pending: if it is the head the round is over where a limit has
 * ended it. */
static void perhaps_again(place *p, uint64_t key)
{
    if (key != current.head || current.way == NUMPYS) {
        return;
    }
    if (current.full) {
        uint64_t time = now();
        end(p, time);
        begin(p, time);
        current.mixed = current.way == NUMPYS, current.way = RECORDED;
    }
    current.again = true, current.tail = latest;
}

/* The operation is one of the round's where that is recorded. */
static void join_round(place *p, uint64_t key, bool known, size_t bytes)
{
    if (current.way == RECORDED && key != current.head) {
        *p = known ? *p : (place){.key = key, .met = current.number, .times = 1};
        p->head = current.head;
    }
    p->usual = current.way == RECORDED && p->key == key ? p->times : p->usual;
    current.largest = bytes > current.largest ? bytes : current.largest;
}

/* An operation is left to NumPy, or is recorded. */
static void count_one(size_t bytes, bool left)
{
    npa_count.passed += left;
    *(left ? &smaller.left : &smaller.recorded) += bytes < npa_ours_here();
}

/* call: of a function. */
static bool passes(const void *what, size_t bytes, bool may, bool call)
{
    arrived = 0;
    if (!possible(bytes)) {
        return false;
    }
    if (npa_contention_crowded() && may) {
        npa_count.passed++;
        npa_look_next(NPA_RARE);
        return true;
    }
    uint64_t site, key = key_of(what, bytes, call, &site);
    bool idle = npa_q.nrequests == 0;
    size_t large = missed < MOST_MISSED ? LARGE_NEW : LARGEST_NEW;
    place *p = at(key);
    bool known = p->key == key, more = comes(p, key);
    if (idle && bytes <= large && may && npa_ours_here() > 0 && is_new(key, bytes)) {
        pass_new(key, bytes, site, call);
        return true;
    }
    arrived = key;
    if (idle && known && p->begins) {
        perhaps_begin(p, key, more, call);
    } else if (!idle) {
        perhaps_again(p, key);
    }
    if (current.head == 0) {
        return false;
    }
    join_round(p, key, known, bytes);
    if (is_on_path(bytes, site, call)) {
        go_by(site);
    }
    bool left = may && idle && current.way == NUMPYS &&
                (call ? is_called(p, key) : p->key == key && p->head == current.head);
    count_one(bytes, left);
    arrived = left ? 0 : arrived;
    /* Of smaller ones some are looked at, as of all that is small */
    if (left && bytes >= LEAST_LOOKED_AT) {
        npa_look_next(NPA_SLOWER);
    }
    return left;
}

bool npa_autotune_passes(const void *what, size_t bytes, bool may)
{
    return passes(what, bytes, may, false);
}
bool npa_autotune_passes_call(const void *what, size_t bytes, bool may)
{
    return passes(what, bytes, may, true);
}

/* A limit has made rounds of a loop run: the round is over when its head comes, which is another
 * one where that has not come since. With the GIL. */
void npa_autotune_full(void)
{
    place *p = at(arrived);
    if (current.head != 0 && current.again) {
        current.full = current.way == RECORDED;
    } else if (arrived != 0) {
        *p = p->key == arrived ? *p : (place){.key = arrived};
        p->begins = true;
        begin(p, now());
        current.mixed = true, current.way = RECORDED;
    }
}

/* Whether what is pending is to run, since the round is over with that operation and NumPy's way
 * is near. */
static bool ends_with(uint64_t key)
{
    const npa_choice *c = &at(current.head)->choice;
    return current.full && key != 0 && key == current.tail &&
           (c->on_trial || c->way == NUMPYS ||
            (c->left <= 1 && may_lose(current.before, now() - current.begun)));
}

/* A request was recorded; first: nothing was pending before it. Whether all is to run now. With the
 * GIL. */
bool npa_autotune_recorded(bool first)
{
    uint64_t key = arrived;
    place *p = at(key);
    arrived = 0, latest = key != 0 ? key : latest;
    if (first && current.way == NUMPYS) { /* something new */
        current.way = RECORDED, current.mixed = true;
        atomic_store(&weight, 1);
    }
    if (first && key != 0) {
        *p = p->key == key ? *p : (place){.key = key};
        p->begins = true;
        if (current.head == 0) {
            begin(p, now());
        } else if (key != current.head) {
            p->head = current.head, p->round = current.number;
        }
    }
    return ends_with(key);
}

/* trials(on, recorded_ns=0, numpys_ns=0, worth=WORTH): begin anew. */
PyObject *npa_autotune_trials(PyObject *module, PyObject *args)
{
    (void)module;
    int on;
    unsigned long long recorded = 0, numpys = 0, bytes = WORTH;
    if (!PyArg_ParseTuple(args, "p|KKK", &on, &recorded, &numpys, &bytes)) {
        return NULL;
    }
    npa_autotune_on = on;
    npa_find_least();
    if (bytes < WORTH) {
        npa_rest(0);
    }
    paces[RECORDED] = recorded, paces[NUMPYS] = numpys;
    memset(places, 0, sizeof places);
    left_to_numpy = 1, worth = bytes, missed = 0, smaller.recorded = smaller.left = 0;
    current.head = 0, current.way = RECORDED;
    npa_contention_uncrowded();
    Py_RETURN_NONE;
}

/* tried() -> per loop that had a trial: (code, lasti, times of npa_choice_told) */
PyObject *npa_tried(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    PyObject *all = PyList_New(0);
    for (int i = 0; all != NULL && i < SITES; i++) {
        place *p = sites[i].key != 0 ? at(sites[i].key) : NULL;
        if (p == NULL || p->key != sites[i].key || sites[i].site.code == NULL) {
            continue;
        }
        npa_append(&all, Py_BuildValue("(OiN)", sites[i].site.code, (int)sites[i].site.lasti,
                                       npa_choice_told(&p->choice)));
    }
    return all;
}

/* smaller(known): whether it paid to record smaller arrays; known: the last process says that. */
PyObject *npa_smaller(PyObject *module, PyObject *known)
{
    enum { LEAST = 4096 };
    (void)module;
    if (known == Py_True) {
        npa_rest(0);
    }
    return PyBool_FromLong(smaller.recorded > LEAST + 4 * smaller.left);
}

/* looked_up(found): a program was on disk, or was not; how many were not, since one was. */
PyObject *npa_looked_up(PyObject *module, PyObject *found)
{
    (void)module;
    missed = found == Py_True ? 0 : missed + 1;
    return PyLong_FromUnsignedLong(missed);
}

/* Note [Trials]
 *
 * To record an operation, find the program and show what it made costs some 20 µs a run and a few
 * hundred ns an operation. NumPy does an operation on 300 KiB in 20 to 100 µs, so where little is
 * fused, or what is fused runs from the cache anyway, recording may lose, and by how much depends
 * on what the caches hold, on what NumPy would have reused in place, on what lies between. So it is
 * measured as a whole (choice.c), in rounds: from an operation that finds nothing pending until it
 * comes again so. A function that several lines call may begin with it. Nothing is ever pending in
 * NumPy's rounds, so they end when it has come as often as in the latest one that was recorded.
 * Where another one comes twice before that, as in a loop inside, the rounds are that one's. A loop
 * in which recording may lose at all (may_lose) has a trial.
 *
 * What nobody reads is always pending. There a round ends where its head comes after a limit has
 * made the loop run, and all of it runs first if NumPy's way is near (ends_with): then the next
 * round finds nothing pending, and may be NumPy's.
 *
 * Only operations take part whose results have the same bits either way. One that does not, or was
 * not met before in that loop, is recorded; a round of NumPy's ends there and is not compared.
 *
 * A round's way is its operators, ufuncs and subscripts in the user's own code. Functions and
 * methods go another way with an array of ours, so they are not compared, and one may be NumPy's
 * though no recorded round had it.
 *
 * In blocks arrays take part from a quarter of the threshold on, 64 KiB (tried_from): of their
 * rounds NumPy's are what they would be without that, small.c's (npa_passed), with its memory; what
 * lives long lies in ours (buffer.c). A call takes microseconds there, so what asking costs counts:
 * where NumPy's way is kept nobody asks until a trial more costs a small part of what the rounds
 * took (rest), and in the first second nobody does (rest_at_first), but where it has paid in the
 * last process with the same command (npa_smaller). Functions take part only if
 * their result waits, as a copy's does (npa_coarse).
 *
 * Rounds of NumPy's would put off compiling, so a recorded round counts for them too (weight). */

/* Note [New operations]
 *
 * What is recorded for the first time costs a millisecond or two: its rule, its key, Python that
 * chooses, NumPy's loops in new pages, the helper. An operation on 800 KB takes NumPy 25 to 100 µs,
 * and most operations of a program never come again. So what is met with nothing pending is NumPy's
 * until NumPy has done as much new work since the first time as recording it costs: in a loop of
 * one operation at the fortieth round, of ten at the fourth. At worst that doubles what was there
 * to lose. An operation that finds something pending is recorded with it, so a chain is begun by
 * its first operation.
 *
 * What is larger gains more from a program on disk, and NumPy takes as long as recording. Whether
 * there is one is known only when it was recorded; so up to 16 MiB it depends on whether the latest
 * ones were there.
 *
 * Bytes stand for time, since they do not depend on what else the machine does. Only what has the
 * same bits either way takes part. */
