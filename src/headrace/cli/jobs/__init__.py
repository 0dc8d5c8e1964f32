"""`headrace jobs` and `headrace dead`."""
