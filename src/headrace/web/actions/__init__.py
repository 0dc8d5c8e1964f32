"""What users can do in the dashboard: form actions, posted to `/do/{verb}`."""
