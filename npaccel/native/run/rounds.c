/* rounds.c: how many requests run next: all, or rounds of a loop that the queue ends with. */
#include "run/run.h"
#include "run/flush.h"

#include <limits.h>
#include <string.h>

/* Fewer requests are one program, whatever they are; a loop has so many rounds and half as many
 * requests, else the cut is not where the program's own loop has its end (np.pad writes four sides
 * in one). A run of a loop has so many rounds, or requests. */
enum { LEAST_LOOPED = 64, LEAST_ROUNDS = 3, BITTEN_ROUNDS = 4, BITTEN = 256, LEAST_COMPARED = 16 };

/* Requests of rounds that run as one, at most; the same, with what comes before, of a loop that has
 * as many rounds each time. */
enum { TOGETHER = 64, TOGETHER_STEADY = 256 };

/* Whether its rounds run several together. */
static bool goes_together(void) { return npa_q.known.fuses || npa_q.known.apart; }

/* Of `left` rounds those that run as one. */
static int together(int left)
{
    int n = 1, period = npa_q.known.loop.period;
    if (npa_q.known.steady) {
        int most = period < TOGETHER_STEADY ? TOGETHER_STEADY / period : 1;
        return most < left ? most : left;
    }
    while (goes_together() && 2 * n <= left && 2 * n * period <= TOGETHER) {
        n *= 2;
    }
    return n;
}

/* Of loops that fuse, by what they look like: requests from look to look at results, and whether
 * these were as many the last times (1), not (less), or were met once (0). With the lock. */
static struct { uint64_t looks; int requests, same; } met_loops[64];

static bool is_steady(uint64_t looks)
{
    int k = (int)(looks % (sizeof met_loops / sizeof *met_loops));
    return met_loops[k].looks == looks && met_loops[k].same > 0;
}

/* Somebody looks at results: so many requests since the last time. */
static void note_end(uint64_t looks, int requests)
{
    enum { SETTLED = 4 };
    int k = (int)(looks % (sizeof met_loops / sizeof *met_loops)), same = met_loops[k].same;
    bool known = met_loops[k].looks == looks;
    met_loops[k].same = !known                              ? 0
                        : met_loops[k].requests != requests ? -SETTLED
                                                            : same + (same < 1);
    met_loops[k].looks = looks, met_loops[k].requests = requests;
}

/* How many requests it takes until a loop is looked for. */
static int next_look(void) { return npa_q.looked > 0 ? npa_q.looked : LEAST_LOOPED; }

/* Else no limit makes results appear, of which most may be dead before they are wanted. */
static bool fits(void) { return npa_q.fresh_bytes <= npa_memory_room(); }

static bool is_full(void)
{
    return npa_q.nrequests >= npa_queue_limit || (npa_q.fresh_bytes > npa_memory_limit && fits());
}

bool npa_over_limit(void)
{
    return (npa_q.nrequests >= next_look() && fits()) || is_full();
}

static bool is_known(void) { return npa_q.known.generation == npa_q.generation; }

/* A run that a limit forces goes on while there are two rounds: the last one may show more than
 * others. */
bool npa_goes_on(bool rounds)
{
    return !rounds || npa_over_limit() ||
           (is_known() && npa_q.known.cut && npa_q.known.loop.start == 0 &&
            (npa_q.known.loop.rounds > together(INT_MAX) || npa_q.known.end < npa_q.nrequests));
}

static bool is_cut(npa_loop loop)
{
    return loop.rounds >= LEAST_ROUNDS && loop.rounds * loop.period >= LEAST_LOOPED / 2;
}

/* The first loop of the queue: the one that it ends with, or one before that. */
static npa_loop first_loop(int *end)
{
    *end = npa_q.nrequests;
    npa_loop first = npa_loop_find(*end), before = first;
    while (is_cut(before) && before.start >= LEAST_LOOPED) {
        before = npa_loop_find(first.start);
        *end = is_cut(before) ? first.start : *end;
        first = is_cut(before) ? before : first;
    }
    return first;
}

/* Whether the next round, of as many requests, runs over other sizes. */
static bool sizes_change(int first, int period)
{
    bool same = first + 2 * period <= npa_q.nrequests;
    for (int i = first; same && i < first + period; i++) {
        const npa_request *a = (npa_request *)(npa_q.arena + npa_q.at[i]),
                          *b = (npa_request *)(npa_q.arena + npa_q.at[i + period]);
        if (a->ndim != b->ndim || memcmp(a->shape, b->shape, 8u * a->ndim) != 0) {
            return true;
        }
    }
    return false;
}

