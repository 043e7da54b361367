"""The backends that are open, the devices that kernels are compiled for, and what is known of their
speeds and of what `auto` decided for them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from npaccel import _native
from npaccel.backends.base import Backend
from npaccel.backends.registry import HOST, available, is_device, open_backend
from npaccel.backends.speeds import Speeds
from npaccel.caches.store import Store, digest
from npaccel.config import DEVICES, Config
from npaccel.errors import BackendUnavailable
from npaccel.runtime.devices.auto import anywhere
from npaccel.runtime.devices.choice import Device
from npaccel.runtime.devices.cost import device_speeds, note_devices, noted_devices, speeds_known
from npaccel.runtime.process.guarding import why_no_kernels
from npaccel.runtime.programs.trace import rule_text

__all__ = ["Machines"]

OWNERS = 8  # of launches, that the core tells apart (NPA_OWNERS)


class Machines:
    """One per engine.

    Parameters
    ----------
    store : the cache as it is now; None: there is none. folder : its folder, or ''.
    identity : what kernels on disk depend on; what is measured also on `processor`.
    tell : warns the user, once for each text.
    """

    def __init__(
        self,
        config: Config,
        store: Callable[[], Store | None],
        folder: Callable[[], str],
        identity: Callable[[], str],
        processor: Callable[[], str],
        tell: Callable[..., None],
    ) -> None:
        self._config = config
        self._store = store
        self._folder = folder
        self._identity = identity
        self._processor = processor
        self._tell = tell
        self._open: dict[str, Backend] = {}
        self._devices: dict[str, Device] = {}
        self._noted: dict[str, str] | None = None  # devices that were measured, when asked for

    # Backends.

    def names(self) -> tuple[str, ...]:
        """Of the backends that compile, whether or not they work here."""
        return available()

    def places(self) -> tuple[str, ...]:
        """Devices that are there, where arrays can live; to find them opens their drivers."""
        found: list[str] = []
        for name in self.names():
            if not is_device(name):
                continue
            with suppress(BackendUnavailable):
                listed: Any = getattr(self.backend(name), "list_devices", tuple)
                found += [row[0] for row in listed() if row[2] == "ready"]
        return tuple(found)

    def backend(self, name: str) -> Backend:
        """Open the backend, once; raises BackendUnavailable."""
        name = _numbered(name)
        if why := why_no_kernels():
            raise BackendUnavailable(f"{name}: {why}")
        if name not in self._open:
            self._open[name] = opened = open_backend(name)
            self._limit_memory(opened)
        return self._open[name]

    def limit_memory(self) -> None:
        """After a change of that setting."""
        for opened in self._open.values():
            self._limit_memory(opened)

    def _limit_memory(self, backend: Backend) -> None:
        limit = getattr(backend, "limit_memory", None)
        if limit is not None:
            limit(self._config.device_memory)

    def place(self, array: Any, name: str, *, copy: bool = False) -> Any:
        """An array with this content that lives on the device; raises BackendUnavailable.

        copy : of its own, also where `array` lies in memory of ours.
        """
        memory = getattr(self.backend(name), "memory", None)
        return memory.place(array, 0, copy) if memory is not None else None

    def device(self, name: str) -> Device:
        """The device of that name, whether or not it is there."""
        name = _numbered(name)
        if name not in self._devices:
            self._devices[name] = Device(
                name,
                min(len(self._devices), OWNERS - 2) + 1,
                lambda: self.backend(name),
                self._store,
                self._identity,
                self._config.code_limit,
                self._tell,
            )
        return self._devices[name]

    @property
    def devices(self) -> Collection[Device]:
        """Those that somebody has asked for."""
        return self._devices.values()

    def note_failure(self) -> None:
        """A launch on a device failed in the last run."""
        failure = _native.device_error()
        if failure is not None and failure[1] in self._devices:
            error, name = failure
            self._devices[name].note_failure(error)

    # Speeds.

    def measured_speeds(self, identity: str, measure: Callable[[], Speeds]) -> Speeds:
        """Of a device: measured the first time that anybody asks on this machine."""
        return device_speeds(self._folder(), digest(self._identity(), identity), measure)

    def note_measured(self, identities: dict[str, str]) -> None:
        """These were measured, and `auto` may choose them by that. Their names and identities."""
        self._noted = {n: digest(self._identity(), i) for n, i in identities.items()}
        note_devices(self._folder(), self._noted)

    def _measured(self) -> dict[str, str]:
        if self._noted is None:
            self._noted = noted_devices(self._folder())
        return self._noted

    def host_identity(self, backend: Backend) -> str:
        """What the host's speeds depend on."""
        return f"{backend.identity} {_native.threads()}"

    # What `auto` asks.

    def candidates(self) -> list[str]:
        """Devices that it may choose by what is predicted: measured ones that are no processors."""
        lost = {name for name, device in self._devices.items() if device.lost}
        return [name for name in self._measured() if name not in lost]

    def speeds(self, name: str) -> Speeds | None:
        """As `measured_speeds`, but measures nothing; None: it was not."""
        opened = self._open.get(_numbered(name))
        if opened is not None:
            identity = opened.identity
            if name == HOST:
                identity = self.host_identity(opened)
            return speeds_known(self._folder(), digest(self._identity(), identity))
        return speeds_known(self._folder(), self._measured().get(name, ""))

    def moves(self, name: str) -> bool:
        """Whether a device has memory of its own."""
        opened = self._open.get(_numbered(name))
        return opened is None or not getattr(opened, "host_memory", True)

    def shares(self, name: str) -> bool:
        """Whether a device can use the host's memory, whatever the settings."""
        return getattr(self.backend(name), "shares_memory", True)

    def recall(self, pending: _native.Pending) -> str:
        """The backend that an earlier process has decided for, for these requests; or ''."""
        store = self._store()
        found = store.get(self._decision(pending)) if store is not None else None
        if found is None:
            return ""
        name, _, identity = found.decode().partition(" ")
        with suppress(BackendUnavailable):
            if name == HOST or (is_device(name) and self.backend(name).identity == identity):
                return name
        return ""

    def keep(self, pending: _native.Pending, name: str) -> None:
        """What this one has decided for them."""
        store = self._store()
        if store is not None:
            store.put(self._decision(pending), f"{name} {self.backend(name).identity}".encode())

    def _decision(self, pending: _native.Pending) -> str:
        """The name on disk of what was decided, which depends on these."""
        texts = sorted((code, rule_text(rule)) for code, rule in pending.rules.items())
        asked = f"{_native.threads()} {sorted(self._measured().items())} {texts}"
        key = anywhere(pending)
        return digest("auto", self._identity(), self._processor(), asked, key)


def _numbered(name: str) -> str:
    """The one name of a device that has two."""
    return f"{name}:0" if name in DEVICES else name
