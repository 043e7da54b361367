"""What threadpoolctl, which shows and limits the threads of libraries, is told of ours."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from npaccel import _native
from npaccel.config import MOST_THREADS, Config
from npaccel.later import when_imported

__all__ = ["watch_limits"]


def watch_limits(config: Config) -> None:
    """Have threadpoolctl told of our pool: now if it is imported already, or when it is."""

    def register(module: ModuleType) -> None:
        if hasattr(module, "register"):  # from its version 3.3 on
            module.register(_controller(module.LibController, config))

    when_imported("threadpoolctl", register)


def _controller(base: Any, config: Config) -> Any:
    """The class that stands for our pool; the library is found by name and one of its symbols."""

    class NpaccelController(base):  # type: ignore[misc]
        user_api = "npaccel"
        internal_api = "npaccel"
        filename_prefixes = ("_native.",)
        check_symbols = ("npaccel_pool_threads",)

        def get_num_threads(self) -> int:
            return _native.threads()

        def set_num_threads(self, num_threads: int) -> None:
            # A setting that changes has plans made anew.
            if num_threads != _native.threads():
                config.threads = max(1, min(num_threads, MOST_THREADS))

        def get_version(self) -> str:
            return str(sys.modules["npaccel"].__version__)

    return NpaccelController
