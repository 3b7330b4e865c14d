// Options of DeepSpeed's ZeRO (deepspeed/runtime/zero/config.py), what it refuses, and how it holds weights and
// gradients: in 16-bit training 16-bit weights and gradients, fp32 master weights, and an fp32 copy of the gradients
// while the optimizer runs. That is the 2 + 2 + 12 bytes of a parameter that Rajbhandari et al. (2020) split by stage.
#include "workloads/sharding/deepspeed.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "workloads/fp8.hpp"
#include "workloads/options.hpp"
#include "workloads/sharding/runs.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kUsualNode = 8;  // GPUs
constexpr std::string_view kKey = "parallelism.sharding";

std::int64_t stage_of(std::string_view name) { return name == "zero3" ? 3 : name == "zero2" ? 2 : 1; }

class ZeroCheck {
 public:
  explicit ZeroCheck(const ShardingPlan& plan) : plan_(plan), o_(zero_options(plan)) {}

  Problems run() && {
    // PipelineEngine.__init__ asserts it.
    if (o_.stage > 1 && plan_.pipeline > 1) {
      problems_.push_back(
          {fmt::format("{}.kind", kKey),
           fmt::format("DeepSpeed runs no pipeline with ZeRO stage {} ({} pipeline stages)", o_.stage, plan_.pipeline),
           "nearest valid: zero1, or parallelism.pipeline 1"});
    }
    if (o_.stage == 3) third_stage();
    if (o_.stage < 3 && o_.offload.optimizer == OffloadDevice::nvme) {
      add("offload_optimizer", fmt::format("DeepSpeed keeps no state on drives with ZeRO stage {}", o_.stage),
          "nearest valid: cpu, or zero3");
    }
    return std::move(problems_);
  }

 private:
  void add(std::string_view option, std::string message, std::string note) {
    problems_.push_back({fmt::format("{}.{}", kKey, option), std::move(message), std::move(note)});
  }

  void runs(std::string_view option, std::int64_t size) {
    if (std::string note = misfit(size, plan_.replicas); !note.empty()) {
      add(option, fmt::format("{} GPUs do not divide {} data-parallel ranks", size, plan_.replicas), std::move(note));
    }
  }

  void third_stage() {
    // The trace that gathers follow is that of one forward and one backward pass.
    if (plan_.pipeline == 1 && plan_.micro_batches > 1 && plan_.schedule != "1f1b") {
      problems_.push_back(
          {fmt::format("{}.kind", kKey),
           fmt::format("DeepSpeed follows each forward pass by its backward pass, and {} does not", plan_.schedule),
           "nearest valid: parallelism.schedule 1f1b"});
    }
    if (o_.secondary != 1) runs("zero_hpz_partition_size", o_.secondary);
    if (o_.mics > 0) {
      runs("mics_shard_size", o_.mics);
      if (o_.secondary > 1) {
        add("zero_hpz_partition_size", "MiCS has no second copy of the weights", "nearest valid: 1");
      }
      if (o_.quantized_gradients) {
        add("zero_quantized_gradients", "MiCS reduces in the gradients' own format", "nearest valid: false");
      }
      if (plan_.expert > 1) add("mics_shard_size", "MiCS splits no experts", "nearest valid: -1");
    }
    if (o_.quantized_gradients && o_.node > 1) runs("zero_quantized_gradients", o_.node);
  }

  const ShardingPlan& plan_;
  ZeroOptions o_;
  Problems problems_;
};

}  // namespace

ZeroOptions zero_options(const ShardingPlan& plan) {
  const Choice& choice = plan.choice;
  const RegistryRow& row = plan.row;
  ZeroOptions o;
  o.stage = stage_of(choice.kind);
  o.reduce_bucket = integer_option(choice, row, "reduce_bucket_size");
  o.overlap = boolean_option(choice, row, "overlap_comm");
  o.contiguous = boolean_option(choice, row, "contiguous_gradients");
  o.reduce_scatter = boolean_option(choice, row, "reduce_scatter");
  o.offload = offload_options(choice, row);
  if (o.stage < 3 && o.offload.any()) o.contiguous = true;  // DeepSpeed turns it on (DeepSpeedZeroOptimizer.__init__)
  if (o.stage < 3) {
    o.gather_bucket = integer_option(choice, row, "allgather_bucket_size");
    if (plan.pipeline > 1) o.overlap = false;  // DeepSpeed turns it off (engine.py, _configure_zero_optimizer)
    return o;
  }
  o.prefetch = integer_option(choice, row, "stage3_prefetch_bucket_size");
  o.persistence = integer_option(choice, row, "stage3_param_persistence_threshold");
  o.live = integer_option(choice, row, "stage3_max_live_parameters");
  o.reuse_distance = integer_option(choice, row, "stage3_max_reuse_distance");
  o.quantized_weights = boolean_option(choice, row, "zero_quantized_weights");
  o.quantized_gradients = boolean_option(choice, row, "zero_quantized_gradients");
  o.secondary = std::max<std::int64_t>(1, integer_option(choice, row, "zero_hpz_partition_size"));
  o.mics = std::max<std::int64_t>(0, integer_option(choice, row, "mics_shard_size"));
  if (o.quantized_gradients) o.node = std::min(kUsualNode, plan.replicas);
  return o;
}

Problems check_zero(const ShardingPlan& plan) { return ZeroCheck(plan).run(); }

void adapt_zero(const ShardingPlan& plan, OperatorShape& shape) {
  StorageFormat& s = shape.storage;
  if (plan.precision != PrecisionRecipe::fp32 && plan.precision != PrecisionRecipe::tf32) {
    s.weight = s.gradient = s.residual = 2;
    s.master = s.main_gradient = 4;
    shape.autocast = false;
  }
  if (stage_of(plan.choice.kind) == 3) fp8_of_shards(shape, false);
  // Stage 1 keeps the gradients of all micro-batches and reduces at the last; the others reduce with each.
  shape.fresh_gradients = stage_of(plan.choice.kind) > 1 || plan.micro_batches == 1;
}

DataRuns zero_runs(const ShardingPlan& plan) {
  const ZeroOptions o = zero_options(plan);
  DataRuns runs;
  if (o.mics > 0) runs.shard = o.mics;
  if (o.quantized_gradients && o.node < plan.replicas) runs.shard = o.node;
  if (o.secondary > 1) runs.near_shard = o.secondary;
  return runs;
}

}  // namespace orrery
