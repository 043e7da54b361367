/* os.h: what is particular to an operating system: the one place that chooses.
 *
 * linux/     memory that is hidden, a fault handler, system calls that are served, machine code
 * portable/  C11 and POSIX threads, which macOS has, and Windows by winpthreads: none of these
 *
 * Both define the functions of system.h that pool.c does not. The build chooses the .c files by the
 * same rule (meson.build). A header of either has
 *
 *   NPA_IS_PORTABLE                        which of both this is: 0, 1
 *   NPA_PER_THREAD                         before a variable of each thread, found without a call
 *   npa_aligned(alignment, size), _free    memory on an address that is a multiple of `alignment`
 */
#ifndef NPA_OS_H
#define NPA_OS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifdef NPA_PORTABLE
#include "system/portable/os.h"
#else
#include "system/linux/os.h"
#endif

/* ------------------------------------------------------------------------------- threads.c */

/* Start a thread. It gets no signals but those of crashes. stack_bytes: 0 for the usual. 0, or an
 * errno. */
int npa_thread_start(pthread_t *thread, void *(*body)(void *), void *context, size_t stack_bytes);
/* As pthread_atfork. Nothing, where processes don't fork. */
int npa_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));
/* Sleep while *word is `value`, at most so many nanoseconds (0: without end). Whether somebody woke
 * this thread; it may also wake up by itself. */
bool npa_word_wait(atomic_int *word, int value, int64_t most_ns);
/* Wake at most so many of those that sleep on it; how many that were, as far as is known. */
int npa_word_wake(atomic_int *word, int most);
/* Threads that this process may run at a time. */
int npa_threads_allowed(void);
/* These threads are to run on any processor that the caller may run on but his own, which is not
 * `before`. His, or `before` where nothing can be done: there are too few, or nobody knows. */
int npa_threads_apart(const pthread_t *threads, int n, int before);
void npa_yield(void); /* other threads go first */
long npa_process_here(void); /* this process's number */
/* On standard error, also where nothing may be allocated; whether it was written. */
bool npa_say(const char *text, size_t length);

/* --------------------------------------------------------------------------------- sockets.c */

/* Some bytes of a message. */
typedef struct { const void *at; size_t size; } npa_part;
/* All of these, one behind another; false: the other side has ended. No signal comes of that. */
bool npa_socket_send(int socket, const npa_part *parts, int n);
/* So many bytes; false: the other side has ended. */
bool npa_socket_receive(int socket, void *to, size_t size);
void npa_socket_close(int socket);
/* A thread sends back what comes there, until the other end closes; then it closes this one. */
bool npa_socket_echo(int socket);

#endif
