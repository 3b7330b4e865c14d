// DeepSpeed's BF16_Optimizer (deepspeed/runtime/bf16_optimizer.py), which trains in bf16 where ZeRO is off (stage 0)
// and gradients are added up in fp32: BLOOM's runs, and pipelines of Megatron-DeepSpeed in bf16. It splits fp32 master
// weights and optimizer state over replicas as ZeRO stage 1 does, but:
//
//  - Gradients of all micro-batches are added up in fp32 on every replica, 4 bytes a parameter, not split. After each
//    backward pass a parameter's bf16 gradient is cast to a new fp32 tensor and that is added (update_hp_grads): two
//    kernels, 18 bytes of memory traffic a parameter. The bf16 gradient is dropped when the next backward pass begins
//    (clear_lp_grads), so that both are there in between.
//  - Sums are all-reduced in fp32 when all backward passes are over, 500 million elements at a time, in the compute
//    stream (engine.py, buffered_allreduce_fallback and MEMORY_OPT_ALLREDUCE_SIZE); before that they are divided.
//  - The norm is of all gradients on every replica. Each rank updates its part, and weights are gathered in bf16 pieces
//    (all_gather_dp_groups). Then the sums are filled with zeros.
//
// Left out: padding of partitions to NCCL's alignment, tensors that are not trained in the same flat buffer.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "workloads/options.hpp"
#include "workloads/sharding/deepspeed.hpp"
#include "workloads/sharding/fsdp.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kWide = 4;  // bytes of fp32
constexpr std::int64_t kReduceElements = 500'000'000;

class Bf16Optimizer final : public ShardingStrategy {
 public:
  Bf16Optimizer(const StrategyContext& context, std::int64_t gather_bucket)
      : context_(context), gather_bucket_(gather_bucket) {}

  void resident(ProgramBuilder& program) override {
    const StorageFormat& s = context_.storage;
    const std::int64_t n = context_.stage->trained_elements();
    program.resident({Bytes(context_.stage->weight_bytes(s.weight)), MemoryTag::weights});
    if (n == 0) return;
    program.resident({Bytes(n * (s.gradient + kWide)), MemoryTag::gradients});
    const std::int64_t state = own_elements() * s.master + context_.state_bytes(optimizer_work());
    if (state > 0) program.resident({Bytes(state), MemoryTag::optimizer_state});
  }

  void gradient_ready(StageEmitter& out, std::size_t parameter, bool /*last*/) override {
    const ParameterTensor& p = context_.stage->parameters[parameter];
    if (!p.trained) return;
    const auto narrow = static_cast<double>(context_.storage.gradient);
    out.kernel(context_.pool->add(movement("bf16_optimizer.cast", p.elements, narrow + kWide)), Phase::backward);
    out.kernel(context_.pool->add(movement("bf16_optimizer.add", p.elements, 3.0 * kWide)), Phase::backward);
  }

  void reduce_rest(StageEmitter& out) override {
    for (const Sort& sort : sorts()) {
      if (!sort.over.group.valid()) continue;
      for (std::int64_t first = 0; first < sort.elements; first += kReduceElements) {
        const std::int64_t elements = std::min(kReduceElements, sort.elements - first);
        out.kernel(context_.pool->add(movement("bf16_optimizer.divide", elements, 2.0 * kWide)),
                   Phase::gradient_reduction);
        out.wait_for(out.collective({CollectiveOp::all_reduce, sort.over.group, Bytes(elements * kWide)},
                                    stream_of(context_.groups, sort.over.group), Phase::gradient_reduction,
                                    "reduce gradients"));
      }
    }
  }

  [[nodiscard]] OptimizerWork optimizer_work() const override { return {own_elements(), 1, kWide, context_.fused}; }
  [[nodiscard]] GroupKindId norm_group() const override { return context_.groups.model; }

  void after_optimizer(StageEmitter& out) override {
    for (const Sort& sort : sorts()) {
      if (!sort.over.group.valid()) continue;
      const std::int64_t part = divide_up(sort.elements, sort.over.members);
      const std::int64_t most = std::max<std::int64_t>(1, gather_bucket_ / sort.over.members);
      for (std::int64_t first = 0; first < part; first += most) {
        const Bytes bytes(std::min(most, part - first) * sort.over.members * context_.storage.weight);
        out.wait_for(out.collective({CollectiveOp::all_gather, sort.over.group, bytes},
                                    stream_of(context_.groups, sort.over.group), Phase::parameter_gather,
                                    "gather parameters"));
      }
    }
  }

 private:
  // Parameters with the same replicas.
  struct Sort {
    StrategyContext::Holders over;
    std::int64_t elements = 0;
  };

  [[nodiscard]] std::vector<Sort> sorts() const {
    std::array<Sort, 2> both{};
    for (const ParameterTensor& p : context_.stage->parameters) {
      if (!p.trained) continue;
      Sort& sort = both[p.expert ? 1 : 0];
      sort.elements += p.elements;
      sort.over = context_.holders_of(p);
    }
    std::vector<Sort> sorts;
    for (const Sort& sort : both) {
      if (sort.elements > 0) sorts.push_back(sort);
    }
    return sorts;
  }

  [[nodiscard]] std::int64_t own_elements() const {
    std::int64_t own = 0;
    for (const Sort& sort : sorts()) own += divide_up(sort.elements, sort.over.members);
    return own;
  }

  StrategyContext context_;
  std::int64_t gather_bucket_;
};

}  // namespace

Problems check_bf16_optimizer(const ShardingPlan& plan) {
  if (plan.precision == PrecisionRecipe::bf16) return {};
  return {{"parallelism.sharding", fmt::format("bf16-optimizer does not train in {}", name_of(plan.precision)),
           "nearest valid: training.precision: bf16, or sharding: zero1"}};
}

void adapt_bf16_optimizer(const ShardingPlan& /*plan*/, OperatorShape& shape) {
  StorageFormat& s = shape.storage;
  s.weight = s.gradient = s.residual = 2;
  s.master = s.main_gradient = kWide;
  shape.autocast = false;
  shape.fresh_gradients = true;
}

std::unique_ptr<ShardingStrategy> make_bf16_optimizer(const StrategyContext& context, const Choice& choice,
                                                      const RegistryRow& row) {
  return std::make_unique<Bf16Optimizer>(context, integer_option(choice, row, "allgather_bucket_size"));
}

}  // namespace orrery
