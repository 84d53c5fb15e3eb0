"""Verdicts and records: what they hold, how they are written, read and merged."""
