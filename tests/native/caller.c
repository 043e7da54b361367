/* caller.c: a library of somebody else's that makes system calls, for test_syscalls.c. Built with
 * its imports bound at once and sealed, and bound when first called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* One table that is written to, one that is sealed. */
ssize_t (*writers[])(int, const void *, size_t) = {write, write};
ssize_t (*const readers[])(int, void *, size_t) = {read};

long call_write(int fd, const void *p, size_t n) { return write(fd, p, n); }
long call_pwrite(int fd, const void *p, size_t n) { return pwrite(fd, p, n, 0); }
long call_table_write(int fd, const void *p, size_t n) { return writers[1](fd, p, n); }
long call_send(int fd, const void *p, size_t n) { return send(fd, p, n, MSG_NOSIGNAL); }
long call_syscall_write(int fd, const void *p, size_t n) { return syscall(SYS_write, fd, p, n); }
long call_read(int fd, void *p, size_t n) { return read(fd, p, n); }
long call_pread(int fd, void *p, size_t n) { return pread(fd, p, n, 0); }
long call_table_read(int fd, void *p, size_t n) { return readers[0](fd, p, n); }
long call_recv(int fd, void *p, size_t n) { return recv(fd, p, n, MSG_WAITALL); }
long call_syscall_read(int fd, void *p, size_t n) { return syscall(SYS_read, fd, p, n); }

/* In two parts, the second first in memory. */
static struct iovec *in_two(struct iovec *v, const void *p, size_t n)
{
    v[0] = (struct iovec){(char *)p, n / 2};
    v[1] = (struct iovec){(char *)p + n / 2, n - n / 2};
    return v;
}

long call_writev(int fd, const void *p, size_t n)
{
    struct iovec v[2];
    return writev(fd, in_two(v, p, n), 2);
}

long call_readv(int fd, void *p, size_t n)
{
    struct iovec v[2];
    return readv(fd, in_two(v, p, n), 2);
}

long call_sendmsg(int fd, const void *p, size_t n)
{
    struct iovec v[2];
    struct msghdr m = {.msg_iov = in_two(v, p, n), .msg_iovlen = 2};
    return sendmsg(fd, &m, MSG_NOSIGNAL);
}

long call_recvmsg(int fd, void *p, size_t n)
{
    struct iovec v[2];
    struct msghdr m = {.msg_iov = in_two(v, p, n), .msg_iovlen = 2};
    return recvmsg(fd, &m, MSG_WAITALL);
}

long call_sendmmsg(int fd, const void *p, size_t n)
{
    struct iovec v[2];
    struct mmsghdr m = {.msg_hdr = {.msg_iov = in_two(v, p, n), .msg_iovlen = 2}};
    return sendmmsg(fd, &m, 1, MSG_NOSIGNAL) == 1 ? (long)m.msg_len : -1;
}

long call_recvmmsg(int fd, void *p, size_t n)
{
    struct iovec v[2];
    struct mmsghdr m = {.msg_hdr = {.msg_iov = in_two(v, p, n), .msg_iovlen = 2}};
    return recvmmsg(fd, &m, 1, MSG_WAITALL, NULL) == 1 ? (long)m.msg_len : -1;
}

long call_fwrite(int fd, const void *p, size_t n)
{
    FILE *f = fdopen(dup(fd), "w");
    long done = (long)fwrite(p, 1, n, f);
    return fclose(f) == 0 ? done : -1;
}

long call_fread(int fd, void *p, size_t n)
{
    FILE *f = fdopen(dup(fd), "r");
    long done = (long)fread(p, 1, n, f);
    fclose(f);
    return done;
}

/* Who calls matters to these. `found` is there lest it be their caller, by a jump at their end. */
void *find_next(const char *name)
{
    void *volatile found = dlsym(RTLD_NEXT, name);
    return found;
}

void *find_default(const char *name)
{
    void *volatile found = dlsym(RTLD_DEFAULT, name);
    return found;
}
