"""A file for each part of the dashboard: its views, and the deeds that it offers."""
