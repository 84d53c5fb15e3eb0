"""What the command line shows, with rich. No decisions are made here."""
