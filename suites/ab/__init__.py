"""Two sides measured in turn by fresh processes: revisions, environments or implementations."""
