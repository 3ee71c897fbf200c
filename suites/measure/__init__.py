"""Instruments: clocks, caches, memory, device, ceilings, environment, journal."""
