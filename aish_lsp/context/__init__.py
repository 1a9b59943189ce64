"""The conversation: its messages, the prompt of them, the budget it is kept in, what it costs."""
