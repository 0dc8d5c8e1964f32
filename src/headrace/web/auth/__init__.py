"""Who may use the dashboard: access policies, sessions, CSRF and origin checks."""
