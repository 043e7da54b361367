/* system.h: memory, pages, threads, system calls, machine code, and what the machine has of them.
 *
 * Knows bytes and the operating system. Must not know Python, NumPy, or what lies in the memory. C
 * tests of this room alone run under sanitizers (tests/native).
 *
 * pool.c       worker threads
 * os.h         what is the operating system's, in two implementations: linux/ and portable/
 * processor.h  what is the processor's, in processor/
 *
 * What linux/ has in these files, portable/ has in a few lines each: it says that there is none.
 *
 * memory.c   guarded ranges in reserved address space, nursery of recycled pages; slots.h tells of
 *            its parts slots.c, pages.c, parts.c and reservation.c
 * guard.c    fault handler and evaluator thread
 * watch.c    foreign memory that pending requests read, write-protected
 * imports.c  functions of the C library, exchanged in the import tables of every library;
 * tables.c   those of one
 * syscalls.c those that hand memory to the kernel: it sees what a touch would see
 * loader.c   machine code of kernels, from object files into executable memory
 * loaded.c   functions and constants of a library that somebody has loaded
 * process.c  a process is started by a thread
 * lend.c     to whom the processor of a worker is lent
 * interrupt.c Ctrl-C is noticed without Python; signals wait for our Python code
 * limits.c   how much memory and address space there is for this process
 * processor.c what the system tells of the processor
 */
#ifndef NPA_SYSTEM_H
#define NPA_SYSTEM_H

#include "system/os.h"
#include "system/processor.h"

static inline int64_t npa_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ------------------------------------------------------------------------------- memory.c */

typedef struct npa_shown_part npa_shown_part;
typedef struct npa_range npa_range;
struct npa_range {
    char *home;    /* address that arrays show; PROT_NONE unless published */
    char *work;    /* where its pages are: NULL none yet, == home published, else private pages */
    size_t size;   /* bytes asked for */
    size_t span;   /* bytes reserved at home, a multiple of its region's granule */
    void *buffer;  /* record.c's own */
    bool sealed;   /* published, and write-protected */
    npa_shown_part *parts; /* of what is hidden, that may be read */
    unsigned shown;  /* parts that ever appeared */
    npa_range *next; /* free list */
};

typedef struct {
    size_t reserved, live_ranges, live_bytes, nursery_bytes, part_bytes, mappings, mapping_budget;
    size_t published, recycled, fresh, sealed, used_bytes; /* used: by live ranges with pages */
    uint64_t broken; /* seals, by writes */
} npa_memory_stats;

/* Reserve the address space, an eighth of what is left where that is limited. 0, or an errno: then
 * ranges can't be had and nothing is deferred. */
int npa_memory_init(void);
bool npa_memory_limited(void); /* whether address space was, then or since */
/* Before address space is limited to so many bytes: what of the reservation no range has lain in is
 * given back, but for an eighth of what will be left then. With the caller's lock. False: that is
 * too little to go on with. */
bool npa_memory_make_way(size_t limit);
/* A range with a guarded home and no pages; NULL when address space or the budget of mappings is
 * spent. No system call in the common case. All calls below but find need the caller's lock. */
npa_range *npa_range_new(size_t bytes);
/* A range with pages that are at home already, from the nursery if it has some; zero: nothing has
 * used them. NULL: as above, or out of memory. */
npa_range *npa_range_shown(size_t bytes, bool *zero);
/* The live range whose home (its span) contains p, or NULL. Async-signal-safe, lock-free. */
npa_range *npa_range_find(const void *p);
/* Readable, writable private pages of at least `size` bytes to compute in, page-aligned (64-byte
 * aligned at least): the range's own, from the nursery if it has some. Content undefined when new.
 * NULL: out of memory. If the range is published its pages stay at home and home is returned. */
char *npa_range_work(npa_range *range);
/* The work pages appear at home, readable, writable and full, in one step. 0 or an errno. */
int npa_range_publish(npa_range *range);
/* Whether it has content that nobody has been shown. */
static inline bool npa_range_is_hidden(const npa_range *range)
{
    return range->work != NULL && range->work != range->home;
}
/* Whether nothing stands in the way of a read, or of a write. Async-signal-safe. */
static inline bool npa_range_serves(const npa_range *range, bool write)
{
    return __atomic_load_n(&range->work, __ATOMIC_ACQUIRE) == range->home &&
           !(write && __atomic_load_n(&range->sealed, __ATOMIC_ACQUIRE));
}
/* A published range's pages leave home (guarded again) and become work pages. 0 or an errno; EBUSY:
 * a system call is using it. */
int npa_range_withdraw(npa_range *range);
/* A published range's pages stay at home, where a write faults from now on. 0 or an errno; EBUSY:
 * as above. */
