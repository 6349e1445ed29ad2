"""verl's real trainer on a CPU: the parts that a GPU and vLLM bring are replaced through verl's own registries.

`import verl` loads this package in every process when VERL_USE_EXTERNAL_MODULES=verl_harness.register, which `launch` sets.
"""
