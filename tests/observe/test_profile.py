"""`npaccel.profile`: time by line, as it was spent; its file, and what is shown of it."""

from __future__ import annotations

import json
import math
import os
import statistics
import struct
import threading
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from lines import here

import npaccel
from npaccel import _native
from npaccel.errors import ProfileError
from npaccel.ir.kinds import Kind
from npaccel.observe import profile_page, profile_text, profile_trace, weights
from npaccel.observe.profile import made, read
from npaccel.observe.profile_data import CLASSES, Call, Event, Kernel, Line, Obstacle, Profile
from npaccel.observe.profile_file import Recorded

pytestmark = pytest.mark.usefixtures("deferred")
N = 200_000


def cost(name: str) -> float:
    return weights.Machine().cost(weights.Rule(name, Kind.MAP, ("f8",) * 3))


def at(profile: Profile, number: int) -> Line:
    """That line of this file."""
    (found,) = [one for one in profile.lines if one.file == __file__ and one.line == number]
    return found


def seconds(profile: Profile, name: str) -> float:
    return sum(one.seconds.get(name, 0.0) for one in profile.lines)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "a.profile"


# ------------------------------------------------------------------------------------ counting


def test_pythons_own_time_is_of_lines_of_the_program(target) -> None:
    values, odd = list(range(50_000)), 0
    with npaccel.profile(target) as taken:
        until = time.perf_counter() + 0.2
        while time.perf_counter() < until:
            first = here() + 1
            for v in values:
                if v % 2:
                    odd += 1
        for _ in range(3):
            statistics.pstdev(values)  # by Python's own module
    own = {one.line: one.seconds.get("python", 0.0) for one in taken.profile.lines
           if one.file == __file__}  # fmt: skip
    loop = sum(own.get(number, 0.0) for number in range(first - 2, first + 3))
    assert loop > 0.1 and own.get(first + 4, 0.0) > 0
    assert min(own) > 0 and not any("statistics" in one.file for one in taken.profile.lines)


def passed_on(values):
    return values


def test_operators_on_small_arrays_are_of_their_lines(target, setting) -> None:
    """Not of the function that is called next, where Python changes threads."""
    setting("threshold", 1 << 18)
    x = np.ones(20_000)
    with npaccel.profile(target) as taken, npaccel.accelerate():
        until = time.perf_counter() + 0.4
        while time.perf_counter() < until:
            first = here() + 1
            y = x * 1.5 + x
            y = (y - x) * y - x * (y + x)
            passed_on(y)
    own = {one.line: one.seconds.get("python", 0.0) for one in taken.profile.lines
           if one.file == __file__}  # fmt: skip
    begins = passed_on.__code__.co_firstlineno
    assert own.get(first, 0.0) + own.get(first + 1, 0.0) > sum(own.values()) / 2
    assert own.get(begins, 0.0) + own.get(begins + 1, 0.0) < sum(own.values()) / 4


def test_a_kernels_time_goes_to_its_lines_by_their_work(target, setting) -> None:
    setting("tiering", "eager")
    a = npaccel.asarray(np.linspace(0.5, 1.5, N))
    with npaccel.profile(target) as taken:
        for _ in range(20):
            b = np.exp(a) * 2.0
            c = b + a
            npaccel.evaluate(c)
    first, second = at(taken.profile, here() - 3), at(taken.profile, here() - 2)
    exp, multiply, add = (
        cost(name) for name in ("exp", "multiply", "add")
    )  # and bytes: a is read by both, b is written where it is seen, c always is
    machine = weights.Machine.of(taken._found.head)
    byte = 8 * machine.byte(8 * N * 3 / taken.profile.about["threads"])
    ratio = (exp + multiply + byte * (0.5 + 1)) / (add + byte * (0.5 + 1))
    assert first.seconds["kernels"] / second.seconds["kernels"] == pytest.approx(ratio)
    assert (first.operations, second.operations) == (20 * 2 * N, 20 * N)
    (kernel,) = taken.profile.kernels
    assert (kernel.launches, kernel.backend) == (20, "llvm")
    assert kernel.bytes == 20 * 8 * N * (2 + (b is not None))
    assert kernel.operations == "exp, multiply, add"
    assert kernel.lines == (first.site, second.site)
    assert first.bytes + second.bytes == pytest.approx(kernel.bytes)


