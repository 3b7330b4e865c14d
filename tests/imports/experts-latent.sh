#!/bin/bash
# orrery import: --cluster dgx-h100
# Experts and latent attention, of DeepSeek's kind: one dense layer, then 26 of 64 experts and two shared ones.
MODEL="--num-layers 27 --hidden-size 2048 --num-attention-heads 16 --ffn-hidden-size 10944 --swiglu
  --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
  --untie-embeddings-and-output-weights --vocab-size 102400 --max-position-embeddings 4096
  --multi-latent-attention --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128"
EXPERTS="--num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408
  --moe-shared-expert-intermediate-size 2816 --moe-layer-freq ([0]*1+[1]*26)
  --moe-token-dispatcher-type alltoall --moe-shared-expert-overlap --moe-grouped-gemm
  --moe-router-dtype fp32 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-3
  --moe-expert-capacity-factor 1.25 --moe-router-fusion
  --expert-model-parallel-size 8 --expert-tensor-parallel-size 1"
eval "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py $MODEL $EXPERTS \
  --seq-length 4096 --micro-batch-size 1 --global-batch-size 128 --bf16 \
  --attention-dropout 0 --hidden-dropout 0 --use-distributed-optimizer --overlap-grad-reduce"
