"""What a user can ask for: each thing once, whoever asks and in whatever spelling."""