@pytest.mark.room
def test_kernels_that_run_chained_share_their_time(target, setting) -> None:
    setting("tiering", "eager")
    a = npaccel.asarray(np.random.default_rng(1).random((700, 640)))
    before = npaccel.stats()["chained_kernels"]
    with npaccel.profile(target) as taken:
        for _ in range(10):
            b = a + 1
            b[1:-1] = (b[2:] + b[:-2]) * 0.5
            npaccel.evaluate(b)
    assert npaccel.stats()["chained_kernels"] >= before + 10  # a profile changes nothing of that
    first, second = at(taken.profile, here() - 4), at(taken.profile, here() - 3)
    kernels = taken.profile.kernels
    assert len(kernels) > 1 and all(one.launches == 10 and one.seconds > 0 for one in kernels)
    spent = first.seconds["kernels"] + second.seconds["kernels"]
    assert spent == pytest.approx(seconds(taken.profile, "kernels"))
    assert sum(one.seconds for one in kernels) == pytest.approx(spent)
    assert (first.operations, second.operations) == (10 * 700 * 640, 10 * 3 * 698 * 640)
    (flush,) = [one for one in taken.profile.flushes if one.runs == 10]
    assert sum(group.seconds for group in flush.groups) == pytest.approx(spent)


def test_lines_add_up_to_what_the_report_counts(target) -> None:
    a = npaccel.asarray(np.linspace(0.5, 1.5, N))
    with npaccel.profile(target) as taken, npaccel.accelerate:
        for i in range(20):
            b = np.sqrt(a * i) + 1
            total = float(b.sum())
            np.sort(np.random.default_rng(i).random(N))
            np.fft.fft(b)
    profile = taken.profile
    assert total > 0
    counted = profile.usage["activities_s"]
    known = {"recording": 1, "planning": 1, "running": 1, "numpy": 1}
    parts = {name: seconds(profile, name) for name in known}
    parts["kernels"] = seconds(profile, "kernels") + seconds(profile, "functions")
    parts["loops"] = seconds(profile, "blocks") + seconds(profile, "loops")
    for name, value in parts.items():
        # What was being done when the profile began and ended is in one of them only.
        assert value == pytest.approx(counted[name], rel=0.02, abs=1e-3), name
    assert sum(profile.totals().values()) == pytest.approx(profile.wall_s, rel=0.03)
    assert sum(one.total_s for one in profile.lines) < 1.03 * profile.wall_s


def test_calls_that_small_functions_leave_to_numpy_are_their_lines(target, setting) -> None:
    a = np.eye(300) + 0.001
    setting("tiering", "adaptive")
    setting("threshold", 1 << 16)
    with npaccel.accelerate(), npaccel.profile(target) as taken:
        for _ in range(20):
            np.linalg.inv(a)
    profile, counted = taken.profile, taken.profile.usage["activities_s"]
    found = at(profile, here() - 2).seconds
    assert found["numpy"] == pytest.approx(counted["numpy"], rel=0.02, abs=1e-3)
    assert sum(one.total_s for one in profile.lines) == pytest.approx(profile.wall_s, rel=0.03)


def test_blocks_loops_functions_and_numpy_are_told_apart(target, setting) -> None:
    setting("tiering", "off")
    a = npaccel.asarray(np.linspace(0.5, 1.5, N))
    k, plain = npaccel.asarray(np.arange(N)), np.linspace(1.5, 0.5, N)
    with npaccel.profile(target) as taken, npaccel.accelerate:
        blocks = a * 2 + 1
        npaccel.evaluate(blocks)
        np.random.default_rng(0).random(N)
        np.sort(plain)
        np.convolve(plain, [0.25, 0.5, 0.25])
        np.linalg.norm(np.ones((300, 300)), ord=2)
        npaccel.evaluate(np.argmax(k * 1.0))
    line = here()
    for back, name in ((7, "blocks"), *((n, "functions") for n in (3, 4, 5)), (2, "numpy")):
        found = at(taken.profile, line - back).seconds
        assert found[name] > 0 and not found.get("kernels")
    assert not {"sort", "convolve"} & {call.function for call in taken.profile.calls}


def test_calls_that_numpy_ran_have_their_reason(target) -> None:
    a = npaccel.asarray(np.ones(N))
    np.fft.fft(a)
    with npaccel.profile(target) as taken:
        for _ in range(3):
            np.fft.fft(a)
    (call,) = [call for call in taken.profile.calls if call.function == "fft.fft"]
    assert (call.calls, call.site) == (3, f"{__file__}:{here() - 2}")
    assert call.seconds > 0 and call.reason


