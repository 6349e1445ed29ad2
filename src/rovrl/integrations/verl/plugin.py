"""What verl (0.9 and later) imports in every process, by the entry point group `verl.plugins`.

verl hides what goes wrong here, so this file holds nothing but the import; `rovrl doctor --engine verl` is the loud form.
"""

from rovrl.integrations import verl  # noqa: F401
