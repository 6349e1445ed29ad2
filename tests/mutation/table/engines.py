"""Signs, masks and rows of the engines' glue: TRL, verl, and what both share."""

from mutation.mutant import Mutant, mutants

LOSS = "unit/integrations/verl/test_algorithms.py"
CONTRACT = "integration/trl/test_contract.py"

ENGINES: tuple[Mutant, ...] = (
    *mutants(
        "integrations/hf.py",
        CONTRACT,
        ("return (log_weight - mean).unsqueeze(-1)", "return (mean - log_weight).unsqueeze(-1)"),
        ("log_ratios = log_probs - (log_probs.detach() if", "log_ratios = log_probs - (log_probs if"),
        (".clamp(max=MAX_LOG_WEIGHT)", ""),
    ),
    *mutants(
        "integrations/trl/trainer.py",
        CONTRACT,
        ("return log_probs + shift", "return log_probs - shift"),
        ('batch["ref_per_token_logps"] + shift', 'batch["ref_per_token_logps"] - shift'),
        ("= sampled + shift.detach()", "= sampled"),
        ('mask = mask & batch["tool_mask"].bool()', "mask = mask & True"),
        ("self._weighing = dict(inputs)", "self._weighing = inputs"),
    ),
    *mutants(
        "integrations/trl/trainer.py",
        "integration/test_engines_agree.py",
        (
            "ids = torch.arange(len(per_function)) // int(group or 1)",
            "ids = torch.arange(len(per_function)) % int(group or 1)",
        ),
    ),
    *mutants(
        "integrations/hf.py",
        "unit/integrations/test_hf.py",
        ("(values * weights.double().cpu()).nansum(-1)", "values.nansum(-1)"),
        ("values.isnan().all(-1)", "values.isnan().any(-1)"),
    ),
    *mutants(
        "integrations/verl/algorithms.py",
        LOSS,
        ("losses = -clipped_objective(", "losses = clipped_objective("),
        ("log_prob.float() - old_log_prob.float()", "old_log_prob.float() - log_prob.float()"),
        ("losses = losses * rollout_is_weights.float()", "losses = losses / rollout_is_weights.float()"),
        (".unsqueeze(-1) * response_mask", ".unsqueeze(-1) * torch.ones_like(response_mask)"),
        ("response_mask.bool().any(-1).nonzero()", "response_mask.bool().all(-1).nonzero()"),
        (
            "(advantages * mask).sum(-1) / mask.sum(-1)",
            "(advantages * mask).sum(-1) * mask.sum(-1)",
            "Only the sign of this mean is used, to tell the clipped branches apart, and a positive factor keeps it.",
        ),
        ('"actor/ppo_kl": -float(', '"actor/ppo_kl": float('),
        ("token_level_rewards.double().sum(-1)", "token_level_rewards.double().mean(-1)"),
    ),
    *mutants(
        "integrations/verl/algorithms.py",
        "unit/integrations/verl/test_clip.py",
        (
            "low = config.clip_ratio if config.clip_ratio_low is None",
            "low = config.clip_ratio_high if config.clip_ratio_low is None",
        ),
    ),
    *mutants(
        "integrations/verl/step.py",
        "unit/integrations/verl/test_step.py",
        ("outputs[last[name]] < outputs[i]", "outputs[last[name]] > outputs[i]"),
    ),
)
