"""What every implementation has in common: problem, cost, interface, registry, inputs, check."""
