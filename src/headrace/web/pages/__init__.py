"""A file for each part of the dashboard: its views and its actions."""
