"""Kernels compiled ahead of time for GPUs that are not here, and what their code says."""
