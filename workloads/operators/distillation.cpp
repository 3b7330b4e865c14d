// Distillation (Hinton, Vinyals and Dean 2015): beside the usual loss, the divergence of the student's distribution
// from the teacher's, both softened by a temperature. As PyTorch code has it, F.kl_div(log_softmax(student / T),
// softmax(teacher / T)), over a vocabulary that is split like the loss's (loss.cpp): passes over the logits, and three
// numbers a token summed over the tensor-parallel ranks.
//
// The teacher's logits wait from its forward pass until the student's backward pass has read them: its head's block
// allocates them, the student's frees them.
#include <utility>

#include "workloads/operators/operators.hpp"

namespace orrery {

Bytes teacher_logits_bytes(const OperatorShape& shape) {
  return Bytes(shape.tokens() * shape.vocabulary_shard() * shape.element());
}

void distillation_loss(BlockBuilder& block, const OperatorShape& shape) {
  const std::int64_t tokens = shape.tokens();
  const std::int64_t columns = shape.vocabulary_shard();
  const auto e = static_cast<double>(shape.element());
  Fragment f = block.fragment();
  const auto whole = [&](const char* name, double bytes, double flops) {
    return streaming(std::string("distillation.") + name, KernelKind::cross_entropy, shape, tokens, columns,
                     {bytes, flops});
  };
  const auto reduce = [&](std::int64_t bytes_per_token, const char* label) {
    if (shape.tensor == 1) return;
    f.forward({CollectiveOp::all_reduce, shape.tensor_group, Bytes(tokens * bytes_per_token)}, label);
  };
  // Softened distributions of both, in fp32: the teacher's, and the student's logarithm.
  f.save(Bytes(2 * tokens * columns * 4), MemoryTag::logits);
  f.forward(whole("teacher_scale", e + 4, 1)).forward(whole("teacher_maximum", 4, 1));
  f.forward(whole("student_scale", 8, 1)).forward(whole("student_maximum", 4, 1));
  reduce(8, "reduce maxima");
  f.forward(whole("teacher_exponential", 8, 4)).forward(whole("student_exponential", 8, 4));
  reduce(8, "reduce denominators");
  f.forward(whole("teacher_normalise", 8, 1)).forward(whole("student_logarithm", 8, 1));
  f.forward(whole("divergence", 8, 3));
  reduce(4, "reduce divergence");
  // Difference of the distributions, and its addition to the gradient of the usual loss.
  f.backward(whole("backward", 12, 3)).backward(whole("gradient_add", 8 + e, 1));
  f.backward_workspace(Bytes(tokens * columns * 4), MemoryTag::logits);
  block.add(std::move(f));
}

}  // namespace orrery
