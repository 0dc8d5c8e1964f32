"""Topics as user code holds them: publishing, subscribing, and the events that a function gets."""
