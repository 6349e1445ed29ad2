"""The small tasks of the embedded job: they make their own problems, and a model learns them within a minute."""
