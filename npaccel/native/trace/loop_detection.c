/* loop_detection.c: a flush that a limit forces ends where a loop of the user's does, and the
 * requests after it stay in the queue: every round of a long loop then runs the same program. */
#include "trace/trace.h"

#include <string.h>

/* What a request looks like from outside: its line, its operation and its rank. */
static uint64_t appearance(const npa_request *r)
{
    uint64_t h = (uint64_t)(uintptr_t)r->code;
    h = (h ^ (uint32_t)r->lasti) * 0x9E3779B97F4A7C15u;
    h = (h ^ r->rule->id ^ (uint64_t)r->ndim << 32 ^ (uint64_t)r->axes << 40) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

/* seen[i] = how many of the items from i on are as those from 0 on (the "Z function"). */
static void count_repeats(const uint64_t *items, int n, int *seen)
{
    seen[0] = n;
    for (int i = 1, left = 0, right = 0; i < n; i++) {
        int z = i < right && seen[i - left] < right - i ? seen[i - left]
                : i < right                             ? right - i
                                                        : 0;
        while (i + z < n && items[z] == items[i + z]) {
            z++;
        }
        if (i + z > right) {
            left = i, right = i + z;
        }
        seen[i] = z;
    }
}

/* The last of the items that some other one is like, and one more: what follows a loop is met
 * once. */
static int count_to_repeated(const uint64_t *items, int n)
{
    size_t slots = 4;
    while (slots < 2 * (size_t)n) {
        slots *= 2;
    }
    /* Per item the place of the first such one, and 1 */
    int32_t *first = calloc(slots, sizeof *first);
    int end = first != NULL ? 0 : n;
    for (int i = 0; i < n && first != NULL; i++) {
        size_t at = items[i] & (slots - 1);
        while (first[at] != 0 && items[first[at] - 1] != items[i]) {
            at = (at + 1) & (slots - 1);
        }
        end = first[at] != 0 ? i + 1 : end;
        first[at] = first[at] != 0 ? first[at] : i + 1;
    }
    free(first);
    return end;
}

/* The shortest period with which the end of the items, which come last one first, repeats itself at
 * least once. A loop inside another has a shorter one that reaches less far back, so the period
 * that reaches furthest counts. */
static npa_loop find_period(const uint64_t *items, int n, int *seen)
{
    int period = 0, covered = 0;
    count_repeats(items, n, seen);
    for (int p = 1; 2 * p <= n; p++) {
        if (seen[p] >= p && seen[p] + p > covered) {
            period = p, covered = seen[p] + p;
        }
    }
    return (npa_loop){n - covered, period, period > 0 ? covered / period : 0, 0};
}

/* crossing[i] = how many buffers requests before i use, and some from i on; of the first n
 * requests. */
static void count_crossing(int n, int *crossing, int *first)
{
    int *last = first + npa_q.nbuffers;
    memset(crossing, 0, sizeof *crossing * (size_t)(n + 1));
    memset(first, -1, 2 * sizeof *first * (size_t)npa_q.nbuffers);
    for (int i = 0; i < n; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        for (int k = 0; k < npa_operand_count(r); k++) {
            int b = npa_operand_at(r, k)->buffer;
            if (b >= 0) {
                first[b] = first[b] < 0 ? i : first[b];
                last[b] = i;
            }
        }
    }
    for (int b = 0; b < npa_q.nbuffers; b++) {
        if (first[b] >= 0) {
            crossing[first[b] + 1]++, crossing[last[b] + 1]--;
        }
    }
    for (int i = 1; i <= n; i++) {
        crossing[i] += crossing[i - 1];
    }
}

/* The same loop, begun where the fewest buffers go from round to round, as at the head of the
 * user's. Note [Rotation] */
static npa_loop begin_at_head(npa_loop loop, int n)
{
    int *crossing = malloc(sizeof *crossing * ((size_t)n + 2 + 2 * (size_t)npa_q.nbuffers));
    if (crossing != NULL) {
        count_crossing(n, crossing, crossing + n + 2);
        /* Nothing is before the first round */
        int second = loop.start + loop.period, best = second;
        for (int i = second; i < second + loop.period; i++) {
            best = crossing[i] < crossing[best] ? i : best;
        }
        loop.start += best - second;
        loop.rounds = (n - loop.start) / loop.period;
    }
    free(crossing);
    return loop;
}

/* The loop that the last of the first n requests are in, but for those that none of them is like.
 * With the lock. Note [Boundaries] */
npa_loop npa_loop_find(int n)
{
    int room = n;
    npa_loop found = {0};
    uint64_t *items = malloc(2 * sizeof *items * (size_t)(n + 1));
    int *seen = malloc(sizeof *seen * (size_t)(n + 1));
    if (items != NULL && seen != NULL && n > 1) {
        for (int i = 0; i < n; i++) {
            items[i] = appearance((npa_request *)(npa_q.arena + npa_q.at[i]));
        }
        n = count_to_repeated(items, n);
        for (int i = 0; i < n; i++) {
            items[room + i] = items[n - 1 - i];
        }
        found = n > 1 ? find_period(items + room, n, seen) : found;
        found = found.rounds > 2 ? begin_at_head(found, n) : found;
        if (found.rounds > 0) {
            found.looks = appearance((npa_request *)(npa_q.arena + npa_q.at[found.start])) * 31 +
                          (uint64_t)found.period;
        }
    }
    free(items), free(seen);
    return found;
}

/* Whether two rounds of the loop, and so all that are like them, are maps over one space in which
 * each array is used in one way: then they make one kernel, however many. Not where a round has a
 * function of many operations: it is bound by arithmetic already, and several of them in one body
 * leave it too few registers (1, 4, 13 cosines: 0.35, 0.53, 1.0 ms each). With the lock. */
bool npa_loop_fuses(npa_loop loop)
{
    const npa_request *first = (npa_request *)(npa_q.arena + npa_q.at[loop.start]);
    const npa_operand **seen = calloc((size_t)npa_q.nbuffers + 1, sizeof *seen);
    size_t shape = sizeof *first->shape * first->ndim;
    bool fuses = seen != NULL && loop.rounds > 1;
    for (int i = loop.start; fuses && i < loop.start + 2 * loop.period; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        fuses = r->rule->kind == NPA_MAP && !r->rule->inexact && r->axes == 0 &&
                r->ndim == first->ndim && memcmp(r->shape, first->shape, shape) == 0;
        for (int k = 0; fuses && k < npa_operand_count(r); k++) {
            const npa_operand *o = npa_operand_at(r, k);
            const npa_operand *other = o->buffer >= 0 ? seen[o->buffer] : NULL;
            if (o->buffer >= 0 && other == NULL) {
                seen[o->buffer] = o;
            }
            fuses = other == NULL ||
                    (o->offset == other->offset && memcmp(o->at, other->at, shape) == 0);
        }
    }
    free(seen);
    return fuses;
}

int npa_loop_apart(int requests)
{
    const npa_loop *loop = &npa_q.known.loop;
    bool apart = npa_q.known.generation == npa_q.generation && npa_q.known.apart &&
                 loop->start == 0 && requests > loop->period &&
                 requests <= loop->rounds * loop->period && requests % loop->period == 0;
    return apart ? loop->period : 0;
}

/* Note which buffers the requests from `first` on use. With the lock. */
void npa_mark_later(int first)
{
    for (int i = 0; i < npa_q.nbuffers; i++) {
        npa_q.buffers[i]->later = npa_used_elsewhere(npa_q.buffers[i]);
    }
    for (int i = first; i < npa_q.nrequests; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        for (int k = 0; k < npa_operand_count(r); k++) {
            int buffer = npa_operand_at(r, k)->buffer;
            if (buffer >= 0) {
                npa_q.buffers[buffer]->later = true;
            }
        }
    }
}

/* The first `done` requests have run: those after them become the whole queue, and their buffers
 * are numbered by first use; the others have no number. With the lock. */
void npa_keep_rest(int done)
{
    int n = npa_q.nrequests - done, numbered = 0;
    for (int i = 0; i < npa_q.nbuffers; i++) {
        npa_q.buffers[i]->number = -1;
    }
    for (int i = 0; i < n; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[done + i]);
        for (int k = 0; k < npa_operand_count(r); k++) {
            npa_operand *o = npa_operand_at(r, k);
            if (o->buffer >= 0) {
                npa_buffer *b = npa_q.buffers[o->buffer];
                b->number = b->number < 0 ? numbered++ : b->number;
                o->buffer = b->number;
            }
        }
    }
    size_t gone = n > 0 ? npa_q.at[done] : npa_q.used;
    memmove(npa_q.arena, npa_q.arena + gone, npa_q.used - gone);
    for (int i = 0; i < n; i++) {
        npa_q.at[i] = npa_q.at[done + i] - gone;
    }
    npa_q.nrequests = n, npa_q.used -= gone;
    for (npa_buffer **at = &npa_q.foreign; *at != NULL;) {
        npa_buffer *b = *at;
        if (b->number >= 0) {
            at = &b->next;
        } else {
            *at = b->next;
            npa_q.copied_bytes -= b->source != NULL ? b->size : 0;
        }
    }
}

