"""Small plain arrays in a block: the short way, compared with NumPy in every respect."""
