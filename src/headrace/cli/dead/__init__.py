"""`headrace dead`: look at dead jobs, send them again, or forget them."""
