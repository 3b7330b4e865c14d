# orrery import: --cluster 'dgx-h100 x 1'
torchrun --nproc_per_node=8 pretrain_gpt.py --num-layers 30 --hidden-size 4096 --num-attention-heads 30 \
  --seq-length $SEQ --micro-batch-size 0 --global-batch-size many \
  --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 \
  --recompute-granularity most
