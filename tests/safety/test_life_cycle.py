"""When things end or unwind while something is pending: exceptions, generators, cycles, exit."""

from __future__ import annotations

import pytest

from .fresh import run, succeed

ZERO = "zeros = npaccel.asarray(np.arange(1 << 17, dtype=float))\n"

QUIET = {
    "fault while an exception is in flight": """
x, want = pending()
plain, got = np.asarray(x), []
def fail():
    try:
        raise KeyError("mine")
    finally:
        got.append(plain[3])
try:
    fail()
except KeyError as error:
    assert error.args == ("mine",)
assert got == [want[3]]
""",
    "fault in an except clause keeps the context": """
x, want = pending()
plain = np.asarray(x)
try:
    try:
        raise KeyError("first")
    except KeyError:
        plain[10 ** 9]
except IndexError as error:
    assert isinstance(error.__context__, KeyError)
assert plain[7] == want[7]
""",
    "small stack": """
threading.stack_size(64 * 1024)
x, want = pending()
plain, got = np.asarray(x), []
thread = threading.Thread(target=lambda: got.append(plain[17]))
thread.start()
thread.join()
assert got == [want[17]]
threading.stack_size(0)
""",
    "abandoned generator": """
closed = []
def generate():
    x, want = pending()
    try:
        for i in range(10):
            yield x + i, want + i
    finally:
        closed.append((np.asarray(x) == want).all())
generator = generate()
y, want = next(generator)
z, want_z = next(generator)
del generator
gc.collect()
assert closed == [True]
assert (y == want).all() and (np.asarray(z) == want_z).all()
""",
    "reference cycles": """
class Node:
    pass
npaccel.evaluate()
before = npaccel.stats()["live_ranges"]
for _ in range(90):
    node = Node()
    node.array = pending(1 << 15 | 7)[0]
    node.view, node.plain, node.me = node.array[3:], np.asarray(node.array), node
del node
gc.collect()
npaccel.evaluate()
gc.collect()
x, want = pending()  # what died is given back with the next recorded operation
npaccel.evaluate()
assert npaccel.stats()["live_ranges"] - before < 10
""",
    "plain view outlives the array": """
x, want = pending()
plain = np.asarray(x)[1000:2000]
del x
gc.collect()
assert (plain == want[1000:2000]).all()
""",
    "errstate raise": ZERO
    + """
try:
    with np.errstate(all="raise"):
        1.0 / zeros
    raise AssertionError("nothing was raised")
except FloatingPointError as error:
    assert str(error) == "divide by zero encountered in divide"
""",
    "errstate call": ZERO
    + """
calls = []
with np.errstate(all="call", call=lambda *what: calls.append(what)):
    y = 1.0 / zeros
assert calls == [("divide by zero", 1)]
assert np.asarray(y)[1] == 1.0
""",
}


def test_unwinding() -> None:
    program = ""
    for name, part in QUIET.items():
        program += part + f"print({name!r}, flush=True)\n"
    assert succeed(program).splitlines() == list(QUIET)


def test_warnings_as_errors() -> None:
    succeed(
        ZERO
        + """
x, want = pending()
warnings.simplefilter("error")
try:
    1.0 / zeros
    raise AssertionError("nothing was raised")
except RuntimeWarning as warning:
    assert str(warning) == "divide by zero encountered in divide"
assert (np.asarray(x) == want).all()
"""
    )


def test_a_warning_that_a_fault_found_is_issued_later_and_once() -> None:
    out = succeed(
        ZERO
        + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    y = 1.0 / zeros
    plain = np.asarray(y)
    assert plain[0] == np.inf
    npaccel.evaluate()
    npaccel.evaluate()
print(*(warning.message for warning in caught))
"""
    )
    assert out.strip() == "divide by zero encountered in divide"


def test_warnings_stay_in_their_scope() -> None:
    """As NumPy gives them; what is pending is evaluated where the rules change."""
    program = (
        ZERO.replace("npaccel.asarray", "wrap")
        + """
def messages(caught): return [str(warning.message).split()[-1] for warning in caught]
with warnings.catch_warnings(record=True) as outer:
    warnings.simplefilter("always")
    a = 1.0 / zeros
    with warnings.catch_warnings(record=True) as inner:
        warnings.simplefilter("always")
        b = np.log(zeros)
        warnings.simplefilter("ignore")
        c = np.log(zeros)
        warnings.resetwarnings()
        warnings.simplefilter("always")
        d = 1.0 / zeros
    e = np.log2(zeros)
print(messages(outer), messages(inner))
"""
    )
    deferred = succeed("wrap = npaccel.asarray\n" + program)
    assert deferred == succeed("wrap = np.asarray\n" + program)
    assert deferred == "['divide', 'log2'] ['log', 'divide']\n"


AT_EXIT = """
import atexit
x, want = pending()
plain = np.asarray(x)
atexit.register(lambda: print("at exit", bool((plain == want).all())))
class Last:
    def __del__(self):
        print("finalised", bool(view[3] == held[3]))
y, held = pending(seed=2)
view = np.asarray(y)
last = Last()
"""


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del y, x"])
def test_interpreter_exit_with_pending_work(end: str) -> None:
    assert succeed(AT_EXIT + end).splitlines() == ["at exit True", "finalised True"]


def test_exit_by_an_exception() -> None:
    done = run("x, want = pending()\nraise ValueError('mine')")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: mine"


def test_what_was_never_read_still_warns() -> None:
    done = run(ZERO + "y = 1.0 / zeros\n")
    assert done.returncode == 0
    assert "RuntimeWarning: divide by zero encountered in divide" in done.stderr
