// The passes: check; sizes; blocks (each kind built once); ranks and communicators; one program per pipeline stage, and
// where context-parallel ranks have different work, or expert-parallel ranks different loads, one for each of those.
#include "workloads/build.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "sim/base/check.hpp"
#include "workloads/emit/layout.hpp"
#include "workloads/emit/stage.hpp"
#include "workloads/emit/step.hpp"
#include "workloads/experts/dispatch.hpp"
#include "workloads/flops.hpp"
#include "workloads/fp8.hpp"
#include "workloads/image_layer.hpp"
#include "workloads/layer.hpp"
#include "workloads/operator_shape.hpp"
#include "workloads/operators/tensor_overlap.hpp"
#include "workloads/options.hpp"
#include "workloads/schedules/schedule.hpp"
#include "workloads/sharding/strategy.hpp"

namespace orrery {

namespace {

// The blocks that stages are made of; layers that are alike are one. Addresses stay valid: stages point into it.
struct Blocks {
  Block embedding;
  std::vector<Block> layers;          // each kind of layer
  std::vector<std::size_t> of_layer;  // [layers of the model]
  Block head;
  // Of a teacher: embedding, layer, head. Empty: there is none.
  std::vector<Block> teacher;
};

ShardingPlan sharding_plan(const TrainingSpec& training, const ParallelismSpec& parallelism, const ShardingRow& row,
                           const Degrees& degrees) {
  return {.choice = parallelism.sharding,
          .row = row.row,
          .precision = training.precision,
          .autocast = training.framework.autocast,
          .replicas = degrees.data * degrees.context,
          .pipeline = parallelism.pipeline,
          .expert = parallelism.expert,
          .micro_batches = training.global_batch / (degrees.data * training.micro_batch)};
}

void add_parameters(Stage& stage, const Block& block, std::int64_t chunk) {
  for (const ParameterTensor& p : block.parameters) {
    stage.parameters.push_back(p);
    stage.chunk_of_parameter.push_back(static_cast<std::int32_t>(chunk));
  }
}

void add_unit(Stage& stage, const Block& block, std::int64_t layer, std::int64_t chunk) {
  stage.units.push_back({.block = &block,
                         .layer = static_cast<std::int32_t>(layer),
                         .chunk = static_cast<std::int32_t>(chunk),
                         .first_parameter = stage.parameters.size()});
  add_parameters(stage, block, chunk);
}

// Layers of a group have the weights of its first.
void add_layer(Stage& stage, const ModelSpec& model, const Block& block, std::int64_t layer, std::int64_t chunk) {
  const std::int64_t first = model.first_of_group(layer);
  const auto same = std::find_if(stage.units.begin(), stage.units.end(),
                                 [&](const Unit& unit) { return unit.layer >= 0 && unit.layer == first; });
  if (first == layer || same == stage.units.end()) {
    add_unit(stage, block, layer, chunk);
    return;
  }
  stage.units.push_back({.block = &block,
                         .layer = static_cast<std::int32_t>(layer),
                         .chunk = static_cast<std::int32_t>(chunk),
                         .first_parameter = same->first_parameter,
                         .reuses = true});
}

// The first layer of each virtual stage, and behind them the number of layers.
std::vector<std::int64_t> first_layers(const ModelSpec& model, const ParallelismSpec& parallelism,
                                       const Schedule& schedule) {
  const StageGrid grid =
      stage_grid(*find_schedule(parallelism.schedule.kind), schedule.shape.stages, schedule.shape.chunks);
  const auto dealt = stage_layers(model.layers, parallelism, grid);
  std::vector<std::int64_t> first{0};
  for (const std::int64_t layers : dealt.value()) first.push_back(first.back() + layers);
  return first;
}

bool has_table(const Block& head) {
  return std::any_of(head.parameters.begin(), head.parameters.end(),
                     [](const ParameterTensor& p) { return p.name == "logits.weight"; });
}

// Tables that are tied across stages: of the first and of the last part of the model.
PipelineGroups pipeline_groups(const ModelSpec& model, const PipelinePlacement& placement) {
  PipelineGroups groups;
  groups.mirrored = placement.copies() > 1;
  if (!model.tied_embeddings || placement.ends_meet()) return groups;
  groups.tied_stages = {placement.place_of({0, 0}).stage,
                        placement.place_of({placement.virtual_stages() - 1, 0}).stage};
  return groups;
}

// Who reduce the largest values of fp8 tensors together (Megatron-LM's get_amax_reduction_group).
GroupKindId add_amax_group(Workload& workload, const Degrees& degrees, AmaxGroup over) {
  const bool alone =
      over == AmaxGroup::none || (over == AmaxGroup::tensor && degrees.tensor == 1) || degrees.ranks_of_stage() == 1;
  if (alone) return {};
  return add_group_kind(workload, "amax", degrees.ranks(), [&](std::int64_t rank) {
    Coordinates at = coordinates_of(degrees, rank);
    at.tensor = 0;
    if (over == AmaxGroup::stage) at.data = at.context = 0;
    return rank_at(degrees, at);
  });
}

// What the communicators that a stage's ranks belong to hold, and the framework itself.
Bytes framework_memory(const FrameworkSpec& framework, const Groups& groups, const Stage& stage) {
  std::int64_t communicators = 0;
  for (const GroupKindId kind : {groups.tensor, groups.data, groups.shard, groups.replicate, groups.near_shard,
                                 groups.model, groups.world, groups.context, groups.expert, groups.expert_data,
                                 groups.expert_tensor, groups.expert_node, groups.expert_rail, groups.amax}) {
    if (kind.valid()) ++communicators;
  }
  if (groups.embedding.valid() && (stage.first() || stage.last())) ++communicators;
  if (stage.stages > 1) ++communicators;  // the pipeline's own
  return framework.context + framework.communicator * communicators;
}

Flops program_flops(const Program& program, const std::vector<Kernel>& kernels) {
  std::vector<double> of_sequence;
  for (const KernelSequence& sequence : program.sequences()) {
    double sum = 0;
    for (const KernelId id : sequence) sum += kernels[id.index()].flops.count();
    of_sequence.push_back(sum);
  }
  double sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind == TaskKind::kernels) sum += of_sequence[task.payload];
  }
  return Flops(sum);
}

