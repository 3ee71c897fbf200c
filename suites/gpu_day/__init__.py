"""The GPU day: what a device can tell in eight minutes, the most valuable first."""
