"""Models of 0.2 that have modules of their own."""
