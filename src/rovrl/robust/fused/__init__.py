"""SoftRoVR at convergence as one function of torch: which kernel computes it, its derivative, and the operator for graphs."""
