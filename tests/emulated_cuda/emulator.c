/* emulator.c: NVIDIA's driver for tests: its functions, on the host's memory and with its threads'
 * one.
 *
 * What a stream was asked for is done when somebody waits for it, and not before, so that nothing
 * is right by luck. Of a group's items each is a fiber; at a barrier the next one has its turn, in
 * an order that changes. Machine code is LLVM IR here: Python, called back, compiles it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { OK, INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700 };
enum { MOST_CONTEXTS = 16, MOST_ITEMS = 1024, STACK = 256 << 10, MOST_ARGUMENTS = 512 };
enum { CONTEXT = 0x1000 };
enum { EDGE = 256, ANYTHING = 0xA5 }; /* bytes around memory, and what new memory has in it */

typedef void kernel(void *const *arguments);
typedef struct { kernel *run; int arguments; bool waits; } function;
typedef struct op {
    enum { COPY, LAUNCH } what;
    char *to;
    const char *from;
    char *own; /* `from`, where it was copied */
    size_t size;
    function *function;
    unsigned groups, items;
    uint64_t arguments[MOST_ARGUMENTS];
    struct op *next;
} op;
typedef struct stream { op *first, **last; uint64_t asked, done; struct stream *next; } stream;
typedef struct { stream *stream; uint64_t number; } event;
typedef struct pinned { char *at; size_t size; struct pinned *next; } pinned;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static stream *streams;
static pinned *pins;
static size_t used, limit = (size_t)1 << 32;
static int32_t failure, fail_next; /* of what runs later: told by who waits */
static int64_t launches;
static _Thread_local int depth;

/* Python's: compiles, and finds a function; how many arguments it has, and whether it waits. */
static int64_t (*load_text)(const char *text, size_t size);
static void *(*find)(int64_t module, const char *name, int *arguments, int *waits);

void emulator_set(void *load, void *look)
{
    load_text = (int64_t (*)(const char *, size_t))load;
    find = (void *(*)(int64_t, const char *, int *, int *))look;
}
void emulator_limit(size_t bytes) { limit = bytes; }
/* The next launch fails, and all that follows; 0: nothing ever did. */
void emulator_fail(int status)
{
    fail_next = status;
    failure = status == OK ? OK : failure;
}
int64_t emulator_launches(void) { return launches; }
size_t emulator_used(void) { return used; }

/* ------------------------------------------------------------------------------------- items */

static struct {
    ucontext_t scheduler, fibers[MOST_ITEMS];
    char *stacks;
    bool over[MOST_ITEMS];
    unsigned item, group, groups;
    function *function;
    void *arguments[MOST_ARGUMENTS];
} now;

uint32_t emulated_tid(void) { return now.item; }
uint32_t emulated_ctaid(void) { return now.group; }
uint32_t emulated_nctaid(void) { return now.groups; }
void emulated_barrier(void)
{
    unsigned item = now.item;
    swapcontext(&now.fibers[item], &now.scheduler);
}

static void run_item(void)
{
    now.function->run(now.arguments);
    now.over[now.item] = true;
}

/* False: some items wait for others that are through. */
static bool run_waiting(unsigned items)
{
    for (unsigned k = 0; k < items; k++) {
        getcontext(&now.fibers[k]);
        now.fibers[k].uc_stack.ss_sp = now.stacks + (size_t)k * STACK;
        now.fibers[k].uc_stack.ss_size = STACK;
        now.fibers[k].uc_link = &now.scheduler;
        makecontext(&now.fibers[k], run_item, 0);
        now.over[k] = false;
    }
    for (unsigned turn = 0, over = 0; over < items; turn++) {
        over = 0;
        for (unsigned k = 0; k < items; k++) {
            now.item = turn % 2 ? items - 1 - k : k;
            swapcontext(&now.scheduler, &now.fibers[now.item]);
        }
        for (unsigned k = 0; k < items; k++) {
            over += now.over[k];
        }
        if (over != 0 && over != items) {
            return false;
        }
    }
    return true;
}

static int32_t run_launch(op *o)
{
    now.function = o->function, now.groups = o->groups;
    memcpy(now.arguments, o->arguments, sizeof now.arguments);
    if (now.stacks == NULL) {
        now.stacks = malloc((size_t)STACK * MOST_ITEMS);
    }
    for (now.group = 0; now.group < o->groups; now.group++) {
        if (!o->function->waits) {
            for (now.item = 0; now.item < o->items; now.item++) {
                o->function->run(now.arguments);
            }
        } else if (!run_waiting(o->items)) {
            return ILLEGAL_ADDRESS;
        }
    }
    return OK;
}

