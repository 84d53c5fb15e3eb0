"""Hypothesis properties that any backend must satisfy, as ordinary pytest modules.

    pytest --pyargs kvassay.properties --kvassay-backend mine:Backend

Hypothesis chooses the structure (kind, dimension, bits, counts, edge values, a seed); what
averages over samples is a claim, not a property.
"""
