"""What functions with first derivatives only share: the sentences for a second one, and rows under torch.func.vmap."""

from __future__ import annotations

from typing import overload

from torch import Tensor

FIRST_ONLY = "SoftRoVR has first derivatives only; a second one was asked for (create_graph=True, or grad of grad)"
REVERSE_ONLY = "SoftRoVR has reverse-mode derivatives only, no forward-mode ones (jvp, jacfwd, hessian)"
NOT_PACKED = "torch.func.vmap over packed elements: append the rows to one packed tensor instead"


@overload
def folded(t: Tensor, dim: int | None, batch: int) -> Tensor: ...
@overload
def folded(t: None, dim: int | None, batch: int) -> None: ...
def folded(t: Tensor | None, dim: int | None, batch: int) -> Tensor | None:
    """t with vmap's axis merged into the row axis; None stays None."""
    if t is None:
        return None
    t = t.movedim(dim, 0) if dim is not None else t.expand(batch, *t.shape)
    return t.flatten(0, 1)
