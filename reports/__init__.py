"""Recorded evidence in, documents out. Nothing is measured or decided here.

A report is a function of its records: the same records make the same bytes. Read in this
order: `read` (records into validated evidence), `merge` (which of them belong together),
`words` (numbers and sentences), `figures` (the drawing), then a page each, `conformance_page`,
`papers_page` and `comparison_page`, the formats `html`, `markdown` and `junit`, and `write`,
which the command line calls.
"""
