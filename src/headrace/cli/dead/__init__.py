"""`headrace dead`: list, show, replay and purge dead jobs."""
