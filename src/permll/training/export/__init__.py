"""Export of trained networks to formats that load without permll."""
