// DeepSpeed-Ulysses (Jacobs et al. 2023), as AttnFuncWithCPAndQKVOA2A in Transformer Engine runs it: all-to-alls turn
// queries, keys and values from all heads of some tokens into all tokens of some heads, attention runs on whole
// sequences, and one more turns its output back. Backward the same with gradients: the output's on the way in, three on
// the way out. The three of one side are pipelined: one tensor is put in order while the one before it travels.
#include <array>
#include <string>
#include <utility>

#include "workloads/context/context.hpp"
#include "workloads/operators/attention.hpp"

namespace orrery {

namespace {

struct Tensor {
  const char* name;
  std::int64_t bytes;
  std::int64_t elements;
};

class Exchange {
 public:
  Exchange(const OperatorShape& shape, Fragment& fragment) : shape_(shape), f_(fragment) {}

  // Orders and sends one tensor after the other, then waits for them and puts each in order again.
  template <std::size_t N>
  void all_to_all(const std::array<Tensor, N>& tensors, bool backward) {
    for (std::size_t i = 0; i < N; ++i) {
      add(order(tensors[i], "split"), backward);
      const CollectiveCall call{CollectiveOp::all_to_all, shape_.context.group, Bytes(tensors[i].bytes)};
      const Launch launch{"context", true, static_cast<std::int32_t>(i)};
      const std::string label = std::string("exchange ") + tensors[i].name;
      if (backward) {
        f_.backward(call, label, launch);
      } else {
        f_.forward(call, label, launch);
      }
    }
    for (std::size_t i = 0; i < N; ++i) {
      const auto handle = static_cast<std::int32_t>(i);
      if (backward) {
        f_.backward_wait(handle);
      } else {
        f_.forward_wait(handle);
      }
      add(order(tensors[i], "join"), backward);
    }
  }

  void add(Kernel kernel, bool backward) {
    if (backward) {
      f_.backward(std::move(kernel));
    } else {
      f_.forward(std::move(kernel));
    }
  }

 private:
  [[nodiscard]] Kernel order(const Tensor& tensor, const char* how) const {
    return streaming(std::string("attention.") + how + "_" + tensor.name, KernelKind::elementwise, shape_, 1,
                     tensor.elements, {2 * static_cast<double>(shape_.element()), 0});
  }

  const OperatorShape& shape_;
  Fragment& f_;
};

}  // namespace

void add_ulysses_attention(BlockBuilder& block, const OperatorShape& shape) {
  const AttentionSizes z = attention_sizes(shape);
  const std::int64_t degree = shape.context.degree;
  const std::int64_t e = shape.element();
  const AttentionPiece whole{z.batch / degree, z.kv_batch / degree, degree * z.s, degree * z.s, true};
  const std::array inputs{Tensor{"queries", z.q_bytes, z.q_bytes / e}, Tensor{"keys", z.k_bytes, z.k_bytes / e},
                          Tensor{"values", z.v_bytes, z.v_bytes / e}};
  const std::array output{Tensor{"output", z.out_bytes, z.out_bytes / e}};
  Fragment f = block.fragment();
  f.recomputed_selectively();
  f.save(Bytes(4 * z.batch * z.s));
  Exchange exchange(shape, f);

  f.forward_workspace(Bytes(z.operand_bytes() + z.out_bytes), MemoryTag::communication_buffers);
  exchange.all_to_all(inputs, false);
  exchange.add(attention_kernel(shape, whole, false), false);
  exchange.all_to_all(output, false);

  f.backward_workspace(Bytes(z.operand_bytes() + z.out_bytes), MemoryTag::communication_buffers);
  f.backward_workspace(Bytes(z.operand_bytes()));
  exchange.all_to_all(output, true);
  exchange.add(attention_row_sums(shape, shape.tokens(), shape.heads() * z.value_dim), true);
  exchange.add(attention_kernel(shape, whole, true), true);
  exchange.all_to_all(inputs, true);
  block.add(std::move(f));
}

}  // namespace orrery
