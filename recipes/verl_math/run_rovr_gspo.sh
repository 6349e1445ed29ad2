#!/usr/bin/env bash
# RoVR-GSPO on MATH, one node. Variables: MODEL, DATA_DIR, GPUS; further arguments go to verl (key=value).
#   ./run_rovr_gspo.sh trainer.total_training_steps=100
#   ./run_rovr_gspo.sh --gspo            the matched baseline: verl's own grpo advantage and gspo loss
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export DATA_DIR=${DATA_DIR:-$PWD/data} MODEL=${MODEL:-Qwen/Qwen3-4B-Base}
GPUS=${GPUS:-8}
actor=actor_rollout_ref.actor

SETTINGS=(trainer.n_gpus_per_node="$GPUS")
if [[ ${1:-} == --gspo ]]; then
    shift
    SETTINGS+=(algorithm.adv_estimator=grpo $actor.policy_loss.loss_mode=gspo trainer.experiment_name=gspo)
    CHECK=()
else
    CHECK=(rovrl doctor --engine verl)
fi

[[ -f $DATA_DIR/math_train.parquet ]] || python -m rovrl.tasks.prepare math --out "$DATA_DIR"
if ((${#CHECK[@]})); then
    "${CHECK[@]}" --config-dir "$here/config" --config-name rovr_math "${SETTINGS[@]}" "$@"
fi
exec python -m verl.trainer.main_ppo --config-dir "$here/config" --config-name rovr_math "${SETTINGS[@]}" "$@"
