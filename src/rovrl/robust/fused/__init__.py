"""What stands between torch and the compiled kernels: tensors in, tensors out, and the derivative."""
