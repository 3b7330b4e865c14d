// Ring attention (Liu, Zaharia and Abbeel 2023), as AttnFuncWithCPAndKVP2P in Transformer Engine runs it.
//
// Forward, degree steps: step 0 on the rank's own keys and values, step i on those of the rank i places before it. Each
// step first waits for the exchange of the step before, then launches the next (keys and values together, to the next
// rank), then computes. Partial results are merged by their softmax statistics: statistics after each step, outputs
// after the last.
// Backward goes round once more, from the keys and values that arrived last, and their gradients travel with them: the
// first exchange carries keys and values, the last their gradients, those between both; each gradient that arrives is
// added to what the rank has computed meanwhile. In all, keys and values travel degree - 1 times forward and backward
// each, and their gradients as often.
//
// Zig-zag: step 0 is the causal square over 2c tokens; on keys of an earlier rank all 2c queries see the first c keys,
// on keys of a later one the last c queries see all 2c keys. Without it, steps on later ranks compute nothing.
#include <utility>

#include "workloads/context/context.hpp"
#include "workloads/operators/attention.hpp"

namespace orrery {

namespace {

// What step i computes: `keys` 0 for nothing.
struct RingStep {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  bool causal = false;
};

RingStep ring_step(const ContextShape& context, std::int64_t s, std::int64_t i) {
  if (i == 0) return {s, s, true};
  const bool earlier = i <= context.rank;
  if (context.zig_zag) return earlier ? RingStep{s, s / 2, false} : RingStep{s / 2, s, false};
  return earlier ? RingStep{s, s, false} : RingStep{};
}

class RingAttention {
 public:
  RingAttention(const OperatorShape& shape, Fragment& fragment)
      : shape_(shape), f_(fragment), z_(attention_sizes(shape)), degree_(shape.context.degree) {}

  void forward() {
    for (std::int64_t i = 0; i < degree_; ++i) {
      if (i > 0) f_.forward_wait();
      if (i + 1 < degree_) f_.forward(exchange(1), "pass keys and values", kLaunch);
      const RingStep step = ring_step(shape_.context, z_.s, i);
      if (step.keys == 0) continue;
      f_.forward(attention_kernel(shape_, piece(step), false));
      if (i > 0) f_.forward(merge("statistics", step.queries, 1, 12, 4));
    }
    const double passes = 3 * static_cast<double>(shape_.element());
    for (std::int64_t i = 0; i < degree_; ++i) {
      const RingStep step = ring_step(shape_.context, z_.s, i);
      if (step.keys > 0) f_.forward(merge("output", step.queries, z_.value_dim, passes, 2));
    }
    // Received keys and values, and the steps' outputs, stay until the pass is over.
    f_.forward_workspace(Bytes((degree_ - 1) * z_.kv_bytes()), MemoryTag::communication_buffers);
    f_.forward_workspace(Bytes((degree_ - 1) * z_.out_bytes));
  }

  void backward() {
    f_.backward(attention_row_sums(shape_, shape_.tokens(), shape_.heads() * z_.value_dim));
    for (std::int64_t i = 0; i < degree_; ++i) {
      if (i > 0) f_.backward_wait();
      const bool ends = i == 0 || i + 1 == degree_;
      const char* label = i == 0 ? "pass keys and values" : ends ? "pass gradients" : "pass keys, values, gradients";
      f_.backward(exchange(ends ? 1 : 2), label, kLaunch);
      const RingStep step = ring_step(shape_.context, z_.s, degree_ - 1 - i);
      if (step.keys > 0) {
        f_.backward(attention_kernel(shape_, piece(step), true));
        if (i > 0) f_.backward(sum("query_gradient", step.queries * z_.batch, z_.key_dim));
      }
      if (i == 0) continue;
      f_.backward_wait();
      f_.backward(sum("key_value_gradient", z_.s * z_.kv_batch, z_.key_dim + z_.value_dim));
    }
    // Two buffers of keys, values and their gradients each, and the gradients themselves.
    f_.backward_workspace(Bytes(4 * z_.kv_bytes()), MemoryTag::communication_buffers);
    f_.backward_workspace(Bytes(z_.operand_bytes()));
  }

 private:
  static constexpr Launch kLaunch{"context", true, 0};

  [[nodiscard]] RingExchange exchange(std::int64_t parts) const {
    return {shape_.context.next, shape_.context.previous, Bytes(parts * z_.kv_bytes())};
  }
  [[nodiscard]] AttentionPiece piece(const RingStep& step) const {
    return {z_.batch, z_.kv_batch, step.queries, step.keys, step.causal};
  }
  [[nodiscard]] Kernel merge(const char* what, std::int64_t queries, std::int64_t columns, double bytes,
                             double flops) const {
    return streaming(std::string("attention.merge_") + what, KernelKind::elementwise, shape_, z_.batch * queries,
                     columns, {bytes, flops});
  }
  [[nodiscard]] Kernel sum(const char* what, std::int64_t rows, std::int64_t columns) const {
    return streaming(std::string("attention.add_") + what, KernelKind::elementwise, shape_, rows, columns,
                     {3 * static_cast<double>(shape_.element()), 1});
  }

  const OperatorShape& shape_;
  Fragment& f_;
  AttentionSizes z_;
  std::int64_t degree_;
};

}  // namespace

void add_ring_attention(BlockBuilder& block, const OperatorShape& shape) {
  const AttentionSizes z = attention_sizes(shape);
  Fragment f = block.fragment();
  f.recomputed_selectively();
  f.save(Bytes(4 * z.batch * z.s));
  RingAttention ring(shape, f);
  ring.forward();
  ring.backward();
  block.add(std::move(f));
}

}  // namespace orrery
