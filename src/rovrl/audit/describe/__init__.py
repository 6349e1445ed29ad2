"""What people look for first: lengths, diversity, accuracy and every reward function. It describes; it judges nothing."""
