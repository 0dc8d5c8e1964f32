"""Dead jobs: find, replay, edit and purge them."""
