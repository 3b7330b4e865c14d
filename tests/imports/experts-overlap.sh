#!/bin/bash
# orrery import: --cluster dgx-h100
# Experts whose rows travel beside the pass of another micro-batch, in an interleaved pipeline.
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \
  --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 --swiglu --normalization RMSNorm \
  --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights --vocab-size 32000 \
  --max-position-embeddings 32768 --num-experts 8 --moe-router-topk 2 --moe-token-dispatcher-type alltoall \
  --expert-model-parallel-size 4 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 \
  --overlap-moe-expert-parallel-comm --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 \
  --attention-dropout 0 --hidden-dropout 0 --use-distributed-optimizer
