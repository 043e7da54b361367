"""Warnings where filters change while operations are pending: as NumPy's, and they wait on."""

from __future__ import annotations

import contextlib
import io
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.runtime.process.scopes import Scope

N = 3000
ZEROS = np.linspace(-2.0, 2.0, N + 1)  # its middle is 0
Wrap = Callable[[Any], Any]


def seen(caught: list[warnings.WarningMessage]) -> list[tuple[str, int]]:
    return [(str(w.message), w.lineno) for w in caught]


def logarithm(x: Any) -> Any:
    return np.log(np.abs(x))


def reciprocal(x: Any) -> Any:
    return 1.0 / x


def overflow(x: Any) -> Any:
    return x * 1e300 * 1e300


def quiet(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return 1.0 / x


def twice(x: Any) -> Any:
    a = 1.0 / x
    return a + 2.0 / x


OPERATIONS = [logarithm, reciprocal, overflow, quiet, twice]


def with_scopes(x: Any) -> Any:
    x = x + 3.0
    for _ in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = x * 2.0 + 1.0
        x = x - 1.0
    return x


def test_a_library_that_enters_scopes_does_not_evaluate(deferred: None) -> None:
    x = npaccel.asarray(ZEROS)
    npaccel.evaluate(with_scopes(x))
    before = npaccel.stats()["kernels"]
    y = with_scopes(x)
    assert _native.is_pending(y)
    npaccel.evaluate()
    assert npaccel.stats()["kernels"] == before + 1
    np.testing.assert_array_equal(np.asarray(y), with_scopes(ZEROS))


def test_what_cannot_warn_waits_even_where_warnings_are_caught(deferred: None) -> None:
    with warnings.catch_warnings(record=True):
        x = npaccel.asarray(np.arange(N)) * 3
        with np.errstate(all="ignore"):
            y = npaccel.asarray(ZEROS) / 0.0
    assert _native.is_pending(x) and _native.is_pending(y)
    with warnings.catch_warnings(record=True) as caught:
        z = npaccel.asarray(ZEROS) / 0.0
    assert not _native.is_pending(z)
    assert len(caught) == 2


def in_an_ignoring_block(wrap: Wrap) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = reciprocal(wrap(ZEROS))
    b = logarithm(a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.asarray(b)  # the warning is from outside


def before_an_ignoring_filter(wrap: Wrap) -> None:
    a = reciprocal(wrap(ZEROS))
    warnings.simplefilter("ignore")
    b = logarithm(a)
    np.asarray(b)


def before_filters_are_reset(wrap: Wrap) -> None:
    a = reciprocal(wrap(ZEROS))
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    logarithm(a)


def shown_once_a_place(wrap: Wrap) -> None:
    """By the default action, whatever was evaluated when."""
    warnings.simplefilter("default")
    for i in range(3):
        a = reciprocal(wrap(ZEROS))
        if i == 1:
            np.asarray(a)
    with warnings.catch_warnings():
        reciprocal(wrap(ZEROS))
        reciprocal(wrap(ZEROS))
    b = reciprocal(wrap(ZEROS))
    np.asarray(b)


def shown_once_and_again_later(wrap: Wrap) -> None:
    warnings.simplefilter("default")
    a = reciprocal(wrap(ZEROS))
    np.asarray(a)
    for _ in range(2):
        reciprocal(wrap(ZEROS))  # as before
    with warnings.catch_warnings():
        pass
    reciprocal(wrap(ZEROS))  # again


def shown_in_a_way_of_its_own(wrap: Wrap) -> None:
    with warnings.catch_warnings():
        texts: list[str] = []
        warnings.showwarning = lambda message, *_: texts.append(str(message))
        reciprocal(wrap(ZEROS))
    warnings.warn(f"caught {texts}", stacklevel=1)


def shown_otherwise_without_a_block(wrap: Wrap) -> None:
    """By assignments alone, as NumPy's own `suppress_warnings` does."""
    texts: list[str] = []
    for filters, show in (([*warnings.filters], texts), ([("always", None, Warning, None, 0)], [])):
        before, warnings.filters = warnings.filters, filters  # type: ignore[assignment]
        outside = reciprocal(wrap(ZEROS))
        own = warnings.showwarning
        warnings.showwarning = lambda message, *_, show=show, **__: show.append(str(message))
        reciprocal(wrap(ZEROS))
        caught = logarithm(wrap(ZEROS))
        warnings.showwarning = own
        texts.append(f"caught {len(show)}")
        hidden = overflow(wrap(ZEROS))
        warnings.filters = before
        npaccel.evaluate(outside, caught, hidden)
    warnings.warn(f"caught {texts}", stacklevel=1)


def looked_at_within_the_block(wrap: Wrap) -> None:
    told = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always")
            a = reciprocal(wrap(ZEROS))
            told.append(len(log))
            logarithm(wrap(ZEROS))
            told += [w.lineno for w in log]
            b = overflow(wrap(ZEROS))
            told += [bool(log), isinstance(log, list), repr(type(log)), str(log[-1].message)]
        npaccel.evaluate(a, b)
        told.append([str(w.message) for w in log])
    warnings.warn(f"caught {told}", stacklevel=1)


def asserted_by_numpy(wrap: Wrap) -> None:
    told = []
    with np.testing.assert_warns(RuntimeWarning):
        a = reciprocal(wrap(ZEROS))
    np.testing.assert_warns(RuntimeWarning, logarithm, wrap(ZEROS))
    with suppress_warnings() as known:
        log = known.record(RuntimeWarning, "divide")
        b = reciprocal(wrap(ZEROS))
        told += [len(known.log), [w.lineno for w in log]]
        c = logarithm(wrap(ZEROS))
        told.append([str(w.message) for w in log])
    npaccel.evaluate(a, b, c)
    warnings.warn(f"caught {told} {len(log)}", stacklevel=1)


def suppress_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy 2.4 says that it is going
        return np.testing.suppress_warnings()


def _write(message: Any) -> None:
    """As Python does; pytest has the warnings of tests in a list."""
    sys.stderr.write(warnings._formatwarnmsg(message))  # type: ignore[attr-defined]


def written_otherwise(wrap: Wrap) -> None:
    """To another stream, or in another form."""
    with warnings.catch_warnings():
        warnings.showwarning = warnings._showwarning_orig  # type: ignore[attr-defined]
        warnings._showwarnmsg_impl = _write  # type: ignore[attr-defined]
        texts = []
        for _ in range(2):
            with contextlib.redirect_stderr(io.StringIO()) as stream:
                a = reciprocal(wrap(ZEROS))
            texts.append(stream.getvalue())
            with contextlib.redirect_stderr(io.StringIO()) as stream:
                b = logarithm(wrap(ZEROS))
                own = warnings.formatwarning
                warnings.formatwarning = lambda message, *_: f"<{message}>"
                c = overflow(wrap(ZEROS))
                warnings.formatwarning = own
            npaccel.evaluate(a, b, c)
            texts.append(stream.getvalue())
    warnings.warn(f"written {texts}", stacklevel=1)


@pytest.mark.parametrize(
    "program",
    [
        in_an_ignoring_block,
        before_an_ignoring_filter,
        before_filters_are_reset,
        shown_once_a_place,
        shown_once_and_again_later,
        shown_in_a_way_of_its_own,
        shown_otherwise_without_a_block,
        looked_at_within_the_block,
        asserted_by_numpy,
        written_otherwise,
    ],
)
def test_as_numpy(program: Callable[[Wrap], None]) -> None:
    results = []
    for wrap in (np.asarray, npaccel.asarray):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            program(wrap)
        results.append(seen(caught))
    assert results[0] == results[1]


class Run:
    """One random program: operations and scopes, nested as they come."""

    def __init__(self, wrap: Wrap, seed: int) -> None:
        self.wrap, self.choice, self.logs = wrap, random.Random(seed), []
        self.block(0)

    def block(self, depth: int) -> None:
        choice = self.choice
        for _ in range(choice.randrange(2, 7)):
            kind = choice.randrange(10)
            if kind < 5:
                x = choice.choice(OPERATIONS)(self.wrap(ZEROS))
                if choice.randrange(4) == 0:
                    np.asarray(x)
            elif kind < 6:
                action: Any = choice.choice(["ignore", "always", "default", "once", "module"])
                warnings.simplefilter(action)
            elif kind < 7:
                warnings.filterwarnings("ignore", message=choice.choice(["over", "divide"]))
            elif depth < 3:
                record = choice.randrange(3) == 0
                with warnings.catch_warnings(record=record) as caught:
                    self.block(depth + 1)
                if record:
                    self.logs.append(seen(caught or []))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(60))
def test_random_scopes(seed: int) -> None:
    results = []
    for wrap in (np.asarray, npaccel.asarray):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.onceregistry.clear()
            run = Run(wrap, seed)
        results.append([*run.logs, seen(caught)])
    assert results[0] == results[1]


def test_scopes_are_given_back(deferred: None) -> None:
    """However often filters change, what remembers them ends with what was pending."""
    before = None
    for turn in range(40):
        x = npaccel.asarray(ZEROS)
        for _ in range(20):
            with warnings.catch_warnings():
                x = x * 1.0
        np.asarray(x)
        npaccel.evaluate()
        if turn == 20:
            before = sys.getallocatedblocks()
    assert before is not None and sys.getallocatedblocks() - before < 500
    import gc

    assert sum(isinstance(o, Scope) for o in gc.get_objects()) == 0


ENDS = """
import subprocess, sys
import numpy as np
def work():
    x = np.arange(100_000.0)
    for i in range(100):
        x = np.sqrt(x * x + 1) - 1
        x = x * 2.5 / 2.5 + np.sin(x) * 0
    return x
work(), work()
subprocess.Popen(["sh", "-c", "true"]).wait()
work()
left_open = open(sys.argv[1])
"""


def test_what_is_collected_at_the_end_finds_the_filters(tmp_path: Path) -> None:
    """Python goes by the list that it was given last, when its modules have gone."""
    path = tmp_path / "program.py"
    path.write_text(ENDS)
    command = [sys.executable, "-P", "-m", "npaccel", "run", str(path), str(path)]
    environment = os.environ | {"NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("PYTHONWARNINGS", None)
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
    assert done.stderr == b""


CONTEXTS = """
import warnings
import numpy as np
x = np.arange(100_000.0)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    a = 1 / x
    print([str(w.message) for w in seen])
    b = np.log(x)
print([str(w.message) for w in seen])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    c = 1 / x
with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        np.log(x)
    except RuntimeWarning as error:
        print(error)
    print(c[1], a[2], b[1])
np.log(x)[1] + np.sqrt(-x)[1]
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="filters are the process's")
def test_filters_of_contexts(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(CONTEXTS)
    begin = [sys.executable, "-P", "-X", "context_aware_warnings=1"]
    expected, ours = (
        subprocess.run([*begin, *words, str(path)], capture_output=True, timeout=60, check=True)
        for words in ([], ["-m", "npaccel", "run"])
    )
    assert (ours.stdout, ours.stderr) == (expected.stdout, expected.stderr)
    assert b"divide by zero" in ours.stdout and b"invalid value" in ours.stderr


def test_functions_that_name_warnings_can_be_sent() -> None:
    """The module has a class of its own, which cloudpickle does not know."""
    cloudpickle = pytest.importorskip("cloudpickle")
    found = cloudpickle.loads(cloudpickle.dumps(lambda: warnings))
    assert found() is warnings
