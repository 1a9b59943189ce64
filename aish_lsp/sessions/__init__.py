"""What was said and what it cost: the session logs and the record of usage."""
