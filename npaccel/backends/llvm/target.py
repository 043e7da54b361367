"""The host as LLVM sees it; compilation of IR text to object code; linking of object code."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding as llvm  # type: ignore[import-untyped]
from llvmlite.binding import ffi

from npaccel.errors import CompileError

__all__ = ["Host", "ffi"]


class Host:
    """The machine this process runs on. Made once and kept: its parts are costly to build.

    Parameters
    ----------
    cpu : compile for this older one, such as ``x86-64-v3``, that this machine can run as well
    vector_bytes : size of its vector registers; needed with `cpu`
    triple : of another machine, whose code is only emitted here

    Attributes
    ----------
    vector_bytes : size of the widest vector register
    fingerprint : text that changes whenever object code made here would not do elsewhere
    """

    def __init__(self, cpu: str = "", vector_bytes: int = 0, triple: str = "") -> None:
        if triple:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        else:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        self.cpu: str = cpu or llvm.get_host_cpu_name()
        self.features: str = "" if cpu else features.flatten()
        self.triple: str = triple or llvm.get_process_triple()
        widest = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
        self.vector_bytes = vector_bytes or widest
        self.fence = self.triple.startswith(("x86_64", "i386", "i686"))
        version = ".".join(map(str, llvm.llvm_version_info))
        self.fingerprint = f"{self.triple} {self.cpu} {self.features} llvmlite {version}"
        self.fingerprint += f" {llvmlite.__version__}"
        self._machine = self._target_machine()
        self._builder = self._pass_builder()
        self._jit: Any = None
        self._names: Iterator[int] = itertools.count()

    def _target_machine(self) -> Any:
        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, reloc="pic", codemodel="small"
        )

    def _pass_builder(self) -> Any:
        return llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options(2))

    def _passes(self) -> Any:
        # See Note [Passes].
        passes = llvm.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_loop_simplify_pass()
        passes.add_loop_rotate_pass()
        passes.add_new_gvn_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        return passes

    def optimise(self, text: str) -> Any:
        """Parse, verify and optimise a module.

        Raises
        ------
        CompileError : LLVM rejects the text.
        """
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            first = str(error).strip().splitlines()[:2]
            raise CompileError(f"llvm: a kernel was rejected: {' '.join(first)}") from error
        module.triple = self.triple
        module.data_layout = str(self._machine.target_data)
        for function in module.functions:
            # A pass manager runs once; its builder stays good. LLVM would tell what it skips.
            if not function.is_declaration and not any(
                b"optnone" in a for a in function.attributes
            ):
                self._passes().run(function, self._builder)
        return module

    def emit_object(self, text: str) -> bytes:
        """Object code of a module, for `link` here or in a process with the same fingerprint."""
        return bytes(self._machine.emit_object(self.optimise(text)))

    def emit_assembly(self, text: str) -> str:
        """Assembly of a module, for reading."""
        return str(self._machine.emit_assembly(self.optimise(text)))

    def link(self, image: bytes, symbols: tuple[str, ...]) -> Any:
        """Load object code. The result gives addresses by name; dropping it frees the code."""
        if self._jit is None:
            self._jit = llvm.create_lljit_compiler(self._target_machine())
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        try:
            return builder.link(self._jit, f"kernel_{next(self._names)}")
        except RuntimeError as error:
            raise CompileError(f"llvm: object code was not linked: {error}") from error


# Note [Passes]
# The emitter writes vectors, unrolled loops and tails itself. What is left: variables to registers
# (sroa), constants and shuffles (instcombine), loops that test at their end (loop-rotate), what
# two loads of one address share (gvn); the code generator hoists invariants. LLVM's own O2
# pipeline made the same inner loops and took 4 to 7 times as long: 18.5 against 4.0 ms for a sum
# over rows, 28 against 6.6 ms for a softmax.
