"""One incompatibility between verl and a recent TRL in the same environment, set right without importing TRL.

verl's FSDP engine imports TRL's value-head model whenever TRL is installed, critic or not. TRL removed that class, so
verl fails in every environment that holds both. Without the class verl is told that TRL is absent: a run with a critic
on a value head ends with verl's own message, every other run works.
"""

import importlib.util
from pathlib import Path

VALUE_HEAD = "AutoModelForCausalLMWithValueHead"


def trl_lacks_value_head() -> bool:
    """True if TRL is installed without the class that verl imports; read from its files, since importing takes seconds."""
    spec = importlib.util.find_spec("trl")
    if spec is None or not spec.submodule_search_locations:
        return False
    root = Path(spec.submodule_search_locations[0])
    return not (root / "experimental/ppo").is_dir() and VALUE_HEAD not in (root / "__init__.py").read_text()


if trl_lacks_value_head():
    import verl.utils.import_utils

    verl.utils.import_utils.is_trl_available = lambda: False
