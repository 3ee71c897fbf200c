"""How it is measured: sweeps, clocks and the journal."""
