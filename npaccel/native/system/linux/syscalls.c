/* syscalls.c: system calls see the values, too.
 *
 * The kernel does not fault on guarded memory, it fails (EFAULT, or a short count). So the
 * functions of the C library that hand it memory are replaced, see imports.c, by these: what the
 * call will read or write is settled first, as a touch would (guard.c), then the C library's
 * function is called.
 *
 * While a call is under way its memory is in use: another thread must not guard it again. Of what a
 * call only reads this matters where it is ours, so all else costs a comparison. What a call writes
 * into may come to be watched at any time, so every such call says what it uses.
 *
 *     a call:   says what it uses ──► looks whether it is guarded        (one of them sees
 *     others:   guard it          ──► look whether it is in use           the other)
 *
 * Nothing here allocates, locks or looks at Python: a signal handler may call it. A thread that is
 * cancelled in a call runs `end`, hence -fexceptions; one that jumps out of it from a signal
 * handler does not: that memory is not guarded again. */
#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS /* pread would be called pread64 */
#undef _FORTIFY_SOURCE
#include "system/linux/tables.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif

/* -------------------------------------------------------------------------------- what is used */

enum { USES = 32 };
typedef struct {
    _Alignas(64) atomic_uintptr_t low; /* 0: free */
    atomic_uintptr_t high;             /* 0: not told yet */
} use;
typedef struct uses uses;
struct uses {
    use all[USES];
    _Atomic(uses *) more;
};
static uses first;
static use nowhere;       /* for those that found no room: */
static atomic_int untold; /* how many these are */

