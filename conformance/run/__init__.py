"""What is planned, where it runs, and when a claim is decided."""
