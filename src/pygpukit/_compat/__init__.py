"""What version 0.2 called things: adapters over the real objects."""
