"""Small PTX and CUDA C programs for the simulator, each with an oracle of its own."""
