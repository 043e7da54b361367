"""Random calls in an `accelerate` block, each against NumPy: can anything of one be told apart?

    python bench/soak_calls.py [--programs 100000] [--seed 0] [--threshold 262144] [--show SEED]

A call is a function of NumPy's, a method, a ufunc, an operator or a subscript with random
arguments: most are right, some are not. Arrays have all dtypes, layouts, classes and sizes;
errstate and filters are random, too. Compared is what tests/dispatch/small/comparison.py sees:
values to the bit, dtypes, strides, flags, classes, errors, warnings, and the arguments afterwards;
further, whose memory a result shows, and how many references are left. Where arrays are large, or
npaccel's, classes and strides may differ as documented, and floats by rounding.

Exits with 1 where anything differs, and prints the call.
"""

from __future__ import annotations

import argparse
import faulthandler
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import npaccel

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import call_arrays
from call_arrays import KNOWN, USUALLY
from random_calls import Call, endless

from tests.dispatch.small.comparison import seen


def relation(result: Any, arguments: tuple[Any, ...]) -> Any:
    """Whose memory it shows, and where; how often it is referred to."""
    if type(result) in (tuple, list):
        return [relation(x, arguments) for x in result]
    which = [k for k, a in enumerate(arguments) if a is result and result is not None]
    if not isinstance(result, np.ndarray):
        return which
    count, base = sys.getrefcount(result), result.base
    arrays = [(k, a) for k, a in enumerate(arguments) if isinstance(a, np.ndarray)]
    bases = [k for k, a in arrays if base is a or (base is a.base and base is not None)]
    arrays, result = [(k, a.view(np.ndarray)) for k, a in arrays], result.view(np.ndarray)
    shared = [
        (k, result.__array_interface__["data"][0] - a.__array_interface__["data"][0])
        for k, a in arrays
        if result.size and np.may_share_memory(result, a)
    ]
    return which, bases or type(base).__name__, shared, count