// What the passes share.
struct Plan {
  const ModelSpec& model;
  const TrainingSpec& training;
  const ParallelismSpec& parallelism;
  Degrees degrees;
  DataRuns runs;
  Schedule schedule;
  const ShardingRow* sharding = nullptr;
  const OptimizerRow* optimizer = nullptr;
  TrainingOfBlocks training_of_blocks;
};

Plan make_plan(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
               std::int64_t ranks) {
  Plan plan{model, training, parallelism, {}, {}, {}, nullptr, nullptr, {}};
  plan.training_of_blocks = training_of_blocks(model, training.trainable);
  const std::int64_t replicas = ranks / (parallelism.tensor * parallelism.pipeline * parallelism.context);
  plan.degrees = {parallelism.tensor, parallelism.context, replicas, parallelism.pipeline};
  if (model.experts > 0) {
    plan.degrees.expert = parallelism.expert;
    plan.degrees.expert_tensor = expert_tensor_degree(model, parallelism);
    const DispatchRow* dispatch = find_dispatch(parallelism.dispatch.kind);
    if (dispatch->by_node) {
      plan.degrees.ranks_per_node = integer_option(parallelism.dispatch, dispatch->row, "ranks_per_node");
    }
  }
  plan.sharding = find_sharding(parallelism.sharding.kind);
  plan.optimizer = find_optimizer(training.optimizer.kind);
  if (plan.sharding->runs != nullptr) {
    plan.runs = plan.sharding->runs(sharding_plan(training, parallelism, *plan.sharding, plan.degrees));
  }
  plan.schedule = make_schedule(parallelism.schedule, parallelism.pipeline,
                                training.global_batch / (replicas * training.micro_batch))
                      .value();
  return plan;
}

