/* site.c: the user's line: that of the innermost frame whose code is neither NumPy's nor ours. */
#include "base/base.h"

#include <opcode.h>

/* Code objects whose lines are NumPy's or ours: the user's line is further up. */
static struct { PyObject *code; bool internal; } code_seen[256];
static PyObject *internal_prefixes; /* tuple of str */

static bool code_internal(PyCodeObject *code)
{
    size_t i = ((uintptr_t)code >> 5) & 255;
    if (code_seen[i].code == (PyObject *)code) {
        return code_seen[i].internal;
    }
    bool internal = PyUnicode_CompareWithASCIIString(code->co_qualname, "npaccel.stand_in") == 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(internal_prefixes); k++) {
        internal |= PyUnicode_Tailmatch(code->co_filename, PyTuple_GET_ITEM(internal_prefixes, k),
                                        0, PY_SSIZE_T_MAX, -1) > 0;
    }
    Py_XSETREF(code_seen[i].code, Py_NewRef((PyObject *)code));
    code_seen[i].internal = internal;
    return internal;
}

bool npa_capture_site(npa_site *r)
{
    return npa_site_of((PyFrameObject *)Py_XNewRef(PyEval_GetFrame()), r);
}

bool npa_site_of(PyFrameObject *frame, npa_site *r)
{
    r->code = r->globals = NULL;
    r->lasti = -1;
    if (frame == NULL) {
        return true;
    }
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool innermost = true;
    while (code_internal(code)) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        if (back == NULL) {
            break;
        }
        innermost = false;
        Py_SETREF(frame, back);
        Py_SETREF(code, PyFrame_GetCode(frame));
    }
    r->code = (PyObject *)code;
    r->globals = PyFrame_GetGlobals(frame);
    r->lasti = PyFrame_GetLasti(frame);
    Py_DECREF(frame);
    return innermost;
}

/* Python 3.11 has two instructions for a call. Which of them calls a C function is told by what it
 * has called there before, a plain array's method or ours. */
int32_t npa_call_at(const npa_site *site)
{
#if PY_VERSION_HEX < 0x030C0000
    PyObject *code = site->code != NULL ? PyCode_GetCode((PyCodeObject *)site->code) : NULL;
    enum { BETWEEN = 2 * (int)sizeof(uint16_t) };
    const char *at = code != NULL && site->lasti >= BETWEEN &&
                             site->lasti < PyBytes_GET_SIZE(code)
                         ? PyBytes_AS_STRING(code) + site->lasti : NULL;
    if (code == NULL) {
        PyErr_Clear(); /* without memory for it, it is another place */
    }
    bool second = at != NULL && (uint8_t)*at == CALL && (uint8_t)at[-BETWEEN] == PRECALL;
    Py_XDECREF(code);
    if (second) {
        return site->lasti - BETWEEN;
    }
#endif
    return site->lasti;
}

/* A jump back of a loop, at which other threads may get the lock, has none: that before it. */
int npa_line_of(PyCodeObject *code, int32_t lasti)
{
    int line = PyCode_Addr2Line(code, lasti);
    while (line < 0 && lasti > 0) {
        lasti -= (int32_t)sizeof(uint16_t);
        line = PyCode_Addr2Line(code, lasti);
    }
    return line < 0 ? code->co_firstlineno : line;
}

static bool lies_in(PyFrameObject *frame, PyObject *folders)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool found = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(folders); k++) {
        found |= PyUnicode_Tailmatch(code->co_filename, PyTuple_GET_ITEM(folders, k), 0,
                                     PY_SSIZE_T_MAX, -1) > 0;
    }
    Py_DECREF(code);
    return found;
}

/* Whether it has run nothing yet: Python changes threads there, but not between operators, whose
 * time is its caller's. */
static bool just_begins(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *bytes = PyCode_GetCode(code);
    int at = PyFrame_GetLasti(frame);
    bool begins = bytes != NULL && at >= 0 && at < PyBytes_GET_SIZE(bytes) &&
                  (unsigned char)PyBytes_AS_STRING(bytes)[at] == RESUME;
    Py_DECREF(code);
    if (bytes == NULL) {
        PyErr_Clear(); /* without memory for it, it does not */
    }
    Py_XDECREF(bytes);
    return begins;
}

PyFrameObject *npa_program_frame(PyThreadState *thread, PyObject *libraries)
{
    PyFrameObject *innermost = PyThreadState_GetFrame(thread);
    PyFrameObject *at = (PyFrameObject *)Py_XNewRef(innermost);
    while (at != NULL && lies_in(at, libraries)) {
        Py_SETREF(at, PyFrame_GetBack(at));
    }
    PyFrameObject *caller = at != NULL && just_begins(at) ? PyFrame_GetBack(at) : NULL;
    if (caller != NULL && !lies_in(caller, libraries)) {
        Py_SETREF(at, caller);
    } else {
        Py_XDECREF(caller);
    }
    if (at == NULL) {
        return innermost;
    }
    Py_DECREF(innermost);
    return at;
}

void npa_internal_prefixes(PyObject *tuple) { Py_SETREF(internal_prefixes, Py_NewRef(tuple)); }

int npa_site_init(void)
{
    internal_prefixes = PyTuple_New(0);
    return internal_prefixes != NULL ? 0 : -1;
}