static bool is_written_by(const npa_request *r, int k)
{
    return k >= r->nin && k < r->nin + r->nout;
}

/* The `n` buffers that stay are the first ones, in any order: put them in theirs, and note which
 * the requests that are left write. With the lock. */
void npa_rest_kept(int n)
{
    npa_q.nbuffers = n;
    for (int i = 0; i < n; i++) {
        while (npa_q.buffers[i]->number != i) {
            npa_buffer *b = npa_q.buffers[i];
            npa_q.buffers[i] = npa_q.buffers[b->number];
            npa_q.buffers[b->number] = b;
        }
        if (&npa_q == &npa_recorded) {
            npa_q.buffers[i]->index = i;
        }
    }
    for (int i = 0; i < npa_q.nrequests; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        for (int k = 0; k < npa_operand_count(r); k++) {
            if (is_written_by(r, k)) {
                npa_q.buffers[npa_operand_at(r, k)->buffer]->pending = true;
            }
        }
    }
}

/* Note [Boundaries]
 *
 * A loop of 37 requests under a limit of 1000 would be cut at 1000, 2000, ...: each time at another
 * place of its body, and each such queue is another program. And each stretch between two looks at
 * its result is one, as long as it is. So a queue is searched for the loop that it ends with, but
 * for requests behind it that nothing is like. The rounds are found in the queue itself: the
 * shortest period with which it repeats itself at least once. A loop inside another has a shorter
 * period that reaches less far back, so the period that reaches furthest counts; only where rounds
 * of the outer loop differ, or two of them do not fit in, is it the inner one. A few requests alike
 * at the end cut nothing (rounds.c): they are a loop of some function's, and the next round, which
 * may be longer by one request before them, would be cut elsewhere.
 *
 * What a flush runs (flush.c): what comes before the first loop; its rounds where there is code for
 * them, found by their own key, since rounds may differ in all but their lines; the last one with
 * what follows, until another loop begins. Rounds that would make one kernel run several together,
 * so that not each of them goes through memory: all of them, and what follows, where a loop had as
 * many rounds the last times; else a power of two, and what other numbers leave over is smaller
 * powers, so that a loop whose rounds vary needs few programs. So do other rounds whose sizes stay
 * (npa_loop_apart). There no kernel has requests of two rounds, so they are the same ones in each,
 * compiled once; they follow each other through memory (chain.c), and what a run costs beside its
 * kernels is paid once. Planned as any other requests, rounds would share kernels that are others
 * in each, of which many are slower. Rounds whose sizes change run one by one.
 * Without code all of it is one run, which is the quicker way there (chains stay in the cache);
 * but where the next round has other sizes, a few rounds are, since there may be code for those to
 * come. Where a limit forces it, it ends with the last whole round but one. What a round leaves
 * for the next stays hidden, as if that had been recorded after the run: whoever looks at it makes
 * the rest of the queue run. */

/* Note [Rotation]
 *
 * Where in its body a loop is first met is chance: what came before the first request was NumPy's,
 * or somebody looked at a result. The same loop, begun elsewhere, is another program, to be
 * compiled anew: three of them for a loop whose result is printed now and then. So its rounds begin
 * where the fewest buffers are used on both sides, which is the head of the user's loop as a rule:
 * between statements of a body there are temporaries. Where several places are alike the first one
 * is taken, so a loop that begins well stays. */
