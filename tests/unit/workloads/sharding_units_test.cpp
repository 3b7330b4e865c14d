// Units of FSDP, and groups of parameters that have other replicas: on stages made by hand.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/build.hpp"
#include "workloads/emit/layout.hpp"
#include "workloads/sharding/strategy.hpp"
#include "workloads/sharding/wrap.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

using Level = WrapUnit::Level;

// A block with a step for each parameter in both passes. Blocks outlive the stage.
struct Made {
  KernelPool pool;
  std::vector<std::unique_ptr<Block>> blocks;
  Stage stage;

  void block(std::int32_t layer, const std::vector<ParameterTensor>& parameters) {
    BlockBuilder builder(pool, layer < 0 ? "end" : "layer");
    for (const ParameterTensor& p : parameters) {
      builder.begin_module(p.module);
      const ParameterIndex index = builder.parameter(p);
      Fragment f = builder.fragment();
      Kernel kernel;
      kernel.name = p.name;
      kernel.n = p.elements;
      kernel.bytes = Bytes(1000);
      f.forward(kernel).backward(kernel, {index});
      builder.add(std::move(f));
    }
    blocks.push_back(std::make_unique<Block>(std::move(builder).build(Recompute::none)));
    stage.units.push_back({.block = blocks.back().get(), .layer = layer, .first_parameter = stage.parameters.size()});
    for (const ParameterTensor& p : blocks.back()->parameters) {
      stage.parameters.push_back(p);
      stage.chunk_of_parameter.push_back(0);
    }
  }
};

ParameterTensor tensor(const char* name, std::int64_t elements, const char* module = "", bool expert = false) {
  ParameterTensor p;
  p.name = name;
  p.elements = elements;
  p.module = module;
  p.expert = expert;
  return p;
}

// Embedding, two layers with experts, head.
std::unique_ptr<Made> with_experts() {
  auto made = std::make_unique<Made>();
  made->block(-1, {tensor("embedding.weight", 800)});
  for (const std::int32_t layer : {0, 1}) {
    made->block(layer, {tensor("attention.weight", 400, "attention"), tensor("router.weight", 80, "mlp"),
                        tensor("experts.weight", 1600, "mlp", true)});
  }
  made->block(-1, {tensor("norm.weight", 80), tensor("logits.weight", 800)});
  return made;
}

std::vector<std::int64_t> sizes(const std::vector<WrapUnit>& units) {
  std::vector<std::int64_t> out;
  for (const WrapUnit& unit : units) out.push_back(unit.elements);
  return out;
}

// One forward and one backward pass, as a step's emitter plays them.
Program played(Made& made, ShardingStrategy& strategy) {
  StageEmitter out;
  strategy.resident(out.program());
  const auto pass = [&](std::size_t u, bool forward) {
    const Unit& unit = made.stage.units[u];
    const auto index = [&](ParameterIndex i) { return unit.first_parameter + static_cast<std::size_t>(i); };
    out.at("pass", 0, unit.layer);
    if (forward) {
      strategy.before_forward(out, u);
      for (const Step& step : unit.block->forward) {
        for (const ParameterIndex i : step.needs) strategy.before_use(out, index(i));
        out.step(step);
      }
      strategy.after_forward(out, u);
    } else {
      strategy.before_backward(out, u);
      for (const Step& step : unit.block->backward) {
        for (const ParameterIndex i : step.needs) strategy.before_backward_use(out, index(i));
        out.step(step);
        for (const ParameterIndex i : step.gradients) strategy.gradient_ready(out, index(i), true);
      }
      strategy.after_backward(out, u);
    }
  };
  strategy.begin_step(out);
  for (std::size_t u = 0; u < made.stage.units.size(); ++u) pass(u, true);
  for (std::size_t u = made.stage.units.size(); u-- > 0;) pass(u, false);
  strategy.reduce_rest(out);
  strategy.before_optimizer(out);
  strategy.after_optimizer(out);
  return std::move(out).finish();
}

