"""What is done with a backend for one seed, and the numbers that come out."""
