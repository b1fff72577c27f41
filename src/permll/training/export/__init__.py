"""Export of trained networks to files that are used without permll."""
