"""The mutation run: wrong formulas, and whether the tests see them (docs/mutation.md)."""
