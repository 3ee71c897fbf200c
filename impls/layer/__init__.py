"""The layer around the core: projections, caches, model shapes. Nothing is imported here."""
