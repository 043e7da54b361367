"""Machine code and programs on disk: content-addressed entries in one folder.

An entry is one file, named by the digest of all that its content depends on. It is written under
another name and renamed, so that readers see all of it or nothing; it holds its own key and a
checksum, and what does not match is deleted and not used. Many processes may share the folder.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from npaccel import system
from npaccel.own import os, time

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256  # hashlib loads OpenSSL: longer than it takes to hash some MB
    except ImportError:
        try:
            from _sha256 import sha256  # before Python 3.12
        except ImportError:
            from hashlib import sha256

__all__ = ["Entry", "Store", "digest"]

# Magic, key, checksum of all that follows, length; then the content.
MAGIC = b"npaccel\x01"
HEAD = len(MAGIC) + 32 + 32 + 8
SUFFIX = ".entry"
PRUNE_TO = 7 / 8
# The folder's size is looked at again when a process has written a part of what was left of the
# limit, since others write too; or a part of the limit, by which it may be exceeded. Looking goes
# through all entries.
PART_OF_ROOM, PART_OF_LIMIT = 1 / 4, 1 / 64
# A file under a temporary name that is older was left behind by a process that was killed.
LEFT_BEHIND_S = 3600.0
MOST_HITS = 1 << 24


def digest(*parts: str | bytes) -> str:
    """Hexadecimal name for an entry that depends on these; where one ends matters. Folders may have
    names that are no text."""
    total = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


class Entry(NamedTuple):
    """A file of the cache: its path, size in bytes, and when it was last used (seconds)."""

    path: str
    size: int
    used: float


class Store:
    """Entries on disk.

    Parameters
    ----------
    folder : made when it is first needed, for its owner alone.
    limit : bytes that all entries may take; the least recently used go first.
    warn : called with a sentence, at most once, when the folder can't be used.
    """

    def __init__(self, folder: str, limit: int, warn: Callable[[str], None]) -> None:
        self.folder = folder
        self.limit = limit
        self._warn = warn
        self._readable: bool | None = None
        self._writable = True
        self._unseen = limit * PART_OF_LIMIT  # bytes until the folder is looked at
        self._grown = False  # since it was looked at
        self._serial = 0
        self._hits = 0  # that are not on disk yet

    # Entries.

    def get(self, key: str, *, hit: bool = True) -> bytes | None:
        """The content under `key`; None: there is none (any more). hit: count it as one."""
        # A folder that is not there is made when there is something to keep: it takes as long as
        # all the rest of a search.
        if self.missing or not self.usable():
            return None
        path = self._path(key)
        data = _read(path)
        if data is None:
            return None
        content = _content(data, key)
        if content is None:
            _remove(path)
            return None
        self._hits += hit
        _note_use(path)
        return content

    def note_hits(self) -> None:
        """Count on disk what was found: at the process's end, or when somebody asks."""
        # One byte per hit: appending needs no lock, and the file's size is the count.
        hits, self._hits = self._hits, 0
        if hits == 0 or not self.usable():
            return
        name = os.path.join(self.folder, "hits")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | system.PLAIN
        with suppress(OSError):  # a folder that can only be read: then nothing is noted
            descriptor = os.open(name, flags, 0o600)
            try:
                if os.fstat(descriptor).st_size < MOST_HITS:
                    os.write(descriptor, b"." * hits)
            finally:
                os.close(descriptor)

    def claim(self, name: str) -> int | None:
        """A descriptor while which is open no other process of this folder gets one by that name;
        None: another has it, or the folder can't be used."""
        flags = os.O_RDWR | os.O_CREAT | system.PLAIN
        try:
            descriptor = os.open(os.path.join(self.folder, name), flags, 0o600)
        except OSError:
            return None
        if not system.lock(descriptor):
            os.close(descriptor)
            return None
        return descriptor

    def forget_hits(self) -> None:
        """Count nothing of what was found so far."""
        self._hits = 0

    def put(self, key: str, content: bytes, *, tidy: bool = True) -> bool:
        """Keep `content` under `key`; whether it is there now. What goes wrong is told once, and
        never raised.

        tidy: look at the folder's size, now and then and at the end, which takes as long as it
        has entries.
        """
        if not self.usable() or not self._writable:
            return False
        self._serial += 1
        temporary = f"{self._path(key)}.{os.getpid()}.{self._serial}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.PLAIN
        try:
            descriptor = os.open(temporary, flags, 0o600)
            try:
                _write(descriptor, _head(key, content) + content)
            finally:
                os.close(descriptor)
            os.replace(temporary, self._path(key))
        except OSError as error:
            _remove(temporary)
            if error.errno not in (errno.ENOENT, errno.EEXIST):  # others may clear the folder
                self._writable = False
                self._complain(f"can't be written ({os.strerror(error.errno or 0)})")
            elif error.errno == errno.ENOENT:
                self._readable = None
            return False
        self._unseen -= len(content)
        self._grown |= tidy
        if tidy and self._unseen <= 0:
            self.prune()
        return True

    def tidy(self) -> None:
        """At the process's end: keep within the limit, if this process added to what is there.

        Not at the first entry: a computation waits for it, and where another thread of the program
        is busy with Python, each entry that is looked at costs a turn of the interpreter's lock.
        """
        if self._grown:
            self.prune()

    def drop(self, key: str) -> None:
        """Delete an entry that turned out not to be what it should."""
        _remove(self._path(key))

    # The folder.

    def problem(self) -> str | None:
        """Why the folder can't be trusted or used, in words that follow its name; None: it can."""
        try:
            about = _stat_or_make(self.folder)
            if not stat.S_ISDIR(about.st_mode):
                return "is not a folder"
            above = os.stat(os.path.join(self.folder, os.pardir))  # of where a link leads
        except OSError as error:
            return f"can't be used ({os.strerror(error.errno or 0)})"
        user = system.user()
        if user is None:
            return None
        if about.st_uid != user:
            return "belongs to another user, and it holds machine code"
        if about.st_mode & 0o022:
            return "can be written by other users, and it holds machine code"
        if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
            return "lies in a folder that everybody can write, and it holds machine code"
        return None

    def entries(self) -> list[Entry]:
        """All entries, the least recently used first."""
        return self._entries(_scan(self.folder))

    @staticmethod
    def _entries(items: list[os.DirEntry[str]]) -> list[Entry]:
        found = []
        for item in items:
            if item.name.endswith(SUFFIX):
                about = _about(item)
                if about is not None:
                    used = max(about.st_atime, about.st_mtime)
                    found.append(Entry(item.path, about.st_size, used))
        return sorted(found, key=lambda entry: entry.used)

    def prune(self) -> int:
        """Delete what is too much, and what killed processes left; return how many entries went."""
        items = _scan(self.folder)
        self._sweep(items, LEFT_BEHIND_S)
        entries = self._entries(items)
        total = sum(entry.size for entry in entries)
        gone = 0
        if total > self.limit:
            while total > self.limit * PRUNE_TO:
                _remove(entries[gone].path)
                total -= entries[gone].size
                gone += 1
        self._grown = False
        self._unseen = max((self.limit - total) * PART_OF_ROOM, self.limit * PART_OF_LIMIT)
        return gone

    def clear(self) -> int:
        """Delete everything; return how many entries went."""
        items = _scan(self.folder)
        entries = self._entries(items)
        self.forget_hits()
        for entry in entries:
            _remove(entry.path)
        self._sweep(items, 0.0)
        _remove(os.path.join(self.folder, "hits"))
        return len(entries)

    def verify(self) -> tuple[int, int]:
        """Read every entry and delete damaged ones; return how many are good, and were not."""
        good = bad = 0
        for entry in self.entries():
            data = _read(entry.path)
            key = os.path.basename(entry.path).removesuffix(SUFFIX)
            if data is not None and _content(data, key) is not None:
                good += 1
            else:
                _remove(entry.path)
                bad += 1
        return good, bad

    def hits(self) -> int:
        """How often an entry was found, by processes that have ended or by us, since `clear`."""
        self.note_hits()
        try:
            return os.stat(os.path.join(self.folder, "hits")).st_size
        except OSError:
            return 0

    @property
    def missing(self) -> bool:
        """Whether there is no folder yet, and so nothing in it."""
        return self._readable is None and not os.path.lexists(self.folder)

    # Parts.

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key + SUFFIX)

    def usable(self) -> bool:
        """Whether the folder is there and can be trusted; tells why not, once."""
        if self._readable is None:
            why = self.problem()
            self._readable = why is None
            if why is not None:
                self._complain(why)
        return self._readable

    def _complain(self, why: str) -> None:
        self._warn(
            f"the cache folder {self.folder} {why}; compiled kernels are kept in memory only "
            "(NPACCEL_CACHE_DIR names another folder, NPACCEL_CACHE=off needs none)"
        )

    def _sweep(self, items: list[os.DirEntry[str]], older_s: float) -> None:
        limit = time.time() - older_s
        for item in items:
            if item.name.endswith(".tmp"):
                about = _about(item)
                if about is not None and about.st_mtime <= limit:
                    _remove(item.path)


