#!/usr/bin/env bash
# A TRL recipe on one node: recipes/run_trl.sh recipes/math/qwen3-4b-base/rule/rovr-gspo.trl.yaml [--resume]
# Variables: GPUS (8; the recipes' batch sizes are for 8); SEED (1; the paper's three runs are 1, 2 and 3).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
recipe=${1:?a recipe, such as recipes/math/qwen3-4b-base/rule/rovr-gspo.trl.yaml}
shift
seed=${SEED:-1}
place=$(sed -n 's/^output_dir: //p' "$recipe")
exec accelerate launch --config_file "$here/accelerate.yaml" --num_processes "${GPUS:-8}" -m rovrl.train \
    --config "$recipe" --seed "$seed" --out "${place%/seed1}/seed$seed" "$@"
