"""`python -m rovrl.train ...` is `rovrl train ...`; for launchers that start modules (accelerate launch -m rovrl.train)."""

import sys

from rovrl.cli import main

raise SystemExit(main(["train", *sys.argv[1:]]))
