"""How a program of several modules is put together: `include=` and `Tasks`."""
