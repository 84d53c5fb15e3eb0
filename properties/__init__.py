"""Hypothesis properties that any backend must satisfy, as ordinary pytest modules.

    pytest --pyargs kvassay.properties --backend my_package.adapter:backend

Hypothesis chooses the structure (kind, dimension, bits, counts, edge values, a seed); what
averages over samples is a claim, not a property.
"""
