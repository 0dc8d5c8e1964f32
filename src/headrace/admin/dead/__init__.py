"""Dead jobs: finding them, sending them again, forgetting them."""
