"""The specification, executable. Imports nothing else of kvassay.

Read in this order: sphere, lloyd_max, hadamard, qjl, packing, codecs, theory.
"""
