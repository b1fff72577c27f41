"""The doors for a user's own data."""
