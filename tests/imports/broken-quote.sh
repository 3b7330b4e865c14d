ARGS="--num-layers 24
torchrun pretrain_gpt.py $ARGS
