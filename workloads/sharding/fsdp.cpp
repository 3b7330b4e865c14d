// Options of FSDP: what they mean, what PyTorch refuses, and how weights and gradients are held.
//
// Weights are kept in fp32, split; that is master copy and weights in one. With mixed precision (param_dtype of 16
// bits) each gather carries and makes 16-bit weights, gradients are computed in 16 bits, reduced in reduce_dtype, and
// kept in fp32 (torch/distributed/fsdp/api.py, MixedPrecision; _fully_shard/_fsdp_api.py, MixedPrecisionPolicy). Per
// parameter that is 16 bytes with Adam, all split: as many as ZeRO's 2 + 2 + 12.
//
// Frozen parameters are held in param_dtype, as recipes for adapters load them (nobody updates them, so that fp32 would
// be kept for nothing), and have neither gradient nor state. Version 2 treats each parameter by itself. A flat
// parameter of version 1 with some trained part is fp32 as a whole and has a flat gradient of full length, which is
// reduced (use_orig_params=True, which such a model needs); the optimizer sees the trained part alone.
#include "workloads/sharding/fsdp.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "workloads/fp8.hpp"
#include "workloads/options.hpp"
#include "workloads/sharding/runs.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kUsualNode = 8;    // GPUs
constexpr std::int64_t kMasterBytes = 4;  // of weights and gradients

// fp8 is for products; weights and activations are in bf16.
bool sixteen(PrecisionRecipe recipe) {
  return recipe == PrecisionRecipe::fp16 || recipe == PrecisionRecipe::bf16 || recipe == PrecisionRecipe::fp8;
}

std::int64_t bytes_of(std::string_view type) { return type == "fp32" ? 4 : 2; }

std::int64_t parameter_bytes(const ShardingPlan& plan) {
  const std::string_view type = text_option(plan.choice, plan.row, "param_dtype");
  if (type != "auto") return bytes_of(type);
  return sixteen(plan.precision) ? 2 : 4;
}

// Gradients of several micro-batches are summed before they are reduced.
bool accumulates(const ShardingPlan& plan, const FsdpOptions& options) {
  return plan.micro_batches > 1 && (options.no_sync || plan.pipeline > 1);
}

constexpr std::string_view kKey = "parallelism.sharding.";

class FsdpCheck {
 public:
  explicit FsdpCheck(const ShardingPlan& plan) : plan_(plan), options_(fsdp_options(plan)) {}

  Problems run() && {
    if (options_.version == 1) {
      first_version();
    } else {
      second_version();
    }
    types();
    offload();
    if (options_.hybrid()) {
      runs("shard_size", options_.shard_size);
      if (plan_.expert > 1) {
        add("strategy", "hybrid sharding splits no experts", "nearest valid: full-shard");
      }
    }
    if (options_.reshard_size > 0) runs("reshard_after_forward", options_.reshard_size);
    return std::move(problems_);
  }

 private:
  void add(std::string_view option, std::string message, std::string note) {
    problems_.push_back({fmt::format("{}{}", kKey, option), std::move(message), std::move(note)});
  }

  void first_version() {
    if (plan_.pipeline > 1) {
      add("version", "PyTorch's pipeline stages know FSDP of version 2 only", "nearest valid: 2");
    }
    if (switch_or_size_option(plan_.choice, plan_.row, "reshard_after_forward") != kSwitchedOn) {
      add("reshard_after_forward", "FSDP of version 1 has no such option",
          "nearest valid: {version: 1, strategy: shard-grad-op}");
    }
    if (options_.float8) {
      add("float8_all_gather", "FSDP of version 1 gathers flat parameters of one format", "nearest valid: version: 2");
    }
  }

  void second_version() {
    if (options_.kind == FsdpKind::no_shard) {
      add("strategy", "FSDP of version 2 always shards", "nearest valid: {version: 1}, or sharding: none");
    }
    if (options_.backward_prefetch == BackwardPrefetch::post) {
      add("backward_prefetch", "FSDP of version 2 does not prefetch after a unit's backward pass",
          "nearest valid: pre");
    }
  }