/* ----------------------------------------------------------------------------------- streams */

static void run_one(stream *s)
{
    op *o = s->first;
    s->first = o->next;
    s->last = s->first == NULL ? &s->first : s->last;
    s->done++;
    if (failure == OK && o->what == COPY) {
        memcpy(o->to, o->from, o->size);
    } else if (failure == OK) {
        failure = fail_next != OK ? fail_next : run_launch(o);
        fail_next = OK;
    }
    free(o->own), free(o);
}

static int32_t run_until(stream *s, uint64_t number)
{
    while (s->done < number) {
        run_one(s);
    }
    return failure;
}

static int32_t run_all(void)
{
    for (stream *s = streams; s != NULL; s = s->next) {
        run_until(s, s->asked);
    }
    return failure;
}

static op *ask(stream *s, op with)
{
    op *o = malloc(sizeof *o);
    *o = with, o->next = NULL;
    *s->last = o, s->last = &o->next;
    s->asked++;
    return o;
}

static bool is_pinned(const char *at)
{
    for (const pinned *p = pins; p != NULL; p = p->next) {
        if (p->at <= at && at < p->at + p->size) {
            return true;
        }
    }
    return false;
}

/* Every function but those that need none, within a context. */
#define BEGIN()                                                                                    \
    if (depth == 0) {                                                                              \
        return INVALID_CONTEXT;                                                                    \
    }                                                                                              \
    pthread_mutex_lock(&mutex)
static int32_t end(int32_t status)
{
    pthread_mutex_unlock(&mutex);
    return status;
}

/* ----------------------------------------------------------------------- the driver's functions */

int32_t cuInit(unsigned flags) { return flags == 0 ? OK : INVALID_VALUE; }
int32_t cuDriverGetVersion(int *version) { return *version = 12080, OK; }
int32_t cuDeviceGetCount(int *count) { return *count = 1, OK; }
int32_t cuDeviceGet(int *device, int number) { return *device = number, OK; }
int32_t cuDeviceGetName(char *name, int size, int device)
{
    (void)device;
    strncpy(name, "Emulated", (size_t)size);
    return OK;
}
int32_t cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = limit, OK; }
int32_t cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 16 ? 2 : attribute == 75 ? 8 : 0;
    return OK;
}
int32_t cuGetErrorName(int status, const char **name)
{
    *name = status == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
    return OK;
}
int32_t cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(intptr_t)(CONTEXT + device);
    return OK;
}
int32_t cuCtxPushCurrent_v2(void *context)
{
    if (context != (void *)CONTEXT || depth == MOST_CONTEXTS) {
        return INVALID_CONTEXT;
    }
    return depth++, OK;
}
int32_t cuCtxPopCurrent_v2(void **context)
{
    *context = (void *)CONTEXT;
    return depth == 0 ? INVALID_CONTEXT : (depth--, OK);
}

int32_t cuStreamCreate(void **made, unsigned flags)
{
    (void)flags;
    BEGIN();
    stream *s = calloc(1, sizeof *s);
    s->last = &s->first, s->next = streams, streams = s;
    *made = s;
    return end(OK);
}
int32_t cuStreamSynchronize(void *s)
{
    BEGIN();
    return end(run_until(s, ((stream *)s)->asked));
}

int32_t cuMemAlloc_v2(uint64_t *made, size_t size)
{
    BEGIN();
    size_t *at = used + size <= limit ? malloc(size + 2 * EDGE) : NULL;
    if (at == NULL) {
        return end(OUT_OF_MEMORY);
    }
    memset(at, ANYTHING, size + 2 * EDGE);
    used += *at = size;
    *made = (uint64_t)(uintptr_t)at + EDGE;
    return end(OK);
}
int32_t cuMemFree_v2(uint64_t memory)
{
    BEGIN();
    run_all();
    size_t *at = (size_t *)(uintptr_t)(memory - EDGE);
    used -= *at;
    for (size_t k = sizeof *at; k < EDGE; k++) {
        const unsigned char *byte = (unsigned char *)at + k;
        if (*byte != ANYTHING || byte[*at + EDGE - sizeof *at] != ANYTHING) {
            fprintf(stderr, "a kernel wrote beyond %zu bytes\n", *at);
            abort();
        }
    }
    free(at);
    return end(OK);
}
int32_t cuMemHostAlloc(void **made, size_t size, unsigned flags)
{
    (void)flags;
    BEGIN();
    pinned *p = malloc(sizeof *p);
    *p = (pinned){malloc(size), size, pins};
    pins = p, *made = p->at;
    return end(OK);
}
int32_t cuMemFreeHost(void *at)
{
    BEGIN();
    run_all();
    for (pinned **p = &pins; *p != NULL; p = &(*p)->next) {
        if ((*p)->at == at) {
            pinned *gone = *p;
            *p = gone->next;
            free(gone->at), free(gone);
            return end(OK);
        }
    }
    return end(INVALID_VALUE);
}

