"""Trained memories in other formats."""
