"""How ended jobs are kept: blocks of what is settled together, chunks of them, pages."""
