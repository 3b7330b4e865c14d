#include "workloads/operator_shape.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "workloads/context/context.hpp"
#include "workloads/experts/dispatch.hpp"
#include "workloads/experts/routing.hpp"
#include "workloads/fp8.hpp"
#include "workloads/operators/tensor_overlap.hpp"
#include "workloads/options.hpp"
#include "workloads/sparsity.hpp"

namespace orrery {

namespace {

bool zig_zags(const ParallelismSpec& parallelism) {
  const ContextRow* row = find_context(parallelism.context_kind.kind);
  return row->zig_zags && boolean_option(parallelism.context_kind, row->row, "zig_zag");
}

ContextShape context_shape(const ShapeRequest& request, std::int64_t rank) {
  ContextShape context;
  context.degree = request.parallelism.context;
  if (context.degree == 1) return context;
  context.row = find_context(request.parallelism.context_kind.kind);
  context.zig_zag = zig_zags(request.parallelism);
  const bool alike = context.zig_zag || !context.row->zig_zags;
  context.rank = alike ? context.degree / 2 : rank;
  context.group = request.groups.context;
  context.next = request.context_peers.next;
  context.previous = request.context_peers.previous;
  return context;
}

TensorOverlap tensor_overlap(const ShapeRequest& request) {
  const ParallelismSpec& p = request.parallelism;
  if (!overlaps_tensor(p)) return {};
  return {.all_gather = p.tp_comm_overlap_ag,
          .reduce_scatter = p.tp_comm_overlap_rs,
          .reduce_scatter_gradient = p.tp_comm_overlap_rs_dgrad,
          .bulk = !p.tp_comm_overlap_rs_dgrad,
          .next = request.tensor_peers.next,
          .previous = request.tensor_peers.previous};
}

// Rows that a rank sends to each expert-parallel rank.
std::vector<std::int64_t> rows_to_ranks(const Routing& routing, std::int64_t degree) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(degree), 0);
  const std::size_t local = routing.to_expert.size() / rows.size();
  for (std::size_t e = 0; e < routing.to_expert.size(); ++e) rows[e / local] += routing.to_expert[e];
  return rows;
}

// The same proportions in numbers whose sum is at most about kShareSum: they count crossings of links, in 32 bits.
constexpr std::int64_t kShareSum = 1 << 16;
std::vector<std::int64_t> coarse(std::vector<std::int64_t> weights) {
  std::int64_t divisor = 0;
  std::int64_t sum = 0;
  for (const std::int64_t weight : weights) {
    divisor = std::gcd(divisor, weight);
    sum += weight;
  }
  if (divisor == 0) return weights;
  if (sum / divisor > kShareSum) divisor = sum / kShareSum;
  for (std::int64_t& weight : weights) weight = (weight + divisor / 2) / divisor;
  return weights;
}

SharesId shares_id(Workload& workload, std::vector<std::int64_t> weights) {
  const Shares shares{std::move(weights)};
  const auto found = std::find(workload.shares.begin(), workload.shares.end(), shares);
  if (found != workload.shares.end()) return SharesId(static_cast<std::size_t>(found - workload.shares.begin()));
  workload.shares.push_back(shares);
  return SharesId(workload.shares.size() - 1);
}

std::int64_t rounded(double rows) { return static_cast<std::int64_t>(rows + 0.5); }

ExpertShape expert_shape(const ShapeRequest& request, const OperatorShape& shape, Workload& workload,
                         std::int64_t rank) {
  const ModelSpec& model = request.model;
  ExpertShape experts;
  if (model.experts == 0) return experts;
  experts.degree = request.parallelism.expert;
  experts.tensor = expert_tensor_degree(model, request.parallelism);
  experts.rank = rank;
  experts.group = request.groups.expert;
  experts.tensor_group = request.groups.expert_tensor;
  experts.node_group = request.groups.expert_node;
  experts.rail_group = request.groups.expert_rail;
  const Choice& dispatch = request.parallelism.dispatch;
  experts.dispatch = find_dispatch(dispatch.kind);
  experts.overlaps_shared = boolean_option(dispatch, experts.dispatch->row, "overlap_shared_experts");
  const std::int64_t rows = shape.rows();
  const Routing routing = route_tokens(request.training.routing, model, rows);
  experts.sent = routing.sent;
  experts.arrived = routing.sent;
  if (!routing.to_expert.empty() && experts.degree > 1) {
    std::vector<std::int64_t> weights = rows_to_ranks(routing, experts.degree);
    experts.arrived = experts.degree * weights[static_cast<std::size_t>(rank)];
    experts.shares = shares_id(workload, coarse(std::move(weights)));
  }
  if (experts.dispatch->by_node) {
    experts.ranks_per_node = integer_option(dispatch, experts.dispatch->row, "ranks_per_node");
    const auto copies = [&](std::int64_t places) {
      return rounded(static_cast<double>(rows) * places_reached(model, places));
    };
    experts.copies_to_nodes = copies(experts.degree / experts.ranks_per_node);
    experts.copies_to_ranks = copies(experts.degree);
  }
  return experts;
}

}  // namespace

std::int64_t expert_tensor_degree(const ModelSpec& model, const ParallelismSpec& parallelism) {
  if (model.experts == 0) return 1;
  return parallelism.expert_tensor > 0 ? parallelism.expert_tensor : parallelism.tensor;
}

Variants variants_of(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism) {
  Variants variants;
  if (parallelism.context > 1 && find_context(parallelism.context_kind.kind)->zig_zags && !zig_zags(parallelism)) {
    variants.context = parallelism.context;
  }
  const bool uneven = model.experts > 0 && training.routing.kind != "even";
  if (uneven && parallelism.expert > 1) variants.expert = parallelism.expert;
  return variants;
}

OperatorShape operator_shape(const ShapeRequest& request, Workload& workload, std::int64_t context_rank,
                             std::int64_t expert_rank) {
  const TrainingSpec& training = request.training;
  const ParallelismSpec& parallelism = request.parallelism;
  OperatorShape shape;
  shape.model = request.model;
  shape.sequence = training.sequence_length / parallelism.context;
  shape.micro_batch = training.micro_batch;
  shape.tensor = parallelism.tensor;
  shape.sequence_parallel = parallelism.sequence_parallel && parallelism.tensor > 1;
  const std::int64_t multiple = training.framework.vocabulary_multiple * parallelism.tensor;
  shape.vocabulary = divide_up(request.model.vocabulary, multiple) * multiple;
  const bool autocast = training.framework.autocast;
  shape.storage = storage_format(training.precision, autocast);
  shape.fp8 = fp8_shape(training);
  shape.sparsity = sparsity_shape(training);
  // Batch norms keep their input's format, where layer norms under autocast make fp32.
  if (request.model.kind == ModelKind::resnet) shape.storage.residual = bytes_per_element(shape.storage.compute);
  shape.autocast = autocast && shape.element() < shape.storage.weight;
  shape.fused = training.framework.fused_kernels;
  shape.attention = training.attention;
  shape.loss = training.framework.loss;
  shape.dropout = training.dropout;
  shape.lora = training.trainable.lora;
  shape.tensor_group = request.groups.tensor;
  shape.overlap = tensor_overlap(request);
  shape.context = context_shape(request, context_rank);
  shape.experts = expert_shape(request, shape, workload, expert_rank);
  return shape;
}

}  // namespace orrery
