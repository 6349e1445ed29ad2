"""The paper's tables and figures, its stress tests, the embedded job and our evidence; nothing in `rovrl` imports it."""
