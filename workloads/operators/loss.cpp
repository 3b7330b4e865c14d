// Cross-entropy of logits, as frameworks compute it. Kernels are counted as passes over the logits; over a vocabulary
// that is split over tensor-parallel ranks, numbers of each token are summed.
//
//   vocab-parallel   Megatron (megatron/core/tensor_parallel/cross_entropy.py: the row maximum, the target's logit and
//                    the sum of exponentials are each all-reduced; fusions/fused_cross_entropy.py sends the last two
//                    together). Logits are cast to fp32 and worked on in place; the softmax stays for the backward
//                    pass. 52 bytes a logit unfused, 40 fused, forward and backward.
//   pytorch          torch.nn.functional.cross_entropy of logits in fp32 (aten: log_softmax and nll_loss, both ways),
//                    every result a tensor of its own: logits in 16 bits, in fp32 and the logarithms side by side,
//                    backward two gradients in fp32. 44 bytes a logit. Split: DTensor's loss_parallel.
//   in-place         flash_attn's CrossEntropyLoss (flash_attn/ops/triton/cross_entropy.py, inplace_backward), LLM
//                    Foundry's fused_crossentropy: one kernel each way on logits as they are, gradients over them.
//
// Liger-Kernel's published timings of Megatron's and PyTorch's losses give 56 and 48 at 85 % of memory bandwidth.
#include <string>
#include <utility>

#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

class Loss {
 public:
  Loss(BlockBuilder& block, const OperatorShape& shape)
      : shape_(shape), f_(block.fragment()), casts_(shape.element() != 4), e_(static_cast<double>(shape.element())) {}

  Fragment take() && {
    switch (shape_.loss) {
      case LossKind::vocab_parallel:
        vocab_parallel();
        break;
      case LossKind::pytorch:
        pytorch();
        break;
      case LossKind::in_place:
        in_place();
        break;
    }
    return std::move(f_);
  }

 private:
  [[nodiscard]] Kernel pass(const char* name, double bytes, double flops) const {
    return streaming(std::string("loss.") + name, KernelKind::cross_entropy, shape_, shape_.tokens(),
                     shape_.vocabulary_shard(), {bytes, flops});
  }
  void reduce(std::int64_t bytes_per_token, const char* label) {
    if (shape_.tensor == 1) return;
    f_.forward({CollectiveOp::all_reduce, shape_.tensor_group, Bytes(shape_.tokens() * bytes_per_token)}, label);
  }
  // So many copies of the logits, of so many bytes each.
  [[nodiscard]] Bytes logits(std::int64_t width) const {
    return Bytes(shape_.tokens() * shape_.vocabulary_shard() * width);
  }

  void vocab_parallel() {
    f_.save(logits(4), MemoryTag::logits);
    if (casts_) f_.forward_workspace(logits(shape_.element()), MemoryTag::logits);
    if (casts_) f_.forward(pass("cast", e_ + 4, 0));
    f_.forward(pass("maximum", 4, 1));
    reduce(4, "reduce maximum");
    if (shape_.fused) {
      f_.forward(pass("exponential", 8, 4));
      reduce(8, "reduce loss");
    } else {
      f_.forward(pass("subtract", 8, 1));
      reduce(4, "reduce target");
      f_.forward(pass("exponential", 8, 3)).forward(pass("sum", 4, 1));
      reduce(4, "reduce denominator");
    }
    f_.forward(pass("normalise", 8, 1));
    f_.backward(pass("backward", 8, 1));
    cast_back();
  }

  void pytorch() {
    f_.save(logits(4), MemoryTag::logits);               // logarithms of the softmax
    f_.forward_workspace(logits(4), MemoryTag::logits);  // logits in fp32
    if (casts_) f_.forward_workspace(logits(shape_.element()), MemoryTag::logits);
    if (casts_) f_.forward(pass("cast", e_ + 4, 0));
    if (shape_.tensor == 1) {
      f_.forward(pass("log_softmax", 12, 5));
    } else {
      f_.forward(pass("maximum", 4, 1));
      reduce(4, "reduce maximum");
      f_.forward(pass("subtract", 8, 1)).forward(pass("exponential_sum", 4, 3));
      reduce(4, "reduce denominator");
      f_.forward(pass("logarithm", 8, 1));
      reduce(4, "reduce loss");
    }
    f_.backward_workspace(logits(4 + 4), MemoryTag::logits);  // of the logarithms, and of the logits
    f_.backward(pass("nll_backward", 4, 0)).backward(pass("log_softmax_backward", 16, 4));
    cast_back();
  }

  void in_place() {
    f_.save(logits(shape_.element()), MemoryTag::logits);
    f_.forward(pass("forward", e_, 5));
    reduce(8, "reduce loss");
    f_.backward(pass("backward", 2 * e_, 3));
  }

  void cast_back() {
    if (!casts_) return;
    f_.backward_workspace(logits(shape_.element()), MemoryTag::logits);
    f_.backward(pass("backward_cast", e_ + 4, 0));
  }

  const OperatorShape& shape_;
  Fragment f_;
  bool casts_;
  double e_;
};

}  // namespace

void cross_entropy_loss(BlockBuilder& block, const OperatorShape& shape) { block.add(Loss(block, shape).take()); }

}  // namespace orrery