Blocks make_blocks(const Plan& plan, const OperatorShape& shape, KernelPool& pool) {
  const ModelSpec& model = plan.model;
  const Recompute recompute = plan.training.recompute;
  const TrainingOfBlocks& training = plan.training_of_blocks;
  Blocks blocks;
  if (model.images()) {
    blocks.embedding = image_embedding_block(pool, shape);
    blocks.head = image_head_block(pool, shape);
  } else {
    const bool head_has_table = !model.tied_embeddings || !plan.schedule.placement.ends_meet();
    blocks.embedding = embedding_block(pool, shape, training.embedding);
    blocks.head = plan.training.distills() ? student_head_block(pool, shape, head_has_table, training.head)
                                           : head_block(pool, shape, head_has_table, training.head);
  }
  if (model.kind == ModelKind::resnet) {
    for (const Bottleneck& sizes : bottleneck_sorts(model)) {
      blocks.layers.push_back(bottleneck_block(pool, shape, sizes, recompute));
    }
    for (std::int64_t l = 0; l < model.layers; ++l) blocks.of_layer.push_back(bottleneck_sort(model, l));
    return blocks;
  }
  std::vector<std::pair<bool, BlockTraining>> kinds;
  for (std::int64_t l = 0; l < model.layers; ++l) {
    const std::pair kind{model.has_experts(l), training.layers[static_cast<std::size_t>(l)]};
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    blocks.of_layer.push_back(static_cast<std::size_t>(found - kinds.begin()));
    if (found != kinds.end()) continue;
    kinds.push_back(kind);
    blocks.layers.push_back(transformer_layer(pool, shape, recompute, kind.first, kind.second));
  }
  return blocks;
}

// A teacher runs forward only, in blocks of its own. A table of its own for the logits, or the embedding's.
std::vector<Block> teacher_blocks(const OperatorShape& shape, KernelPool& pool) {
  const BlockTraining frozen{TrainedParts::none(), false, false};
  std::vector<Block> blocks;
  blocks.push_back(embedding_block(pool, shape, frozen));
  blocks.push_back(transformer_layer(pool, shape, Recompute::none, false, frozen));
  blocks.push_back(teacher_head_block(pool, shape, !shape.model.tied_embeddings));
  blocks[0].name = "teacher embedding";
  blocks[1].name = "teacher layer";
  for (Block& block : blocks) {
    for (ParameterTensor& p : block.parameters) {
      p.tied = false;
      p.teacher = true;
    }
  }
  return blocks;
}

// Its layers are numbered behind the student's.
void add_teacher(Stage& stage, const Plan& plan, const Blocks& blocks) {
  if (blocks.teacher.empty()) return;
  add_unit(stage, blocks.teacher[0], -1, 0);
  for (std::int64_t l = 0; l < plan.training.teacher.layers; ++l) {
    add_unit(stage, blocks.teacher[1], plan.model.layers + l, 0);
  }
  add_unit(stage, blocks.teacher[2], -1, 0);
  if (!has_table(blocks.teacher[2])) stage.units.back().borrowed = 0;  // the embedding's table is the first parameter
}

// Whether gradients travel back over the boundary before virtual stage `v`.
bool carries_gradients(const Plan& plan, const std::vector<std::int64_t>& first_layer, std::size_t v) {
  if (v + 1 >= first_layer.size()) return true;  // behind the last
  const auto layer = static_cast<std::size_t>(first_layer[v]);
  const TrainingOfBlocks& training = plan.training_of_blocks;
  return layer < training.layers.size() ? training.layers[layer].live : training.head.live;
}

