"""Sweeps that survive: child processes that measure, and one that watches them."""
