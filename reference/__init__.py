"""The specification, executable. Imports nothing else of kvassay.

Read in this order: sphere, lloyd_max, hadamard, qjl, packing, codecs, theory, kinds; then, for what
becomes of K and V in a transformer, schemes, attention, regimes, spectral.
"""
