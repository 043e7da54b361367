"""The backends' room: each turns a Kernel into something that runs, and knows one machine.

base: what a backend is. registry: finds one by name. numpy: the reference. llvm: the host.
Knows the IR. Must not know: where requests come from, caches, plans, or another backend.
"""
