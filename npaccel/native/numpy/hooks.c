/* hooks.c: what lower rooms ask rooms above them. A room's table is in its header, and says what
 * for. */
#include "numpy/numpy.h"

static void redirect(bool on)
{
    if (on) {
        npa_redirect_install();
    } else {
        npa_redirect_restore();
    }
}

void npa_hooks_fill(void)
{
    npa_base_hooks = (struct npa_base_hooks){
        .spent = npa_profile_spent,
        .now = npa_profile_now,
        .settle = npa_profile_settle,
        .small = npa_profile_small};
    npa_trace_hooks = (struct npa_trace_hooks){.spot_new = npa_spot_new,
                                               .spot_gone = npa_spot_gone,
                                               .spot_read = npa_spot_read_raw,
                                               .section_stop = npa_section_stop,
                                               .copy_drop = npa_copy_drop,
                                               .serve_calls = npa_serve_calls,
                                               .redirect = redirect,
                                               .flush = npa_flush_natively};
    npa_place_hooks = (struct npa_place_hooks){.came_home = npa_note_home, .touch = npa_touch};
    npa_run_hooks = (struct npa_run_hooks){.settle_masks = npa_masked_settle, .waits = npa_waits};
    npa_macro_hooks = (struct npa_macro_hooks){.look = npa_redirect_look};
}
