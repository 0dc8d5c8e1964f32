"""What people ask and do, on every store."""
