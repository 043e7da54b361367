/* sockets.c: nobody to talk to: where nothing can be hidden, nothing can live on a cluster. */
#include "system/os.h"

bool npa_socket_send(int socket, const npa_part *parts, int n)
{
    (void)socket, (void)parts, (void)n;
    return false;
}

bool npa_socket_receive(int socket, void *to, size_t size)
{
    (void)socket, (void)to, (void)size;
    return false;
}

void npa_socket_close(int socket) { (void)socket; }

bool npa_socket_echo(int socket)
{
    (void)socket;
    return false;
}
