"""Simulated runs with planted faults: what the audit finds, and how often it accuses a clean run."""
