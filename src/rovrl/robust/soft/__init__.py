"""The differentiable RoVR of masked rows (eq:softrovr_ratio): where blocks lie, the outer map, two ways to differentiate it."""
