"""Constants and signs of credit, weight, loss, the scales they take, and what a run logs about them."""

from mutation.mutant import Mutant, mutants

LEARNING: tuple[Mutant, ...] = (
    *mutants(
        "config.py",
        "unit/test_advantage.py unit/test_loss.py",
        ("GRPO_EPSILON = 1e-6", "GRPO_EPSILON = 1e-3"),
        ("CLIP_LOW, CLIP_HIGH = 3e-4, 4e-4", "CLIP_LOW, CLIP_HIGH = 4e-4, 3e-4"),
    ),
    *mutants(
        "credit.py",
        "unit/test_advantage.py",
        ("bound * (u / torch.hypot(u, bound))", "bound * (u / torch.hypot(u, 2 * bound))"),
        ("(group / max(group - 1, 1)) ** 0.5", "(group / max(group, 1)) ** 0.5"),
        ("return (rewards - reference).clamp", "return (reference - rewards).clamp"),
        (".mean(-1) + (least / largest) ** 2).sqrt()", ".mean(-1) - (least / largest) ** 2).sqrt()"),
        ("numbers = _number(channel.credit_bound), _number", "numbers = 2 * _number(channel.credit_bound), _number"),
        (
            "_quotient(_residual(rewards, reference), scale)",
            "_residual(rewards, reference)",
        ),
        ("_root_mean_square(residual, GRPO_EPSILON**0.5)", "_root_mean_square(residual, GRPO_EPSILON)"),
        (
            "return reference, _root_mean_square(residual, floor)",
            "return reference, _root_mean_square(residual, 0 * floor)",
        ),
    ),
    *mutants(
        "credit.py",
        "property/test_guarantee_policy.py::test_leave_one_out_at_the_default_settings_sees_nothing_of_its_own_reward",
        (
            "reference = reference_row_by_row(rest, blocks, channel)",
            "reference = reference_parts(rest, blocks, channel)[0]",
        ),
    ),
    *mutants(
        "scales.py",
        "unit/robust/test_centers.py",
        ("ADAPTIVE_LEAST = 2.0, 1.0, 1e-6", "ADAPTIVE_LEAST = 1.0, 1.0, 1e-6"),
        ("max(ADAPTIVE_FLOOR * spread, ADAPTIVE_LEAST)", "max(ADAPTIVE_BOUND * spread, ADAPTIVE_LEAST)"),
        ("now.scale if lagged.value is None else lagged.value", "now.scale"),
    ),
    *mutants(
        "weight.py",
        "unit/test_weight.py",
        (".sum(-1) / mask.sum(-1).clamp(min=1)", ".sum(-1) / mask.sum(-1).clamp(min=9)"),
    ),
    *mutants(
        "loss.py",
        "unit/test_loss.py",
        ("MAX_LOG_WEIGHT = 20.0", "MAX_LOG_WEIGHT = 21.0"),
        ("return torch.minimum(q * advantage", "return torch.maximum(q * advantage"),
        ("q.clamp(1 - clip_low, 1 + clip_high)", "q.clamp(1 - clip_high, 1 + clip_low)"),
        ("advantage = advantage.detach()", "advantage = advantage"),
        ("(advantage > 0) & (q > 1 + clip_high)", "(advantage > 0) & (q > 1 - clip_high)"),
        ("(advantage < 0) & (q < 1 - clip_low)", "(advantage > 0) & (q < 1 - clip_low)"),
        ("upper.to(torch.int64) - lower", "upper.to(torch.int64) + lower"),
    ),
    *mutants(
        "diagnostics.py",
        "unit/test_run.py",
        ("(scale - linear).abs()", "(scale + linear).abs()"),
        ("+ (floor * unit) ** 2", "+ 0 * (floor * unit) ** 2"),
        ("(u - credit_map(u, bound * unit))", "(u - credit_map(u, 2 * bound * unit))"),
    ),
    *mutants(
        "diagnostics.py",
        "unit/test_diagnostics.py",
        ("(2 * square / (count - 1)", "(square / (count - 1)"),
        ("(after - before).abs()", "(after + before).abs()"),
        ("return after / before", "return before / after"),
        ("(square / keep.expand(after.shape).sum(-1)", "(2 * square / keep.expand(after.shape).sum(-1)"),
        ("return after * before < 0", "return after * before > 0"),
        ("torch.tensor([-clip_low, clip_high]", "torch.tensor([clip_low, clip_high]"),
    ),
)