def observed(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call with what else can be seen of it."""

    def observe(*arguments: Any) -> Any:
        counted = [a for a in arguments if isinstance(a, np.ndarray | list)]
        before = [sys.getrefcount(a) for a in counted]
        result = call(*arguments)
        after = [sys.getrefcount(a) - n for a, n in zip(counted, before, strict=True)]
        return result, f"relations: {relation(result, arguments)}, references: {after}"

    return observe


def outcome(names: dict[str, Any]) -> Any:
    arguments = names["make"]()
    counted = [a for a in arguments if isinstance(a, np.ndarray | list)]
    before = [sys.getrefcount(a) for a in counted]
    try:
        found = seen(observed(names["call"]), arguments)
    except RecursionError:  # a list in itself
        found = None
    after = [sys.getrefcount(a) - n for a, n in zip(counted, before, strict=True)]
    return found, after


def near_values(dtype: np.dtype, ours: Any, theirs: Any) -> bool:
    """Whether they differ by rounding."""
    half = dtype.char == "e"
    if ours == theirs or dtype.kind not in "fc" or dtype.char in "gG":
        return bool(ours == theirs)
    x, y = np.frombuffer(ours, dtype), np.frombuffer(theirs, dtype)
    if len(x) != len(y):
        return False
    with np.errstate(all="ignore"):
        fine = np.isfinite(y)
        most = np.abs(y[fine]).max(initial=0)
        apart = np.abs(x[fine] - y[fine]).max(initial=0)
        return bool(
            np.array_equal(x[~fine], y[~fine], equal_nan=True)
            # A result of a few elements may be a sum of many.
            and (apart <= 4 * max(len(y), 64) ** 0.5 * np.finfo(dtype).eps * most or half)
        )


def near(ours: Any, theirs: Any) -> bool:
    """Whether they are the same, but for what is documented of large arrays and of npaccel's."""
    if isinstance(ours, str | np.ufunc) and isinstance(theirs, str | np.ufunc):
        ours, theirs = str(ours), str(theirs)
        # A comparison of an array and one of ours is turned round by Python.
        turned = [sorted(re.findall(r"\w+", x.replace("less", "greater"))) for x in (ours, theirs)]
        return "relations: " in ours[:13] or turned[0] == turned[1]
    if ours == theirs or (ours == npaccel.Array and theirs is np.ndarray):
        return True
    if type(ours) is not type(theirs) or not isinstance(ours, tuple | list):
        return False
    # NumPy tells a class with an `__array_ufunc__` nothing of `out=None`.
    if isinstance(ours, list):
        ours = [x for x in ours if "'where' used without 'out'" not in str(x)[:60]]
    if len(ours) != len(theirs):
        return False
    if len(ours) == 4 and str(ours[2]).startswith("<call"):
        return ours[:2] == theirs[:2]  # a warning has the user's line
    if len(ours) == 8 and isinstance(ours[1], np.dtype):
        same = near(ours[0], theirs[0]) and ours[1:4] == theirs[1:4] and ours[5][2] == theirs[5][2]
        return same and near_values(ours[1], ours[6], theirs[6])
    if len(ours) == 3 and isinstance(ours[1], np.dtype):
        return ours[:2] == theirs[:2] and near_values(ours[1], ours[2], theirs[2])
    return all(near(x, y) for x, y in zip(ours, theirs, strict=True))


def apart(ours: Any, theirs: Any, where: str = "") -> str:
    """The first difference, and its place in what was seen."""
    if type(ours) is type(theirs) and isinstance(ours, tuple | list) and len(ours) == len(theirs):
        pairs = [(k, x, y) for k, (x, y) in enumerate(zip(ours, theirs, strict=True)) if x != y]
        wrong = [pair for pair in pairs if not near(*pair[1:])] or pairs
        if wrong:
            return apart(wrong[0][1], wrong[0][2], f"{where}.{wrong[0][0]}")
    return f"at {where}: {ours!r:.200} is not {theirs!r:.200}"


def has_large(found: Any) -> bool:
    """Whether anything of it may be recorded: it is large, or npaccel's."""
    if found is npaccel.Array:
        return True
    if isinstance(found, bytes):
        return len(found) >= npaccel.config.threshold
    return isinstance(found, tuple | list) and any(map(has_large, found))


def same(ours: Any, theirs: Any, text: str, large: bool) -> bool:
    if ours == theirs:
        return True
    mine = large or "'ours'" in text or "'later'" in text or npaccel.config.threshold < USUALLY
    return (mine or has_large(theirs) or has_large(ours)) and near(ours[0], theirs[0])


def batch(first: int, count: int) -> list[str]:
    """What differs of some calls: all by NumPy, then all in a block, twice."""
    cases = []
    faulthandler.dump_traceback_later(60, exit=True)
    for seed in range(first, first + count):
        call = Call(seed)
        names = dict(KNOWN)
        text = call.program()
        if endless(text, int(np.prod(call.shape))):
            continue
        try:
            exec(compile(text, f"<call {seed}>", "exec"), names)
        except SyntaxError:  # an argument by a name twice
            continue
        call_arrays.INSIDE = False
        print(seed, file=sys.stderr, flush=True)
        cases.append((seed, call.large, text, names, outcome(names)))
    wrong = []
    with npaccel.accelerate():
        call_arrays.INSIDE = True
        for turn in range(2):
            for seed, large, text, names, expected in cases:
                print(seed, "inside", file=sys.stderr, flush=True)
                found = outcome(names)
                if not same(found, expected, text, large):
                    what = f"call {seed}, turn {turn}: {apart(found, expected)}\n{text}"
                    wrong.append((what, names, expected))
    call_arrays.INSIDE = False
    # Unless NumPy itself gives this or that.
    return [what for what, names, expected in wrong if outcome(names) == expected]


def calls(first: int, count: int, options: argparse.Namespace) -> int:
    """Calls in this process."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    npaccel.config.threshold = options.threshold
    wrong = 0
    for begin in range(first, first + count, BATCH):
        for text in batch(begin, min(BATCH, first + count - begin)):
            wrong += 1
            print(text, flush=True)
    return WRONG if wrong else 0


BATCH, PART, WRONG = 250, 5000, 7


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=100_000, help="how many calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threshold", type=int, default=USUALLY, help="see npaccel.config")
    parser.add_argument("--show", type=int, help="print the call of that seed, and end")
    parser.add_argument("--alone", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.show is not None:
        print(Call(options.show).program())
        return 0
    if options.alone:
        return calls(options.seed, options.programs, options)
    begin, failures, end = time.monotonic(), 0, options.seed + options.programs
    for first in range(options.seed, end, PART):
        count = min(PART, end - first)
        command = [sys.executable, "-P", __file__, "--alone", "--seed", str(first)]
        command += ["--programs", str(count), "--threshold", str(options.threshold)]
        with tempfile.TemporaryFile("w+") as said:
            code = subprocess.run(command, stderr=said, check=False).returncode
            failures += code != 0
            if code not in (0, WRONG):
                said.seek(0)
                print(f"calls from {first} on: ended with {code}:", said.read()[-3000:])
        print(
            f"{first + count - options.seed} calls, {failures} parts wrong,",
            f"{time.monotonic() - begin:.0f} s",
            flush=True,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
