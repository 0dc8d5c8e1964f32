"""Values and pure decisions: nothing here does I/O or knows of asyncio."""
