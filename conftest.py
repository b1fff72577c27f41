"""What pytest collects in all folders."""

# Doctests import every module of the package; this one needs an extra, and tests/integrations runs its example.
collect_ignore = ["src/permll/integrations/lightning.py"]