def test_python_is_seen_by_line(target) -> None:
    with npaccel.profile(target) as taken:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            pass
    line = here() - 2
    found = [one for one in taken.profile.lines if line - 1 <= one.line <= line]
    assert {one.mark for one in found} == {"not seen"}


def test_a_touch_is_its_requests_lines(target) -> None:
    a = npaccel.asarray(np.ones(N))
    with npaccel.profile(target) as taken:
        for _ in range(5):
            b = np.sqrt(a + 1)
            assert _native.view_plain(b)[3] == 2**0.5
    found = at(taken.profile, here() - 2)
    assert found.seconds.get("blocks", 0.0) + found.seconds.get("loops", 0.0) > 0
    assert sum(one.total_s for one in taken.profile.lines) < 1.03 * taken.profile.wall_s
    assert {one.kind for one in taken.profile.obstacles} >= {"pointer"}


def test_a_macro_section_is_its_bodys_lines(target) -> None:
    @npaccel.macro
    def body(x):
        y = x * 2
        return np.sqrt(y)

    a = npaccel.asarray(np.ones(N))
    body(a)
    with npaccel.profile(target) as taken:
        for _ in range(5):
            npaccel.evaluate(body(a))
    line = here()
    for number in (line - 8, line - 7):
        found = at(taken.profile, number).seconds
        assert sum(found.get(name, 0.0) for name in ("kernels", "blocks", "loops")) > 0


def test_results_and_what_is_pending_are_as_without(target) -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    before = np.sin(a) * 3
    with npaccel.profile(target):
        assert not _native.is_pending(before)
        inside = np.sin(a) * 3
    assert not _native.is_pending(inside)
    assert np.array_equal(np.asarray(before), np.asarray(inside))


def test_events_are_bounded(target, setting) -> None:
    setting("threshold", 0)
    a = npaccel.asarray(np.ones(8))
    with npaccel.profile(target) as taken:
        for _ in range(70_000):
            npaccel.evaluate(a + 1)
    assert 10_000 < len(taken.profile.events) <= 1 << 16
    assert taken.profile.every >= 2
    starts = [event.start_s for event in taken.profile.events if event.what == "run"]
    assert starts == sorted(starts)
    assert target.stat().st_size < 8 << 20


def test_sizes_over_time(target) -> None:
    a = npaccel.asarray(np.ones(N))
    kept = []
    with npaccel.profile(target) as taken:
        for _ in range(5):
            kept.append(npaccel.evaluate(a + 1))
    live = [event.live for event in taken.profile.events if event.what == "run"]
    assert len(live) == 5 and live[-1] - live[0] == 4 * 8 * N
    assert all(0 <= event.start_s <= taken.profile.wall_s for event in taken.profile.events)


def test_one_at_a_time(target) -> None:
    with npaccel.profile(target):
        with pytest.raises(ProfileError, match="taken already"):
            npaccel.profile(target).__enter__()
        assert "not over yet" in str(npaccel.profile(target))
    with npaccel.profile(target) as again:
        pass
    assert again.profile is not None


