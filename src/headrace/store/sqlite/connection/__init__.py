"""The file, and the one thread that uses it: opening, schema, transactions, notifications."""
