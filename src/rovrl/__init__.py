"""RoVR-GSPO: robust group-relative policy optimization."""