def test_a_child_is_not_profiled(target) -> None:
    with npaccel.profile(target) as taken:
        child = os.fork()
        if child == 0:
            good = npaccel.evaluate(npaccel.asarray(np.ones(N)) + 1)[3] == 2
            os._exit(0 if good and not target.exists() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert taken.profile is not None


def test_a_child_may_leave_the_block(target) -> None:
    with npaccel.profile(target):
        child = os.fork()
        status = os.waitpid(child, 0)[1] if child else 0  # before this process writes the file
    if child == 0:
        os._exit(0 if not target.exists() else 1)
    assert os.waitstatus_to_exitcode(status) == 0
    assert target.exists()


def test_a_thread_that_ends_before_its_profile(target) -> None:
    taken = npaccel.profile(target)
    other = threading.Thread(target=taken.__enter__)
    other.start()
    other.join()
    until = time.monotonic() + 0.1  # some looks at nobody
    while time.monotonic() < until:
        npaccel.evaluate(npaccel.asarray(np.ones(N)) + 1)
    taken.__exit__(None, None, None)
    assert seconds(taken.profile, "recording") > 0


def test_an_error_at_its_end_ends_it(target, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise MemoryError("as asked")

    taken = npaccel.profile(target)
    taken.__enter__()
    monkeypatch.setattr(taken, "_evaluate", fail)
    with pytest.raises(MemoryError, match="as asked"):
        taken.__exit__(None, None, None)
    assert taken.profile is not None and target.exists()
    with npaccel.profile(target):
        pass


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="there is no folder "):
        npaccel.profile(tmp_path / "none" / "a").__enter__()
    with npaccel.profile(tmp_path / "a"):  # nothing was begun
        pass


# ---------------------------------------------------------------------------------------- file


def sample() -> Profile:
    """With all there is."""
    lines = [
        Line("/p/a.py", 3, "f", 7, {"kernels": 0.5, "python": 0.1}, 1e6, 8e6),
        Line("/p/a.py", 9, "f", 1, {"numpy": 0.2}),
    ]
    return Profile(
        {"program": "a.py", "npaccel": "0", "numpy": "2", "threshold": 1 << 18, "cache": "on",
         "copy_bytes_s": 2e10},
        1.0,
        {"activities_s": {"kernels": 0.5}},
        {"compiling": 0.1},
        {"guard_faults": 3, "uploaded_bytes": 2048, "uploading_ns": 3_000_000},
        2,
        lines,
        [Kernel("k1", "llvm", 4, 0.5, 8e9, "add, multiply", ("/p/a.py:3",))],
        [Call("fft", "no kernel", "/p/a.py:9", 2, 0.2)],
        [Obstacle("read", "/p/a.py", 3, 4, 0.3, 8.0)],
        [Event(0.1, 0.2, "run", "x", 0, 0, 64), Event(0.125, 0.0625, "kernels", "k1", -1, 1)],
        {"/p/a.py": {3: "    y = x + </script><b>1", 9: "np.fft.fft(y)"}},
    )  # fmt: skip


def counted() -> Recorded:
    """Two lines, a kernel whose plan is known, a run without kernels, a call and an event."""
    activities = [0, 5000, 0, 7000, 0, 0, 0], [100_000, 0, 0, 0, 0, 0, 200_000]
    event = struct.pack("=QQQiihBB4x", 1000, 500, 64, 0, 0, -1, 7, 1)
    return Recorded(
        {"about": {"program": "a.py", "npaccel": npaccel.__version__}, "wall_s": 1.0,
         "usage": {}, "counts": {"guard_faults": 3}, "every": 2},
        [[4, "sqrt", 0, ["f8", "f8"]], [9, "add", 0, ["f8", "f8", "f8"]]],
        [["", 0, "", 0, [0] * 7], ["/p/a.py", 3, "f", 7, activities[0]],
         ["/p/a.py", 9, "f", 1, activities[1]]],
        [[0, 4, 900_000, [[1, 4, 1000, [-2], 0], [2, 9, 1000, [0, -1], 1]], [[9, 800_000, 2]],
          {"steps": [[[0, 1], "k1", "llvm", 8000, 8000]]}],
         [1, 1, 50_000, [[1, 4, 1000, [-2], 1]], [[10, 40_000, 1]], "compiling"]],
        [["fft", "no kernel", "/p/a.py:9", 2, 0.2]],
        [["read", "/p/a.py", 3, 4, 0.3, 8.0]],
        event,
        [["/p/a.py", {3: "x = np.sqrt(a)", 9: "y = np.fft.fft(x + 1)"}]],
    )  # fmt: skip


def test_written_and_read_back(target) -> None:
    found = counted()
    found.write(target)
    assert read(target) == made(found)
    head = json.loads(target.read_text().splitlines()[0])
    assert head["npaccel_profile"] == 3


def test_what_is_counted_is_read_out() -> None:
    profile = made(counted())
    by_line = {line.line: line.seconds for line in profile.lines}
    sqrt, add = cost("sqrt") + 8 * weights.BLOCKED, cost("add") + 8 * weights.BLOCKED
    share = sqrt / (sqrt + add)  # one reads, the other one writes; what that takes is not known
    assert by_line[3]["kernels"] == pytest.approx(8e-4 * share)
    assert by_line[9]["kernels"] == pytest.approx(8e-4 * (1 - share))
    assert by_line[3]["blocks"] == pytest.approx(4e-5) and by_line[9]["numpy"] == 2e-4
    (kernel,) = profile.kernels
    assert (kernel.name, kernel.launches, kernel.bytes) == ("k1", 4, 64_000)
    graph = profile.flushes[0]
    assert [(node.name, node.links) for node in graph.nodes] == [("sqrt", (-2,)), ("add", (0,))]
    assert [(group.name, group.nodes) for group in graph.groups] == [("k1", (0, 1))]
    assert [event.live for event in profile.events] == [64]


def test_fused_loops_are_known_by_what_operations_cost() -> None:
    recorded = counted()
    assert made(recorded).flushes[0].paced_s == 0
    recorded.head["exp_s"] = 2e-10 * weights.Machine().cost(weights.EXP)
    run = made(recorded).flushes[0]
    each = 2e-10 * (cost("sqrt") + cost("add"))
    assert run.paced_s == pytest.approx(run.runs * 1000 * each)
    recorded.rules[1][2] = int(Kind.GATHER)  # waits for memory
    assert made(recorded).flushes[0].paced_s == 0


def test_what_a_byte_takes_depends_on_how_many_there_are() -> None:
    exp = weights.Machine().cost(weights.EXP)
    near_and_far = [[1 << 20, 1e-11], [1 << 24, 3e-11]]
    machine = weights.Machine.of({"exp_s": 2e-11 * exp, "bytes_s": near_and_far})
    assert [machine.byte(n) for n in (0, 1 << 20)] == [0.5, 0.5]
    assert machine.byte(1 << 22) == pytest.approx(1.0)  # half as far, by the ratio
    assert [machine.byte(n) for n in (1 << 24, 1 << 40)] == pytest.approx([1.5, 1.5])
    assert machine.dividers == weights.DIVIDERS
    for unknown in ({}, {"exp_s": 0.0, "bytes_s": near_and_far}, {"exp_s": 1.0, "bytes_s": []}):
        assert weights.Machine.of(unknown).byte(1 << 24) == weights.BLOCKED


def test_what_divides_costs_what_it_takes_on_this_processor() -> None:
    exp = weights.Machine().cost(weights.EXP)
    machine = weights.Machine.of({"exp_s": 2e-11 * exp, "divide_s": [["sqrt", "f8", 1e-9]]})
    for dtype, root in [("f8", 50.0), ("f4", weights.DIVIDERS["sqrt", "f4"])]:  # one was measured
        assert machine.cost(weights.Rule("sqrt", Kind.MAP, (dtype, dtype))) == pytest.approx(root)
    hypot = weights.Rule("hypot", Kind.MAP, ("f8", "f8", "f8"))  # has a root, and more
    steps = math.sqrt(weights.Machine().cost(hypot) ** 2 - 15**2)
    assert machine.cost(hypot) == pytest.approx(math.hypot(steps, 50.0))


def test_bytes_that_lie_far_count_for_the_lines_that_move_them() -> None:
    recorded = counted()  # a root that reads, and an addition that writes
    exp = weights.Machine().cost(weights.EXP)
    recorded.head |= {"exp_s": 1e-11 * exp, "bytes_s": [[8000, 1e-11], [16_000, 4e-11]]}
    line = next(line for line in made(recorded).lines if line.line == 3)
    sqrt, add = cost("sqrt") + 8 * 4, cost("add") + 8 * 4
    assert line.seconds["kernels"] == pytest.approx(8e-4 * sqrt / (sqrt + add))


def test_what_operations_cost_is_counted_in_what_they_compute() -> None:
    def counted_of(name: str, *loop: str, kind: int = Kind.MAP) -> float:
        return weights.Machine().cost(weights.Rule(name, kind, loop))

    assert counted_of("add", "f8", "f8", "f8") == 1 and counted_of("add", "f4", "f4", "f4") == 0.5
    assert counted_of("sqrt", "f8", "f8") == 15 and counted_of("divide", "f8", "f8", "f8") == 8
    assert counted_of("greater", "f8", "f8", "b1") == 1
    assert counted_of("exp", "f4", "f4") < counted_of("exp", "f8", "f8") / 2
    assert counted_of("exp", "f8", "f8") < counted_of("arctan2", "f8", "f8", "f8") / 2
    assert counted_of("add", "f4", "f4", "f4", kind=Kind.REDUCE) == 0.5
    assert counted_of("float_power", "c16", "c16", "c16") == weights.OWN  # NumPy's own loop
    assert counted_of("no operation of ours", "f8", "f8") == 1


def test_a_real_one_written_and_read_back(target) -> None:
    a = npaccel.asarray(np.ones(N))
    with npaccel.profile(target) as taken:
        npaccel.evaluate(np.sqrt(a) + 1)
    assert read(target) == taken.profile


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "can't read a profile there: No such file.*`npaccel profile SCRIPT` writes one"),
        (b"", "no profile of npaccel, its first line is no object"),
        (b"hello\n", "no profile of npaccel, its first line is no object"),
        (b"{}\n", "no profile of npaccel, its first line has no 'npaccel_profile'"),
        (b"\xff\xfe\x00\x81", "no profile of npaccel, it is not text"),
        (b'{"npaccel_profile": 7}\n', "version 7; this npaccel reads version 3: read it with the"),
    ],
)
def test_files_that_are_none(target, content: bytes | None, words: str) -> None:
    if content is not None:
        target.write_bytes(content)
    with pytest.raises(ProfileError, match=words) as error:
        read(target)
    assert str(target) in str(error.value)


