"""How people and programs come in: command line, terminal, pytest. Nothing imports a door."""
