"""`python -m rovrl ...` is `rovrl ...`."""

from rovrl.cli import console

console()