static uses *add_more(uses *last)
{
    uses *none = NULL;
    uses *new = mmap(NULL, sizeof *new, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (new == MAP_FAILED) {
        return NULL;
    }
    if (!atomic_compare_exchange_strong(&last->more, &none, new)) {
        munmap(new, sizeof *new);
        return none; /* another thread's */
    }
    return new;
}

/* [low, high) is used from now on. Threads start to look at different places, by their stacks. */
static use *begin(uintptr_t low, uintptr_t high)
{
    uint64_t stack = (uint64_t)(uintptr_t)__builtin_frame_address(0) >> 14;
    unsigned start = (unsigned)(stack * 0x9e3779b97f4a7c15u >> 59);
    for (uses *u = &first; u != NULL;) {
        for (unsigned i = 0; i < USES; i++) {
            use *mine = &u->all[(start + i) % USES];
            uintptr_t none = 0;
            if (atomic_load_explicit(&mine->low, memory_order_relaxed) == 0 &&
                atomic_compare_exchange_strong(&mine->low, &none, low)) {
                atomic_store_explicit(&mine->high, high, memory_order_release);
                return mine;
            }
        }
        uses *more = atomic_load(&u->more);
        u = more != NULL ? more : add_more(u);
    }
    atomic_fetch_add(&untold, 1);
    return &nowhere;
}

static void end(use **mine)
{
    if (*mine == &nowhere) {
        atomic_fetch_sub(&untold, 1);
    } else if (*mine != NULL) {
        atomic_store_explicit(&(*mine)->high, 0, memory_order_relaxed);
        atomic_store_explicit(&(*mine)->low, 0, memory_order_release);
    }
}

bool npa_calls_use(const void *from, const void *to)
{
    uintptr_t low = (uintptr_t)from, high = (uintptr_t)to;
    atomic_thread_fence(memory_order_seq_cst); /* after what the caller did to guard it */
    for (uses *u = &first; u != NULL; u = atomic_load(&u->more)) {
        for (int i = 0; i < USES; i++) {
            uintptr_t used = atomic_load(&u->all[i].low), end = atomic_load(&u->all[i].high);
            if (used != 0 && used < high && (end == 0 || low < end)) {
                return true;
            }
        }
    }
    return atomic_load(&untold) > 0;
}

/* ------------------------------------------------------------------------------ what is settled */

/* For the scope of a call. */
#define USE __attribute__((cleanup(end))) use *mine

static uintptr_t end_of(const void *p, size_t n)
{
    return (uintptr_t)p + n < (uintptr_t)p ? UINTPTR_MAX : (uintptr_t)p + n;
}

static void settle(uintptr_t low, uintptr_t high, bool written)
{
    if (npa_is_home((void *)low) || (written && npa_watch_near((void *)low, (void *)high))) {
        npa_guard_settle((const char *)low, (const char *)high, written);
    }
}

static use *use_range(const void *p, size_t n, bool written)
{
    if (p == NULL || n == 0) {
        return NULL;
    }
    uintptr_t low = (uintptr_t)p, high = end_of(p, n);
    use *mine = begin(low, high);
    settle(low, high, written);
    return mine;
}

typedef struct {
    uintptr_t low, high;
    bool ours;
} hull;

static void extend(hull *h, const struct iovec *v, size_t n)
{
    for (size_t i = 0; v != NULL && n <= IOV_MAX && i < n; i++) {
        uintptr_t low = (uintptr_t)v[i].iov_base, high = end_of(v[i].iov_base, v[i].iov_len);
        if (low != 0 && low < high) {
            h->low = h->low == 0 || low < h->low ? low : h->low;
            h->high = high > h->high ? high : h->high;
            h->ours |= npa_is_home((void *)low);
        }
    }
}

static void settle_each(const struct iovec *v, size_t n, bool written)
{
    for (size_t i = 0; v != NULL && n <= IOV_MAX && i < n; i++) {
        if (v[i].iov_base != NULL && v[i].iov_len > 0) {
            settle((uintptr_t)v[i].iov_base, end_of(v[i].iov_base, v[i].iov_len), written);
        }
    }
}

/* Of some messages together, as a call has one use: that others keep off what lies between them
 * costs little. */
static use *use_messages(const struct mmsghdr *m, unsigned n, bool written)
{
    hull h = {0};
    n = m == NULL ? 0 : n < IOV_MAX ? n : IOV_MAX; /* the kernel takes no more */
    for (unsigned i = 0; i < n; i++) {
        extend(&h, m[i].msg_hdr.msg_iov, m[i].msg_hdr.msg_iovlen);
    }
    use *mine = h.low != 0 && (written || h.ours) ? begin(h.low, h.high) : NULL;
    for (unsigned i = 0; mine != NULL && i < n; i++) {
        settle_each(m[i].msg_hdr.msg_iov, m[i].msg_hdr.msg_iovlen, written);
    }
    return mine;
}

static use *use_vector(const struct iovec *v, long n, bool written)
{
    struct mmsghdr one = {.msg_hdr = {.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n}};
    return use_messages(&one, n > 0, written);
}

static use *use_message(const struct msghdr *m, bool written)
{
    return m != NULL ? use_vector(m->msg_iov, (long)m->msg_iovlen, written) : NULL;
}

/* ------------------------------------------------------------------------------------ the calls */

/* The call uses what `how` says. */
#define USING(type, name, how, parameters, arguments)                                              \
    static type name##_using parameters                                                            \
    {                                                                                              \
        USE = how;                                                                                 \
        return name arguments;                                                                     \
    }
#define USES_SO(type, name, how, parameters, arguments)                                            \
    USING(type, name, how, parameters, arguments)                                                  \
    static type served_##name parameters { return name##_using arguments; }

/* The same where that is seldom something. */
#define SELDOM(type, name, when, how, parameters, arguments)                                       \
    __attribute__((noinline)) USING(type, name, how, parameters, arguments)                        \
    static type served_##name parameters                                                           \
    {                                                                                              \
        return __builtin_expect(when, 0) ? name##_using arguments : name arguments;                \
    }

/* The call writes, or reads, [p, p + n). */
#define WRITES(type, name, p, n, parameters, arguments)                                            \
    USES_SO(type, name, use_range(p, n, true), parameters, arguments)
#define READS(type, name, p, n, parameters, arguments)                                             \
    SELDOM(type, name, npa_is_home(p), use_range(p, n, false), parameters, arguments)

/* What some C libraries lack, or declare for compilers alone. */
extern ssize_t __read(int, void *, size_t), __pread64(int, void *, size_t, off64_t);
extern ssize_t __write(int, const void *, size_t), __pwrite64(int, const void *, size_t, off64_t);
extern ssize_t __send(int, const void *, size_t, int);
extern ssize_t __read_chk(int, void *, size_t, size_t);
extern ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
extern ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
extern ssize_t __recv_chk(int, void *, size_t, size_t, int);
extern ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
extern size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
extern size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
#pragma weak __read
#pragma weak __pread64
#pragma weak __write
#pragma weak __pwrite64
#pragma weak __send
#pragma weak __read_chk
#pragma weak __pread_chk
#pragma weak __pread64_chk
#pragma weak __recv_chk
#pragma weak __recvfrom_chk
#pragma weak __fread_chk
#pragma weak __fread_unlocked_chk
#pragma weak pread64
#pragma weak pwrite64
#pragma weak preadv64
#pragma weak pwritev64
#pragma weak preadv2
#pragma weak pwritev2
#pragma weak preadv64v2
#pragma weak pwritev64v2
#pragma weak getrandom
#pragma weak process_vm_readv
#pragma weak process_vm_writev
#pragma weak setrlimit64
#pragma weak prlimit64

typedef struct iovec iovec;

READS(ssize_t, write, p, n, (int fd, const void *p, size_t n), (fd, p, n))
READS(ssize_t, __write, p, n, (int fd, const void *p, size_t n), (fd, p, n))
READS(ssize_t, pwrite, p, n, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
READS(ssize_t, pwrite64, p, n, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))
READS(ssize_t, __pwrite64, p, n, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))
READS(ssize_t, send, p, n, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
READS(ssize_t, __send, p, n, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
READS(ssize_t, sendto, p, n,
      (int fd, const void *p, size_t n, int flags, const struct sockaddr *to, socklen_t size),
      (fd, p, n, flags, to, size))

WRITES(ssize_t, read, p, n, (int fd, void *p, size_t n), (fd, p, n))
WRITES(ssize_t, __read, p, n, (int fd, void *p, size_t n), (fd, p, n))
WRITES(ssize_t, __read_chk, p, n, (int fd, void *p, size_t n, size_t most), (fd, p, n, most))
WRITES(ssize_t, pread, p, n, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
WRITES(ssize_t, pread64, p, n, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at))
WRITES(ssize_t, __pread64, p, n, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at))
WRITES(ssize_t, __pread_chk, p, n, (int fd, void *p, size_t n, off_t at, size_t most),
       (fd, p, n, at, most))
WRITES(ssize_t, __pread64_chk, p, n, (int fd, void *p, size_t n, off64_t at, size_t most),
       (fd, p, n, at, most))
WRITES(ssize_t, recv, p, n, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
WRITES(ssize_t, __recv_chk, p, n, (int fd, void *p, size_t n, size_t most, int flags),
       (fd, p, n, most, flags))
WRITES(ssize_t, recvfrom, p, n,
       (int fd, void *p, size_t n, int flags, struct sockaddr *from, socklen_t *size),
       (fd, p, n, flags, from, size))
WRITES(ssize_t, __recvfrom_chk, p, n,
       (int fd, void *p, size_t n, size_t most, int flags, struct sockaddr *from, socklen_t *size),
       (fd, p, n, most, flags, from, size))
WRITES(ssize_t, getrandom, p, n, (void *p, size_t n, unsigned flags), (p, n, flags))

USES_SO(ssize_t, writev, use_vector(v, n, false), (int fd, const iovec *v, int n), (fd, v, n))
USES_SO(ssize_t, pwritev, use_vector(v, n, false), (int fd, const iovec *v, int n, off_t at),
        (fd, v, n, at))
USES_SO(ssize_t, pwritev64, use_vector(v, n, false), (int fd, const iovec *v, int n, off64_t at),
        (fd, v, n, at))
USES_SO(ssize_t, pwritev2, use_vector(v, n, false),
        (int fd, const iovec *v, int n, off_t at, int flags), (fd, v, n, at, flags))
USES_SO(ssize_t, pwritev64v2, use_vector(v, n, false),
        (int fd, const iovec *v, int n, off64_t at, int flags), (fd, v, n, at, flags))
USES_SO(ssize_t, vmsplice, use_vector(v, (long)n, false),
        (int fd, const iovec *v, size_t n, unsigned flags), (fd, v, n, flags))
USES_SO(ssize_t, process_vm_writev, use_vector(v, (long)n, false),
        (pid_t pid, const iovec *v, unsigned long n, const iovec *far, unsigned long nfar,
         unsigned long flags),
        (pid, v, n, far, nfar, flags))
USES_SO(ssize_t, sendmsg, use_message(m, false), (int fd, const struct msghdr *m, int flags),
        (fd, m, flags))
USES_SO(int, sendmmsg, use_messages(m, n, false),
        (int fd, struct mmsghdr *m, unsigned n, int flags), (fd, m, n, flags))

USES_SO(ssize_t, readv, use_vector(v, n, true), (int fd, const iovec *v, int n), (fd, v, n))
USES_SO(ssize_t, preadv, use_vector(v, n, true), (int fd, const iovec *v, int n, off_t at),
        (fd, v, n, at))
USES_SO(ssize_t, preadv64, use_vector(v, n, true), (int fd, const iovec *v, int n, off64_t at),
        (fd, v, n, at))
USES_SO(ssize_t, preadv2, use_vector(v, n, true),
        (int fd, const iovec *v, int n, off_t at, int flags), (fd, v, n, at, flags))
USES_SO(ssize_t, preadv64v2, use_vector(v, n, true),
        (int fd, const iovec *v, int n, off64_t at, int flags), (fd, v, n, at, flags))
USES_SO(ssize_t, process_vm_readv, use_vector(v, (long)n, true),
        (pid_t pid, const iovec *v, unsigned long n, const iovec *far, unsigned long nfar,
         unsigned long flags),
        (pid, v, n, far, nfar, flags))
USES_SO(ssize_t, recvmsg, use_message(m, true), (int fd, struct msghdr *m, int flags),
        (fd, m, flags))
USES_SO(int, recvmmsg, use_messages(m, n, true),
        (int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *limit),
        (fd, m, n, flags, limit))

static size_t product(size_t size, size_t n)
{
    size_t bytes;
    return __builtin_mul_overflow(size, n, &bytes) ? SIZE_MAX : bytes;
}

READS(size_t, fwrite, p, product(size, n), (const void *p, size_t size, size_t n, FILE *f),
      (p, size, n, f))
READS(size_t, fwrite_unlocked, p, product(size, n),
      (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
/* What is smaller than the file's buffer the processor copies out of that. */
static bool is_buffered(size_t size, size_t n, const FILE *f)
{
#ifdef __GLIBC__
    return product(size, n) < (size_t)(f->_IO_buf_end - f->_IO_buf_base);
#else
    (void)size, (void)n, (void)f;
    return false;
#endif
}

#define FREADS(name, parameters, arguments)                                                        \
    SELDOM(size_t, name, !is_buffered(size, n, f), use_range(p, product(size, n), true),           \
           parameters, arguments)

FREADS(fread, (void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
FREADS(fread_unlocked, (void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
FREADS(__fread_chk, (void *p, size_t most, size_t size, size_t n, FILE *f), (p, most, size, n, f))
FREADS(__fread_unlocked_chk, (void *p, size_t most, size_t size, size_t n, FILE *f),
       (p, most, size, n, f))

static use *use_by_number(long number, long a, long b, long c)
{
    void *p = (void *)b;
    switch (number) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_sendto:
        return npa_is_home(p) ? use_range(p, (size_t)c, false) : NULL;
    case SYS_read:
    case SYS_pread64:
    case SYS_recvfrom:
        return use_range(p, (size_t)c, true);
    case SYS_getrandom:
        return use_range((void *)a, (size_t)b, true);
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_vmsplice:
    case SYS_process_vm_writev:
        return use_vector(p, c, false);
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_process_vm_readv:
        return use_vector(p, c, true);
    case SYS_sendmsg:
    case SYS_recvmsg:
        return use_message(p, number == SYS_recvmsg);
    case SYS_sendmmsg:
    case SYS_recvmmsg:
        return use_messages(p, (unsigned)c, number == SYS_recvmmsg);
    default:
        return NULL;
    }
}

/* The C library's takes as many arguments as the call needs. All have a place, as here, and what is
 * there is passed on. Most calls are others', such as futex. */
SELDOM(long, syscall, number != SYS_futex, use_by_number(number, a, b, c),
       (long number, long a, long b, long c, long d, long e, long f),
       (number, a, b, c, d, e, f))

/* Who is told before this process's address space is limited. */
static void (*limited)(size_t to);

static void tell(int what, uint64_t to)
{
    if (what == RLIMIT_AS && to < SIZE_MAX) {
        limited((size_t)to);
    }
}

typedef __rlimit_resource_t resource;
typedef struct rlimit rlimit;
typedef struct rlimit64 rlimit64;

#define LIMITS(name, type)                                                                         \
    static int served_##name(resource what, const type *to)                                        \
    {                                                                                              \
        if (to != NULL) {                                                                          \
            tell((int)what, to->rlim_cur);                                                         \
        }                                                                                          \
        return name(what, to);                                                                     \
    }
#define LIMITS_ANY(name, type)                                                                     \
    static int served_##name(pid_t pid, resource what, const type *to, type *before)               \
    {                                                                                              \
        if (to != NULL && (pid == 0 || pid == getpid())) {                                         \
            tell((int)what, to->rlim_cur);                                                         \
        }                                                                                          \
        return name(pid, what, to, before);                                                        \
    }

LIMITS(setrlimit, rlimit)
LIMITS(setrlimit64, rlimit64)
LIMITS_ANY(prlimit, rlimit)
LIMITS_ANY(prlimit64, rlimit64)

#define SERVED(f) {.name = #f, .ours = (void *)served_##f}
static npa_import functions[] = {
    SERVED(write), SERVED(__write), SERVED(pwrite), SERVED(pwrite64), SERVED(__pwrite64),
    SERVED(send), SERVED(__send), SERVED(sendto), SERVED(sendmsg), SERVED(sendmmsg),
    SERVED(writev), SERVED(pwritev), SERVED(pwritev64), SERVED(pwritev2), SERVED(pwritev64v2),
    SERVED(vmsplice), SERVED(process_vm_writev), SERVED(fwrite), SERVED(fwrite_unlocked),
    SERVED(read), SERVED(__read), SERVED(__read_chk), SERVED(pread), SERVED(pread64),
    SERVED(__pread64), SERVED(__pread_chk), SERVED(__pread64_chk), SERVED(recv),
    SERVED(__recv_chk), SERVED(recvfrom), SERVED(__recvfrom_chk), SERVED(recvmsg),
    SERVED(recvmmsg), SERVED(readv), SERVED(preadv), SERVED(preadv64), SERVED(preadv2),
    SERVED(preadv64v2), SERVED(process_vm_readv), SERVED(getrandom), SERVED(fread),
    SERVED(fread_unlocked), SERVED(__fread_chk), SERVED(__fread_unlocked_chk), SERVED(syscall),
    SERVED(setrlimit), SERVED(setrlimit64), SERVED(prlimit), SERVED(prlimit64),
    {.name = "dlsym", .ours = (void *)npa_imports_dlsym},
    {.name = "dlvsym", .ours = (void *)npa_imports_dlvsym},
    {.name = "memcpy", .ours = (void *)npa_copy_bytes, .numpys = true},
    {.name = "memmove", .ours = (void *)npa_copy_bytes, .numpys = true}};

int npa_calls_serve(void (*tell_limit)(size_t to), const void *numpys)
{
    limited = tell_limit;
    return npa_imports_replace(functions, (int)(sizeof functions / sizeof *functions), numpys);
}

/* With no other thread: what those of the parent use is not used here. */
void npa_calls_forked(void)
{
    npa_imports_forked();
    for (uses *u = &first; u != NULL; u = atomic_load(&u->more)) {
        for (int i = 0; i < USES; i++) {
            atomic_store(&u->all[i].high, 0);
            atomic_store(&u->all[i].low, 0);
        }
    }
    atomic_store(&untold, 0);
}
