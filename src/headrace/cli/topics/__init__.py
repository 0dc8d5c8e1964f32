"""`headrace topics`: look at topics, move and remove groups."""
