/* test_syscalls.c: system calls of other libraries see the values, and never EFAULT. */
#include "check.h"

#include "../../npaccel/native/system/linux/linux.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
enum { SIZE = 300 * 1024 + 24 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static atomic_int served;

/* -------------------------------------------------------- what is pending, and what is watched */

static char content(size_t k, long number)
{
    return (char)(k * 7 + (size_t)number);
}

static atomic_size_t limited_to;

static void limited(size_t to)
{
    atomic_store(&limited_to, to);
}

static void serve(npa_range *range, const void *touched)
{
    CHECK(touched == NULL || npa_range_find(touched) == range);
    pthread_mutex_lock(&lock);
    if (range->work != range->home) {
        char *work = npa_range_work(range);
        for (size_t k = 0; k < range->size; k++) {
            work[k] = content(k, (long)(intptr_t)range->buffer);
        }
        CHECK(npa_range_publish(range) == 0);
        atomic_fetch_add(&served, 1);
    }
    npa_range_break(range);
    pthread_mutex_unlock(&lock);
}

static npa_range *pending(long number)
{
    pthread_mutex_lock(&lock);
    npa_range *range = npa_range_new(SIZE);
    CHECK(range);
    range->buffer = (void *)(intptr_t)number;
    pthread_mutex_unlock(&lock);
    return range;
}

static void drop(npa_range *range)
{
    pthread_mutex_lock(&lock);
    npa_range_free(range);
    pthread_mutex_unlock(&lock);
}

static npa_watch *watch;
static atomic_int evaluations;

static void serve_write(const void *address)
{
    pthread_mutex_lock(&lock);
    npa_watch *w = npa_watch_around(address, (const char *)address + 1);
    CHECK(w == watch);
    if (npa_watch_held(w)) {
        CHECK(!npa_watch_changed(w) && w->base[0] == content(0, 3));
        npa_watch_release(w);
        atomic_fetch_add(&evaluations, 1);
    }
    npa_watch_open(w);
    pthread_mutex_unlock(&lock);
}

static bool hold(void)
{
    pthread_mutex_lock(&lock);
    bool held = npa_watch_hold(watch, watch->base, watch->base + watch->size, watch->size);
    pthread_mutex_unlock(&lock);
    return held;
}

static void settle(bool held)
{
    pthread_mutex_lock(&lock);
    CHECK(npa_watch_held(watch) == held);
    npa_watch_release(watch);
    pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------------------------- the calls */

typedef long call(int fd, void *p, size_t n);
static const char *const writers[] = {"call_write",   "call_pwrite",  "call_table_write",
                                      "call_writev",  "call_fwrite",  "call_syscall_write",
                                      "call_send",    "call_sendmsg", "call_sendmmsg"};
static const char *const readers[] = {"call_read",   "call_pread",   "call_table_read",
                                      "call_readv",  "call_fread",   "call_syscall_read",
                                      "call_recv",   "call_recvmsg", "call_recvmmsg"};
enum { CALLS = sizeof writers / sizeof *writers, FIRST_OF_SOCKETS = 6 };

static void *load(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    CHECK(library);
    return library;
}

static call *find(void *library, const char *name)
{
    call *found = (call *)(uintptr_t)dlsym(library, name);
    CHECK(found);
    return found;
}

/* A file, or the two ends of a socket that can take all of it. */
static void open_pair(bool sockets, int *to, int *from)
{
    int ends[2], room = 4 * SIZE;
    if (!sockets) {
        FILE *file = tmpfile();
        CHECK(file && (*to = dup(fileno(file))) >= 0 && (*from = *to) >= 0);
        fclose(file);
        return;
    }
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(setsockopt(ends[i], SOL_SOCKET, i ? SO_RCVBUF : SO_SNDBUF, &room, sizeof room) == 0);
    }
    *to = ends[0], *from = ends[1];
}

static void close_pair(int to, int from)
{
    close(to);
    if (from != to) {
        close(from);
    }
}

static void test_writer(void *library, int which)
{
    int to, from;
    char *got = malloc(SIZE);
    npa_range *r = pending(which);
    open_pair(which >= FIRST_OF_SOCKETS, &to, &from);
    errno = 77;
    long done = find(library, writers[which])(to, r->home, SIZE);
    CHECK(done == SIZE && errno == 77 && r->work == r->home);
    CHECK((from == to ? pread(from, got, SIZE, 0) : recv(from, got, SIZE, MSG_WAITALL)) == SIZE);
    for (size_t k = 0; k < SIZE; k++) {
        CHECK(got[k] == content(k, which));
    }
    free(got);
    close_pair(to, from);
    drop(r);
}

/* Into a pending result: what was to be there is computed, and then written over. */
static void test_reader(void *library, int which)
{
    int to, from;
    static char sent[SIZE];
    memset(sent, which + 1, SIZE);
    open_pair(which >= FIRST_OF_SOCKETS, &to, &from);
    CHECK(write(to, sent, SIZE / 2) == SIZE / 2 && (to != from || lseek(to, 0, SEEK_SET) == 0));
    npa_range *r = pending(5);
    CHECK(from == to || send(to, sent, SIZE - SIZE / 2, 0) == SIZE - SIZE / 2);
    long want = from == to ? SIZE / 2 : SIZE;
    CHECK(find(library, readers[which])(from, r->home, SIZE) == want);
    CHECK(r->home[0] == which + 1 && r->home[SIZE / 2 - 1] == which + 1);
    CHECK(r->home[SIZE - 1] == (want == SIZE ? which + 1 : content(SIZE - 1, 5)));
    close_pair(to, from);
    drop(r);
}

/* Into memory that requests are to read: they run first. Into idle memory: it is opened. */
static void test_watched(void *library, int which)
{
    int to, from;
    for (int state = 0; state < 3; state++) {
        static char sent[SIZE];
        memset(sent, which + 1, SIZE);
        for (size_t k = 0; k < watch->size; k++) {
            watch->base[k] = content(k, 3);
        }
        CHECK(state == 0 || hold());
        if (state == 1) {
            settle(true);
        }
        int before = atomic_load(&evaluations);
        open_pair(which >= FIRST_OF_SOCKETS, &to, &from);
        CHECK(write(to, sent, SIZE) == SIZE && (to != from || lseek(to, 0, SEEK_SET) == 0));
        CHECK(find(library, readers[which])(from, watch->base + 100, SIZE) == SIZE);
        CHECK(memcmp(watch->base + 100, sent, SIZE) == 0 && watch->base[0] == content(0, 3));
        CHECK(atomic_load(&evaluations) == before + (state == 2) && !npa_watch_held(watch));
        close_pair(to, from);
    }
}

static void test_all(void *library)
{
    npa_imports_check();
    for (int which = 0; which < CALLS; which++) {
        test_writer(library, which);
        test_reader(library, which);
        test_watched(library, which);
    }
}

/* Without us they fail: else there is nothing to test. */
static void test_before(void *library)
{
    npa_range *r = pending(1);
    int to, from;
    open_pair(false, &to, &from);
    for (int which = 0; which < FIRST_OF_SOCKETS; which++) {
        if (strcmp(writers[which], "call_fwrite") != 0) {
            CHECK(find(library, writers[which])(to, r->home, SIZE) == -1 && errno == EFAULT);
        }
    }
    close_pair(to, from);
    drop(r);
}

/* ------------------------------------------------------------------------------- the tables */

static npa_imports_stats stats(void)
{
    npa_imports_stats now;
    npa_imports_read_stats(&now);
    return now;
}

/* Loaded, called, unloaded, loaded again, by themselves and by threads that do the same. */
static void *load_and_unload(void *name)
{
    for (int i = 0; i < 30; i++) {
        void *library = load(name);
        npa_imports_check();
        test_writer(library, i % FIRST_OF_SOCKETS);
        CHECK(dlclose(library) == 0);
    }
    return NULL;
}

static void test_loading(void)
{
    pthread_t threads[2];
    load_and_unload("caller_now.so");
    CHECK(pthread_create(&threads[0], NULL, load_and_unload, (void *)"caller_now.so") == 0);
    CHECK(pthread_create(&threads[1], NULL, load_and_unload, (void *)"caller_lazy.so") == 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static atomic_bool stop;

static void *only_load(void *name)
{
    while (!atomic_load(&stop)) {
        void *library = load(name);
        char c = 'x';
        int to, from;
        open_pair(false, &to, &from);
        CHECK(find(library, "call_write")(to, &c, 1) == 1);
        CHECK(find(library, "call_pread")(to, &c, 1) == 1);
        close_pair(to, from);
        CHECK(dlclose(library) == 0);
    }
    return NULL;
}

/* Others load and unload while the tables are changed and restored: nothing is ever broken. */
static void test_loading_meanwhile(void)
{
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, only_load, (void *)"caller_now.so") == 0);
    CHECK(pthread_create(&threads[1], NULL, only_load, (void *)"caller_lazy.so") == 0);
    for (int i = 0; i < 300; i++) {
        npa_imports_check();
        if (i % 10 == 0) {
            npa_imports_restore();
            int error = npa_calls_serve(limited, NULL);
            CHECK(error == 0 || error == EBUSY);
        }
        usleep(100);
    }
    atomic_store(&stop, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void test_sealed(void *library)
{
    char line[512], flags[8];
    unsigned long low, high, at = (unsigned long)(uintptr_t)dlsym(library, "call_write");
    FILE *maps = fopen("/proc/self/maps", "r");
    bool writable_table = false, sealed = false, inside = false;
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        CHECK(sscanf(line, "%lx-%lx %7s", &low, &high, flags) == 3);
        inside = strstr(line, "caller_now.so") != NULL;
        sealed |= inside && strcmp(flags, "r--p") == 0 && low > at;
        writable_table |= inside && strcmp(flags, "rw-p") == 0;
    }
    fclose(maps);
    CHECK(sealed && writable_table);
}

static void test_lookups(void *library)
{
    void *(*next)(const char *) = (void *(*)(const char *))(uintptr_t)find(library, "find_next");
    void *(*any)(const char *) = (void *(*)(const char *))(uintptr_t)find(library, "find_default");
    void *ours = npa_imports_instead_of(dlsym(RTLD_DEFAULT, "write"));
    CHECK(ours != NULL && any("write") == ours && any("read") != ours && any("read") != NULL);
    CHECK(next("write") != NULL && next("write") != ours); /* for one who replaces it himself */
    CHECK(next("no_such_function") == NULL && any("no_such_function") == NULL);
    CHECK(any("qsort") == dlsym(RTLD_DEFAULT, "qsort"));
#ifndef __SANITIZE_THREAD__ /* whose code comes between the jump and the end */
    CHECK(any("find_next") == (void *)(uintptr_t)next); /* its own scope, though it is local */
#endif
    CHECK(dlsym(RTLD_DEFAULT, "find_next") == NULL);
}

/* ------------------------------------------------------------------------------ what is used */

typedef struct {
    call *function;
    int fd;
    char *p;
} waiting;

static void *wait_for_data(void *arg)
{
    const waiting *w = arg;
    CHECK(w->function(w->fd, w->p, 100) == 100);
    return NULL;
}

static void until_used(const char *p)
{
    for (int i = 0; !npa_calls_use(p, p + 1); i++) {
        CHECK(i < 20000);
        usleep(100);
    }
}

/* What is sealed is read by one call, and written by another. */
static void send_and_receive(void *library, npa_range *r, int to, int from)
{
    pthread_mutex_lock(&lock);
    CHECK(npa_range_seal(r) == 0);
    pthread_mutex_unlock(&lock);
    CHECK(find(library, "call_send")(to, r->home, 100) == 100 && r->sealed); /* is a read */
    CHECK(find(library, "call_recv")(from, r->home + 300, 100) == 100 && !r->sealed);
    CHECK(memcmp(r->home, r->home + 300, 100) == 0);
    pthread_mutex_lock(&lock);
    CHECK(npa_range_withdraw(r) == 0);
    pthread_mutex_unlock(&lock);
}

/* A call that waits for data writes where it said: nothing there is guarded meanwhile. */
static void test_used(void *library)
{
    enum { THREADS = 100 };
    static waiting calls[THREADS];
    pthread_t threads[THREADS];
    int to, from;
    char data[100 * THREADS];
    npa_range *r = pending(9);
    memset(data, 'd', sizeof data);
    memset(r->home, 0, SIZE);
    memset(watch->base, 0, watch->size);
    open_pair(true, &to, &from);
    CHECK(!npa_calls_use(r->home, r->home + SIZE) && hold());
    settle(true);
    for (int i = 0; i < THREADS; i++) {
        char *p = i % 2 ? watch->base + watch->size / 2 + 100 * i : r->home + SIZE / 2 + 100 * i;
        calls[i] = (waiting){find(library, i % 3 ? "call_recv" : "call_recvmsg"), from, p};
        CHECK(pthread_create(&threads[i], NULL, wait_for_data, &calls[i]) == 0);
        until_used(p);
    }
    CHECK(!npa_calls_use(r->home, r->home + 100) && !npa_calls_use(data, data + 1));
    pthread_mutex_lock(&lock);
    CHECK(npa_range_withdraw(r) == EBUSY && r->work == r->home);
    CHECK(npa_range_seal(r) == EBUSY && !r->sealed);
    pthread_mutex_unlock(&lock);
    CHECK(!hold());
    for (int i = 0; i < THREADS; i++) {
        CHECK(send(to, data, 100, 0) == 100);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(calls[i].p[0] == 'd' && calls[i].p[99] == 'd');
        CHECK(!npa_calls_use(calls[i].p, calls[i].p + 100));
    }
    CHECK(hold());
    settle(true);
    send_and_receive(library, r, to, from);
    close_pair(to, from);
    drop(r);
}

/* A thread that is cancelled in a call uses nothing any more; nor does a child. */
static void test_cancelled(void *library)
{
    pthread_t thread;
    int to, from;
    npa_range *r = pending(2);
    open_pair(true, &to, &from);
    waiting w = {find(library, "call_read"), from, r->home};
    CHECK(pthread_create(&thread, NULL, wait_for_data, &w) == 0);
    until_used(r->home);
    pid_t child = fork();
    if (child == 0) {
        _exit(npa_calls_use(r->home, r->home + SIZE));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(npa_calls_use(r->home, r->home + SIZE));
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(!npa_calls_use(r->home, r->home + SIZE));
    close_pair(to, from);
    drop(r);
}

static call *to_call;
static int from_handler[2];
static npa_range *volatile shown;

static void write_in_handler(int number)
{
    (void)number;
    CHECK(to_call(from_handler[1], shown->home, 100) == 100);
}

/* Also where SIGSEGV is blocked, and no touch could be served. */
static void test_in_a_handler(void *library)
{
    char got[100];
    sigset_t faults, before;
    shown = pending(4);
    to_call = find(library, "call_write");
    CHECK(pipe(from_handler) == 0);
    struct sigaction action = {.sa_handler = write_in_handler};
    sigaddset(&action.sa_mask, SIGSEGV);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    CHECK(read(from_handler[0], got, 100) == 100 && got[99] == content(99, 4));
    drop(shown);
    shown = pending(6);
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &faults, &before);
    CHECK(to_call(from_handler[1], shown->home, 100) == 100);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(read(from_handler[0], got, 100) == 100 && got[99] == content(99, 6));
    drop(shown);
}

/* What is wrong stays wrong, in the kernel's words. */
static void test_errors(void *library)
{
    char byte = 'e', *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int to, from;
    npa_range *r = pending(7);
    open_pair(false, &to, &from);
    CHECK(find(library, "call_write")(to, none, 10) == -1 && errno == EFAULT);
    CHECK(find(library, "call_write")(to, NULL, 10) == -1 && errno == EFAULT);
    CHECK(find(library, "call_write")(-1, r->home, 10) == -1 && errno == EBADF);
    CHECK(find(library, "call_write")(to, r->home, 0) == 0);
    CHECK(find(library, "call_write")(to, &byte, 1) == 1 && lseek(to, 0, SEEK_SET) == 0);
    CHECK(find(library, "call_read")(to, none, 10) == -1 && errno == EFAULT);
    CHECK(find(library, "call_read")(to, NULL, 10) == -1 && errno == EFAULT);
    CHECK(find(library, "call_read")(to, r->home, 0) == 0);
    CHECK(find(library, "call_read")(to, &byte, 1) == 1 && byte == 'e');
    close_pair(to, from);
    drop(r);
    munmap(none, 4096);
}

/* ---------------------------------------------------------------------- while others guard it */

static void *write_again_and_again(void *library)
{
    int to, from;
    static char got[2][SIZE];
    open_pair(false, &to, &from);
    call *function = find(library, "call_pwrite");
    for (int i = 0; !atomic_load(&stop); i++) {
        CHECK(function(to, shown->home, SIZE) == SIZE);
        CHECK(pread(from, got[0], SIZE, 0) == SIZE);
        CHECK(got[0][0] == content(0, 8) && got[0][SIZE - 1] == content(SIZE - 1, 8));
    }
    close_pair(to, from);
    return NULL;
}

static void *read_again_and_again(void *library)
{
    int to, from;
    static char zeros[SIZE];
    open_pair(false, &to, &from);
    CHECK(pwrite(to, zeros, SIZE, 0) == SIZE);
    call *function = find(library, "call_pread");
    while (!atomic_load(&stop)) {
        CHECK(function(from, watch->base + 100, SIZE) == SIZE);
    }
    close_pair(to, from);
    return NULL;
}

static void test_guarded_meanwhile(void *library)
{
    pthread_t threads[2];
    int hidden = 0, held = 0;
    shown = pending(8);
    serve(shown, NULL);
    watch->base[0] = content(0, 3); /* whoever evaluates looks for it */
    atomic_store(&stop, false);
    CHECK(pthread_create(&threads[0], NULL, write_again_and_again, library) == 0);
    CHECK(pthread_create(&threads[1], NULL, read_again_and_again, library) == 0);
    for (int i = 0; i < 3000 || (i < 300000 && (hidden < 50 || held < 50)); i++) {
        pthread_mutex_lock(&lock);
        hidden += npa_range_withdraw(shown) == 0;
        pthread_mutex_unlock(&lock);
        usleep(i % 7 * 10);
        held += hold();
    }
    atomic_store(&stop, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK(hidden >= 50 && held >= 50);
    if (npa_watch_held(watch)) {
        settle(true);
    }
    drop(shown);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    folder = argv[1];
    CHECK(npa_memory_init() == 0);
    npa_guard_watch(npa_watch_fault, serve_write);
    CHECK(npa_guard_install(serve, NULL) == 0);
    size_t bytes = SIZE + 4 * 4096;
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    watch = npa_watch_new(base, bytes);
    CHECK(watch);
    void *lazy = load("caller_lazy.so"), *now = load("caller_now.so");
    test_before(lazy);
    test_before(now);
    CHECK(npa_calls_serve(limited, NULL) == 0);
    npa_imports_stats s = stats();
    CHECK(s.functions >= 40 && s.libraries >= 2 && s.entries >= 38 && s.refused == 0);
    test_all(lazy);
    test_all(now);
    test_sealed(now);
    test_lookups(now);
    test_errors(now);
    test_used(lazy);
    test_cancelled(now);
    test_in_a_handler(now);
    test_guarded_meanwhile(lazy);
    npa_imports_restore();
    test_before(lazy);
    test_before(now);
    CHECK(npa_calls_serve(limited, NULL) == 0);
    test_loading();
    test_loading_meanwhile();
    npa_watch_drop(watch);
    printf("syscalls: ok (%d functions, %d entries in %d libraries, %d served)\n", s.functions,
           s.entries, s.libraries, atomic_load(&served));
    return 0;
}