def _head(key: str, content: bytes) -> bytes:
    length = len(content).to_bytes(8, "little")
    name = bytes.fromhex(key)
    checksum = sha256(name + length + content).digest()
    return MAGIC + name + checksum + length


def _content(data: bytes, key: str) -> bytes | None:
    """The content of a file's bytes; None unless they are the entry `key`, whole."""
    content = data[HEAD:]
    try:
        good = data[:HEAD] == _head(key, content)
    except ValueError:  # the file's name is not one of ours
        return None
    return content if good else None


def _read(path: str) -> bytes | None:
    """A file's bytes, if it is a plain file that only we can have written."""
    try:
        descriptor = os.open(path, os.O_RDONLY | system.PLAIN)
    except OSError:
        return None
    try:
        about = os.fstat(descriptor)
        user = system.user()
        mine = user is None or (about.st_uid == user and not about.st_mode & 0o022)
        if not stat.S_ISREG(about.st_mode) or not mine:
            return None
        parts = []
        # As much as there is, for a buffer of a mebibyte costs more than what is read into it.
        while part := os.read(descriptor, about.st_size + 1):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _note_use(path: str) -> None:
    with suppress(OSError):  # a folder that can only be read: then nothing is noted
        os.utime(path)


def _stat_or_make(folder: str) -> os.stat_result:
    """What the folder is; made, for its owner alone, if there is none."""
    with suppress(FileNotFoundError):
        return os.stat(folder)
    os.makedirs(folder, 0o700, exist_ok=True)
    return os.stat(folder)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _remove(path: str) -> None:
    with suppress(OSError):  # another process was faster, or the folder can only be read
        os.unlink(path)


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as items:
            return list(items)
    except OSError:
        return []


def _about(item: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return item.stat(follow_symlinks=False)
    except OSError:
        return None