// The embedding joins the first virtual stage, the head the last.
Stage make_stage(const Plan& plan, const Blocks& blocks, std::vector<StageChunk> places, std::int64_t index) {
  const std::vector<std::int64_t> first_layer = first_layers(plan.model, plan.parallelism, plan.schedule);
  Stage stage;
  stage.index = index;
  stage.stages = plan.schedule.shape.stages;
  stage.chunks = plan.schedule.shape.chunks;
  stage.places = std::move(places);
  for (std::size_t chunk = 0; chunk < stage.places.size(); ++chunk) {
    const auto c = static_cast<std::int64_t>(chunk);
    const auto v = static_cast<std::size_t>(stage.places[chunk].virtual_stage);
    stage.gradients_in.push_back(carries_gradients(plan, first_layer, v + 1));
    stage.gradients_out.push_back(carries_gradients(plan, first_layer, v));
    if (v == 0) add_teacher(stage, plan, blocks);
    if (v == 0) add_unit(stage, blocks.embedding, -1, c);
    for (std::int64_t l = first_layer[v]; l < first_layer[v + 1]; ++l) {
      add_layer(stage, plan.model, blocks.layers[blocks.of_layer[static_cast<std::size_t>(l)]], l, c);
    }
    if (v + 2 != first_layer.size()) continue;
    add_unit(stage, blocks.head, -1, c);
    if (plan.model.images() || has_table(blocks.head)) continue;
    // The head uses the embedding's table, which is then on this stage.
    const auto embedding = std::find_if(stage.units.begin(), stage.units.end(),
                                        [&](const Unit& unit) { return unit.block == &blocks.embedding; });
    ORRERY_CHECK(embedding != stage.units.end(), "a table that is shared is on the stage", index);
    stage.units.back().borrowed = static_cast<std::int64_t>(embedding->first_parameter);
  }
  return stage;
}

Program stage_program(const Plan& plan, const OperatorShape& shape, const Groups& groups, const Stage& stage,
                      KernelPool& pool) {
  const Choice& schedule = plan.parallelism.schedule;
  const FrameworkSpec& framework = plan.training.framework;
  StepContext context;
  context.stage = &stage;
  context.shape = shape;
  context.groups = groups;
  context.transfers.scatter_gather = boolean_option(schedule, find_schedule(schedule.kind)->row, "scatter_gather");
  context.transfers.overlap = plan.schedule.overlaps_transfers;
  context.transfers.streams_per_chunk = plan.schedule.streams_per_chunk;
  context.transfers.overlap_pairs = plan.schedule.overlaps_pairs && plan.degrees.expert > 1;
  context.transfers.block_host = framework.transfers_block_host;
  context.step_overhead = framework.step_overhead;
  context.framework_memory = framework_memory(framework, groups, stage);
  if (overlaps_tensor(plan.parallelism)) context.user_buffers = user_buffers(shape);
  context.pool = &pool;
  context.optimizer = plan.optimizer;
  context.optimizer_choice = plan.training.optimizer;

  const StrategyContext strategy_context{
      .stage = &stage,
      .storage = shape.storage,
      .precision = plan.training.precision,
      .groups = groups,
      .replicas = plan.degrees.data * plan.degrees.context * plan.schedule.placement.copies(),
      .expert_replicas = plan.degrees.ranks_of_stage() / (plan.degrees.expert * plan.degrees.expert_tensor) *
                         plan.schedule.placement.copies(),
      .runs = plan.runs,
      .micro_batches = plan.schedule.shape.micro_batches / plan.schedule.placement.copies(),
      .pool = &pool,
      .optimizer = plan.optimizer,
      .optimizer_choice = &plan.training.optimizer,
      .fused = shape.fused};
  const std::unique_ptr<ShardingStrategy> strategy =
      plan.sharding->make(strategy_context, plan.parallelism.sharding, plan.sharding->row);
  return emit_step(context, plan.schedule.slots[static_cast<std::size_t>(stage.index)], *strategy);
}

}  // namespace

Precision compute_precision(PrecisionRecipe recipe) {
  return recipe == PrecisionRecipe::fp8 ? Precision::fp8 : storage_format(recipe, false).compute;
}

