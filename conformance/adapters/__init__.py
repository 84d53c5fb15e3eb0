"""Backends: the reference, the controls, and adapters for published packages."""
