"""Every table, figure and mechanism number of the paper: what makes it here, or what it would need."""

from __future__ import annotations

from rovrl_paper.paper.item import Item

CALIBRATED_REWARDS = "rewards drawn to match the published facts (the paper's saved rewards are not public)"
CALIBRATED_TOKENS = "token log-ratios drawn to match the published facts (the paper's records are not public)"
EMBEDDED = "runs of the embedded addition model instead of Qwen3-4B-Base on MATH"

ITEMS: dict[str, Item] = {
    item.label: item
    for item in (
        Item("tab:sim_outer_factor", "The outer variance factor V_K, measured", "sim_outer_factor", 1),
        Item("fig:sim_outer_factor", "The outer variance factor V_K, drawn", "sim_outer_factor", 1),
        Item("tab:sim_variance", "Sampling variance of six references", "sim_estimators", 0.2),
        Item("fig:sim_variance", "Sampling variance of six references, drawn", "sim_estimators", 0.2),
        Item("tab:sim_rmse", "RMSE of six references under two contaminations", "sim_estimators", 0.2),
        Item("fig:sim_contamination_rmse", "RMSE under two contaminations, drawn", "sim_estimators", 0.2),
        Item("fig:sim_dispersed_sweep", "RMSE against the shift, dispersed corruption", "sim_sweeps", 0.5),
        Item("fig:sim_block_sweep", "RMSE against the shift, one corrupted block", "sim_sweeps", 0.5),
        Item(
            "tab:reward_contamination",
            "One of sixteen rewards moved by 16 σ",
            "reward_contamination",
            2,
            stand_in=CALIBRATED_REWARDS,
        ),
        Item(
            "fig:reward_contamination",
            "One of sixteen rewards moved by 0.5 to 16 σ",
            "reward_contamination",
            2,
            stand_in=CALIBRATED_REWARDS,
        ),
        Item(
            "tab:softrovr_local_stress",
            "Strongest token spike and burst",
            "token_stress",
            5,
            stand_in=CALIBRATED_TOKENS,
        ),
        Item(
            "fig:softrovr_spike_burst",
            "Token spikes and bursts, positive",
            "token_stress",
            5,
            stand_in=CALIBRATED_TOKENS,
        ),
        Item(
            "fig:softrovr_negative_stress",
            "Token spikes and bursts, negative",
            "token_stress",
            5,
            stand_in=CALIBRATED_TOKENS,
        ),
        Item(
            "fig:softrovr_cross_step",
            "The strongest stress at every step of a recorded run",
            "cross_step",
            6,
            stand_in="a recorded dual-channel run of the embedded model, all 64 groups of each step (the paper: 64 of 192)",
        ),
        Item(
            "sec:robust_scale_exp",
            "The mechanism numbers of the main text",
            "mechanism",
            2,
            stand_in="the two calibrated streams",
        ),
        Item("tab:placement_ablation", "Each channel alone and both", "placement", 60, stand_in=EMBEDDED),
        Item(
            "fig:placement_ablation",
            "Reward, entropy and gradient norm of the same runs",
            "placement",
            60,
            stand_in=EMBEDDED,
        ),
        Item("beyond:certificates", "Not in the paper: its bounds, our sharper ones, and attacks", "certificates", 2),
        Item("beyond:sensitivity", "Not in the paper: what κ, c, B, K, γ, η cost and buy", "sensitivity", 3),
        Item(
            "beyond:language_model",
            "Not in the paper: its token stress on a small language model",
            "language_model",
            0.5,
            stand_in="records of SmolLM2-135M-Instruct on sentences of 12 tokens (rovrl train --sweep smollm2 first)",
        ),
        Item(
            "tab:math_main",
            "Mathematical reasoning, two models, two rewards",
            recipe=(
                "for MODEL in qwen3-4b-base, olmo-3-7b-instruct, REWARD in rule, internlm2, METHOD in gspo, rovr-gspo: "
                "three independent training runs of recipes/run_verl.sh recipes/math/MODEL/REWARD/METHOD.verl.yaml, then "
                "rovrl eval RUN1 RUN2 RUN3 --suite math500,gaokao2023en,minervamath,aime2025,amc23 --out EVAL, "
                "and rovrl paper check tab:math_main --runs EVAL..."
            ),
            published=("RoVR-GSPO above GSPO in 20 of 20 settings; mean gains 2.08/3.97 and 1.27/1.96 points",),
        ),
        Item(
            "tab:govreport_rouge",
            "GovReport ROUGE-1/2/L",
            recipe=(
                "recipes/run_verl.sh recipes/govreport/MODEL/longdocfactscore/METHOD.verl.yaml, "
                "then rovrl eval RUN --suite govreport --out EVAL, and rovrl paper check tab:govreport_rouge --runs EVAL..."
            ),
            published=(
                "Qwen3-4B-Base .309/.142/.166 -> .333/.164/.175; OLMo-3-7B-Instruct .552/.189/.221 -> .553/.195/.229",
            ),
        ),
        Item(
            "fig:govreport_curves",
            "GovReport training curves",
            recipe=(
                "recipes/run_verl.sh recipes/govreport/MODEL/longdocfactscore/METHOD.verl.yaml, "
                "then rovrl paper draw fig:govreport_curves --runs LOG..."
            ),
            published=("curves only",),
        ),
        Item(
            "sec:tool_call_results",
            "Tool-call annotation reward",
            recipe=(
                "recipes/run_verl.sh recipes/toolcall/qwen3-4b-base/rule/METHOD.verl.yaml, which validates every 20 rollouts, "
                "then rovrl paper check sec:tool_call_results --runs LOG... (TRL: rovrl eval CHECKPOINT... --suite "
                "rlla_test --data rlla_4k --out EVAL first)"
            ),
            published=("best of four validations: GSPO 1.924, RoVR-GSPO 2.009",),
        ),
    )
}
"""Label -> item, in the order in which `rovrl paper list` shows them."""
