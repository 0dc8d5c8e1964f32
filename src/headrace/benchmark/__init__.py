"""How fast Headrace is, against what the server and the driver can do without it."""
