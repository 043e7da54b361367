"""NumPy programs, many times faster, unchanged, with the same results.

    x = npaccel.asarray(a)        an Array: what is computed from it is fused; or from_dlpack(a)
    with npaccel.accelerate: ...  plain arrays, too, in this block; also a decorator
    npaccel.enable(), disable()   from here on; load_ipython_extension, unload_ipython_extension
    npaccel.evaluate(x, y)        compute what is pending; wait=False: a future; wait, hint_read
    npaccel.explain(), stats()    what was fused, why; parse_ir reads it; profile(file): time
    npaccel.peek(x), step()       a pending value, as it is now; each operation at its line
    npaccel.watch(x, f)           stops where f(x) becomes true; on_error(f) hears of errors
    npaccel.macro, scalar         code that is recorded once and replayed
    npaccel.backend("opencl")     a block whose kernels run there; devices() lists them
    npaccel.random, config        a Generator whose draws are recorded, too; the settings
    npaccel.Cluster(4), zeros     workers on which arrays live; ones, empty, full, arange
    npaccel.Map, agile(x, map)    arrays in segments on nodes; forall, reduce, scan; load(file)

NpaccelError: BackendUnavailable, CheckError, CompileError, ConfigError, InternalError,
MapError, ProfileError, SectionError, VerifyError; a Failure; NpaccelWarning.
"""

from os.path import abspath as _abspath
from typing import TYPE_CHECKING as _TYPE_CHECKING

# What is loaded later is found there, wherever the program has gone by then.
__path__ = [*map(_abspath, __path__)]

from npaccel.config import resting_blas as _resting_blas

try:
    with _resting_blas():
        __import__("npaccel._native")
except ModuleNotFoundError as _missing:
    if _missing.name != "npaccel._native":
        raise
    raise ImportError(
        f"{__path__[0]} is npaccel's source, whose C core is not built there; it comes before the "
        "installed package, since Python looks first where it was started: start it in another "
        "folder or with PYTHONSAFEPATH=1 (`make demo` builds and installs what is missing)",
        name=_missing.name,
    ) from None

# Imported under their own names, which makes them public for type checkers. With `__all__`, help()
# would print all of what they have, some 2000 lines.
from npaccel.api import __array_namespace_info__ as __array_namespace_info__
from npaccel.api import accelerate as accelerate
from npaccel.api import asarray as asarray
from npaccel.api import backend as backend
from npaccel.api import config as config
from npaccel.api import devices as devices
from npaccel.api import evaluate as evaluate
from npaccel.api import explain as explain
from npaccel.api import from_dlpack as from_dlpack
from npaccel.api import hint_read as hint_read
from npaccel.api import macro as macro
from npaccel.api import profile as profile
from npaccel.api import scalar as scalar
from npaccel.api import stats as stats
from npaccel.api import wait as wait
from npaccel.debugging import on_error as on_error
from npaccel.debugging import parse_ir as parse_ir
from npaccel.debugging import peek as peek
from npaccel.debugging import step as step
from npaccel.debugging import watch as watch
from npaccel.dispatch.array import Array as Array
from npaccel.errors import BackendUnavailable as BackendUnavailable
from npaccel.errors import CheckError as CheckError
from npaccel.errors import CompileError as CompileError
from npaccel.errors import ConfigError as ConfigError
from npaccel.errors import Failure as Failure
from npaccel.errors import InternalError as InternalError
from npaccel.errors import MapError as MapError
from npaccel.errors import NpaccelError as NpaccelError
from npaccel.errors import NpaccelWarning as NpaccelWarning
from npaccel.errors import ProfileError as ProfileError
from npaccel.errors import SectionError as SectionError
from npaccel.errors import VerifyError as VerifyError
from npaccel.later import later as _later
from npaccel.notebook import disable as disable
from npaccel.notebook import enable as enable
from npaccel.notebook import load_ipython_extension as load_ipython_extension
from npaccel.notebook import unload_ipython_extension as unload_ipython_extension

if _TYPE_CHECKING:
    from npaccel import cluster as cluster
    from npaccel import keeping as keeping
    from npaccel import making as making
    from npaccel import owners as owners
    from npaccel import random as random
    from npaccel.cluster import Cluster as Cluster
    from npaccel.cluster import Map as Map
    from npaccel.cluster import agile as agile
    from npaccel.keeping import checkpoint as checkpoint
    from npaccel.keeping import restore as restore
    from npaccel.making import arange as arange
    from npaccel.making import empty as empty
    from npaccel.making import from_blocks as from_blocks
    from npaccel.making import full as full
    from npaccel.making import load as load
    from npaccel.making import move as move
    from npaccel.making import ones as ones
    from npaccel.making import zeros as zeros
    from npaccel.owners import forall as forall
    from npaccel.owners import reduce as reduce
    from npaccel.owners import scan as scan
else:
    random = _later("npaccel.random")
    cluster = _later("npaccel.cluster")
    making = _later("npaccel.making")
    owners = _later("npaccel.owners")
    keeping = _later("npaccel.keeping")

    def __getattr__(name: str) -> object:
        if name in ("Cluster", "Map", "agile"):
            return getattr(cluster, name)
        if name in ("arange", "empty", "from_blocks", "full", "load", "move", "ones", "zeros"):
            return getattr(making, name)
        if name in ("checkpoint", "restore"):
            return getattr(keeping, name)
        if name in ("forall", "reduce", "scan"):
            return getattr(owners, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"
