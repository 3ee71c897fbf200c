"""One pytest session of measuring: options, plan, cells, progress."""