std::int64_t bytes_over(const Program& program, GroupKindId group, CollectiveOp op) {
  std::int64_t sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::collective) continue;
    const CollectiveCall& call = program.collective(task);
    if (call.group == group && call.op == op) sum += call.bytes.count();
  }
  return sum;
}

}  // namespace

TEST_CASE("blocks are units, their experts are units of their own, and the root has the rest") {
  const auto made = with_experts();
  const std::vector<WrapUnit> units = wrap_units(made->stage, Wrap::block, 0);
  CHECK(sizes(units) == std::vector<std::int64_t>{800 + 80 + 800, 480, 1600, 480, 1600});
  CHECK(units[0].level == Level::root);
  CHECK(units[1].level == Level::block);
  CHECK(units[2].level == Level::inner);
  CHECK(units[2].expert);
}

TEST_CASE("parts of blocks are units; a size wraps the smallest module that has it") {
  const auto made = with_experts();
  CHECK(sizes(wrap_units(made->stage, Wrap::module, 0)) ==
        std::vector<std::int64_t>{1680, 400, 80, 1600, 400, 80, 1600});
  // At 800 the tables and the experts' leaf; attention and router are left to the root: 2 x 480 and the norm.
  CHECK(sizes(wrap_units(made->stage, Wrap::size, 800)) ==
        std::vector<std::int64_t>{2 * 480 + 80, 800, 1600, 1600, 800});
  // At 2,000 the layer as a whole (2,080), in two units, since its experts have other replicas.
  CHECK(sizes(wrap_units(made->stage, Wrap::size, 2000)) == std::vector<std::int64_t>{1680, 480, 1600, 480, 1600});
}

TEST_CASE("experts are gathered and reduced over those that hold the same, in every row that splits state") {
  const GroupKindId data(std::size_t{0});
  const GroupKindId expert_data(std::size_t{1});
  const std::int64_t experts = 2 * 1600;
  const std::int64_t dense = 800 + 2 * 480 + 880;
  for (const char* kind : {"fsdp", "zero1", "zero2", "zero3"}) {
    for (const std::int64_t version : {1, 2}) {
      CAPTURE(kind);
      const auto made = with_experts();
      Choice choice{kind, {}};
      if (choice.kind == "fsdp") choice.options["version"] = version;
      if (choice.kind == "zero3") choice.options["stage3_param_persistence_threshold"] = std::int64_t{0};
      StrategyContext context;
      context.stage = &made->stage;
      context.storage = {.gradient = 2, .main_gradient = 4};
      context.groups.data = data;
      context.groups.expert_data = expert_data;
      context.replicas = 8;
      context.expert_replicas = 2;
      context.pool = &made->pool;
      const Choice optimizer{"adamw", {}};
      context.optimizer = find_optimizer("adamw");
      context.optimizer_choice = &optimizer;
      const ShardingRow* row = find_sharding(kind);
      const auto strategy = row->make(context, choice, row->row);
      const Program program = played(*made, *strategy);
      const CollectiveOp reduce =
          choice.kind == "zero1" || choice.kind == "zero2" ? CollectiveOp::all_reduce : CollectiveOp::reduce_scatter;
      CHECK(bytes_over(program, data, reduce) == 2 * dense);
      CHECK(bytes_over(program, expert_data, reduce) == 2 * experts);
      // Layers of FSDP twice, its root once; everything else once.
      const bool twice = choice.kind == "fsdp";
      CHECK(bytes_over(program, data, CollectiveOp::all_gather) == 2 * (dense + (twice ? 960 : 0)));
      CHECK(bytes_over(program, expert_data, CollectiveOp::all_gather) == 2 * (twice ? 2 : 1) * experts);
      // All of it padded to nothing: 8 divides every dense tensor, 2 the experts.
      CHECK(strategy->optimizer_work().elements == dense / 8 + experts / 2);
    }
  }
}