  void offload() {
    if (!options_.offloads) return;
    if (options_.kind == FsdpKind::no_shard) {
      add("cpu_offload", "whole units that are not sharded are not offloaded", "nearest valid: strategy: full-shard");
    }
    // FullyShardedDataParallel's notes on cpu_offload: gradients of several backward passes are not added up there.
    if (options_.version == 1 && plan_.micro_batches > 1 && !options_.no_sync) {
      add("cpu_offload", "FSDP of version 1 adds up no gradients in host memory", "nearest valid: no_sync: true");
    }
    if (options_.float8) {
      add("float8_all_gather", "8-bit gathers of weights in host memory are not simulated",
          "nearest valid: float8_all_gather: false");
    }
  }

  // The format of the products is the recipe's.
  void types() {
    const bool eight = plan_.precision == PrecisionRecipe::fp8;
    const std::string_view recipe = eight ? "bf16" : sixteen(plan_.precision) ? name_of(plan_.precision) : "fp32";
    const std::string_view type = text_option(plan_.choice, plan_.row, "param_dtype");
    if (type == "auto" || type == "fp32" || type == recipe) return;
    add("param_dtype", fmt::format("{} weights do not go with training.precision {}", type, name_of(plan_.precision)),
        fmt::format("nearest valid: {}", recipe));
  }

  void runs(std::string_view option, std::int64_t size) {
    if (std::string note = misfit(size, plan_.replicas); !note.empty()) {
      add(option, fmt::format("{} GPUs do not divide {} data-parallel ranks", size, plan_.replicas), std::move(note));
    }
  }

  const ShardingPlan& plan_;
  FsdpOptions options_;
  Problems problems_;
};

FsdpKind kind_of(std::string_view name) {
  if (name == "shard-grad-op") return FsdpKind::shard_grad_op;
  if (name == "no-shard") return FsdpKind::no_shard;
  if (name == "hybrid-shard") return FsdpKind::hybrid_shard;
  if (name == "hybrid-shard-zero2") return FsdpKind::hybrid_shard_zero2;
  return FsdpKind::full_shard;
}

}  // namespace

FsdpOptions fsdp_options(const ShardingPlan& plan) {
  const Choice& choice = plan.choice;
  const RegistryRow& row = plan.row;
  FsdpOptions o;
  o.version = integer_option(choice, row, "version");
  o.kind = kind_of(text_option(choice, row, "strategy"));
  o.shard_size = integer_option(choice, row, "shard_size");
  if (o.shard_size == 0) o.shard_size = std::min(kUsualNode, plan.replicas);
  const std::string_view wrap = text_option(choice, row, "wrap");
  o.wrap = wrap == "size" ? Wrap::size : wrap == "module" ? Wrap::module : Wrap::block;
  o.min_elements = integer_option(choice, row, "min_elements");
  o.forward_prefetch = boolean_option(choice, row, "forward_prefetch");
  const std::string_view prefetch = text_option(choice, row, "backward_prefetch");
  o.backward_prefetch = prefetch == "post"   ? BackwardPrefetch::post
                        : prefetch == "none" ? BackwardPrefetch::none
                                             : BackwardPrefetch::pre;
  o.limit_all_gathers = boolean_option(choice, row, "limit_all_gathers");
  o.in_flight = integer_option(choice, row, "inflight_all_gathers");
  // One rank keeps the weights, and all ranks of a group are what `true` means (_fsdp_init.py,
  // _get_post_forward_mesh_info).
  const bool hybrid = o.kind == FsdpKind::hybrid_shard || o.kind == FsdpKind::hybrid_shard_zero2;
  std::int64_t reshard = switch_or_size_option(choice, row, "reshard_after_forward");
  if (reshard == (hybrid ? o.shard_size : plan.replicas)) reshard = kSwitchedOn;
  if (reshard == 1) reshard = 0;
  o.reshard_after_forward = reshard != 0;
  o.reshard_size = reshard > 0 ? reshard : 0;
  o.parameter_bytes = parameter_bytes(plan);
  const std::string_view reduced = text_option(choice, row, "reduce_dtype");
  o.reduce_bytes = reduced == "auto" ? o.parameter_bytes : bytes_of(reduced);
  o.reduces_in_fp16 =
      reduced == "fp16" || (reduced == "auto" && o.reduce_bytes == 2 && plan.precision == PrecisionRecipe::fp16);
  o.no_sync = boolean_option(choice, row, "no_sync");
  o.float8 = boolean_option(choice, row, "float8_all_gather");
  o.offloads = boolean_option(choice, row, "cpu_offload");
  return o;
}

Problems check_fsdp(const ShardingPlan& plan) { return FsdpCheck(plan).run(); }

