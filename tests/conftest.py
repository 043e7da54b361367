"""For all rooms: settings of every test, and what is skipped without the guard."""

import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for fixtures.py

# Before npaccel is imported, and for the processes that tests start: a folder of their own for what
# checks and failing kernels leave to be read, and for the cache, unless the environment names one.
# No traceback is to show our name, so the folder does not have it.
_FOLDER = tempfile.TemporaryDirectory(prefix="tests-")
os.chmod(_FOLDER.name, 0o1777)  # as /tmp: some tests run programs as another user
os.environ["TMPDIR"] = _FOLDER.name
tempfile.tempdir = None  # it is looked up again
os.environ.setdefault("NPACCEL_CACHE_DIR", str(Path(_FOLDER.name) / "cache"))
# Kernels before the first run: what tests say of kernels does not depend on time then.
os.environ.setdefault("NPACCEL_TIERING", "eager")
# Nothing goes on when a test's process has ended, but for tests of that.
os.environ.setdefault("NPACCEL_LINGER", "0")
# Shells have background jobs ignore Ctrl-C, which programs that tests interrupt would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN_RATIO = (1 + 5**0.5) / 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of n cases of a test that is marked `one_in(n)` one is run, the others are slow; multiples of
    the golden ratio keep step with no parameter, so that each of its values has its turn.
    TEST_EACH=1 has each case run, as `make test-all` does in the other modes."""
    met: Counter[str] = Counter()
    for item in items if "TEST_EACH" not in os.environ else ():
        mark = item.get_closest_marker("one_in")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            if met[test] * GOLDEN_RATIO % 1 >= 1 / mark.args[0]:
                item.add_marker(pytest.mark.slow)
            met[test] += 1


def pytest_collection_finish() -> None:
    """The garbage collector passes over ten thousand tests, which took it a second each time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor does it look at what earlier files left: programs, code, expressions."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def skip_what_needs_pending(request: pytest.FixtureRequest) -> None:
    """The guard may be switched off, or not work here (an address space that is limited)."""
    from npaccel import _native  # now that the settings are there

    if request.node.get_closest_marker("pending") and not _native.guarded():
        pytest.skip("nothing stays pending without the guard")
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if request.node.get_closest_marker("room") and limited:
        pytest.skip("the guard has an eighth of an address space that is limited")


@pytest.fixture
def numpys_memory() -> Iterator[None]:
    """Arrays that NumPy makes meanwhile lie in its own memory, as before npaccel is imported."""
    from npaccel import _native

    _native.memory(False)
    yield
    _native.memory(True)


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An emulated driver for the backend `cuda`, which it does not use yet."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    pytest.importorskip("llvmlite")
    from emulated_cuda import Emulator

    return Emulator(tmp_path_factory.mktemp("emulator"))


@pytest.fixture(scope="module")
def emulated_cuda(emulator: Any) -> Iterator[Any]:
    """The backend `cuda` uses the emulator; later tests know of no such device."""
    from emulated_cuda import install

    from npaccel.this_process import engine

    with pytest.MonkeyPatch.context() as patch:
        install(emulator, patch.setattr)
        yield emulator
        opened = engine.machines._open.pop("cuda:0", None)
        if opened is not None:
            opened.memory.want(False)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> None:
    """The device that TEST_DEVICE names: opencl, cuda, or emulated, which is cuda's."""
    name = os.environ.get("TEST_DEVICE", "opencl")
    if name == "emulated":
        from emulated_cuda import install

        install(request.getfixturevalue("emulator"))
    elif name == "opencl":
        request.getfixturevalue(name)


@pytest.fixture(scope="session")
def opencl() -> None:
    """An OpenCL device: skips without pyopencl, and where the driver of the wheel is older than the
    processor. Whatever else is wrong with a driver fails."""
    pytest.importorskip("pyopencl")
    from npaccel.backends.opencl.target import list_devices

    reasons = {device.unusable for device in list_devices()}
    if "" not in reasons:
        pytest.skip("; ".join(sorted(reasons)))
