"""What npaccel does in one call: observed for tools/coverage.py, and put into one of six kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from coverage_calls import NAMESPACES, operands

import npaccel
from npaccel import _native
from npaccel.dispatch.fallback import FALLBACKS
from npaccel.dispatch.function import WHOLE
from npaccel.dispatch.method import EVALUATED
from npaccel.dispatch.redirect import COMPUTED, SOURCES

KERNEL, COMPOSED, OWN = "kernel", "composed", "own loops"
DELEGATED, VIEW, FALLBACK = "delegated", "view or metadata", "fallback"
KINDS = (KERNEL, COMPOSED, OWN, DELEGATED, VIEW, FALLBACK)


# What the table of redirect.py leaves to NumPy in every call.
TABLE = set(COMPUTED.values()) | {
    *(reason.removeprefix("*") for reason in EVALUATED.values()),
    *(reason for reason, _ in WHOLE.values()),
    *("generalised ufunc", "random numbers"),
} - {""}
UNLISTED = "not recorded"  # a function that dispatch/function.py does not list
DRAWN_BY = "random numbers"
UNSEEN = "NumPy's code, which npaccel does not see"
READING = {name for name, reason in EVALUATED.items() if reason == ""}
MEMORY = {"empty", "empty_like"}  # of npaccel's, without values
# What NumPy's sources say, where nothing is counted.
HASHES = f"{UNSEEN}: a hash table"
READS = "it reads the value"
KNOWN = {
    ("numpy", "unique"): (FALLBACK, HASHES),
    ("numpy", "unique_values"): (FALLBACK, HASHES),
    ("numpy", "intersect1d"): (FALLBACK, HASHES),
    ("numpy", "setdiff1d"): (FALLBACK, HASHES),
    ("numpy", "setxor1d"): (FALLBACK, HASHES),
    ("numpy", "union1d"): (FALLBACK, HASHES),
    ("numpy", "apply_along_axis"): (FALLBACK, "a call of the function for each row"),
    ("numpy", "tri"): (FALLBACK, "ufunc.outer of small arrays; the rest is recorded"),
    ("numpy.linalg", "vecdot"): (DELEGATED, "generalised ufunc, whose axis is named"),
    ("operators", "__bool__"): (DELEGATED, READS),
    ("operators", "__complex__"): (DELEGATED, READS),
    ("operators", "__float__"): (DELEGATED, READS),
    ("operators", "__index__"): (DELEGATED, READS),
    ("operators", "__int__"): (DELEGATED, READS),
    ("operators", "__imatmul__"): (DELEGATED, "matrix product"),
    ("operators", "__rmatmul__"): (DELEGATED, "matrix product"),
}
# Own loops that a processor may not need: whether it does is found out by a clock.
BY_CLOCK = {"ndarray.sort"}


class Observation(NamedTuple):
    """What happened in one call.

    requests : operations that it recorded.
    jobs : what npaccel's own loops did.
    reasons : by function, why NumPy ran it.
    loops : why recorded operations had no kernel, if any.
    touched : whether an operand was waiting before and no longer is.
    result : "new" values, "shared" memory of an operand, or "" for anything else.
    """

    requests: int
    jobs: int
    reasons: Mapping[str, str]
    loops: str
    touched: bool
    result: str


def _run(call: str, names: dict[str, Any]) -> Any:
    """The value of an expression; a statement's is None."""
    np.random.seed(3)
    try:
        code = compile(call, "<call>", "eval")
    except SyntaxError:
        exec(compile(call, "<call>", "exec"), names)
        return None
    return eval(code, names)


def _compare(mine: Any, theirs: Any, where: str) -> None:
    if isinstance(theirs, tuple | list) and isinstance(mine, tuple | list):
        assert len(mine) == len(theirs), where
        for a, b in zip(mine, theirs, strict=True):
            _compare(a, b, where)
    elif isinstance(theirs, np.ndarray | np.generic | float | int | complex):
        a, b = np.asarray(mine), np.asarray(theirs)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), where
        if b.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9, err_msg=where)
        else:
            np.testing.assert_array_equal(a, b, err_msg=where)


