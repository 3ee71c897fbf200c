"""Looking inside one cell: which kernels its time goes to, what they are, what they move."""
