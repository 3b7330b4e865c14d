// The sizes that operators work with: one micro-batch, on one of the tensor-parallel ranks.
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

struct OperatorShape {
  ModelSpec model;
  std::int64_t sequence = 0;
  std::int64_t micro_batch = 0;
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t vocabulary = 0;  // padded
  StorageFormat storage;
  bool autocast = false;
  // Gradients of a micro-batch are tensors of their own, which whoever reduces them takes away; nothing is added up.
  bool fresh_gradients = false;
  bool fused = true;
  AttentionKind attention = AttentionKind::flash;
  double dropout = 0;
  GroupKindId tensor_group;

  // Rows of a full activation, and of the parts of a layer that tensor parallelism leaves whole (norms, dropout,
  // residual additions), which sequence parallelism splits.
  [[nodiscard]] std::int64_t tokens() const { return sequence * micro_batch; }
  [[nodiscard]] std::int64_t rows() const { return sequence_parallel ? tokens() / tensor : tokens(); }
  [[nodiscard]] std::int64_t heads() const { return model.heads / tensor; }
  [[nodiscard]] std::int64_t kv_heads() const { return model.kv_heads / tensor; }
  [[nodiscard]] std::int64_t ffn() const { return model.ffn_hidden / tensor; }
  [[nodiscard]] std::int64_t vocabulary_shard() const { return vocabulary / tensor; }
  [[nodiscard]] std::int64_t element() const { return bytes_per_element(storage.compute); }
  [[nodiscard]] bool drops() const { return dropout > 0; }
};

// batch products [m, k] x [k, n]; reads and writes elements of the compute format, results of `result_bytes` each.
[[nodiscard]] Kernel gemm(std::string name, const OperatorShape& shape, std::int64_t m, std::int64_t n, std::int64_t k,
                          std::int64_t batch = 1, std::int64_t result_bytes = 0);

// A kernel over `rows` x `columns` elements that moves and computes so much per element.
struct PerElement {
  double bytes = 0;  // read and written
  double flops = 1;
};
[[nodiscard]] Kernel streaming(std::string name, KernelKind kind, const OperatorShape& shape, std::int64_t rows,
                               std::int64_t columns, PerElement per_element);

}  // namespace orrery
