// From a plan to the sizes that operators work with, for the ranks of each kind of work.
//
// Most plans give all ranks of a pipeline stage the same work. Causal attention over a sequence that is split into
// contiguous parts does not, nor does uneven routing to experts: then the ranks of a stage fall into variants, by their
// place among context-parallel or expert-parallel ranks, or both.
#pragma once

#include <cstdint>

#include "workloads/emit/layout.hpp"
#include "workloads/operators/shape.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// How many variants there are, along either direction; 1: ranks along it do alike.
struct Variants {
  std::int64_t context = 1;
  std::int64_t expert = 1;

  [[nodiscard]] std::int64_t count() const { return context * expert; }
};
[[nodiscard]] Variants variants_of(const ModelSpec& model, const TrainingSpec& training,
                                   const ParallelismSpec& parallelism);

// Tensor degree of experts' matrices.
[[nodiscard]] std::int64_t expert_tensor_degree(const ModelSpec& model, const ParallelismSpec& parallelism);

// Of one rank of a variant. Adds to the workload's shares what uneven routing needs, once.
struct ShapeRequest {
  const ModelSpec& model;
  const TrainingSpec& training;
  const ParallelismSpec& parallelism;
  Groups groups;
  RingPeers context_peers;
  RingPeers tensor_peers;
};
[[nodiscard]] OperatorShape operator_shape(const ShapeRequest& request, Workload& workload, std::int64_t context_rank,
                                           std::int64_t expert_rank);

}  // namespace orrery
