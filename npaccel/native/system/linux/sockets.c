/* sockets.c: messages to another process, and from it. */
#define _GNU_SOURCE
#include "system/os.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

static bool send_part(int socket, const char *at, size_t size, int flags)
{
    while (size > 0) {
        ssize_t sent = send(socket, at, size, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        at += sent, size -= (size_t)sent;
    }
    return true;
}

bool npa_socket_send(int socket, const npa_part *parts, int n)
{
    bool good = true;
    for (int i = 0; good && i < n; i++) {
        good = send_part(socket, parts[i].at, parts[i].size, i + 1 < n ? MSG_MORE : 0);
    }
    return good;
}

bool npa_socket_receive(int socket, void *to, size_t size)
{
    for (size_t have = 0; have < size;) {
        ssize_t got = recv(socket, (char *)to + have, size - have, MSG_WAITALL);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        have += (size_t)got;
    }
    return true;
}

void npa_socket_close(int socket) { close(socket); }

static void *echo(void *context)
{
    int socket = (int)(intptr_t)context;
    char text[64];
    ssize_t got;
    do {
        got = recv(socket, text, sizeof text, 0);
    } while ((got < 0 && errno == EINTR) || (got > 0 && send_part(socket, text, (size_t)got, 0)));
    close(socket);
    return NULL;
}

bool npa_socket_echo(int socket)
{
    pthread_t thread;
    enum { STACK_BYTES = 1 << 16 };
    return npa_thread_start(&thread, echo, (void *)(intptr_t)socket, STACK_BYTES) == 0 &&
           pthread_detach(thread) == 0;
}
