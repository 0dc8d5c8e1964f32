"""`headrace demo`: what Headrace does, shown in ten seconds, without a server."""
