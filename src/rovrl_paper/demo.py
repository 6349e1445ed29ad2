"""One bad reward out of sixteen: what it does to the other fifteen under GRPO, bounded credit and rejected faults.

python -m rovrl_paper.demo [--png FILE]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import rovrl
from rovrl.errors import require

GROUP, SEED, SPIKE = 16, 1, 18.64
"""A group like the paper's: spread 0.165 inside it; the spike is 16 global standard deviations of 1.165."""
EARLIER = 64
"""Prompts of the step before, of whose rewards one in sixteen was broken likewise, up or down."""
PANELS = {
    "GRPO / GSPO": ("grpo", "paper"),
    "RoVR-GSPO, the paper's settings": ("credit", "paper"),
    "RoVR-GSPO, adaptive (beyond the paper)": ("credit", "adaptive"),
    "RoVR-GSPO, guarded (beyond the paper)": ("credit", "guarded"),
}
"""Title -> advantage method and preset of the reward channel."""


@dataclass(frozen=True)
class Scene:
    """Advantages of the same group before and after one reward is broken, and the contrast left among the others."""

    clean: Tensor
    broken: Tensor
    kept: float

    @property
    def said(self) -> str:
        """What became of the others, and of the broken one if it was left out."""
        out = ", the fault is left out" if self.broken[-1] == 0 else ""
        return f"{self.kept:.0%} of the others' contrast is left{out}"


def rewards() -> tuple[Tensor, Tensor]:
    """A clean group of sixteen rewards, and the same with the last one broken."""
    generator = torch.Generator().manual_seed(SEED)
    clean = 0.165 * torch.randn(GROUP, generator=generator, dtype=torch.float64)
    broken = clean.clone()
    broken[-1] += SPIKE
    return clean, broken


def earlier() -> tuple[Tensor, list[int]]:
    """The rewards and prompts of the step before: what adaptive and guarded settings have seen when the group comes."""
    generator = torch.Generator().manual_seed(SEED + 1)
    count = EARLIER * GROUP
    honest = 0.165 * torch.randn(count, generator=generator, dtype=torch.float64)
    chance = torch.rand(
        count, generator=generator, dtype=torch.float64
    )  # below 1/32 broken upwards, above 31/32 downwards
    faults = (chance < 0.5 / GROUP).double() - (chance > 1 - 0.5 / GROUP).double()
    return honest + SPIKE * faults, [i // GROUP for i in range(count)]


def scenes() -> dict[str, Scene]:
    """The picture's numbers, for each panel."""
    before, after = rewards()
    honest = torch.arange(GROUP) < GROUP - 1
    result = {}
    for title, (method, settings) in PANELS.items():
        run = rovrl.RewardRun(settings)
        run.explain(*earlier())
        clean, broken = (run.evaluate(r, [0] * GROUP, method=method).advantages for r in (before, after))
        kept = rovrl.contrast(broken, honest) / rovrl.contrast(clean, honest)
        result[title] = Scene(clean, broken, float(kept))
    return result


def strip(advantages: Tensor, width: int = 61, limit: float = 4.0) -> str:
    """Advantages from -4 to 4 as dots on one line; the broken response is an X."""
    cells = [" "] * width
    cells[width // 2] = "|"
    for i, value in enumerate(advantages.tolist()):
        place = round((value / limit + 1) / 2 * (width - 1))
        cells[min(max(place, 0), width - 1)] = "X" if i == GROUP - 1 else "o"
    return "".join(cells)


def terminal() -> str:
    """The picture as text."""
    lines = [f"{GROUP} rewards of one prompt; the last one (X) is broken by +{SPIKE}. Advantages from -4 to 4:", ""]
    for title, scene in scenes().items():
        lines += [
            title,
            f"  clean   {strip(scene.clean)}",
            f"  broken  {strip(scene.broken)}  {scene.said}",
            "",
        ]
    return "\n".join(lines[:-1])


def picture(path: Path) -> None:
    """The picture as a PNG or SVG."""
    plt = require("matplotlib.pyplot", "report")
    figure, axes = plt.subplots(len(PANELS), 1, figsize=(8, 6.2), sharex=True, layout="constrained")
    for axis, (title, scene) in zip(axes, scenes().items(), strict=True):
        for height, advantages in ((1, scene.clean), (0, scene.broken)):
            axis.plot(
                advantages[:-1], [height] * (GROUP - 1), "o", ms=9, mec="white", mew=1, color="#0072B2", alpha=0.8
            )
            axis.plot(advantages[-1:], [height], "X", ms=11, color="#D55E00", mec="white", mew=1)
        axis.set(yticks=[0, 1], yticklabels=["one reward broken", "clean"], ylim=(-0.6, 1.6), xlim=(-4.2, 4.2))
        axis.set_title(f"{title}: {scene.said}", loc="left", fontsize=9.5)
        axis.axvline(0, color="0.8", lw=1, zorder=0)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(left=False)
    axes[-1].set_xlabel("advantage of each of the 16 responses (orange: the one whose reward was broken)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def main() -> None:
    """Prints the picture, and writes it if asked to."""
    parser = argparse.ArgumentParser(description="One bad reward out of sixteen, under GRPO and under bounded credit.")
    parser.add_argument("--png", type=Path, help="also write the picture to this file")
    args = parser.parse_args()
    print(terminal())
    if args.png:
        picture(args.png)
        print(f"picture: {args.png}")


if __name__ == "__main__":
    main()
