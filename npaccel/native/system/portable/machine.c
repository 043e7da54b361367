/* machine.c: no limits are known, no machine code is loaded, no process is started, and other
 * libraries are not looked into. */
#include "system/system.h"

#include <errno.h>
#include <math.h>

/* ---------------------------------------------------------------------------------- limits */

size_t npa_limit_memory(void) { return SIZE_MAX; }

size_t npa_limit_addresses(void) { return SIZE_MAX; }

size_t npa_limit_free(void) { return SIZE_MAX; }

double npa_limit_machine(void) { return HUGE_VAL; }

size_t npa_limit_cache(void) { return 0; }

void npa_system_processor(char *out, size_t size)
{
    if (size > 0) {
        out[0] = 0;
    }
}

/* ---------------------------------------------------------------------------- machine code */

const char *npa_code_load(const char *image, size_t size, const char *const *names, int n,
                          uint64_t *addresses, npa_code *code)
{
    (void)image, (void)size, (void)names, (void)n, (void)addresses, (void)code;
    return "a portable build of npaccel loads none";
}

void npa_code_free(npa_code *code) { (void)code; }

size_t npa_code_bytes(void) { return 0; }

void *npa_loaded(const char *path)
{
    (void)path;
    return NULL;
}

void (*npa_loaded_function(void *library, const char *name))(void)
{
    (void)library, (void)name;
    return NULL;
}

void npa_visit_constants(void (*function)(void), npa_visit_words *visit, void *context)
{
    (void)function, (void)visit, (void)context;
}

bool npa_called_from(const char *name, void (*near)(void))
{
    (void)name, (void)near;
    return false;
}

/* ------------------------------------------------------------------------------- processes */

int npa_process_start(char *const *arguments, const char *left_out, char *const *added,
                      const char *errors, npa_process **process, int *to, int *from)
{
    (void)arguments, (void)left_out, (void)added, (void)errors, (void)process, (void)to;
    (void)from;
    return ENOSYS;
}

int npa_process_wait(npa_process *p, int64_t *number)
{
    (void)p, (void)number;
    return ENOSYS;
}

void npa_process_kill(npa_process *p) { (void)p; }
void npa_process_free(npa_process *p) { (void)p; }

void npa_pool_lend(int from) { (void)from; }

bool npa_pool_lends(void) { return false; }
