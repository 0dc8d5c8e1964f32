"""`headrace jobs`: find jobs, look at them, follow them, cancel them."""