TEST_CASE("groups of neighbours: runs of the data group, and those at the same place of each") {
  Workload workload;
  // Tensor 2 x data 4: rank = 2 data + tensor. Runs of two replicas.
  const Groups groups = add_groups(workload, {.tensor = 2, .data = 4}, {}, false, {.shard = 2, .near_shard = 4});
  const auto members = [&](GroupKindId kind, std::size_t rank) {
    std::vector<std::int32_t> ranks;
    const CommunicatorId c = workload.communicator_of[kind.index()][rank];
    for (const RankId r : workload.communicators[c.index()].ranks) ranks.push_back(r.value());
    return ranks;
  };
  CHECK(members(groups.shard, 0) == std::vector<std::int32_t>{0, 2});
  CHECK(members(groups.shard, 7) == std::vector<std::int32_t>{5, 7});
  CHECK(members(groups.replicate, 0) == std::vector<std::int32_t>{0, 4});
  CHECK(members(groups.replicate, 3) == std::vector<std::int32_t>{3, 7});
  CHECK(members(groups.near_shard, 1) == std::vector<std::int32_t>{1, 3, 5, 7});
}

TEST_CASE("what frameworks refuse is refused, with what they would take") {
  const auto problem = [](const char* kind, std::map<std::string, OptionValue> options, std::int64_t pipeline,
                          const char* schedule = "1f1b") {
    ParallelismSpec plan = parallel(1, pipeline);
    plan.schedule.kind = schedule;
    plan.sharding = {kind, std::move(options)};
    const Problems problems = check_plan(gpt(4, 64, 4, 512, 128), training(32, 24), plan, 6 * pipeline);
    if (problems.empty()) return std::string();
    return problems[0].key + "; " + problems[0].note;
  };
  const std::int64_t four = 4;
  CHECK(problem("zero1", {}, 2).empty());
  CHECK(problem("zero2", {}, 2) == "parallelism.sharding.kind; nearest valid: zero1, or parallelism.pipeline 1");
  CHECK(problem("zero3", {}, 2) == "parallelism.sharding.kind; nearest valid: zero1, or parallelism.pipeline 1");
  CHECK(problem("zero3", {}, 1, "gpipe") == "parallelism.sharding.kind; nearest valid: parallelism.schedule 1f1b");
  CHECK(problem("zero3", {{"mics_shard_size", four}}, 1) ==
        "parallelism.sharding.mics_shard_size; nearest valid: 3, 6");
  CHECK(problem("zero3", {{"zero_hpz_partition_size", four}}, 1) ==
        "parallelism.sharding.zero_hpz_partition_size; nearest valid: 3, 6");
  CHECK(problem("fsdp", {}, 2).empty());
  CHECK(problem("fsdp", {{"version", std::int64_t{1}}}, 2) == "parallelism.sharding.version; nearest valid: 2");
  CHECK(problem("fsdp", {{"strategy", std::string("hybrid-shard")}, {"shard_size", four}}, 1) ==
        "parallelism.sharding.shard_size; nearest valid: 3, 6");
  CHECK(problem("fsdp", {{"reshard_after_forward", four}}, 1) ==
        "parallelism.sharding.reshard_after_forward; nearest valid: 3, 6");
  CHECK(problem("fsdp", {{"strategy", std::string("no-shard")}}, 1) ==
        "parallelism.sharding.strategy; nearest valid: {version: 1}, or sharding: none");
  CHECK(problem("fsdp", {{"backward_prefetch", std::string("post")}}, 1) ==
        "parallelism.sharding.backward_prefetch; nearest valid: pre");
  CHECK(problem("fsdp", {{"param_dtype", std::string("fp16")}}, 1) ==
        "parallelism.sharding.param_dtype; nearest valid: bf16");
  CHECK(problem("fsdp", {{"wrap", std::string("blocks")}}, 1) == "parallelism.sharding.wrap; did you mean block?");
}
