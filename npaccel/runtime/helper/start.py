"""What the helper process begins with: the package without its C core, as that needs NumPy, whose
import takes as long as all else that planning and compiling need.

A script, given the package's folder, what the core says of the processor (its identity, its
vectors' bytes), whether the program lends it one ("1"), what NumPy's loops are, and the
module search path. NumPy is imported all the same where a question of `npaccel.ir.differences` has
to be asked.
"""

import sys
from importlib import import_module
from types import ModuleType


def prepare() -> tuple[str, bool]:
    """Put a stand-in for the core in its place. Returns what NumPy's loops are, and whether a
    processor is lent."""
    folder, identity, vector_bytes, lent, loops, *path = sys.argv[1:]
    sys.path[:] = path
    package, core = ModuleType("npaccel"), ModuleType("npaccel._native")
    package.__path__ = [folder]
    core.__dict__.update(cpu=lambda: (identity, int(vector_bytes)), Program=object)
    package.__dict__["_native"] = core
    sys.modules.update({package.__name__: package, core.__name__: core})
    return loops, lent == "1"


if __name__ == "__main__":
    FACTS = prepare()
    import_module("npaccel.runtime.helper.worker").main(*FACTS)