static void find_loop(bool rounds)
{
    int n = npa_q.nrequests;
    bool long_enough = n >= LEAST_LOOPED && !npa_match_inside() && !npa_check_mode;
    npa_q.known.generation = npa_q.generation, npa_q.known.end = n;
    npa_q.known.loop = long_enough                 ? first_loop(&npa_q.known.end)
                       : rounds && !npa_check_mode ? npa_loop_find(n)
                                                   : (npa_loop){0};
    npa_q.known.cut = long_enough && is_cut(npa_q.known.loop);
    npa_q.known.fuses = npa_q.known.cut && npa_loop_fuses(npa_q.known.loop);
    npa_q.known.apart = npa_q.known.cut && !npa_q.known.fuses &&
                        !sizes_change(npa_q.known.loop.start, npa_q.known.loop.period);
    uint64_t looks = npa_q.known.fuses ? npa_q.known.loop.looks : 0;
    if (rounds && looks != 0 && looks != npa_q.gone.looks) {
        npa_q.gone.looks = looks, npa_q.gone.requests = 0;
    } else if (!rounds) {
        looks = npa_q.gone.looks != 0 ? npa_q.gone.looks : looks;
        if (looks != 0) {
            note_end(looks, npa_q.gone.requests + n);
        }
        npa_q.gone.looks = 0, npa_q.gone.requests = 0;
    }
    npa_q.known.steady = npa_q.known.fuses && is_steady(looks);
}

/* How many requests run next; *round > 0: those are of a loop with so many a round, of which one
 * runs if there is code for it. rounds: a limit forces it, and the end of a loop's last round may
 * wait; as may all where there is no loop, and room (0). */
int npa_next_to_run(bool rounds, int *round)
{
    *round = 0;
    if (npa_q.urgent || npa_q.run.stopped) {
        return npa_q.nrequests;
    }
    if (!is_known() || (!rounds && npa_q.gone.looks != 0)) {
        find_loop(rounds);
    }
    npa_loop *loop = &npa_q.known.loop;
    if (rounds && !is_full() &&
        (!npa_q.known.cut || (goes_together() && loop->rounds <= together(INT_MAX)))) {
        npa_q.looked = 2 * next_look();
        return 0;
    }
    int end = loop->start + loop->rounds * loop->period;
    if (npa_q.known.cut && loop->start > 0 && !(npa_q.known.steady && end <= TOGETHER_STEADY)) {
        return loop->start;
    }
    int run = npa_q.known.steady ? together(loop->rounds) : together(loop->rounds - 1);
    *round = npa_q.known.cut && loop->rounds > run ? loop->period * run : 0;
    return rounds && loop->rounds > 0 && npa_q.known.end == npa_q.nrequests ? end : npa_q.known.end;
}

/* To ask Python about a round takes 0.1 ms, NumPy's loop 30 us for 256 KiB: of so many requests a
 * tenth. */
enum { LEAST_ALONE = 32 };

int npa_to_run_uncompiled(int requests, int period)
{
    if (period == 0 || !sizes_change(0, period)) {
        return requests;
    }
    int some = (LEAST_ALONE + period - 1) / period * period;
    return some < npa_q.known.loop.rounds * npa_q.known.loop.period ? some : requests;
}

/* How many requests of rounds show what `period` of them take block by block, in chains as long as
 * they may be. */
int npa_to_compare(int period)
{
    int least = 2 * period < LEAST_COMPARED ? LEAST_COMPARED / period : 2;
    int left = (npa_q.known.loop.rounds - 1) * npa_q.known.loop.period / period;
    return period * (least < left ? least : left);
}

/* So many requests have run, and left the queue; compiled: by code for one round of `period`, if
 * that is not 0. before: the generation until then. limited: nobody has looked at results. */
void npa_note_ran(int requests, int period, bool compiled, uint64_t before, bool limited)
{
    npa_loop *loop = &npa_q.known.loop;
    npa_q.gone.requests += limited ? requests : 0;
    bool first = loop->start > 0 && requests == loop->start;
    bool some = loop->start == 0 && requests < loop->rounds * loop->period &&
                requests % loop->period == 0;
    if (npa_q.known.generation == before && npa_q.known.cut && (first || some) &&
        npa_q.nrequests > 0) { /* short of memory, more may have run */
        loop->rounds -= some ? requests / loop->period : 0;
        loop->start = 0, npa_q.known.end -= requests;
        npa_q.known.generation = npa_q.generation;
    }
    if (period > 0) {
        int least = compiled ? LEAST_LOOPED : BITTEN;
        npa_q.looked = BITTEN_ROUNDS * period > least ? BITTEN_ROUNDS * period : least;
    } else if (npa_q.nrequests == 0) {
        npa_q.looked = LEAST_LOOPED;
    }
}