def fits(call: str) -> bool:
    """Whether NumPy takes the call."""
    try:
        _run(call, operands(call))
    except Exception:  # any: it is another call's turn
        return False
    return True


def observe(call: str, times: int = 1) -> Observation:
    """Run a call outside a block and in one, compare, and tell what was counted."""
    _native.forget_rows()  # how long own loops took decides whether they are used again
    plain, names = operands(call, times), operands(call, times)
    used = list(names)
    expected = _run(call, plain)
    with npaccel.accelerate():
        for name in used:
            if isinstance(names[name], np.ndarray):
                names[name] = names[name].copy()
        arrays = [names[name] for name in used if isinstance(names[name], np.ndarray)]
        waited = [_native.is_pending(array) for array in arrays]
        FALLBACKS.clear()
        before, jobs = npaccel.stats(), _native.jobs()
        result = _run(call, names)
        after, jobs = npaccel.stats(), _native.jobs() - jobs
        reasons = {function: reason for function, reason, _ in FALLBACKS.counts()}
        touched = waited != [_native.is_pending(array) for array in arrays]
        sort = _sort(result, arrays)
        npaccel.evaluate()
        native = npaccel.stats()["native_requests"] - before["native_requests"]
        loops = _why_loops() if native else ""
    mine = result, [names[name] for name in used]
    if not call.startswith("np.empty"):
        _compare(mine, (expected, [plain[name] for name in used]), call)
    requests = after["requests"] - before["requests"]
    return Observation(requests, jobs, reasons, loops, touched, sort)


def _why_loops() -> str:
    reasons = {step.reason for step in npaccel.explain().steps if step.reason}
    return ", ".join(sorted(reasons)) or "in an earlier run"


def _sort(result: Any, arrays: list[Any]) -> str:
    if isinstance(result, tuple | list) and result:
        return max(_sort(item, arrays) for item in result[:2])
    if not isinstance(result, np.ndarray):
        return ""
    return "shared" if any(np.may_share_memory(result, array) for array in arrays) else "new"


def classify(namespace: str, name: str, seen: Observation) -> tuple[str, str]:
    """A kind of `KINDS`, and a note."""
    if (namespace, name) in KNOWN:
        return KNOWN[namespace, name]
    kept = {f: r for f, r in seen.reasons.items() if f not in BY_CLOCK or name == "sort_complex"}
    own = seen.jobs > 0 or len(kept) < len(seen.reasons)
    telling = {_told(function, reason) for function, reason in kept.items()}
    if namespace in ("numpy.random", "Generator", "RandomState"):
        others = telling - {UNLISTED, DRAWN_BY}
        if own and not seen.requests and not telling - {UNLISTED}:
            return OWN, ""
        return (FALLBACK if others - TABLE else DELEGATED), "; ".join(sorted(others)) or DRAWN_BY
    if len(telling) > 1 or own or seen.requests:
        telling.discard(UNLISTED)
    note = "; ".join(sorted(telling) + ["the rest is recorded"] * bool(seen.requests))
    if telling - TABLE:
        return FALLBACK, note
    if seen.loops:
        return FALLBACK, f"recorded, but run by a loop of NumPy's: {seen.loops}"
    if telling:
        return DELEGATED, note
    if own and seen.requests < 2:
        return OWN, ""
    if seen.requests:
        ufunc = isinstance(getattr(NAMESPACES[namespace], name, None), np.ufunc)
        return (KERNEL if seen.requests == 1 or ufunc else COMPOSED), ""
    if name in SOURCES and namespace == "numpy" and seen.result == "new":
        return DELEGATED, "it reads no array"
    if namespace == "ndarray" and name in READING:
        return DELEGATED, "it reads the values"
    if name in MEMORY:
        return VIEW, "memory without values"
    if seen.result == "new" or (seen.touched and seen.result != "shared"):
        return FALLBACK, UNSEEN
    return VIEW, ""


def _told(function: str, reason: str) -> str:
    """The reason; the table's, for C functions that it has."""
    found = getattr(np, function, None)
    compiled = not hasattr(getattr(found, "_implementation", found), "__code__")
    return COMPUTED.get(function, reason) if compiled and reason == UNLISTED else reason