def test_truncated_at_any_line(target) -> None:
    counted().write(target)
    text = target.read_text()
    rows = text.splitlines(keepends=True)
    for kept in range(1, len(rows)):
        target.write_text("".join(rows[:kept]))
        with pytest.raises(ProfileError, match=f"cut off after {kept} lines"):
            read(target)
    target.write_text(text[: len(text) - 20])
    with pytest.raises(ProfileError, match="cut off"):
        read(target)
    rows[1] = '{"lines": [1]}\n'
    target.write_text("".join(rows))
    with pytest.raises(ProfileError, match="a line is not as it was written"):
        read(target)


# --------------------------------------------------------------------------------------- shown


def test_text() -> None:
    told = profile_text.show(sample()).splitlines()
    assert max(map(len, told)) <= 100
    text = "\n".join(told)
    assert "/p/a.py:3" in text and "y = x + </script>" in text
    assert "kernel         y = x" in text
    assert "16.0  add, multiply" in text and "a copy: 20.0 GB/s" in text
    assert "fft: no kernel, /p/a.py:9" in text
    assert "of that by blocks, while the compiler worked" in text
    assert "     0.003    0 %  of that for 2.0 KiB moved to devices" in text
    assert "back from devices" not in text
    for words in CLASSES.values():
        assert words in text


