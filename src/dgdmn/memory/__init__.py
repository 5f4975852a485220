"""The paper, section 3: generative replay and the dual memory."""