Result<Workload> build_workload(const ModelSpec& model, const TrainingSpec& training,
                                const ParallelismSpec& parallelism, std::int64_t ranks) {
  if (training.micro_batch == kLargestMicroBatch) {
    return Problem{"training.micro_batch", "the micro-batch has not been chosen", "give a number, such as 1"};
  }
  if (Problems problems = check_plan(model, training, parallelism, ranks); !problems.empty()) return problems;
  const Plan plan = make_plan(model, training, parallelism, ranks);
  const std::int64_t p = plan.degrees.pipeline;

  Workload workload;
  const PipelinePlacement& placement = plan.schedule.placement;
  Groups groups = add_groups(workload, plan.degrees, pipeline_groups(model, placement), plan.sharding->needs_world,
                             plan.runs, model.experts > 0);
  groups.amax = add_amax_group(workload, plan.degrees, amax_group(training));
  const std::vector<std::vector<StageChunk>> places = add_pipeline_peers(workload, plan.degrees, placement);
  RingPeers context_peers;
  if (plan.degrees.context > 1) {
    context_peers = add_ring_peers(workload, plan.degrees, "context", &Coordinates::context, plan.degrees.context);
  }
  RingPeers tensor_peers;
  if (overlaps_tensor(parallelism)) {
    tensor_peers = add_ring_peers(workload, plan.degrees, "tensor", &Coordinates::tensor, plan.degrees.tensor);
  }

  KernelPool pool;
  const ShapeRequest request{model, training, parallelism, groups, context_peers, tensor_peers};
  const Variants variants = variants_of(model, training, parallelism);
  for (std::int64_t v = 0; v < variants.count(); ++v) {
    OperatorShape shape = operator_shape(request, workload, v % variants.context, v / variants.context);
    if (plan.sharding->adapt != nullptr) {
      plan.sharding->adapt(sharding_plan(training, parallelism, *plan.sharding, plan.degrees), shape);
    }
    if (model.layer_groups > 0) shape.fresh_gradients = false;  // layers of a group add up theirs
    Blocks blocks = make_blocks(plan, shape, pool);
    if (training.distills()) {
      const ShapeRequest of_teacher{training.teacher, training, parallelism, groups, context_peers, {}};
      OperatorShape teacher = operator_shape(of_teacher, workload, v % variants.context, v / variants.context);
      teacher.lora = {};
      teacher.storage = shape.storage;
      teacher.autocast = shape.autocast;
      blocks.teacher = teacher_blocks(teacher, pool);
    }
    for (std::int64_t s = 0; s < p; ++s) {
      const Stage stage = make_stage(plan, blocks, places[static_cast<std::size_t>(s)], s);
      workload.programs.push_back(stage_program(plan, shape, groups, stage, pool));
    }
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Coordinates at = coordinates_of(plan.degrees, rank);
    const std::int64_t context = variants.context > 1 ? at.context : 0;
    const std::int64_t expert = variants.expert > 1 ? expert_coordinates_of(plan.degrees, rank).expert : 0;
    const std::int64_t variant = expert * variants.context + context;
    workload.role_of.emplace_back(static_cast<std::size_t>(variant * p + at.pipeline));
  }

  workload.kernels = std::move(pool).take();
  const std::int64_t adapters = adapter_parameters(model, training.trainable);
  workload.parameters = parameters(model) + adapters;
  workload.active_parameters = active_parameters(model) + adapters;
  // Image models count images, which the step has as many of as sequences.
  workload.tokens_per_step = model.images() ? 0 : training.global_batch * training.sequence_length;
  workload.model_flops = model_flops(model, training.sequence_length, training.global_batch, training.trainable);
  if (training.distills()) {
    workload.model_flops +=
        forward_flops(training.teacher, training.sequence_length) * static_cast<double>(training.global_batch);
  }
  const auto ranks_per_role = static_cast<double>(ranks / (p * variants.count()));
  for (const Program& program : workload.programs) {
    workload.hardware_flops += program_flops(program, workload.kernels) * ranks_per_role;
  }
  workload.precision = compute_precision(training.precision);
  return workload;
}

}  // namespace orrery
