// Plain data parallelism: every replica holds everything, and gradients are averaged with an all-reduce per bucket.
//
// As PyTorch's DistributedDataParallel (torch/csrc/distributed/c10d/reducer.cpp, Li et al. 2020): the first bucket is
// small (1 MiB) so that communication starts early, the others hold bucket_cap_mb (25 MiB); a bucket is reduced as soon
// as its last gradient is there, beside the rest of the backward pass; under accumulation (no_sync) only the last
// micro-batch reduces. Megatron-LM's own DDP differs in its buckets (max(40e6, 1e6 x replicas) elements when it
// overlaps, one for everything when it does not) and is had by the options.
#include <algorithm>
#include <limits>

#include "workloads/options.hpp"
#include "workloads/sharding/buckets.hpp"
#include "workloads/sharding/strategy.hpp"

namespace orrery {

namespace {

class Replicated final : public ShardingStrategy {
 public:
  Replicated(const StrategyContext& context, const Choice& choice, const RegistryRow& row)
      : context_(context),
        overlaps_(boolean_option(choice, row, "overlap_gradient_reduction")),
        buckets_are_gradients_(boolean_option(choice, row, "gradients_are_buckets")),
        buckets_(make_buckets(choice, row), context.stage->parameters.size()) {}

  void resident(ProgramBuilder& program) override {
    const std::int64_t n = context_.stage->trained_elements();
    const StorageFormat& s = context_.storage;
    program.resident({Bytes(context_.stage->weight_bytes(s.weight)), MemoryTag::weights});
    if (n == 0) return;
    program.resident({Bytes(n * s.gradient), MemoryTag::gradients});
    if (s.main_gradient > 0) program.resident({Bytes(n * s.main_gradient), MemoryTag::gradients});
    const std::int64_t state = n * s.master + context_.state_bytes(optimizer_work());
    if (state > 0) program.resident({Bytes(state), MemoryTag::optimizer_state});
    if (reduces() && !buckets_are_gradients_) {
      program.resident({Bytes(n * s.gradient), MemoryTag::communication_buffers});
    }
  }

  void gradient_ready(StageEmitter& out, std::size_t parameter, bool last) override {
    if (!last || !reduces()) return;
    if (buckets_.complete(parameter) && overlaps_) reduce(out, buckets_.bucket_of(parameter));
  }

  void reduce_rest(StageEmitter& out) override {
    if (!reduces()) return;
    if (!overlaps_) {
      for (std::size_t b = 0; b < buckets_.buckets().size(); ++b) reduce(out, b);
    }
    for (const TaskId last : last_reduction_) out.wait_for(last);
  }

  [[nodiscard]] OptimizerWork optimizer_work() const override {
    const std::int64_t gradient =
        context_.storage.main_gradient > 0 ? context_.storage.main_gradient : context_.storage.gradient;
    OptimizerWork work{context_.stage->trained_elements(), context_.stage->trained_tensors(), gradient, context_.fused};
    for (const ParameterTensor& p : context_.stage->parameters) {
      if (p.trained) work.shapes.push_back({p.elements, p.columns, p.matrices, p.table});
    }
    return work;
  }

  // Replicas hold the same gradients; only the other parts of the model are missing.
  [[nodiscard]] GroupKindId norm_group() const override { return context_.groups.model; }

 private:
  [[nodiscard]] bool reduces() const { return context_.groups.data.valid() || context_.groups.expert_data.valid(); }

  [[nodiscard]] std::vector<Bucket> make_buckets(const Choice& choice, const RegistryRow& row) const {
    const std::int64_t width = context_.storage.gradient;
    const std::int64_t elements = integer_option(choice, row, "bucket_elements");
    if (elements > 0) return gradient_buckets(*context_.stage, elements, elements);
    if (!overlaps_ && buckets_are_gradients_) {
      constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
      return gradient_buckets(*context_.stage, kAll, kAll);
    }
    return gradient_buckets(*context_.stage, divide_up(integer_option(choice, row, "first_bucket"), width),
                            divide_up(integer_option(choice, row, "bucket"), width));
  }

  void reduce(StageEmitter& out, std::size_t bucket) {
    const Bytes bytes(buckets_.buckets()[bucket].elements * context_.storage.gradient);
    const ParameterTensor& first = context_.stage->parameters[buckets_.buckets()[bucket].parameters.front()];
    const GroupKindId group = context_.holders_of(first).group;
    if (!group.valid()) return;
    last_reduction_[first.expert ? 1 : 0] =
        out.collective({CollectiveOp::all_reduce, group, bytes}, stream_of(context_.groups, group),
                       Phase::gradient_reduction, "reduce gradients");
  }

  StrategyContext context_;
  bool overlaps_;
  bool buckets_are_gradients_;
  BucketTracker buckets_;
  TaskId last_reduction_[2];  // of dense buckets, of experts
};

}  // namespace

std::unique_ptr<ShardingStrategy> make_replicated(const StrategyContext& context, const Choice& choice,
                                                  const RegistryRow& row) {
  return std::make_unique<Replicated>(context, choice, row);
}

}  // namespace orrery
