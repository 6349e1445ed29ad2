"""What the group statistics and the sequence weights did, in numbers."""
