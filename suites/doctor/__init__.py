"""What is wrong with this machine for benchmarking, and what to type."""
