#!/bin/bash
# orrery import: --cluster dgx-h100
# A decoder of Llama's kind on eight nodes, as a script that a batch system starts.
set -e
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-8}
NODE_RANK=${SLURM_NODEID:-0}
WORLD_SIZE=$(($GPUS_PER_NODE * $NNODES))
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

CHECKPOINTS=$1
TOKENIZER="/data/tokenizers/llama 3"   # a folder with a blank in its name

if [ -z "$TP" ]; then
  TP=4
fi
PP=4
MICRO=1
GLOBAL=$((MICRO * 16 * (WORLD_SIZE / TP / PP)))

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --node_rank $NODE_RANK
    --master_addr $MASTER_ADDR
    --master_port 6000
)

MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope
    --rotary-base 500000
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --vocab-size 128256
)
MODEL_ARGS+=(--use-mcore-models --attention-backend fused)

PARALLEL_ARGS="
    --tensor-model-parallel-size ${TP}
    --pipeline-model-parallel-size ${PP}
    --num-layers-per-virtual-pipeline-stage 2
    --sequence-parallel
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
    --tp-comm-overlap"

TRAIN_ARGS=(
    --micro-batch-size ${MICRO}
    --global-batch-size ${GLOBAL}
    --train-iters 1000   # some eight billion tokens
    --bf16
    --recompute-activations
    --lr 3.0e-4 --min-lr 3.0e-5 --lr-decay-style cosine
    --weight-decay 0.1
    --clip-grad 1.0
)

cat <<'NOTE' > "$CHECKPOINTS/started"
torchrun --this-is-text pretrain_gpt.py --num-layers 1
NOTE

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    $PARALLEL_ARGS \
    ${TRAIN_ARGS[@]} \
    --tokenizer-type HuggingFaceTokenizer \
    --tokenizer-model "$TOKENIZER" \
    --data-path $DATA_PATH \
    --split 99,1,0 \
    --log-interval 10 \
    --save "$CHECKPOINTS" --save-interval 500 \
    --my-own-switch 3 2>&1 | tee train.log
