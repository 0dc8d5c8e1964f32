"""What users can do in the dashboard: forms posted to `/actions/{verb}`."""
