// ZeRO stage 1 (Rajbhandari et al. 2020) as Megatron-LM's distributed optimizer runs it
// (megatron/core/distributed/param_and_grad_buffer.py, optimizer/distrib_optimizer.py): gradients are reduce-scattered
// bucket by bucket, each replica updates its part of every bucket with its part of the fp32 master weights and moments,
// and updated weights are all-gathered.
//
// With overlap_gradient_reduction buckets travel beside the backward pass, otherwise one bucket follows it. With
// overlap_parameter_gather the gather of a bucket is awaited only before the forward pass of the first module that has
// parameters in it, and the next bucket's gather starts there; a step in the steady state then begins with the gathers
// of the step before. Buckets hold max(40e6, 1e6 x replicas) elements; stages after the first, and chunks after the
// first, have one bucket each (DistributedDataParallel's constructor, and training.py's disable_bucketing).
#include <algorithm>
#include <limits>

#include "workloads/options.hpp"
#include "workloads/sharding/buckets.hpp"
#include "workloads/sharding/strategy.hpp"

namespace orrery {

namespace {

class DistributedOptimizer final : public ShardingStrategy {
 public:
  DistributedOptimizer(const StrategyContext& context, const Choice& choice, const RegistryRow& row)
      : context_(context),
        overlaps_gradients_(boolean_option(choice, row, "overlap_gradient_reduction")),
        overlaps_parameters_(boolean_option(choice, row, "overlap_parameter_gather")),
        buckets_(make_buckets(choice, row), context.stage->parameters.size()),
        gathers_(buckets_.buckets().size()) {}

  void resident(ProgramBuilder& program) override {
    const std::int64_t n = context_.stage->trained_elements();
    const StorageFormat& s = context_.storage;
    program.resident({Bytes(context_.stage->weight_bytes(s.weight)), MemoryTag::weights});
    if (n == 0) return;
    program.resident({Bytes(n * s.gradient), MemoryTag::gradients});
    const std::int64_t own = shard_elements();
    if (s.main_gradient > 0) program.resident({Bytes(own * s.main_gradient), MemoryTag::gradients});
    const std::int64_t state = own * s.master + context_.state_bytes(optimizer_work());
    if (state > 0) program.resident({Bytes(state), MemoryTag::optimizer_state});
  }

  // Forward order is the reverse of the buckets' order.
  void begin_step(StageEmitter& out) override {
    if (!overlaps_parameters_ || !shares()) return;
    next_gather_ = buckets_.buckets().size();
    gather_next(out);
  }

  void before_use(StageEmitter& out, std::size_t parameter) override {
    if (!overlaps_parameters_ || !shares() || !context_.stage->parameters[parameter].trained) return;
    const std::size_t bucket = buckets_.bucket_of(parameter);
    while (next_gather_ > bucket) gather_next(out);
    std::size_t& awaited_from = awaited_from_[sort_of(bucket)];
    if (bucket >= awaited_from) return;
    out.wait_for(gathers_[bucket]);
    awaited_from = bucket;
    if (next_gather_ == bucket) gather_next(out);
  }

  void gradient_ready(StageEmitter& out, std::size_t parameter, bool last) override {
    if (!last || !shares()) return;
    if (buckets_.complete(parameter) && overlaps_gradients_) scatter(out, buckets_.bucket_of(parameter));
  }

  void reduce_rest(StageEmitter& out) override {
    if (!shares()) return;
    if (!overlaps_gradients_) {
      for (std::size_t b = 0; b < buckets_.buckets().size(); ++b) scatter(out, b);
    }
    for (const TaskId last : last_scatter_) out.wait_for(last);
  }

  [[nodiscard]] OptimizerWork optimizer_work() const override {
    const std::int64_t gradient =
        context_.storage.main_gradient > 0 ? context_.storage.main_gradient : context_.storage.gradient;
    return {shard_elements(), divide_up(context_.stage->trained_tensors(), context_.replicas), gradient,
            context_.fused};
  }

  [[nodiscard]] GroupKindId norm_group() const override { return context_.groups.world; }

  void after_optimizer(StageEmitter& out) override {
    if (overlaps_parameters_ || !shares()) return;
    TaskId last[2];
    for (std::size_t b = buckets_.buckets().size(); b-- > 0;) last[sort_of(b)] = gather(out, b);
    for (const TaskId each : last) out.wait_for(each);
  }

