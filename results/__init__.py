"""What it means: run files read, compared and judged, without torch."""
