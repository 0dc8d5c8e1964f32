"""A file for each part of the dashboard: its views, and the actions that it offers."""
