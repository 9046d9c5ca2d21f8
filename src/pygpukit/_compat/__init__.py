"""The names of 0.2: adapters over the real objects, loaded when one is first used."""
