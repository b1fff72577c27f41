"""Integrations with training frameworks; each is a module of its own and needs its extra."""
