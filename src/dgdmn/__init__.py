"""A memory that keeps learning: the deep generative dual memory network for continual learning."""

__version__ = "0.1.0"
