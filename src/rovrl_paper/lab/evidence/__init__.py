"""The sweep behind docs/evidence.md: what it runs, and its report."""
