"""The NumPy backend: kernels interpreted with whole-array NumPy. The reference; never fast."""
