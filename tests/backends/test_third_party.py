"""A backend of another package, found by its entry point, is a backend like ours."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import npaccel

pytestmark = pytest.mark.skipif(
    not llvm.get_host_cpu_features().get("avx2"), reason="the test's backend is for AVX2"
)
PACKAGES = Path(npaccel.__file__).parents[1]
HERE = Path(__file__).parent

PROGRAM = """
import numpy as np
import npaccel
from npaccel.errors import BackendUnavailable, ConfigError

source = np.random.default_rng(0).standard_normal(1 << 17)
def program():
    x = npaccel.asarray(source)
    y = np.sin(x) * 2.5 + 1.0
    return npaccel.evaluate(y, (y * x).sum(), y.reshape(256, -1).max(axis=1), (x > 1).any())
def launches(name):
    return npaccel.stats()["kernels_by_backend"].get(name, 0)

expected = program()
assert launches("narrow") == 0 < launches("llvm")
host = launches("llvm")
with npaccel.backend("narrow"):
    found = program()
    assert " on narrow over " in str(npaccel.explain())
assert launches("narrow") > 0 and launches("llvm") == host
section, before = npaccel.macro(lambda x, f: np.sqrt(x * x) * f + x.sum()), launches("narrow")
with npaccel.backend("narrow"):
    for f in (1.5, 2.5):
        assert np.allclose(section(source, f), section.__wrapped__(source, f), rtol=1e-12)
assert section.stats()["recordings"] == 1 and section.stats()["replays"] == 2
assert launches("narrow") > before and launches("llvm") == host
for x, y in zip(found, expected, strict=True):
    assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
assert "narrow" in [device.backend for device in npaccel.devices().devices]
try:
    npaccel.config.backend = "wide"
except ConfigError as error:
    assert "'narrow'" in str(error)
else:
    raise AssertionError("there is no backend 'wide'")
"""


def _run(*command, **env):
    path = os.pathsep.join([str(HERE / "third_party"), str(PACKAGES)])
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"PYTHONPATH": path, "NPACCEL_TIERING": "eager"} | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.pending
@pytest.mark.parametrize("name", ["narrow", "c"])
def test_it_is_chosen_by_its_name(name):
    if name == "c" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    _run("-c", PROGRAM.replace("narrow", name))


def test_it_passes_what_every_backend_must():
    tests = [str(HERE / f"test_kernel_{name}.py") for name in ("maps", "reductions")]
    options = "-q", "-p", "no:cacheprovider", "-k", "narrow and (f8 or f2)"
    said = _run("-m", "pytest", *options, *tests, TEST_BACKENDS="narrow")
    assert "passed" in said and "skipped" not in said