void adapt_fsdp(const ShardingPlan& plan, OperatorShape& shape) {
  const FsdpOptions options = fsdp_options(plan);
  StorageFormat& s = shape.storage;
  if (options.parameter_bytes == 2) {
    s.weight = s.gradient = s.residual = 2;
    s.master = s.main_gradient = 0;
    shape.autocast = false;
  } else if (sixteen(plan.precision)) {  // 16-bit products of fp32 weights: torch.autocast
    s = storage_format(plan.precision, true);
    shape.autocast = true;
  }
  fp8_of_shards(shape, options.float8);
  // What is not reduced is added up in kernels of FSDP's own: in version 1 as one flat gradient, in version 2 in
  // reduce_dtype where that is another.
  const bool own_sum = options.version == 1 || options.reduce_bytes != options.parameter_bytes;
  shape.fresh_gradients = own_sum || !accumulates(plan, options);
}

DataRuns fsdp_runs(const ShardingPlan& plan) {
  const FsdpOptions options = fsdp_options(plan);
  return {.shard = options.hybrid() ? options.shard_size : 0, .near_shard = options.reshard_size};
}

UnitGroups unit_groups(const StrategyContext& context, const FsdpOptions& options, const WrapUnit& unit) {
  if (options.hybrid() && !unit.expert) {
    return {context.groups.shard, context.runs.shard, context.groups.replicate};
  }
  const auto holders = context.holders_of(context.stage->parameters[unit.parameters.front()]);
  return {holders.group, holders.members, {}};
}

void hold_shards(ProgramBuilder& program, const StrategyContext& context, const FsdpOptions& options,
                 const std::vector<ShardedUnit>& units) {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t flat_state = 0;
  for (const ShardedUnit& unit : units) {
    weights += unit.held_bytes(options.parameter_bytes);
    gradients += unit.gradient_shard * kMasterBytes;
    flat_state += unit.state_shard * context.flat_state_bytes();
  }
  if (options.offloads) {
    if (weights > 0) program.keep_off_device({Bytes(weights + gradients + flat_state), Bytes()});
    return;
  }
  if (weights > 0) program.resident({Bytes(weights), MemoryTag::weights});
  if (gradients > 0) program.resident({Bytes(gradients), MemoryTag::gradients});
  const std::int64_t state = context.state_bytes(shard_work(context, units, 0));
  if (state > 0) program.resident({Bytes(state), MemoryTag::optimizer_state});
}

OptimizerWork shard_work(const StrategyContext& context, const std::vector<ShardedUnit>& units, std::int64_t tensors) {
  OptimizerWork work{0, tensors, 4, context.fused};
  for (const ShardedUnit& unit : units) {
    work.elements += unit.state_shard;
    work.shapes.insert(work.shapes.end(), unit.pieces.begin(), unit.pieces.end());
  }
  return work;
}

void ForwardOrder::passed(std::size_t unit) {
  if (std::find(order_.begin(), order_.end(), unit) == order_.end()) order_.push_back(unit);
}

std::optional<std::size_t> ForwardOrder::before(std::size_t unit) const {
  const auto found = std::find(order_.begin(), order_.end(), unit);
  if (found == order_.end() || found == order_.begin()) return std::nullopt;
  return *std::prev(found);
}

Kernel movement(std::string name, std::int64_t elements, double bytes_per_element) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.kind = KernelKind::elementwise;
  kernel.precision = Precision::fp32;
  kernel.m = 1;
  kernel.n = elements;
  kernel.k = 1;
  kernel.bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(elements) * bytes_per_element));
  return kernel;
}

DivideFactors divide_factors(std::int64_t members) {
  std::int64_t factor = 1;
  while (members % factor == 0 && members / factor > factor) factor *= 2;
  return {factor, divide_up(members, factor)};
}

std::unique_ptr<ShardingStrategy> make_fsdp(const StrategyContext& context, const Choice& choice,
                                            const RegistryRow& row) {
  const FsdpOptions options = fsdp_options({.choice = choice,
                                            .row = row,
                                            .precision = context.precision,
                                            .replicas = context.replicas,
                                            .pipeline = context.stage->stages,
                                            .micro_batches = context.micro_batches});
  const std::vector<WrapUnit> units = wrap_units(*context.stage, options.wrap, options.min_elements);
  return wrapped_strategy(
      *context.stage, units,
      options.version == 1 ? make_fsdp1(context, options, units) : make_fsdp2(context, options, units));
}

}  // namespace orrery
