"""Topics, their groups, and keys that are stopped."""
