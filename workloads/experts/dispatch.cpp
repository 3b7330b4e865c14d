// The ways of Megatron-LM (megatron/core/transformer/moe/token_dispatcher.py) and of DeepEP (deepseek-ai/DeepEP):
//
//   all-to-all    each row goes to the rank of each of its experts (MoEAlltoAllTokenDispatcher)
//   all-gather    every rank gets all rows and picks those for its experts; results are summed on the way back by a
//                 reduce-scatter (MoEAllGatherTokenDispatcher)
//   hierarchical  a row crosses the network once for each node that any of its experts is on, between ranks of the same
//                 place in their nodes, and is passed on inside the node, once to each rank (DeepEP's normal kernels,
//                 for DeepSeek-V3's routing to at most 4 nodes, section 3.2.2 of its report). Stages follow one another
//                 here; DeepEP pipelines them in chunks.
#include "workloads/experts/dispatch.hpp"

#include <array>

#include "workloads/table.hpp"

namespace orrery {

namespace {

std::int64_t row_bytes(const OperatorShape& shape) { return shape.model.hidden * shape.element(); }

void add(Fragment& f, const Journey& journey, const CollectiveCall& call) {
  const Launch launch{"expert", journey.asynchronous, journey.handle, !journey.asynchronous};
  const char* label = journey.to_experts ? (journey.backward ? "dispatch gradients" : "dispatch")
                                         : (journey.backward ? "combine gradients" : "combine");
  if (journey.backward) {
    f.backward(call, label, launch);
  } else {
    f.forward(call, label, launch);
  }
}

void travel_directly(Fragment& f, const OperatorShape& shape, const Journey& journey) {
  const ExpertShape& experts = shape.experts;
  const bool returns = experts.shares.valid() && !journey.to_experts;
  add(f, journey,
      {CollectiveOp::all_to_all, experts.group, Bytes(experts.sent * row_bytes(shape)), experts.shares, returns});
}

void travel_gathered(Fragment& f, const OperatorShape& shape, const Journey& journey) {
  const Bytes all(shape.experts.degree * shape.rows() * row_bytes(shape));
  add(f, journey,
      {journey.to_experts ? CollectiveOp::all_gather : CollectiveOp::reduce_scatter, shape.experts.group, all});
}

void travel_by_node(Fragment& f, const OperatorShape& shape, const Journey& journey) {
  const ExpertShape& experts = shape.experts;
  const CollectiveCall across{CollectiveOp::all_to_all, experts.rail_group,
                              Bytes(experts.copies_to_nodes * row_bytes(shape))};
  const CollectiveCall inside{CollectiveOp::all_to_all, experts.node_group,
                              Bytes(experts.copies_to_ranks * row_bytes(shape))};
  const auto add_if = [&](const CollectiveCall& call) {
    if (call.group.valid()) add(f, journey, call);
  };
  add_if(journey.to_experts ? across : inside);
  add_if(journey.to_experts ? inside : across);
}

constexpr OptionDoc kOverlap{"overlap_shared_experts",
                             "boolean",
                             "false",
                             0,
                             0,
                             "shared experts run beside dispatch and combine (--moe-shared-expert-overlap)"};
constexpr std::array kOptions{kOverlap};
constexpr std::array kNodeOptions{
    kOverlap, OptionDoc{"ranks_per_node", "integer", "8", 1, 1024, "consecutive expert-parallel ranks on one node"}};

constexpr std::array kRows{
    DispatchRow{{"all-to-all", "each row goes to the rank of each of its experts (Megatron-LM's alltoall)", kOptions},
                travel_directly,
                true,
                false,
                false},
    DispatchRow{{"all-gather", "every rank gets all rows; results come back by reduce-scatter", kOptions},
                travel_gathered,
                false,
                false,
                false},
    DispatchRow{{"hierarchical", "each row crosses to a node once, and goes on inside it (DeepEP)", kNodeOptions},
                travel_by_node,
                false,
                true,
                true},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> dispatch_rows() { return kPublicRows; }

const DispatchRow* find_dispatch(std::string_view name) { return find_in(kRows, name); }

}  // namespace orrery