int npa_range_seal(npa_range *range);
void npa_range_unseal(npa_range *range); /* writes need not be seen; no part is shown */
void npa_range_break(npa_range *range);  /* the same, because of a write */
void npa_ranges_unseal(void);
/* parts.c: of a hidden range a part may be read at home, until it is written, withdrawn or
 * published, or hidden to make room. Pages for its content, writable and away from home; NULL: no
 * memory, or no mapping. */
char *npa_part_new(size_t bytes);
size_t npa_parts_room(void);            /* bytes that all parts may take */
void npa_parts_trim(size_t keep_bytes); /* the oldest ones are hidden */
void npa_part_drop(char *pages, size_t bytes);
/* They appear `low` bytes from home's start, a multiple of a page, full and read-only in one step,
 * where no part is yet. 0, or an errno: then they are dropped. */
int npa_range_show_part(npa_range *range, size_t low, char *pages, size_t bytes);
/* The first part that ends behind `at`; false: there is none. */
bool npa_range_part(const npa_range *range, size_t at, size_t *low, size_t *high);
void npa_range_hide_parts(npa_range *range);
static inline unsigned npa_range_shown_parts(const npa_range *range)
{
    return __atomic_load_n(&range->shown, __ATOMIC_ACQUIRE);
}
/* `dead` is over, and its work pages, as they are, become those of `heir`, which has none yet.
 * False: nothing happened, they are of different kinds. */
bool npa_range_inherit(npa_range *heir, npa_range *dead);
/* Whether nothing but missing pages is in the way of that. */
bool npa_range_fits(const npa_range *heir, const npa_range *dead);
/* The range is over; its pages go to the nursery. */
void npa_range_free(npa_range *range);
void npa_nursery_limit(size_t bytes); /* and at most an eighth of what the process may have */
void npa_nursery_trim(size_t keep_bytes);
/* Pages of ranges, those in the nursery among them, take so many bytes at most; 0: nine tenths of
 * what the process may have, and more where there is no other way. */
void npa_memory_most(size_t bytes);
size_t npa_memory_room(void); /* what is left of that, the nursery's counted as free */
/* Between these what can't be told of a shortage takes more. Whether there is a limit. */
bool npa_memory_beyond(bool on);
void npa_memory_read_stats(npa_memory_stats *out);
/* Sizes of the ranges of 64 KiB and more that got pages which nothing had used before, while
 * `notes` was set, from the first one on for a second or two; how many they are. */
enum { NPA_NEW = 256 };
extern bool npa_memory_notes;
int npa_memory_new(const size_t **sizes);
/* A range that nobody shows, with work pages that nothing has used, to be touched; they go to the
 * nursery, as if it were over; what is still there of that is given up. */
npa_range *npa_range_ahead(size_t bytes);
void npa_range_lend(npa_range *range);
void npa_nursery_trim_ahead(void);
extern atomic_bool npa_memory_lacks; /* a range got pages that nothing had used */
/* Where all homes lie; 0 bytes while there are none. */
extern struct npa_homes { uintptr_t base, bytes; } npa_homes;
static inline bool npa_is_home(const void *p)
{
    return (uintptr_t)p - npa_homes.base < npa_homes.bytes;
}

/* -------------------------------------------------------------------------------- guard.c */

/* Install the fault handler and start the evaluator thread at first fault. serve(range, touched)
 * runs on that thread, without the GIL; after it the range is published, and not sealed, or the
 * fault is a real one. touched: where; then a part around it may have appeared instead; if one had
 * before, it is a write. NULL: all of it is needed. served(), or NULL, runs on the thread that
 * touched, perhaps in the handler. */
int npa_guard_install(void (*serve)(npa_range *range, const void *touched), void (*served)(void));
/* Whether our handler is still the one in force (re-chains if it is not); cheap (one sigaction). */
bool npa_guard_check(void);
uint64_t npa_guard_faults(void);
/* This thread: what it touches in vain is a crash, since others wait for it */
void npa_guard_never_waits(void);
bool npa_guard_evaluates(void); /* whether this thread is the evaluator */
/* Faults outside the ranges: watched(address), in the handler, tells what to do; if requests
 * read that memory, serve(address) runs on the evaluator's thread before the write is repeated. */
enum { NPA_NOT_WATCHED, NPA_WATCH_RETRY, NPA_WATCH_PENDING };
void npa_guard_watch(int (*watched)(const void *address), void (*serve)(const void *address));
/* As if all of [low, high) were read, or written, but for the fault. Keeps errno. */
void npa_guard_settle(const char *low, const char *high, bool written);

/* Memory that is written again and again while requests are to read it: each time they run, which
 * costs more than reading at once does. From the second time on the next 4, 8, 16 ... requests read
 * it at once. */
