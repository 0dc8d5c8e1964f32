"""What payloads are made of: codecs, compression, and what is kept outside of the store."""
