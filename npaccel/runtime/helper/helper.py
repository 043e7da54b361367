"""The helper process as its parent sees it: asked without waiting, listened to without waiting.

Nothing here blocks; a thread of the core's starts the process. There is no other thread: whoever
runs something at tier 0 listens on the way.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from npaccel import _native, system
from npaccel.ir.differences import loops
from npaccel.own import os, time
from npaccel.runtime.helper.frames import Unpacker, pack
from npaccel.runtime.process.guarding import why_no_helper

__all__ = ["Helper"]

LIMIT_S = 60.0  # for one job; then the process is killed
START_S = 60.0  # until it says that it is there
FAILURES = 3  # in a row; then no more is started

FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
SCRIPT = os.path.join(FOLDER, "runtime", "helper", "start.py")
ERRORS = os.fsencode(os.devnull)  # where the process writes what goes wrong


class Helper:
    """One process, started at the first job.

    Parameters
    ----------
    environment : of the process: ours but for what begins with the first, and the others.
    identity : what it must report; another one means that it is another version.

    Attributes
    ----------
    broken : why no helper can be started, or ''.
    restarts : how often one was started again.
    """

    def __init__(self, environment: tuple[bytes, tuple[bytes, ...]], identity: str) -> None:
        self._environment = environment
        self._identity = identity
        self._process: object = None  # its start, as the core knows it
        self._to, self._from = system.Descriptor(), system.Descriptor()
        self._waiting: dict[int, bytes] = {}  # jobs by number, the first one is being done
        self._unsent = memoryview(b"")
        self._busy_since = 0.0
        self._ready = False
        self._unpacker = Unpacker()
        self._failures = 0
        self.broken = why_no_helper()
        self.restarts = -1
        system.at_fork(after_in_child=self._forget)

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    @property
    def starting(self) -> bool:
        """Whether it was started, and has not been heard of yet."""
        return self._process is not None and not self._ready

    @property
    def pid(self) -> int:
        """Of the process, once it is there; 0: there is none now."""
        try:
            return _native.spawned(self._process) if self._process is not None else 0
        except OSError:
            return 0  # `stop` tells why

    def start(self) -> None:
        """Start the process now, not at the first job."""
        if self._process is None and not self.broken:
            self._start()
            self._lend()

    def ask(self, number: int, job: Any) -> bool:
        """Have a job done; False: no helper can be started."""
        if self._process is not None and not self._waiting and self._receive([]):
            self.stop()  # it had nothing to do for long, or never was
        if self.broken:
            return False
        self._waiting[number] = pack(job)
        if len(self._waiting) == 1:
            self._begin()
        self._lend()
        return not self.broken

    def listen(self) -> tuple[list[Any], list[int]]:
        """Replies that have come, and numbers of jobs in which the process was lost."""
        replies: list[Any] = []
        if self._process is None:
            return replies, []
        self._send()
        ended = self._receive(replies)
        for reply in replies:
            self._failures = 0
            self._waiting.pop(reply.number, None)
        late = bool(self._waiting) and time.monotonic() - self._busy_since > LIMIT_S
        lost: list[int] = []
        if ended or late:
            lost = self._recover()
        elif replies and self._waiting:
            self._begin()
        self._lend()
        return replies, lost

    def leave(self, words: Any) -> None:
        """Let the process, or a new one, do what these last words ask for when ours has ended.
        Waits for nothing but the end of its start."""
        if self._process is not None and not self._waiting and self._receive([]):
            self.stop()
        if self._process is None and not self.broken:
            self._start()
        if self._process is None or self._unsent:
            return  # `stop` ends it
        with contextlib.suppress(OSError):  # it is gone
            os.write(self._to.number, pack(words))
            _native.spawned(self._process)
            self._to.close()
            self._from.close()
            self._process = None
        self._lend()

    def stop(self) -> None:
        """End the process, if there is one; waits for nothing but the end of its start."""
        if self._process is not None:
            self._to.close()
            self._from.close()
            try:
                _native.kill_spawned(self._process)
            except OSError as error:
                self.broken = f"no helper process can be started: {error}"
            self._process = None
        self._lend()

    def _recover(self) -> list[int]:
        """After the end of the process: go on with the next job; the numbers of those given up."""
        self.stop()
        lost: list[int] = []
        if self._waiting:
            self._failures += 1
            if self._ready:
                lost = [next(iter(self._waiting))]
                del self._waiting[lost[0]]
        if self._failures >= FAILURES:
            self.broken = self.broken or "the helper process failed several times in a row"
        if self.broken:
            lost += self._waiting
            self._waiting.clear()
        elif self._waiting:
            self._begin()
        return lost

    # Parts.

    def _lend(self) -> None:
        """A processor, until there is an answer, if npaccel has several threads: what these do
        would keep the process waiting, and it them."""
        works = self._process is not None and (self.busy or self.starting)
        _native.lend(self._from.number if works else -1)

    def _begin(self) -> None:
        """Send the first job that waits, to a new process if need be."""
        if self._process is None:
            self._start()
        if self._process is not None:
            self._unsent = memoryview(next(iter(self._waiting.values())))
            self._busy_since = time.monotonic()
            self._send()

    def _start(self) -> None:
        if not os.path.basename(sys.executable or "").startswith("python"):
            self.broken = f"there is no Python to start a helper process with ({sys.executable!r})"
            return
        self.restarts += 1
        self._ready = False
        self._unpacker = Unpacker()
        cpu, vector_bytes = _native.cpu()
        lent = str(int(_native.threads() > 1))  # see _lend
        facts = [FOLDER, cpu, str(vector_bytes), lent, loops()]
        arguments = [sys.executable, "-I", SCRIPT, *facts, *system.module_path()]
        try:
            sys.audit("os.posix_spawn", sys.executable, arguments, None)
            texts = tuple(map(os.fsencode, arguments))
            start = _native.spawn(texts, *self._environment, ERRORS)
            self._process, *ends = start
            self._to, self._from = map(system.Descriptor, ends)
        except Exception as error:  # an audit hook may refuse with any; told as all others are
            self.broken = f"no helper process can be started: {error}"

    def _send(self) -> None:
        while self._unsent:
            try:
                written = os.write(self._to.number, self._unsent)
            except BlockingIOError:
                return
            except OSError:
                return  # it is gone, as reading will tell
            self._unsent = self._unsent[written:]

    def _receive(self, replies: list[Any]) -> bool:
        """Take what has come; whether the process has ended."""
        while True:
            try:
                going_on = self._unpacker.read(self._from.number)
            except BlockingIOError:
                return False
            except OSError:
                return True
            if not going_on:
                return True
            if (message := self._unpacker.take()) is not None:
                if self._ready:
                    replies.append(message)
                elif message == self._identity:
                    self._ready = True
                else:
                    self.broken = "the helper process found another version of npaccel"
                    return True

    def _forget(self) -> None:
        """In a forked child: the process is the parent's."""
        if self._process is not None:
            self._to.close()
            self._from.close()
        self._process = None
        _native.lend(-1)
        self._waiting.clear()
        self._unsent = memoryview(b"")
