/* settings.c: settings, Python's functions that the core calls, and what NumPy has: set once, read
 * everywhere. */
#define NPACCEL_IMPORT
#include "base/base.h"

bool npa_guard_on, npa_check_mode, npa_numpy_chosen, npa_autotune_on, npa_calls_tried;
size_t npa_threshold = 1 << 18;
PyObject *npa_hook_rule, *npa_hook_fold, *npa_hook_ufunc, *npa_hook_getitem, *npa_hook_setitem,
    *npa_hook_plan, *npa_hook_warn, *npa_hook_filters, *npa_hook_shown;
PyTypeObject *npa_array_type;
npa_slots npa_numpy;
PyObject *npa_no_value;

/* NumPy's own interface, for all files. 0 or -1 */
int npa_numpy_init(void)
{
    import_array1(-1);
    import_umath1(-1);
    return 0;
}
