"""From the numbers of many seeds to intervals and verdicts."""
