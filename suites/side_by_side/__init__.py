"""A sweep on several GPUs of one machine: a process for each, cells side by side, one run."""
