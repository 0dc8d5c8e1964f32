"""How an outbox reaches its SQL database.

A row is written through the connection that the user gives (`user_connection`); a relay reads from
a database that it opens itself (`open_database`, `relay_database`). SQLAlchemy is optional: only
the modules with its name import it.
"""