 private:
  [[nodiscard]] bool shares() const { return context_.groups.data.valid() || context_.groups.expert_data.valid(); }

  // Buckets hold dense parameters (0) or experts (1), which have replicas of their own.
  [[nodiscard]] std::size_t sort_of(std::size_t bucket) const { return expert(buckets_.buckets()[bucket]) ? 1 : 0; }
  [[nodiscard]] bool expert(const Bucket& bucket) const {
    return context_.stage->parameters[bucket.parameters.front()].expert;
  }
  [[nodiscard]] StrategyContext::Holders holders_of(const Bucket& bucket) const {
    return context_.holders_of(context_.stage->parameters[bucket.parameters.front()]);
  }

  [[nodiscard]] std::vector<Bucket> make_buckets(const Choice& choice, const RegistryRow& row) const {
    constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
    std::int64_t limit = integer_option(choice, row, "bucket_elements");
    if (limit == 0) limit = std::max<std::int64_t>(40'000'000, 1'000'000 * context_.replicas);
    if (!overlaps_gradients_ || !context_.stage->first()) limit = kAll;
    std::vector<Bucket> buckets = gradient_buckets(*context_.stage, limit, limit);
    // Chunks after the first: joined again to one bucket each. They come first, being last in forward order.
    std::vector<Bucket> joined;
    const auto chunk = [&](const Bucket& b) { return context_.stage->chunk_of_parameter[b.parameters.front()]; };
    for (Bucket& bucket : buckets) {
      const auto same = std::find_if(joined.begin(), joined.end(), [&](const Bucket& each) {
        return chunk(each) == chunk(bucket) && expert(each) == expert(bucket);
      });
      if (chunk(bucket) > 0 && same != joined.end()) {
        Bucket& to = *same;
        to.parameters.insert(to.parameters.end(), bucket.parameters.begin(), bucket.parameters.end());
        to.elements += bucket.elements;
      } else {
        joined.push_back(std::move(bucket));
      }
    }
    return joined;
  }

  // Buckets are padded so that every replica's part is equally long.
  [[nodiscard]] std::int64_t padded(const Bucket& bucket) const {
    const std::int64_t members = holders_of(bucket).members;
    return divide_up(bucket.elements, members) * members;
  }

  [[nodiscard]] std::int64_t shard_elements() const {
    std::int64_t sum = 0;
    for (const Bucket& bucket : buckets_.buckets()) sum += padded(bucket) / holders_of(bucket).members;
    return sum;
  }

  void scatter(StageEmitter& out, std::size_t bucket) {
    const Bytes bytes(padded(buckets_.buckets()[bucket]) * context_.storage.gradient);
    const GroupKindId group = holders_of(buckets_.buckets()[bucket]).group;
    if (!group.valid()) return;
    last_scatter_[sort_of(bucket)] =
        out.collective({CollectiveOp::reduce_scatter, group, bytes}, stream_of(context_.groups, group),
                       Phase::gradient_reduction, "scatter gradients");
  }

  TaskId gather(StageEmitter& out, std::size_t bucket) const {
    const Bytes bytes(padded(buckets_.buckets()[bucket]) * context_.storage.weight);
    const GroupKindId group = holders_of(buckets_.buckets()[bucket]).group;
    if (!group.valid()) return {};
    return out.collective({CollectiveOp::all_gather, group, bytes}, stream_of(context_.groups, group),
                          Phase::parameter_gather, "gather parameters");
  }

  void gather_next(StageEmitter& out) {
    if (next_gather_ == 0) return;
    --next_gather_;
    gathers_[next_gather_] = gather(out, next_gather_);
  }

  StrategyContext context_;
  bool overlaps_gradients_;
  bool overlaps_parameters_;
  BucketTracker buckets_;
  std::vector<TaskId> gathers_;  // [buckets]: this step's gather, once it is issued
  std::size_t next_gather_ = 0;  // buckets from here on have been gathered
  // [sorts] Buckets from here on have been waited for.
  std::size_t awaited_from_[2] = {static_cast<std::size_t>(-1), static_cast<std::size_t>(-1)};
  TaskId last_scatter_[2];
};

}  // namespace

std::unique_ptr<ShardingStrategy> make_distributed_optimizer(const StrategyContext& context, const Choice& choice,
                                                             const RegistryRow& row) {
  return std::make_unique<DistributedOptimizer>(context, choice, row);
}

}  // namespace orrery