def test_json() -> None:
    told = json.loads(profile_text.show_json(sample()))
    assert told["lines"][0]["line"] == "/p/a.py:3" and told["lines"][0]["mark"] == "kernel"
    assert set(told["totals_s"]) == set(CLASSES)


def test_difference_is_by_text_not_by_number() -> None:
    before, after = sample(), sample()
    after.lines[0] = after.lines[0]._replace(line=4, seconds={"kernels": 0.1})
    after.source = {"/q/a.py": {}, "/p/a.py": {4: "    y = x + </script><b>1"}}
    told = json.loads(profile_text.compare_json(before, after))["lines"]
    assert told[0] == {
        "line": "/p/a.py:4",
        "before_s": pytest.approx(0.6),
        "after_s": 0.1,
        "source": "y = x + </script><b>1",
    }
    first = profile_text.compare(before, after).splitlines()[4]
    assert first.startswith("/p/a.py:4") and "-500.0" in first


def test_trace_has_the_format_of_chrome() -> None:
    told = json.loads(profile_trace.trace(sample()))["traceEvents"]
    spans = [row for row in told if row["ph"] == "X"]
    assert [row["ts"] for row in spans] == [100_000.0, 125_000.0]
    assert [row["dur"] for row in spans] == [200_000.0, 62_500.0]
    assert {"name", "pid", "tid", "cat"} <= set(spans[0])
    assert [row["args"]["bytes"] for row in told if row["ph"] == "C"] == [64]


class Page(HTMLParser):
    """Its text, tags that are open at the end, and all that it would load."""

    VOID = frozenset({"meta"})
    LOOSE = frozenset({"td", "th", "tr", "p", "li"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.open, self.loads = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes) -> None:
        self.loads += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID | self.LOOSE:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        if tag not in self.LOOSE:
            assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.words.append(data)


def test_page_holds_all_and_loads_nothing() -> None:
    page = Page(profile_page.page(sample()))
    words = "".join(page.words)
    assert page.open == [] and page.loads == []
    assert "y = x + </script><b>1" in words
    assert "add, multiply (llvm)" in words and "16.0" in words
    assert "reads a result after every 2 operations" in words
    assert "fft" in words and "One event stands for 2." in words


def test_page_of_very_many_events() -> None:
    profile = sample()
    profile.events = [Event(i * 1e-5, 9e-6, "kernels", "k1", 0, 0) for i in range(100_000)]
    page = profile_page.page(profile)
    assert len(page) < 6 << 20
    assert page.count('"k1') == 1
