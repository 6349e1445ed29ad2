"""The models of the embedded job and their tasks, built once and kept in the user's cache."""