/* What is not pinned the driver copies at once, or waits for. */
int32_t cuMemcpyHtoDAsync_v2(uint64_t to, const char *from, size_t size, void *s)
{
    BEGIN();
    char *own = is_pinned(from) ? NULL : memcpy(malloc(size), from, size);
    ask(s, (op){.what = COPY, .to = (char *)(uintptr_t)to, .from = own != NULL ? own : from,
                .own = own, .size = size});
    return end(OK);
}
int32_t cuMemcpyDtoHAsync_v2(char *to, uint64_t from, size_t size, void *s)
{
    BEGIN();
    ask(s, (op){.what = COPY, .to = to, .from = (char *)(uintptr_t)from, .size = size});
    return end(is_pinned(to) ? OK : run_until(s, ((stream *)s)->asked));
}

int32_t cuLaunchKernel(void *which, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                       void *s, void **arguments, void **extra)
{
    BEGIN();
    function *f = which;
    if (grid_x == 0 || grid_y * grid_z * block_y * block_z != 1 || block_x > MOST_ITEMS || shared ||
        extra != NULL || f->arguments > MOST_ARGUMENTS) {
        return end(INVALID_VALUE);
    }
    op *o = ask(s, (op){.what = LAUNCH, .function = f, .groups = grid_x, .items = block_x});
    for (int k = 0; k < f->arguments; k++) {
        o->arguments[k] = *(uint64_t *)arguments[k];
    }
    launches++;
    return end(OK);
}

int32_t cuEventCreate(void **made, unsigned flags)
{
    (void)flags;
    BEGIN();
    *made = calloc(1, sizeof(event));
    return end(OK);
}
int32_t cuEventRecord(void *e, void *s)
{
    BEGIN();
    *(event *)e = (event){s, ((stream *)s)->asked};
    return end(OK);
}
int32_t cuEventSynchronize(void *e)
{
    BEGIN();
    return end(run_until(((event *)e)->stream, ((event *)e)->number));
}
int32_t cuEventDestroy_v2(void *e)
{
    BEGIN();
    free(e);
    return end(OK);
}

typedef struct { char *text; size_t size; } linking;

int32_t cuLinkCreate_v2(unsigned n, int *options, void **values, void **state)
{
    (void)n, (void)options, (void)values;
    BEGIN();
    *state = calloc(1, sizeof(linking));
    return end(OK);
}
int32_t cuLinkAddData_v2(void *state, int kind, const char *text, size_t size, const char *name,
                         unsigned n, int *options, void **values)
{
    (void)kind, (void)name, (void)n, (void)options, (void)values;
    BEGIN();
    linking *l = state;
    l->text = memcpy(malloc(size), text, size), l->size = size;
    return end(OK);
}
int32_t cuLinkComplete(void *state, void **image, size_t *size)
{
    BEGIN();
    *image = ((linking *)state)->text, *size = ((linking *)state)->size;
    return end(OK);
}
int32_t cuLinkDestroy(void *state)
{
    BEGIN();
    free(((linking *)state)->text), free(state);
    return end(OK);
}

int32_t cuModuleLoadData(void **module, const char *image)
{
    if (depth == 0) {
        return INVALID_CONTEXT;
    }
    int64_t number = load_text(image, strlen(image));
    *module = (void *)(intptr_t)number;
    return number > 0 ? OK : INVALID_VALUE;
}
int32_t cuModuleGetFunction(void **made, void *module, const char *name)
{
    if (depth == 0) {
        return INVALID_CONTEXT;
    }
    function *f = calloc(1, sizeof *f);
    int waits = 0;
    f->run = (kernel *)find((int64_t)(intptr_t)module, name, &f->arguments, &waits);
    f->waits = waits;
    *made = f;
    return f->run != NULL ? OK : INVALID_VALUE;
}
int32_t cuModuleUnload(void *module)
{
    (void)module;
    BEGIN();
    return end(run_all());
}
