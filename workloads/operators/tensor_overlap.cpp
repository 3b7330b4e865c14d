#include "workloads/operators/tensor_overlap.hpp"

namespace orrery {

namespace {

// initialize_ub: four ring exchanges, two pipelines, four bulk ones: two gathers, which pipelined input gradients
// turn into reduce-scatters, and two reduce-scatters.
constexpr std::int64_t kRings = 4;
constexpr std::int64_t kBulkGathers = 2;
constexpr std::int64_t kUserBuffers = 10;
constexpr std::int64_t kPipelineSplits = 4;  // num_splits

}  // namespace

bool overlaps_tensor(const ParallelismSpec& parallelism) {
  return parallelism.tp_comm_overlap && parallelism.sequence_parallel && parallelism.tensor > 1;
}

Bytes user_buffers(const OperatorShape& shape) {
  const std::int64_t whole = shape.tokens() * shape.model.hidden;
  const std::int64_t gathers = kRings + (shape.overlap.bulk ? kBulkGathers : 0);
  return Bytes(gathers * operand_bytes(shape, whole).count() + (kUserBuffers - gathers) * whole * shape.element());
}

OperatorShape without_overlap(OperatorShape shape) {
  shape.overlap = {};
  return shape;
}

std::int64_t pipeline_splits(std::int64_t columns) { return columns % kPipelineSplits == 0 ? kPipelineSplits : 1; }

}  // namespace orrery
