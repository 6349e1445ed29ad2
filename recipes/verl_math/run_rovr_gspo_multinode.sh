#!/usr/bin/env bash
# RoVR-GSPO on MATH, several nodes. Call it on every node with the same HEAD; NODE_RANK=0 is the head and starts the run.
#   HEAD=10.0.0.1 NNODES=4 NODE_RANK=$SLURM_NODEID ./run_rovr_gspo_multinode.sh
# rovrl must be installed on every node: that is how each worker finds the plugin (the check below looks into all of them).
# DATA_DIR and CHECKPOINTS lie on a file system that all nodes share.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${HEAD:?the address of the head node}" "${NNODES:?how many nodes}" "${NODE_RANK:?this node, from 0}" "${CHECKPOINTS:?a shared directory}"
export DATA_DIR=${DATA_DIR:?a shared directory} MODEL=${MODEL:-Qwen/Qwen3-4B-Base}
GPUS=${GPUS:-8} PORT=${PORT:-6379}

if ((NODE_RANK > 0)); then
    until ray start --address="$HEAD:$PORT" --num-gpus="$GPUS" --block; do sleep 5; done
    exit
fi

ray start --head --port="$PORT" --num-gpus="$GPUS" --disable-usage-stats
trap 'ray stop' EXIT
until (($(python -c "import ray; ray.init('auto', logging_level='ERROR'); print(len([n for n in ray.nodes() if n['Alive']]))") >= NNODES)); do
    sleep 5
done
[[ -f $DATA_DIR/math_train.parquet ]] || python -m rovrl.tasks.prepare math --out "$DATA_DIR"

SETTINGS=(
    trainer.nnodes="$NNODES"
    trainer.n_gpus_per_node="$GPUS"
    trainer.default_local_dir="$CHECKPOINTS"
)
rovrl doctor --engine verl --ray-address "$HEAD:$PORT" --config-dir "$here/config" --config-name rovr_math "${SETTINGS[@]}" "$@"
RAY_ADDRESS="$HEAD:$PORT" python -m verl.trainer.main_ppo --config-dir "$here/config" --config-name rovr_math "${SETTINGS[@]}" "$@"
