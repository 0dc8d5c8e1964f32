"""How many consumers there should be, and why: decided from what waits and what can be held."""
