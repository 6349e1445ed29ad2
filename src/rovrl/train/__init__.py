"""The `rovrl train` job: the embedded task side by side, your own model by YAML, planted corruption, evidence."""
