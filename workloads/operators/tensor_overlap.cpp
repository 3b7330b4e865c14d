#include "workloads/operators/tensor_overlap.hpp"

namespace orrery {

namespace {

// initialize_ub: four ring exchanges, two pipelines, four bulk ones.
constexpr std::int64_t kUserBuffers = 10;
constexpr std::int64_t kPipelineSplits = 4;  // num_splits

}  // namespace

bool overlaps_tensor(const ParallelismSpec& parallelism) {
  return parallelism.tp_comm_overlap && parallelism.sequence_parallel && parallelism.tensor > 1;
}

Bytes user_buffers(const OperatorShape& shape) {
  return Bytes(kUserBuffers * shape.tokens() * shape.model.hidden * shape.element());
}

OperatorShape without_overlap(OperatorShape shape) {
  shape.overlap = {};
  return shape;
}

std::int64_t pipeline_splits(std::int64_t columns) { return columns % kPipelineSplits == 0 ? kPipelineSplits : 1; }

}  // namespace orrery