typedef struct {
    unsigned char writes;
    unsigned short reads; /* that are to come */
} npa_patience;
static inline void npa_patience_tried(npa_patience *p)
{
    enum { MOST = 12 };
    p->writes = (unsigned char)(p->writes < MOST ? p->writes + 1 : MOST);
    p->reads = (unsigned short)(p->writes > 1 ? 1 << p->writes : 0);
}
/* Whether a request may wait that reads it. */
static inline bool npa_patience_left(npa_patience *p)
{
    bool left = p->reads == 0;
    p->reads = (unsigned short)(left ? 0 : p->reads - 1);
    return left;
}

/* -------------------------------------------------------------------------------- watch.c */

/* One piece of somebody else's private, readable, writable memory. Its whole pages, or some, may
 * be read-only: "armed". Calls need the GIL and the lock, except as noted. */
typedef struct npa_watch npa_watch;
struct npa_watch {
    char *base; /* the piece */
    size_t size;
    _Atomic(char *) low, high; /* the pages that are its alone */
    atomic_int state;
    char *armed_low, *armed_high;
    char *ends; /* copy of the bytes before `low` and from `high` on, while held */
    bool exported; /* somebody may write into it through a buffer, in a system call */
    npa_patience patience;
    npa_watch *next; /* of its bucket, or free */
};
typedef struct {
    uint64_t faults;
    size_t armed;
} npa_watch_stats;

npa_watch *npa_watch_find(const char *base); /* the piece that begins there, or NULL; GIL alone */
npa_watch *npa_watch_around(const char *low, const char *high); /* a piece that contains these */
npa_watch *npa_watch_new(char *base, size_t size); /* NULL: there are too many */
void npa_watch_drop(npa_watch *w);
/* From now on [low, high) of the piece can't be changed unnoticed. False: can't be done, costs more
 * than reading `worth` bytes, or a system call is using the piece. */
bool npa_watch_hold(npa_watch *w, const char *low, const char *high, size_t worth);
bool npa_watch_held(npa_watch *w);
/* Whether other memory shares a page with it and is therefore not protected. */
bool npa_watch_has_ends(const npa_watch *w);
/* Of a held piece: whether its ends, which no page protects, are other than they were. */
bool npa_watch_changed(const npa_watch *w);
/* A copy of a held piece as it was, in a new mapping of size w->size. NULL: out of memory. */
char *npa_watch_copy(const npa_watch *w);
void npa_watch_copy_free(const npa_watch *w, char *copy);
void npa_watch_release(npa_watch *w); /* no longer held; stays armed. GIL not needed */
void npa_watch_open(npa_watch *w);    /* writable, held or not. GIL not needed */
void npa_watch_open_all(void);
int npa_watch_fault(const void *address); /* for npa_guard_watch; async-signal-safe */
/* An address in [low, high) that may not be written unnoticed, or NULL. Async-signal-safe. */
const char *npa_watch_armed(const char *low, const char *high);
/* All pages that were ever to be armed lie in here. */
extern struct npa_watched { atomic_uintptr_t low, high; } npa_watched;
static inline bool npa_watch_near(const void *low, const void *high)
{
    return (uintptr_t)low < atomic_load(&npa_watched.high) &&
           (uintptr_t)high > atomic_load(&npa_watched.low);
}
void npa_watch_read_stats(npa_watch_stats *out);

/* ------------------------------------------------------------------------------ imports.c */

typedef struct {
    /* Found; changed; changed; where it is not allowed */
    int functions, libraries, entries, refused;
} npa_imports_stats;

void npa_imports_check(void); /* whether something was loaded since. Where it may be waited for. */
void npa_imports_restore(void);
void npa_imports_read_stats(npa_imports_stats *out);
void *npa_imports_instead_of(const void *function); /* of one that is real; else NULL */

/* ----------------------------------------------------------------------------- syscalls.c */

/* From now on system calls through the C library are served, in every library that is loaded now,
 * or will be. 0, or an errno: ENOSYS where that is not known, ENOENT no function is, EBUSY another
 * thread is at it, EACCES nothing could be changed. `limited` is told before this process's address
 * space is limited to so many bytes; it may be any thread's. `numpys`: something in NumPy's
 * library, which gets npaccel's memmove, too. */
int npa_calls_serve(void (*limited)(size_t to), const void *numpys);

/* ------------------------------------------------------------------------------- copies.c */

/* As memmove, and as fast where that is slow. */
void *npa_copy_bytes(void *to, const void *from, size_t n);

/* --------------------------------------------------------------------------------- pool.c */

typedef void (*npa_task)(void *context, int64_t task, int worker);

/* Run task(context, 0..tasks-1) on the caller and at most threads-1 workers; returns when every
 * claimed task is done. Workers that have not started are not waited for. Nested and concurrent
 * calls are allowed. When *cancel becomes nonzero no further task is claimed; then returns 1. */
