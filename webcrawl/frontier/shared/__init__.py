"""One frontier for several processes."""
