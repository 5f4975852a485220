"""The bottom layer: batches, events, random streams, errors, files and text."""
