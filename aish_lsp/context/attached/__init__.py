"""What a question is about: the selection, and the files that it names."""
