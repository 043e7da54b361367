"""The backends under test: TEST_BACKENDS names others, such as one of another package.

``groups``: OpenCL's code for devices that are no processors, run by the device that there is;
``apart``: that device as one with memory of its own; ``emulated``: CUDA's, on an emulator.
"""

import os
import re
import shutil

import pytest
from emulated_cuda import install

from npaccel.backends.llvm.target import Host
from npaccel.errors import BackendUnavailable

from .support import Cuda, Declared, Llvm, Opencl

# PoCL compiles each kernel once, not also for one group size: half the time of these tests.
os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")

# Other compilers take ten times as long for a kernel as LLVM: of the dtypes and folds that differ
# in nothing but a name most are left for the slow tests.
LATER = re.compile(r"(i1|i2|i8|u1|u2|u4|u8|c8|f2|FMIN|FMAX|MAX|PRODUCT|AND|XOR)\b")


def pytest_collection_modifyitems(items):
    for item in items:
        name = re.sub("[-_.]", " ", item.name)
        there = getattr(item, "callspec", None)
        machine = there.params.get("machine") if there is not None else None
        if machine in ("opencl", "c", "apart") and LATER.search(name):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def host():
    return Host()


MACHINES = os.environ.get("TEST_BACKENDS", "llvm opencl c").split()


@pytest.fixture(scope="session", params=MACHINES)
def machine(request, host):
    """Each backend in turn: what they all must do."""
    if request.param == "llvm":
        return Llvm(host)
    if request.param == "c" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    if request.param == "emulated":
        install(request.getfixturevalue("emulator"))
    made = {
        "cuda": Cuda,
        "emulated": Cuda,
        "groups": Opencl.of_groups,
        "apart": Opencl.of_own_memory,
        "opencl": Opencl,
    }
    try:
        return made.get(request.param, lambda: Declared(request.param))()
    except BackendUnavailable as error:
        pytest.skip(str(error))
