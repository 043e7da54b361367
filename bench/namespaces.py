"""A cluster in network namespaces of this machine, between which packets are lost.

    python bench/namespaces.py [--workers 4] [--loss 1] [--delay 2] [--cut 20] -- COMMAND ...

The command runs in the client's namespace; `{address}` in it is the scheduler's. Each namespace has
one device (TAP), and the frames of all go through a switch in this process, which loses so many per
cent of them, and holds each for so many milliseconds: the kernel's own netem is not everywhere.
After `--cut` seconds all frames of one worker are lost, and its connections stay open. It needs
Linux and its root; all it makes is gone when it ends.
"""

from __future__ import annotations

import argparse
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

SET_DEVICE, TAP, NO_HEADER = 0x400454CA, 0x0002, 0x1000
FRAME = 1 << 16
PORT = 8786
INSIDE = "BENCH_NAMESPACES"  # set where this runs in namespaces of its own
DASK = (sys.executable, "-m", "distributed.cli.dask_{}")


class Switch(threading.Thread):
    """Sends frames on by the last byte of the address that they are for."""

    def __init__(self, devices: Sequence[int], loss: float, delay_s: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._devices, self._loss, self._delay_s = devices, loss, delay_s
        self._chosen = random.Random(seed)
        self.frames = self.lost = 0
        self.cut: int | None = None  # a host whose frames are all lost

    def run(self) -> None:
        held: list[tuple[float, int, int, bytes]] = []
        while True:
            wait = max(0.0, held[0][0] - time.monotonic()) if held else None
            ready, _, _ = select.select(self._devices, [], [], wait)
            now = time.monotonic()
            for device in ready:
                source, frame = self._devices.index(device), os.read(device, FRAME)
                for target in self._targets(source, frame):
                    self.frames += 1
                    if self.cut in (source, target) or self._chosen.random() < self._loss:
                        self.lost += 1
                    else:
                        heapq.heappush(held, (now + self._delay_s, self.frames, target, frame))
            while held and held[0][0] <= time.monotonic():
                _, _, target, frame = heapq.heappop(held)
                os.write(self._devices[target], frame)

    def _targets(self, source: int, frame: bytes) -> Iterator[int]:
        everybody = frame[0] & 1  # ARP asks all
        for k in range(len(self._devices)):
            if k != source and (everybody or frame[5] == k + 1):
                yield k


def tool(*words: str) -> None:
    """Ask `ip`."""
    subprocess.run(["ip", *words], check=True)


def inside(host: int) -> list[str]:
    """What a command begins with, to run there."""
    return ["ip", "netns", "exec", f"host{host}"]


def address_of(host: int) -> str:
    """Where it is."""
    return f"10.77.0.{host + 1}"


def new_host(host: int) -> int:
    """Make a namespace; its device."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, SET_DEVICE, struct.pack("16sH22x", f"tap{host}".encode(), TAP | NO_HEADER))
    tool("netns", "add", f"host{host}")
    tool("link", "set", f"tap{host}", "netns", f"host{host}")
    there = ["-n", f"host{host}"]
    tool(*there, "link", "set", f"tap{host}", "address", f"02:00:00:00:00:{host + 1:02x}")
    tool(*there, "address", "add", f"{address_of(host)}/24", "dev", f"tap{host}")
    tool(*there, "link", "set", f"tap{host}", "up")
    tool(*there, "link", "set", "lo", "up")
    return device


@contextmanager
def running(host: int, *words: str) -> Iterator[None]:
    """A process there, as long as this goes on."""
    process = subprocess.Popen([*inside(host), *words], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def dask(what: str, *options: str) -> list[str]:
    """One of its commands."""
    return [word.format(what) for word in DASK] + [*options]


def run(options: argparse.Namespace) -> int:
    """Hosts: the scheduler, the client, then the workers."""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)  # their names are there
    hosts = range(options.workers + 2)
    switch = Switch([*map(new_host, hosts)], options.loss / 100, options.delay / 1e3, options.seed)
    switch.start()
    scheduler = f"tcp://{address_of(0)}:{PORT}"
    with ExitStack() as stack:
        begin = dask("scheduler", "--host", address_of(0), "--port", str(PORT), "--no-dashboard")
        stack.enter_context(running(0, *begin))
        for host in hosts[2:]:
            one = dask("worker", scheduler, "--host", address_of(host), "--nthreads", "1")
            stack.enter_context(running(host, *one, "--no-dashboard", "--no-nanny"))
        waiting = [sys.executable, "-c", WAITING, scheduler, str(options.workers)]
        subprocess.run([*inside(1), *waiting], check=True)
        if options.cut:
            cut = threading.Timer(options.cut, setattr, (switch, "cut", hosts[-1]))
            cut.daemon = True
            cut.start()
        command = [word.replace("{address}", scheduler) for word in options.command]
        done = subprocess.run([*inside(1), *command], check=False).returncode
    print(f"{switch.frames} frames, of which {switch.lost} were lost; the command's status: {done}")
    return done


WAITING = """
import sys
from distributed import Client

with Client(sys.argv[1], timeout=60) as client:
    client.wait_for_workers(int(sys.argv[2]), timeout=120)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--loss", type=float, default=1.0, help="per cent of the frames")
    parser.add_argument("--delay", type=float, default=2.0, help="milliseconds, each way")
    parser.add_argument("--cut", type=float, help="seconds until a worker is cut off")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if INSIDE not in os.environ:  # once more, where nothing of it is seen from outside
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
