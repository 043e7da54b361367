/* hinder.c: what keeps lines of the program from gaining, and the time that they take; for
 * explain() and the last word of `npaccel run`. Note [Looks] */
#include "trace/trace.h"

enum { LEAST_LEFT = 256, VARIED = 512 }; /* calls until the next look */
#define MOST_BETWEEN 20e-6 /* seconds; what lies between two calls that long is something else */

static const char *const names[NPA_HINDRANCES] = {
    [NPA_SUBCLASS] = "subclass", [NPA_SMALL] = "small",       [NPA_ELEMENT] = "element",
    [NPA_AT_ONCE] = "at once",   [NPA_SLOWER] = "slower",     [NPA_RARE] = "rare",
    [NPA_WRITTEN] = "written",   [NPA_EXPORTED] = "exported", [NPA_WATCHED] = "watched",
    [NPA_STRICT] = "strict",     [NPA_READ] = "read",         [NPA_POINTER] = "pointer",
    [NPA_ASKED] = "asked",       [NPA_FULL] = "full"};
static PyObject *kinds[NPA_HINDRANCES];

int npa_until_look = LEAST_LEFT, npa_look_inside;
static uint32_t drawn = LEAST_LEFT, state = 1; /* calls that the next look stands for */
/* The next call, out of turn */
static struct { bool is; enum npa_hindrance kind; int left; } chosen;
static struct { double since; uint32_t calls; } between; /* since 0: not looked at */
static double clock_s; /* what looking at the clock adds to a stretch */
/* Since when the calls are that a look stands for; what of that time has not been told */
static double drawn_at, untold_s;

static __thread enum npa_hindrance because = NPA_READ;
static struct { uint64_t runs, requests, ns; } touched; /* with the lock */

static void draw(void)
{
    state = state * 1664525u + 1013904223u;
    drawn = LEAST_LEFT + (state >> 16) % VARIED;
    npa_until_look = (int)drawn;
    drawn_at = npa_seconds();
}

/* What a look says that calls took: no longer than they had, whatever stopped the one looked at. */
static double told(const npa_stretch *s, double took)
{
    double all = s->between + (took > 0 ? took : 0) * s->calls;
    if (chosen.is) {
        return all;
    }
    untold_s = s->calls > 0 ? npa_seconds() - drawn_at : untold_s;
    all = all < untold_s ? all : untold_s;
    untold_s -= all;
    return all;
}

npa_stretch npa_stretch_begin(void)
{
    npa_stretch s = {.calls = chosen.is ? 1 : between.since > 0 ? 0 : drawn};
    if (between.since > 0) { /* the call before was looked at */
        double took = npa_seconds() - between.since - clock_s;
        s.between = took > 0 && took < MOST_BETWEEN ? took * between.calls : 0;
        between.since = 0;
        draw();
    } else if (chosen.is) {
        npa_until_look = chosen.left;
    }
    if (chosen.is) { /* large arrays: NumPy's time, as that of what is handed to it */
        s.timed = true, s.clock = npa_now(NPA_IN_NUMPY);
    }
    s.since = npa_seconds();
    return s;
}

void npa_stretch_end(const npa_stretch *s, enum npa_hindrance kind, size_t bytes)
{
    double now = npa_seconds(), took = now - s->since - clock_s;
    if (s->timed) {
        npa_now(s->clock);
    }
    bool slower = npa_passed || (npa_rests() && bytes < npa_ours_here());
    bool large = kind == NPA_SMALL && bytes >= (slower ? npa_tried_here() : npa_ours_here());
    kind = chosen.is ? chosen.kind : !large ? kind : slower ? NPA_SLOWER : NPA_AT_ONCE;
    npa_rest_is_over(now);
    double size = kind < NPA_WRITTEN ? (double)bytes : 1;
    npa_count_hindrance(kinds[kind], s->calls, told(s, took), size * s->calls);
    if (!chosen.is && s->calls > 0) {
        between.since = npa_seconds(), between.calls = s->calls;
        npa_until_look = 1;
    }
    chosen.is = false;
}

void npa_stretch_drop(const npa_stretch *s)
{
    if (s->timed) {
        npa_now(s->clock);
        npa_until_look = 0;
    }
}

void npa_look_next(enum npa_hindrance kind)
{
    chosen.left = chosen.is ? chosen.left : npa_until_look;
    chosen.is = true, chosen.kind = kind;
    npa_until_look = 0;
}

void npa_run_because(enum npa_hindrance kind) { because = kind; }

void npa_hinder_ran(int requests, double seconds)
{
    if (requests > 0) {
        npa_count_hindrance(kinds[because], 1, seconds, requests);
    }
    because = NPA_READ;
}

/* Whose line it was is not known there: the next operation that is recorded stands for it. */
void npa_hinder_touched(int requests, uint64_t ns)
{
    touched.runs++, touched.requests += (uint64_t)requests, touched.ns += ns;
}

void npa_hinder_found(void)
{
    if (touched.runs > 0) {
        npa_lock();
        uint64_t runs = touched.runs, requests = touched.requests, ns = touched.ns;
        touched.runs = touched.requests = touched.ns = 0;
        npa_unlock();
        npa_count_hindrance(kinds[NPA_POINTER], runs, 1e-9 * (double)ns, (double)requests);
    }
}

int npa_hinder_init(void)
{
    drawn_at = npa_seconds();
    for (int i = 0; i < NPA_HINDRANCES; i++) {
        if ((kinds[i] = PyUnicode_InternFromString(names[i])) == NULL) {
            return -1;
        }
    }
    clock_s = 1e-6;
    for (int i = 0; i < 16; i++) {
        double start = npa_seconds(), took = npa_seconds() - start;
        clock_s = took < clock_s ? took : clock_s;
    }
    return 0;
}

/* Note [Looks]
 *
 * A call of NumPy's on a small array takes less than a microsecond, of which looking at the clock
 * and at the line would be a third. So one call in 256 to 767 is looked at, drawn at random lest a
 * loop of as many calls show the same one each time, and counts for as many as were drawn. What
 * Python does between such a call and the next one belongs to it: that is what a loop over elements
 * spends its time with. Calls on arrays from 1 MiB on take some tens of microseconds and more, and
 * are all looked at, as are runs. */
