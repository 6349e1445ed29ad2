#!/usr/bin/env bash
# A verl recipe on one node: recipes/run_verl.sh recipes/math/qwen3-4b-base/rule/rovr-gspo.verl.yaml [key=value ...]
# Variables: DATA_DIR (data); SEED (1; the paper's three runs are 1, 2 and 3). Several nodes: recipes/verl_math shows how Ray is started; pass trainer.nnodes=N.
set -euo pipefail
recipe=$(realpath "${1:?a recipe, such as recipes/math/qwen3-4b-base/rule/rovr-gspo.verl.yaml}")
shift
export ROVRL_VERIFIER_WORKERS=${ROVRL_VERIFIER_WORKERS:-2}  # for each of verl's reward workers
name=$(basename "$recipe" .yaml)
case $name in
    rovr-gspo.verl) rovrl doctor --engine verl --config-dir "$(dirname "$recipe")" --config-name "$name" "$@" ;;
esac
exec python -m verl.trainer.main_ppo --config-path "$(dirname "$recipe")" --config-name "$name" "$@"