int npa_pool_run(npa_task task, void *context, int64_t tasks, const atomic_int *cancel);
/* Like npa_pool_run, but calls poll(arg), if that is not NULL, on the calling thread about every 20
 * ms while tasks are outstanding (also between its own tasks); poll returning nonzero cancels.
 * *took: the nanoseconds that one thread takes, as the last launch of this kind found; 0:
 * unknown. */
int npa_pool_run_polled(npa_task task, void *context, int64_t tasks, int (*poll)(void *), void *arg,
                        int64_t *took);
int64_t npa_pool_jobs(void); /* How often npa_pool_run, or the next one, was called. */
void npa_pool_count_job(void); /* For own loops on threads of their own. */
void npa_pool_threads(int threads); /* 1: caller alone; 0: what affinity and quota allow */
int npa_pool_size(void);
void npa_pool_start(void); /* its threads, before the first launch */
bool npa_pool_on_worker(void); /* Whether this thread is one of the workers. Async-signal-safe. */
/* At least `bytes` of 64-byte aligned scratch belonging to `worker` (0 = any caller's own slot,
 * as passed to the task), kept between tasks; NULL: out of memory. */
char *npa_pool_scratch(int worker, size_t bytes);

/* --------------------------------------------------------------------------------- lend.c */

/* A thread fewer runs, so that the helper process gets a processor, until there is something to
 * read from this descriptor; -1: no longer. */
void npa_pool_lend(int from);
bool npa_pool_lends(void);

/* ------------------------------------------------------------------------------- loader.c */

/* Executable memory of one object, from a page boundary on. Calls need the GIL. */
typedef struct { char *base; size_t size; } npa_code;
/* Load a relocatable ELF object; addresses[k]: of its function names[k]. NULL, or why not (a
 * constant string; then nothing is kept). Nothing in the image is believed. */
const char *npa_code_load(const char *image, size_t size, const char *const *names, int n,
                          uint64_t *addresses, npa_code *code);
void npa_code_free(npa_code *code);
size_t npa_code_bytes(void); /* of all objects that are loaded now */

/* ------------------------------------------------------------------------------- loaded.c */

void *npa_loaded(const char *path); /* a library that is loaded already; NULL: it is not */
void (*npa_loaded_function(void *library, const char *name))(void); /* or NULL */
/* Whether the caller was called by a function of this name in the library of `near`, with no code
 * in between but of both; false, too, where that is not known. Some microseconds. */
bool npa_called_from(const char *name, void (*near)(void));
/* Each piece of read-only memory of the library, or program, that this function lies in. */
typedef void npa_visit_words(const uint64_t *words, size_t n, void *context);
void npa_visit_constants(void (*function)(void), npa_visit_words *visit, void *context);

/* ------------------------------------------------------------------------------ process.c */

/* A process that a thread starts, so that nobody waits for it. It has the pipe's end `in` for its
 * input, `out` for its output, and writes its errors to a file. */
typedef struct npa_process npa_process;
/* arguments, added: as `exec` takes them; they stay until npa_process_free. The environment is this
 * process's, but for what begins with `left_out`, and `added`. *to, *from: our ends of the two
 * pipes, which do not wait. With the GIL: Python changes the environment.
 * 0, or an errno. */
int npa_process_start(char *const *arguments, const char *left_out, char *const *added,
                      const char *errors, npa_process **process, int *to, int *from);
/* Its number, or why there is none. May wait; without Python's lock. 0, or an errno. */
int npa_process_wait(npa_process *p, int64_t *number);
/* After that: end it, if it has not ended. */
void npa_process_kill(npa_process *p);
void npa_process_free(npa_process *p);

/* ---------------------------------------------------------------------------- interrupt.c */

bool npa_on_main_thread(void);
/* Begin: with the GIL; true: end must follow, and npa_interrupted says whether SIGINT came
 * since. */
bool npa_interrupts_begin(void);
void npa_interrupts_end(void);
int npa_interrupted(void *unused);
/* From now on signals for which `handled` says so wait, if this is the main thread. true: release
 * must follow, which sends them. They nest. With the GIL. */
bool npa_signals_hold(bool (*handled)(int number));
void npa_signals_release(void);
void npa_signals_forked(void); /* by another thread, whose child holds none */

/* ------------------------------------------------------------------------------- limits.c */

/* bytes: the machine's, or of the control group if that is less */
size_t npa_limit_memory(void);
size_t npa_limit_addresses(void); /* bytes that may still be mapped; SIZE_MAX: nobody set a limit */
size_t npa_limit_free(void); /* bytes that nobody uses now */
double npa_limit_machine(void); /* the machine's, with what it can swap */
size_t npa_limit_cache(void); /* a processor's second cache; 0: not known */

/* ----------------------------------------------------------------------------- processor.c */

/* Text that tells processors apart, as far as the system can; 0-terminated. */
void npa_system_processor(char *out, size_t size);

#endif
