"""Integrations with training frameworks: one module for each, imported by its name.

Nothing is imported here, since every module needs a framework that is an extra of the package:
``from permll.integrations.lightning import PermLLCallback``.
"""
