"""The settings, and the only place that reads environment variables.

`Config` is one object per process. A setting that is assigned is checked, kept, and told to those
who subscribed (the runtime), so that it holds from the next operation on.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from npaccel.errors import ConfigError, NpaccelWarning
from npaccel.own import os

__all__ = [
    "DEVICE",
    "HOSTS",
    "RENAMED",
    "SETTINGS",
    "Config",
    "Setting",
    "c_compiler",
    "current_name",
    "driver_environment",
    "preloads",
    "process_settings",
    "resting_blas",
    "set_driver_folder",
]


PREFIX: Final = "NPACCEL_"
FILE: Final = PREFIX + "CONFIG"  # names a file with settings
BLAS_WAITS: Final = "OPENBLAS_THREAD_TIMEOUT"
LARGEST: Final = (1 << 63) - 1  # what the C core can hold
MOST_THREADS: Final = 256  # of its pool
RENAMED: Final = {"checks": "boundscheck"}  # old names of settings, which hold, with a note

DEVICES: Final = ("cuda", "opencl")  # backends of which a machine may have several


class Setting:
    """One setting: its default, what it may be, and the environment variable that sets it.

    choices : the words allowed, or None for an integer from `minimum` to `maximum`.
    folder : the value is the absolute path of a folder instead.
    numbered : choices that may have a number after them, as in opencl:1.
    real : a number, not only an integer, of at least `minimum`.
    group : names that other packages declare as entry points of this group are choices too.
    """

    __slots__ = (
        "choices",
        "default",
        "doc",
        "folder",
        "group",
        "maximum",
        "minimum",
        "name",
        "numbered",
        "real",
        "variable",
    )

    def __init__(
        self,
        name: str,
        default: str | float,
        doc: str,
        *,
        choices: tuple[str, ...] | None = None,
        minimum: int = 0,
        maximum: int = LARGEST,
        variable: str = "",
        folder: bool = False,
        numbered: tuple[str, ...] = (),
        real: bool = False,
        group: str = "",
    ) -> None:
        self.name = name
        self.default = default
        self.doc = doc
        self.choices = choices
        self.minimum, self.maximum = minimum, maximum
        self.folder = folder
        self.numbered = numbered
        self.real = real
        self.group = group
        self.variable = variable or PREFIX + name.upper()

    def check(self, value: Any, source: str) -> str | float:
        """Return `value` as this setting keeps it, or raise ConfigError naming what is allowed."""
        if self.folder:
            return _absolute(value, source)
        if self.choices is not None:
            if isinstance(value, str) and value in self.choices:
                return value
            if self.numbered and isinstance(value, str) and self._is_numbered(value):
                return value
            others = self._declared()
            if isinstance(value, str) and value.partition(":")[0] in others:
                return value
            numbered = tuple(f"{name}:N" for name in self.numbered)
            allowed = ", ".join(map(repr, self.choices + numbered + others))
            raise ConfigError(f"{source}: {value!r} is not allowed; it must be one of {allowed}")
        return self._real(value, source) if self.real else self._integer(value, source)

    def _real(self, value: Any, source: str) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not self.minimum <= number < math.inf:
            allowed = f"a number of at least {self.minimum}"
            raise ConfigError(f"{source}: {value!r} is not allowed; it must be {allowed}")
        return number

    def _integer(self, value: Any, source: str) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = self.minimum - 1
        if isinstance(value, float) or not self.minimum <= number <= self.maximum:
            allowed = f"of at least {self.minimum}"
            if number > self.maximum or self.maximum < LARGEST:
                allowed = f"from {self.minimum} to {self.maximum}"
            raise ConfigError(
                f"{source}: {value!r} is not allowed; it must be an integer {allowed}"
            )
        return number

    def _declared(self) -> tuple[str, ...]:
        if not self.group:
            return ()
        from importlib.metadata import entry_points  # as costly as all the rest of our import

        names = {entry.name for entry in entry_points(group=self.group)}
        return tuple(sorted(names.difference(self.choices or ())))

    def _is_numbered(self, value: str) -> bool:
        name, _, number = value.partition(":")
        return name in self.numbered and number.isascii() and number.isdigit()


SETTINGS: Final = (
    Setting(
        "backend",
        "auto",
        "what runs kernels: auto (the compiled one that is best), llvm, c (the system's compiler), "
        "cuda, opencl, or one with a number, opencl:N (devices), or numpy (NumPy's own loops, one "
        "request at a time)",
        choices=("auto", "c", "cuda", "llvm", "numpy", "opencl"),
        numbered=DEVICES,
        group="npaccel.backends",
    ),
    Setting(
        "threshold",
        1 << 18,
        "bytes of the largest operand from which an operation is recorded; below it NumPy runs",
    ),
    Setting(
        "threads",
        0,
        "threads that run kernels; 0: as many as the process may use",
        maximum=MOST_THREADS,
        variable="NPACCEL_NUM_THREADS",
    ),
    Setting(
        "check",
        "off",
        "compute: after each run compare every operation with NumPy; beside: in another thread, "
        "which leaves out the runs that end while it compares",
        choices=("off", "compute", "beside"),
    ),
    Setting(
        "check_action",
        "raise",
        "what is done about a difference: raise CheckError, or warn of it",
        choices=("raise", "warn"),
    ),
    Setting("check_every", 1, "of so many runs one is compared", minimum=1, maximum=(1 << 31) - 1),
    Setting(
        "check_scale",
        0.0,
        "how far floats may be off besides what rounding explains, as a part of NumPy's value",
        real=True,
    ),
    Setting(
        "boundscheck",
        "on",
        "off: indices are not looked through (one out of bounds picks element 0), and integers "
        "divided by 0 are not told",
        choices=("on", "off"),
    ),
    Setting(
        "accuracy",
        "full",
        "fast: sin and cos of large arrays may be off by 2 units of the last place, and take less "
        "time",
        choices=("full", "fast"),
    ),
    Setting(
        "guard",
        "on",
        "off: nothing may stay pending past a call, so NumPy computes everything (for debuggers)",
        choices=("on", "off"),
    ),
    Setting(
        "queue_limit",
        4096,
        "requests that may be pending before they are run",
        minimum=1,
        maximum=(1 << 31) - 1,
    ),
    Setting(
        "memory_limit",
        1 << 30,
        "bytes of results that may be pending before they are run",
        minimum=1,
    ),
    Setting("trace_cache", 4096, "sequences of operations whose programs are kept", minimum=1),
    Setting(
        "trace_cache_bytes", 1 << 27, "bytes that these programs may take, about", minimum=1 << 16
    ),
    Setting("host_memory", 0, "bytes of the host's memory that results may take; 0: what there is"),
    Setting(
        "device_memory",
        0,
        "bytes of a device's own memory that may be used; 0: nine tenths; docs/usage.md says more",
    ),
    Setting(
        "divide",
        "off",
        "whether kernels that a device runs are divided between it and the host's threads, by what "
        "each takes",
        choices=("on", "off", "auto"),
    ),
    Setting("nursery", 1 << 30, "bytes of freed memory kept for reuse, an eighth of all at most"),
    Setting("macro_cache", 256, "recorded variants of macro sections that are kept", minimum=1),
    Setting(
        "tiering",
        "adaptive",
        "when kernels are compiled: adaptive (in a helper process, while NumPy's loops run), eager "
        "(before the first run), or off (never)",
        choices=("adaptive", "eager", "off"),
    ),
    Setting(
        "linger",
        10.0,
        "seconds that the helper process may go on compiling when the program has ended, at the "
        "lowest priority, so that the next run of it finds code; 0: it ends with the program",
        real=True,
    ),
    Setting(
        "cache",
        "on",
        "whether compiled kernels are kept on disk for other processes",
        choices=("on", "off"),
    ),
    Setting(
        "cache_dir",
        "user",
        "the folder where they are kept; user: npaccel in the user's cache folder",
        folder=True,
    ),
    Setting("cache_limit", 1 << 28, "bytes that they may take on disk", minimum=1 << 16),
    Setting("code_limit", 1 << 26, "bytes of machine code kept in memory", minimum=1 << 16),
)


HOSTS: Final = ("cpu", "llvm", "c")  # devices whose memory is the host's; the first is NumPy's word
# Not a setting of its own: where `npaccel.asarray` is to put an array.
DEVICE: Final = Setting(
    "device",
    HOSTS[0],
    "where an array lives",
    choices=(*HOSTS, *DEVICES),
    numbered=DEVICES,
    group="npaccel.backends",
)


class Config:
    """Settings of npaccel; assign an attribute to change one, or call it to change some in a
    ``with`` block: ``with npaccel.config(threads=2): ...``.

    unknown : a text about each variable that looks like a setting's and is none, or was renamed.

    Raises
    ------
    ConfigError : a value that is not allowed (the text lists what is), or an unknown setting.
    """

    if not TYPE_CHECKING:
        __slots__ = ("_subscribers", "_values", "unknown")

    # For type checkers: a name that is not here, or a value of another type, is their error, too.
    backend: str
    threshold: int
    threads: int
    check: Literal["off", "compute", "beside"]
    check_action: Literal["raise", "warn"]
    check_every: int
    check_scale: float
    boundscheck: Literal["on", "off"]
    accuracy: Literal["full", "fast"]
    guard: Literal["on", "off"]
    queue_limit: int
    memory_limit: int
    trace_cache: int
    trace_cache_bytes: int
    host_memory: int
    device_memory: int
    divide: Literal["on", "off", "auto"]
    nursery: int
    macro_cache: int
    tiering: Literal["adaptive", "eager", "off"]
    linger: float
    cache: Literal["on", "off"]
    cache_dir: str
    cache_limit: int
    code_limit: int

    unknown: list[str]
    _values: dict[str, str | float]
    _subscribers: list[Callable[[str, str | float], None]]

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        object.__setattr__(self, "_subscribers", [])
        object.__setattr__(self, "_values", {})
        environment, renamed = _renamed(environment)
        known = {setting.variable for setting in SETTINGS} | {FILE}
        given = {variable for variable in environment if variable.startswith(PREFIX)}
        unknown = [*renamed, *(_unknown(variable, known) for variable in sorted(given - known))]
        object.__setattr__(self, "unknown", unknown)
        path = environment.get(FILE, "")
        written = _written(path) if path else {}
        for setting in SETTINGS:
            value: str | float = written.get(setting.name, setting.default)
            if setting.variable in environment:
                value = setting.check(environment[setting.variable], setting.variable)
            elif setting.name == "threads" and "threads" not in written:
                value = min(_positive(environment.get("OMP_NUM_THREADS", "")), MOST_THREADS)
            if value == "user":
                value = _user_cache(environment)
            self._values[setting.name] = value

    def _value(self, name: str) -> str | float:
        try:
            return self._values[current_name(name, 3) if name in RENAMED else name]
        except KeyError:
            raise AttributeError(_no_setting(name)) from None

    def _change(self, name: str, value: Any) -> None:
        checked = _setting(name).check(value, f"npaccel.config.{name}")
        name = current_name(name, 3)
        if checked == self._values[name]:
            return
        before = self._values[name]
        self._values[name] = checked
        try:
            for subscriber in self._subscribers:
                subscriber(name, checked)
        except BaseException:
            self._values[name] = before
            raise

    if not TYPE_CHECKING:
        __getattr__, __setattr__ = _value, _change

    @contextmanager
    def __call__(self, **values: Any) -> Iterator[Config]:
        """Change settings in a ``with`` block, and put back what they were at its end.

        They are the process's, so other threads have them, too. If one is not allowed, none is
        changed.

        Raises
        ------
        ConfigError : an unknown setting, or a value that is not allowed.
        """
        for name, value in values.items():
            _setting(name).check(value, f"npaccel.config({name}=...)")
        for name in RENAMED.keys() & values.keys():
            values[current_name(name, 4)] = values.pop(name)
        with ExitStack() as after:  # all is put back, whatever one raises; memory first
            for name in sorted(values, key=lambda name: name == "host_memory"):
                after.callback(self._change, name, self._values[name])
            self._assign(values)
            yield self

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take settings from a TOML file: ``threads = 2`` and so on, one a line.

        The variable ``NPACCEL_CONFIG`` names one that is read at import; other variables of the
        environment win over what it says. If a value is not allowed, none is taken.

        Raises
        ------
        ConfigError : it can't be read, an unknown setting, or a value that is not allowed.
        """
        self._assign(_written(path))

    def _assign(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._change(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._values)

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {value!r}" for name, value in sorted(self._values.items()))

    @staticmethod
    def setting(name: str) -> Setting:
        """What the setting of that name may be."""
        return next(setting for setting in SETTINGS if setting.name == name)

    def helper_environment(self) -> tuple[bytes, tuple[bytes, ...]]:
        """What begins the names of variables that a process which compiles for this one does not
        get, and those that it gets instead: it defers nothing itself."""
        own = (b"NPACCEL_GUARD=off", b"NPACCEL_TIERING=off")
        return b"NPACCEL_", (*own, b"OPENBLAS_NUM_THREADS=1")  # whose threads spin at the start

    def subscribe(self, subscriber: Callable[[str, str | float], None]) -> None:
        """Have `subscriber(name, value)` called after each change."""
        self._subscribers.append(subscriber)


def current_name(name: str, level: int) -> str:
    """What a setting is called now; an old name is noted at the caller's line, so far up."""
    if name not in RENAMED:
        return name
    text = f"npaccel's setting {name!r} is called {RENAMED[name]!r} now"
    warnings.warn(text, DeprecationWarning, stacklevel=level)
    return RENAMED[name]


def _renamed(environment: Mapping[str, str]) -> tuple[Mapping[str, str], list[str]]:
    """The environment with the variables' new names, and a text on each that has an old one."""
    texts = []
    for name, now in RENAMED.items():
        old, new = PREFIX + name.upper(), PREFIX + now.upper()
        if old in environment:
            rest = {key: value for key, value in environment.items() if key != old}
            environment = {new: environment[old]} | rest
            texts.append(f"the environment variable {old} is called {new} now")
    return environment, texts


def _setting(name: str) -> Setting:
    name = RENAMED.get(name, name)
    found = next((setting for setting in SETTINGS if setting.name == name), None)
    if found is None:
        raise ConfigError(_no_setting(name))
    return found


def _no_setting(name: str) -> str:
    from difflib import get_close_matches  # costly to import, and rarely wanted

    names = sorted(setting.name for setting in SETTINGS)
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return f"npaccel has no setting {name!r}{meant}; it has {', '.join(names)}"


def _written(path: str | os.PathLike[str]) -> dict[str, str | float]:
    """The settings in a file, checked."""
    import tomllib  # costly to import, and rarely wanted

    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"settings can't be read from {os.fspath(path)!r}: {error}") from error
    try:
        return {current_name(k, 4): _setting(k).check(v, k) for k, v in found.items()}
    except ConfigError as error:
        raise ConfigError(f"{os.fspath(path)}: {error}") from None


