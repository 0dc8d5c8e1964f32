"""Reading from the store, keeping leases, and writing outcomes."""
