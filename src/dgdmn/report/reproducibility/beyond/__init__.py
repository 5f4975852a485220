"""How far the preset `best` goes beyond the paper: its targets, its table, what each option is worth, resilience."""

from dgdmn.report.reproducibility.beyond.ablation import option_table
from dgdmn.report.reproducibility.beyond.aims import best_goals
from dgdmn.report.reproducibility.beyond.resilience import resilience_table
from dgdmn.report.reproducibility.beyond.streams import stream_tables

__all__ = ["INTRODUCTION", "best_goals", "option_table", "resilience_table", "stream_tables"]

INTRODUCTION = """## Beyond the paper

The preset `best` has the paper's learners, N_max and n_STM, generators of other sizes, and keeps no rows. What makes it
up, what each part costs and how its options were chosen: [docs/decisions/best.md](docs/decisions/best.md). Its learner
and its prior answer together, where Joint has a learner alone, so Joint is no ceiling for it: the table of options says
what the learner reaches by itself (`answers`). Its targets ask for means of at least three seeds."""