def process_settings() -> Config:
    """The settings of this process; a program that imports us gets exception and warnings.

    The command `npaccel`, whose first import this is in, says a line instead.
    """
    try:
        config = Config()
    except ConfigError as error:
        if not _is_command():
            raise
        print(f"npaccel: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    for text in config.unknown:
        if _is_command():
            print(f"npaccel: {text}", file=sys.stderr)
        else:  # at the line that imports npaccel, behind this, two modules and the package
            warnings.warn(text, NpaccelWarning, stacklevel=5)
    return config


def _unknown(variable: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # costly to import, and rarely wanted

    names = [name.removeprefix(PREFIX) for name in sorted(known)]
    asked = variable.removeprefix(PREFIX).upper()
    (nearest,) = get_close_matches(asked, names, n=1, cutoff=0.0)
    return f"unknown environment variable {variable}; did you mean {PREFIX}{nearest}?"


def _is_command() -> bool:
    """Whether this is `npaccel` or `python -m npaccel`, before its code is reached."""
    words = sys.orig_argv
    if sys.argv[:1] == ["-m"]:
        return words[words.index("-m") + 1 :][:1] == ["npaccel"] if "-m" in words else False
    return os.path.basename(sys.argv[0]) == "npaccel" if sys.argv else False


def c_compiler() -> str:
    """The command that compiles C: CC, as for other programs, or cc."""
    return os.environ.get("CC", "") or "cc"


def driver_environment(folder: str) -> dict[str, str]:
    """The environment of a process whose OpenCL driver keeps its files in `folder`."""
    return dict(os.environ) | {"POCL_CACHE_DIR": folder, "PYOPENCL_NO_CACHE": "1"}


def child_environment(defaults: dict[str, str], changes: dict[str, str]) -> dict[str, str]:
    """The environment of a child process: ours with these changes, or defaults."""
    return defaults | dict(os.environ) | changes


def preloads(library: str) -> bool:
    """Whether the process was started with a library of this name before all others."""
    return library in os.environ.get("LD_PRELOAD", "")


def own_breakpoint() -> bool:
    """Whether the user has named a debugger of his for `breakpoint()`, as Python has it."""
    return "PYTHONBREAKPOINT" in os.environ or sys.breakpointhook is not sys.__breakpointhook__


def set_driver_folder(folder: str) -> None:
    """Have the OpenCL driver of this process, not loaded yet, keep its files in `folder`."""
    os.environ["POCL_CACHE_DIR"] = folder


@contextmanager
def resting_blas() -> Iterator[None]:
    """Have NumPy, loaded within, let BLAS's threads sleep a third of a millisecond after a product.

    OpenBLAS has them wait for the next one for 25, each on a processor that is then missed: by the
    program, by our threads and by the helper. Children, and who set it, keep their own.
    """
    if BLAS_WAITS in os.environ or "numpy" in sys.modules:
        yield
        return
    os.environ[BLAS_WAITS] = "20"  # 2 ** 20 cycles
    try:
        yield
    finally:
        del os.environ[BLAS_WAITS]


def _positive(text: str) -> int:
    # OMP_NUM_THREADS may be a list per nesting level; the first counts. Not ours: never an error.
    first = text.split(",", maxsplit=1)[0].strip()
    return int(first) if first.isdigit() else 0


def _absolute(value: Any, source: str) -> str:
    if value == "user":
        return _user_cache(os.environ)
    if isinstance(value, str | os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str) and os.path.isabs(path):
            return path
    raise ConfigError(f"{source}: {value!r} is not allowed; it must be an absolute path")


def _user_cache(environment: Mapping[str, str]) -> str:
    """Our folder in the user's cache folder."""
    if sys.platform != "linux":
        import platformdirs

        return platformdirs.user_cache_dir("npaccel")
    # As platformdirs has it; importing it takes as long as a quarter of our whole import may.
    base = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "npaccel")
