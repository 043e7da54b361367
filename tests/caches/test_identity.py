"""What stored code depends on."""

from npaccel.caches.identity import package_identity


def test_another_numpy_is_another_identity() -> None:
    """Kernels do what the NumPy at hand does: 2.0 knows no root in x**0.5, later versions do."""
    identities = {package_identity(("llvmlite",), version) for version in ("2.0.2", "2.4.6")}
    assert len(identities) == 2
    assert package_identity(("llvmlite",), "2.4.6") in identities
