"""The autonomous loop: a goal pursued step by step, within bounds."""
