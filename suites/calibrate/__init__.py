"""What this machine can tell: unchanged launches, and what each cell's times vary between them."""
