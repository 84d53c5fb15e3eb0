"""What must hold: each claim a record, its predictions from reference/theory.py."""
