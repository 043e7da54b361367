/* lanes.c: a processor for which there are no such functions. */
#include "loops/loops.h"

npa_lane_function *npa_lanes(npa_laned which, const char *level)
{
    (void)which, (void)level;
    return NULL;
}

bool npa_lanes_ready(npa_laned which, PyUFuncGenericFunction numpys)
{
    (void)which, (void)numpys;
    return false;
}

bool npa_lanes_round(void) { return true; }
