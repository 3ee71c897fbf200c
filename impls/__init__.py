"""What is measured: attention implementations behind one interface."""
