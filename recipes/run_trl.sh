#!/usr/bin/env bash
# A TRL recipe on one node: recipes/run_trl.sh recipes/math/qwen3-4b-base/rule/rovr-gspo.trl.yaml [--resume]
# Variables: GPUS (8; the recipes' batch sizes are for 8).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
recipe=${1:?a recipe, such as recipes/math/qwen3-4b-base/rule/rovr-gspo.trl.yaml}
shift
exec accelerate launch --config_file "$here/accelerate.yaml" --num_processes "${GPUS:-8}" -m rovrl.train --config "$recipe" "$@"
