// PyTorch's FullyShardedDataParallel: what its two versions have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/sharding/strategy.hpp"
#include "workloads/sharding/wrapped.hpp"

namespace orrery {

enum class FsdpKind : std::uint8_t { full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2 };
enum class BackwardPrefetch : std::uint8_t { pre, post, none };

struct FsdpOptions {
  std::int64_t version = 2;
  FsdpKind kind = FsdpKind::full_shard;
  std::int64_t shard_size = 0;  // hybrid: members of a shard group
  Wrap wrap = Wrap::block;
  std::int64_t min_elements = 0;
  bool forward_prefetch = false;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool limit_all_gathers = true;
  std::int64_t in_flight = 2;  // gathers whose memory is not free again, with the limit
  bool reshard_after_forward = true;
  std::int64_t reshard_size = 0;  // members of the group that keeps the weights after forward; 0: as before
  std::int64_t parameter_bytes = 2;
  std::int64_t reduce_bytes = 2;
  bool reduces_in_fp16 = false;
  bool no_sync = false;
  bool float8 = false;
  bool offloads = false;  // parts of weights, gradients and state are in host memory

  [[nodiscard]] bool hybrid() const { return kind == FsdpKind::hybrid_shard || kind == FsdpKind::hybrid_shard_zero2; }
  // Whether weights are given up between forward and backward.
  [[nodiscard]] bool reshards() const {
    return reshard_after_forward && (kind == FsdpKind::full_shard || kind == FsdpKind::hybrid_shard);
  }
};

// The choice must be checked.
[[nodiscard]] FsdpOptions fsdp_options(const ShardingPlan& plan);

[[nodiscard]] Problems check_fsdp(const ShardingPlan& plan);
void adapt_fsdp(const ShardingPlan& plan, OperatorShape& shape);
[[nodiscard]] DataRuns fsdp_runs(const ShardingPlan& plan);

// Over whom a unit is split, and who hold the same part.
struct UnitGroups {
  GroupKindId shard;
  std::int64_t shard_members = 1;
  GroupKindId replicate;
};
[[nodiscard]] UnitGroups unit_groups(const StrategyContext& context, const FsdpOptions& options, const WrapUnit& unit);

// A unit as it is split.
struct ShardedUnit {
  UnitGroups groups;
  std::int32_t chunk = 0;
  bool root = false;
  std::int64_t elements = 0;              // of its parameters
  std::int64_t shard = 0;                 // of a rank, padding included
  std::int64_t tensors = 0;               // that are trained
  std::int64_t trained = 0;               // elements that have gradients
  std::int64_t frozen_shard = 0;          // of a rank: held as they are gathered, since nobody updates them
  std::int64_t gradient_shard = 0;        // of a rank
  std::int64_t state_shard = 0;           // of a rank: what the optimizer updates
  bool backward = true;                   // backward passes come to it
  std::vector<OptimizerTensor> pieces{};  // what the optimizer gets of it on a rank

  [[nodiscard]] std::int64_t whole() const { return shard * groups.shard_members; }
  // Of a rank's part between uses; frozen parameters have `parameter_bytes` each, the others are in fp32.
  [[nodiscard]] std::int64_t held_bytes(std::int64_t parameter_bytes) const {
    return 4 * (shard - frozen_shard) + parameter_bytes * frozen_shard;
  }
  [[nodiscard]] std::int64_t whole_gradient() const { return gradient_shard * groups.shard_members; }
};

// What a rank keeps for the whole step: parameters, gradients and optimizer state of its parts, all in fp32, but for
// frozen parameters; on the GPU or in host memory.
void hold_shards(ProgramBuilder& program, const StrategyContext& context, const FsdpOptions& options,
                 const std::vector<ShardedUnit>& units);

// What a rank updates; `tensors` of it.
[[nodiscard]] OptimizerWork shard_work(const StrategyContext& context, const std::vector<ShardedUnit>& units,
                                       std::int64_t tensors);

// The order in which units end their forward pass, learnt from the first one, as PyTorch records it.
class ForwardOrder {
 public:
  void passed(std::size_t unit);
  // The unit that came before this one in the forward pass, and so comes after it in the backward pass; or none.
  [[nodiscard]] std::optional<std::size_t> before(std::size_t unit) const;

 private:
  std::vector<std::size_t> order_;
};

// A kernel that moves so many bytes per element.
[[nodiscard]] Kernel movement(std::string name, std::int64_t elements, double bytes_per_element);

// The factors by which gradients are divided before and after a sum over so many ranks, so that neither step leaves
// fp16's range (_get_gradient_predivide_factor).
struct DivideFactors {
  std::int64_t before = 1;
  std::int64_t after = 1;
};
[[nodiscard]] DivideFactors divide_factors(std::int64_t members);

[[nodiscard]] std::unique_ptr<UnitHooks> make_fsdp1(const StrategyContext& context, const FsdpOptions& options,
                                                    const std::vector<WrapUnit>& units);
[[nodiscard]] std::unique_ptr<UnitHooks> make_fsdp2(const StrategyContext& context, const FsdpOptions& options,
                                                    const std::vector<WrapUnit>& units);

}  // namespace orrery
