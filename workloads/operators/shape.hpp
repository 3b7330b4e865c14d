// The sizes that operators work with: one micro-batch, on one of the tensor- and context-parallel ranks.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/precision.hpp"
#include "sim/base/units.hpp"
#include "sim/graph/communication.hpp"
#include "sim/graph/kernel.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// Bytes per element of what training keeps of a parameter, and the format of products.
struct StorageFormat {
  Precision compute = Precision::bf16;
  std::int64_t weight = 2;    // the weights that the forward pass reads
  std::int64_t gradient = 4;  // as accumulated and as reduced over replicas
  std::int64_t master = 4;    // fp32 copy that the optimizer updates; 0: the weights themselves
  std::int64_t main_gradient =
      0;                      // fp32 copy of 16-bit gradients that the optimizer reads; 0: the gradients themselves
  std::int64_t residual = 2;  // the stream between layers
  bool loss_scaling = false;  // fp16: gradients are searched for overflow
};

[[nodiscard]] StorageFormat storage_format(PrecisionRecipe recipe, bool autocast);

// How linear operators work in fp8 (workloads/fp8.hpp).
struct Fp8Shape {
  bool on = false;
  // Products read both operands along the dimension that is summed over, so that each operand is also kept transposed.
  bool transposes = true;
  bool caches_weights = true;     // weights are quantised once a step, not with each forward pass
  bool keeps_weights = true;      // what a forward pass has quantised is there for its backward pass too
  bool gathered = false;          // weights are gathered in fp8
  bool current = false;           // scales come from the largest value at hand, which is looked for first
  std::int64_t block = 0;         // elements of an activation or gradient that share a scale, fp32; 0: all of them
  std::int64_t weight_block = 0;  // the same of weights
  std::int64_t amax_history = 0;  // largest values of so many earlier tensors decide on scales; 0: those at hand do

  [[nodiscard]] std::int64_t copies() const { return transposes ? 2 : 1; }
};

// Weights with two zeros in every four elements (workloads/sparsity.hpp).
struct SparsityShape {
  bool mlp = false;
  bool attention = false;
  double gain = 1;  // of a product's rate, against the dense one
};

struct ContextRow;

// How a sequence is split over context-parallel ranks.
struct ContextShape {
  std::int64_t degree = 1;
  std::int64_t rank = 0;  // whose part it is; where ranks do alike, the one in the middle
  bool zig_zag = false;   // a rank has two chunks, one from each end, so that causal work is even
  const ContextRow* row = nullptr;
  GroupKindId group;
  PeerKindId next;
  PeerKindId previous;
};

// Which tensor-parallel communication runs in chunks beside the product that it belongs to, and the neighbours in the
// ring (operators/tensor_overlap.hpp).
struct TensorOverlap {
  bool all_gather = false;
  bool reduce_scatter = false;
  bool reduce_scatter_gradient = false;
  bool bulk = false;  // of backward passes, what stays whole: in user buffers, and issued with the product beside it
  PeerKindId next;
  PeerKindId previous;
};

struct DispatchRow;

// How a layer's experts are spread, and what of one micro-batch comes to this rank.
struct ExpertShape {
  std::int64_t degree = 1;   // expert-parallel ranks
  std::int64_t tensor = 1;   // ranks that share each expert's matrices
  std::int64_t rank = 0;     // among the expert-parallel ranks; where all do alike, the first
  std::int64_t sent = 0;     // rows that a rank sends to experts: rows() x top_k, less what is dropped
  std::int64_t arrived = 0;  // rows that this rank's experts get from all ranks
  SharesId shares;           // of `sent` by receiving rank; invalid: even
  const DispatchRow* dispatch = nullptr;
  bool overlaps_shared = false;      // shared experts run beside dispatch and combine
  std::int64_t ranks_per_node = 1;   // hierarchical dispatch: expert-parallel ranks of one node
  std::int64_t copies_to_nodes = 0;  // rows that a rank sends to nodes: one for each node that a token goes to
  std::int64_t copies_to_ranks = 0;  // the same of ranks
  GroupKindId group;
  GroupKindId tensor_group;
  GroupKindId node_group;  // of the ranks of one node
  GroupKindId rail_group;  // of the ranks with the same place in every node
};

struct OperatorShape {
  ModelSpec model;
  std::int64_t sequence = 0;  // tokens of a sequence on this rank
  std::int64_t micro_batch = 0;
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t vocabulary = 0;  // padded
  StorageFormat storage;
  Fp8Shape fp8;
  SparsityShape sparsity;
  bool autocast = false;
  // Gradients of a micro-batch are tensors of their own, which whoever reduces them takes away; nothing is added up.
  bool fresh_gradients = false;
  bool fused = true;
  AttentionKind attention = AttentionKind::flash;
  LossKind loss = LossKind::vocab_parallel;
  double dropout = 0;
  GroupKindId tensor_group;
  TensorOverlap overlap{};
  ContextShape context;
  ExpertShape experts;
  LoraSpec lora;

  // Rows of a full activation, and of the parts of a layer that tensor parallelism leaves whole (norms, dropout,
  // residual additions), which sequence parallelism splits.
  [[nodiscard]] std::int64_t tokens() const { return sequence * micro_batch; }
  [[nodiscard]] std::int64_t rows() const { return sequence_parallel ? tokens() / tensor : tokens(); }
  [[nodiscard]] std::int64_t heads() const { return model.heads / tensor; }
  [[nodiscard]] std::int64_t kv_heads() const { return model.kv_heads / tensor; }
  [[nodiscard]] std::int64_t ffn() const { return model.ffn_hidden / tensor; }
  // Of this rank.
  [[nodiscard]] std::int64_t local_experts() const { return model.experts / experts.degree; }
  [[nodiscard]] std::int64_t expert_ffn() const { return model.expert_ffn_hidden / experts.tensor; }
  [[nodiscard]] std::int64_t vocabulary_shard() const { return vocabulary / tensor; }
  [[nodiscard]] std::int64_t element() const { return bytes_per_element(storage.compute); }
  [[nodiscard]] bool drops() const { return dropout > 0; }
};

// batch products [m, k] x [k, n]; reads and writes elements of the compute format, results of `result_bytes` each.
[[nodiscard]] Kernel gemm(std::string name, const OperatorShape& shape, std::int64_t m, std::int64_t n, std::int64_t k,
                          std::int64_t batch = 1, std::int64_t result_bytes = 0);

// The greatest power of two that divides both (Kernel::row_multiple).
[[nodiscard]] constexpr std::int64_t row_multiple(std::int64_t a, std::int64_t b) { return (a | b) & -(a | b); }

// A kernel over `rows` x `columns` elements that moves and computes so much per element.
struct PerElement {
  double bytes = 0;  // read and written
  double flops = 1;
};
[[nodiscard]] Kernel streaming(std::string name, KernelKind kind, const OperatorShape& shape, std::int64_t rows,
                               std::int64_t columns, PerElement per_element);

}  // namespace orrery
