"""`headrace topics`: show topics, read and publish events, move and remove groups."""
