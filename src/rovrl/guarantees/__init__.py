"""Every bound of the paper as a calculator: plain numbers in, a float or a small frozen dataclass out.

    propagation   what one reward does to mean-RMS advantages, and to any raw residual about a robust center
    reference     how far the reward reference can be moved, and with what probability
    credit        how far bounded credit can be moved, and what it keeps of clean rewards
    target        how far the M-functional is from the mean, and from the clean center under contamination
    efficiency    what the robust reference costs on clean rewards
    smoothing     what the logistic step of the ratio channel costs
    policy        what reaches the weight, the clip branch, the objective and its gradient

and, beside the paper's bounds, sharper ones (docs/certificates.md has the proofs):

    sharp         the probability statements with binomial tails, exact counts of blocks and exact loads
    movement      how far replaced rewards can move the reference of a given group
    certificate   how far they can move the other responses' advantages, given that
    tolerance     both in one call: how many bad rewards can be tolerated?

and one diagnostic: `transfer` shows how far groups are from what the paper's limit law assumes.

Each docstring has the paper's label, the equation and the premises; arguments outside them are a ValueError. All are
about the convex shape 1, the only one of Barron's family whose score is both increasing and bounded (by M_c = 1/c), so
none takes a shape: nothing here holds for the redescending ones.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rovrl.guarantees.credit import (
    FiniteCredit,
    contrast_retention,
    credit_bound,
    credit_fidelity,
    credit_scale_stability,
    credit_stability,
    finite_credit,
)
from rovrl.guarantees.efficiency import (
    Orthogonality,
    composite_score,
    effective_sample_size,
    mean_efficiency,
    oracle_variance,
    orthogonality_remainder,
    outer_factor,
    scale_orthogonality,
)
from rovrl.guarantees.propagation import (
    Spike,
    SpikeLimit,
    center_only_clean_bound,
    center_only_limit,
    grpo_bound,
    grpo_limit,
    grpo_spike,
)
from rovrl.guarantees.reference import (
    block_replacement,
    block_tail,
    correction_envelope,
    partition_budgets,
    partition_failure,
    partition_load,
    reference_failure,
    resolution,
)
from rovrl.guarantees.sharp import (
    entropy_block_tail,
    exact_loads,
    sharp_block_tail,
    sharp_correction_envelope,
    sharp_partition_failure,
    sharp_reference_failure,
)
from rovrl.guarantees.smoothing import expected_smoothing, lipschitz, smoothing, smoothing_margin
from rovrl.guarantees.target import contamination_bias, functional_bias, m_functional, separation, third_moment_bias

if (
    TYPE_CHECKING
):  # these need torch, which the others do without: at run time they are imported when one is first asked for
    from rovrl.guarantees.certificate import credit_certificate
    from rovrl.guarantees.movement import breakdown, reference_range
    from rovrl.guarantees.policy import (
        FlipCounts,
        WeightError,
        burst_ratio,
        crossfit_weight,
        flip_counts,
        gradient_distortion,
        policy_gradient,
        policy_value,
        ratio_flips,
        scale_construction,
        sign_flips,
        weight_error,
    )
    from rovrl.guarantees.tolerance import Tolerance, tolerance, tolerance_of_groups, tolerance_of_settings
    from rovrl.guarantees.transfer import TransferDiagnostic, transfer_diagnostic

__all__ = [
    "FiniteCredit",
    "FlipCounts",
    "Orthogonality",
    "Spike",
    "SpikeLimit",
    "Tolerance",
    "TransferDiagnostic",
    "WeightError",
    "block_replacement",
    "block_tail",
    "breakdown",
    "burst_ratio",
    "center_only_clean_bound",
    "center_only_limit",
    "composite_score",
    "contamination_bias",
    "contrast_retention",
    "correction_envelope",
    "credit_bound",
    "credit_certificate",
    "credit_fidelity",
    "credit_scale_stability",
    "credit_stability",
    "crossfit_weight",
    "effective_sample_size",
    "entropy_block_tail",
    "exact_loads",
    "expected_smoothing",
    "finite_credit",
    "flip_counts",
    "functional_bias",
    "gradient_distortion",
    "grpo_bound",
    "grpo_limit",
    "grpo_spike",
    "lipschitz",
    "m_functional",
    "mean_efficiency",
    "oracle_variance",
    "orthogonality_remainder",
    "outer_factor",
    "partition_budgets",
    "partition_failure",
    "partition_load",
    "policy_gradient",
    "policy_value",
    "ratio_flips",
    "reference_failure",
    "reference_range",
    "resolution",
    "scale_construction",
    "scale_orthogonality",
    "separation",
    "sharp_block_tail",
    "sharp_correction_envelope",
    "sharp_partition_failure",
    "sharp_reference_failure",
    "sign_flips",
    "smoothing",
    "smoothing_margin",
    "third_moment_bias",
    "tolerance",
    "tolerance_of_groups",
    "tolerance_of_settings",
    "transfer_diagnostic",
    "weight_error",
]

_WITH_TORCH = {
    "certificate": ("credit_certificate",),
    "movement": ("breakdown", "reference_range"),
    "policy": (
        "FlipCounts",
        "WeightError",
        "burst_ratio",
        "crossfit_weight",
        "flip_counts",
        "gradient_distortion",
        "policy_gradient",
        "policy_value",
        "ratio_flips",
        "scale_construction",
        "sign_flips",
        "weight_error",
    ),
    "tolerance": ("Tolerance", "tolerance", "tolerance_of_groups", "tolerance_of_settings"),
    "transfer": ("TransferDiagnostic", "transfer_diagnostic"),
}


def __getattr__(name: str) -> Any:
    for home, names in _WITH_TORCH.items():
        if name in names:
            module = importlib.import_module(f"{__name__}.{home}")
            for known in names:  # all: `tolerance` has to be the function, not the module just imported
                globals()[known] = getattr(module, known)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
