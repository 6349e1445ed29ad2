"""What functions with first derivatives only share: the sentences for a second one, and rows under torch.func.vmap."""

from __future__ import annotations

from torch import Tensor

FIRST_ONLY = "SoftRoVR has first derivatives only; a second one was asked for (create_graph=True, or grad of grad)"
REVERSE_ONLY = "SoftRoVR has reverse-mode derivatives only, no forward-mode ones (jvp, jacfwd, hessian)"


def folded(t: Tensor, dim: int | None, batch: int) -> Tensor:
    """t with vmap's axis merged into the row axis."""
    t = t.movedim(dim, 0) if dim is not None else t.expand(batch, *t.shape)
    return t.flatten(0, 1)
