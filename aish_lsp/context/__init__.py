"""The conversation: its turns, the prompt made of them, the budget it is kept in, what it costs."""
