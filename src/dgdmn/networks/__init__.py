"""Plain networks: the learner, the generator and the one loop that trains them."""
