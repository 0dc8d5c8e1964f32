"""One job or event, from delivery to outcome."""
