"""Run experiments: learn a stream, test on every task, record what happened."""
