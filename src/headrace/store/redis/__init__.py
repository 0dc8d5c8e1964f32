"""Jobs on Redis or Valkey Streams."""
