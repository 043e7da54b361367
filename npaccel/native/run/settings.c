/* settings.c: what this room is told: functions of rooms above it, and limits of what waits. */
#include "run/run.h"

struct npa_run_hooks npa_run_hooks;
int npa_queue_limit = 4096;
size_t npa_memory_limit = (size_t)1 << 30;
