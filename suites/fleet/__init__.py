"""A sweep over many devices: cells in packs, each pack on one whole device, on an engine: Ray."""
