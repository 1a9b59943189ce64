"""What works for the user in a folder: its context, and the conversations that go on in it."""
