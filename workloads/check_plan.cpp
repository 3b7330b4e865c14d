// What is wrong with a plan. Each check stands alone, so that all problems are shown at once; later checks skip what an
// earlier one has already found senseless (a degree of zero).
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "workloads/build.hpp"
#include "workloads/check_trainable.hpp"
#include "workloads/context/context.hpp"
#include "workloads/experts/dispatch.hpp"
#include "workloads/experts/overlap.hpp"
#include "workloads/experts/routing.hpp"
#include "workloads/fp8.hpp"
#include "workloads/image_model.hpp"
#include "workloads/micro_batches.hpp"
#include "workloads/operator_shape.hpp"
#include "workloads/options.hpp"
#include "workloads/schedules/schedule.hpp"
#include "workloads/sharding/strategy.hpp"
#include "workloads/size.hpp"
#include "workloads/sparsity.hpp"
#include "workloads/stage_layers.hpp"

namespace orrery {

namespace {

// The valid values next to `value`, below and above, among 1..most.
template <class Valid>
std::string nearest(std::int64_t value, std::int64_t most, Valid&& valid) {
  std::string text;
  for (std::int64_t below = std::min(value - 1, most); below >= 1; --below) {
    if (!valid(below)) continue;
    text = fmt::format("{}", below);
    break;
  }
  for (std::int64_t above = value + 1; above <= most; ++above) {
    if (!valid(above)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", above);
    break;
  }
  return text.empty() ? std::string() : "nearest valid: " + text;
}

class PlanCheck {
 public:
  PlanCheck(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
            std::int64_t ranks)
      : m_(model), t_(training), p_(parallelism), ranks_(ranks) {}

  Problems run() && {
    problems_ = check(m_);
    model_sound_ = problems_.empty();
    choices();
    positive();
    if (!model_sound_ || !positive_) return std::move(problems_);
    if (m_.images()) images();
    if (!problems_.empty() && m_.kind == ModelKind::resnet) return std::move(problems_);
    tensor();
    context();
    experts();
    append(check_trainable(m_, t_, p_));
    pipeline();
    data_and_batch();
    lengths();
    formats();
    if (problems_.empty()) size();
    return std::move(problems_);
  }

 private:
  void add(std::string key, std::string message, std::string note = {}) {
    problems_.push_back({std::move(key), std::move(message), std::move(note)});
  }

  void append(Problems more) { problems_.insert(problems_.end(), more.begin(), more.end()); }

  void choices() {
    Problems schedule = check_choice(p_.schedule, schedule_rows(), "parallelism.schedule");
    schedule_sound_ = schedule.empty();
    append(std::move(schedule));
    Problems sharding = check_choice(p_.sharding, sharding_rows(), "parallelism.sharding");
    sharding_sound_ = sharding.empty();
    append(std::move(sharding));
    append(check_choice(t_.optimizer, optimizer_rows(), "training.optimizer"));
    Problems formats = check_choice(t_.fp8, fp8_rows(), "training.fp8");
    for (Problem& problem : check_choice(t_.sparsity, sparsity_rows(), "training.sparsity")) {
      formats.push_back(std::move(problem));
    }
    formats_sound_ = formats.empty();
    append(std::move(formats));
    Problems layers = check_choice(p_.context_kind, context_rows(), "parallelism.context_kind");
    const auto add_layers = [&](Problems more) { layers.insert(layers.end(), more.begin(), more.end()); };
    add_layers(check_choice(p_.dispatch, dispatch_rows(), "parallelism.dispatch"));
    add_layers(check_choice(t_.routing, routing_rows(), "training.routing"));
    layers_sound_ = layers.empty();
    append(std::move(layers));
  }

  void at_least_one(const char* key, std::int64_t value) {
    if (value >= 1) return;
    add(key, fmt::format("must be at least 1, not {}", value));
    positive_ = false;
  }

  void positive() {
    at_least_one("training.sequence_length", t_.sequence_length);
    at_least_one("training.global_batch", t_.global_batch);
    at_least_one("training.micro_batch", t_.micro_batch);
    at_least_one("training.framework.vocabulary_multiple", t_.framework.vocabulary_multiple);
    at_least_one("parallelism.tensor", p_.tensor);
    at_least_one("parallelism.pipeline", p_.pipeline);
    at_least_one("parallelism.context", p_.context);
    at_least_one("parallelism.expert", p_.expert);
    if (p_.expert_tensor < 0) at_least_one("parallelism.expert_tensor", p_.expert_tensor);
    if (ranks_ < 1) at_least_one("cluster", ranks_);
    if (p_.data < 0) {
      add("parallelism.data", fmt::format("must be at least 1, not {}", p_.data), "leave it out to derive it");
      positive_ = false;
    }
    if (t_.dropout < 0 || t_.dropout >= 1) {
      add("training.dropout", fmt::format("dropout is {}", t_.dropout), "at least 0 and below 1");
    }
  }

  [[nodiscard]] bool tensor_fits(std::int64_t t) const {
    return m_.heads % t == 0 && m_.kv_heads % t == 0 && m_.ffn_hidden % t == 0;
  }

  void tensor() {
    const std::string note = nearest(p_.tensor, m_.kv_heads, [&](std::int64_t t) { return tensor_fits(t); });
    const auto must_divide = [&](std::int64_t whole, const char* what) {
      if (whole % p_.tensor == 0) return;
      add("parallelism.tensor", fmt::format("tensor degree {} does not divide {} {}", p_.tensor, whole, what), note);
    };
    must_divide(m_.heads, "attention heads");
    if (m_.kv_heads != m_.heads) must_divide(m_.kv_heads, "key-value heads");
    if (m_.heads % p_.tensor == 0) must_divide(m_.ffn_hidden, "MLP columns");
    tensor_overlap();
    if (!p_.sequence_parallel || p_.tensor == 1) return;
    const std::int64_t parts = p_.tensor * p_.context;
    if (t_.sequence_length % parts != 0) {
      add("training.sequence_length",
          fmt::format("{} tokens cannot be split evenly over {} tensor ranks{} (sequence_parallel)", t_.sequence_length,
                      p_.tensor, p_.context > 1 ? fmt::format(" of {} context ranks", p_.context) : std::string()),
          nearest_length(parts));
    }
  }

  void tensor_overlap() {
    if (!p_.tp_comm_overlap) {
      if (p_.tp_comm_overlap_rs_dgrad) {
        add("parallelism.tp_comm_overlap_rs_dgrad", "tp_comm_overlap is off", "switch it on, or leave this out");
      }
      return;
    }
    if (p_.tensor > 1 && !p_.sequence_parallel) {
      add("parallelism.tp_comm_overlap",
          "overlap of tensor-parallel communication needs sequence parallelism (Megatron-LM)",
          "set parallelism.sequence_parallel to true");
    }
    if (m_.latent()) {
      add("parallelism.tp_comm_overlap", "latent attention is simulated without user buffers", "nearest valid: false");
    }
  }

  [[nodiscard]] std::string nearest_length(std::int64_t parts) const {
    return nearest(t_.sequence_length, t_.sequence_length + parts, [&](std::int64_t s) { return s % parts == 0; });
  }

  // What is not simulated of image models, and what they do not have.
  void images() {
    if (t_.sequence_length != tokens_per_image(m_)) {
      add("training.sequence_length",
          fmt::format("an image is {} tokens, not {}", tokens_per_image(m_), t_.sequence_length), "leave it out");
    }
    if (p_.context > 1) add("parallelism.context", "images are not split over context ranks", "leave it out");
    if (p_.sequence_parallel) {
      add("parallelism.sequence_parallel", "image models are not simulated with sequence parallelism",
          "nearest valid: false");
    }
    if (m_.kind != ModelKind::resnet) return;
    const auto whole = [&](const char* key, std::int64_t degree, const char* why) {
      if (degree > 1) add(key, why, "nearest valid: 1; shard the state instead (fsdp, zero3)");
    };
    whole("parallelism.tensor", p_.tensor, "convolutions are not split over tensor ranks");
    whole("parallelism.pipeline", p_.pipeline,
          "the stages of a convolution network pass activations of different sizes, which is not simulated");
    whole("parallelism.expert", p_.expert, "there are no experts to spread");
    if (t_.recompute == Recompute::selective) {
      add("training.recompute", "selective recomputes attention, and a convolution network has none",
          "nearest valid: none, full");
    }
    if (t_.dropout > 0) add("training.dropout", "dropout in a convolution network is not simulated", "leave it out");
  }

  // Sequences that are split: in so many chunks, or by heads.
  void context() {
    if (p_.context == 1 || !layers_sound_) return;
    const ContextRow& row = *find_context(p_.context_kind.kind);
    const bool zig_zag = row.zig_zags && boolean_option(p_.context_kind, row.row, "zig_zag");
    const std::int64_t chunks = p_.context * (zig_zag ? 2 : 1);
    if (t_.sequence_length % chunks != 0) {
      add("training.sequence_length",
          fmt::format("{} tokens cannot be cut into {} equal chunks for {} context ranks", t_.sequence_length, chunks,
                      p_.context),
          nearest_length(chunks));
    }
    const std::int64_t most = std::max<std::int64_t>(1, m_.kv_heads / p_.tensor);
    if (row.splits_heads && p_.tensor <= m_.kv_heads && most % p_.context != 0) {
      add("parallelism.context",
          fmt::format("{} splits heads, and {} does not divide the {} key-value heads of a tensor rank", row.row.name,
                      p_.context, most),
          nearest(p_.context, most, [&](std::int64_t c) { return most % c == 0; }));
    }
    if (t_.attention != AttentionKind::flash) {
      add("training.attention", "context parallelism needs fused attention", "nearest valid: flash");
    }
  }

  void experts() {
    if (m_.latent() && t_.attention != AttentionKind::flash) {
      add("training.attention", "latent attention is simulated as fused attention only", "nearest valid: flash");
    }
    if (m_.experts == 0) {
      const char* note = "leave it out: the model has no experts";
      if (p_.expert > 1)
        add("parallelism.expert", fmt::format("there are no experts to spread over {} ranks", p_.expert), note);
      if (p_.expert_tensor > 1) add("parallelism.expert_tensor", "there are no experts to split", note);
      return;
    }
    if (!layers_sound_) return;
    append(check_routing(t_.routing, m_));
    if (p_.tensor > 1 && !p_.sequence_parallel) {
      add("parallelism.sequence_parallel", "experts under tensor parallelism need sequence parallelism (Megatron-LM)",
          "nearest valid: true");
    }
    expert_degrees();
    dispatch();
  }

  void expert_degrees() {
    if (m_.experts % p_.expert != 0) {
      add("parallelism.expert", fmt::format("expert degree {} does not divide {} experts", p_.expert, m_.experts),
          nearest(p_.expert, m_.experts, [&](std::int64_t e) { return m_.experts % e == 0; }));
      return;
    }
    const std::int64_t t = expert_tensor_degree(m_, p_);
    if (m_.expert_ffn_hidden % t != 0) {
      add("parallelism.expert_tensor",
          fmt::format("tensor degree {} does not divide the {} columns of an expert", t, m_.expert_ffn_hidden),
          nearest(t, m_.expert_ffn_hidden, [&](std::int64_t n) { return m_.expert_ffn_hidden % n == 0; }));
      return;
    }
    if (m_.shared_ffn_hidden() % p_.tensor != 0) {
      add("parallelism.tensor",
          fmt::format("tensor degree {} does not divide the {} columns of the shared experts", p_.tensor,
                      m_.shared_ffn_hidden()),
          nearest(p_.tensor, m_.shared_ffn_hidden(), [&](std::int64_t n) { return m_.shared_ffn_hidden() % n == 0; }));
    }
    if (ranks_ % p_.pipeline != 0) return;  // data_and_batch() says so
    const std::int64_t ranks_of_stage = ranks_ / p_.pipeline;
    if (ranks_of_stage % (p_.expert * t) == 0) return;
    add("parallelism.expert",
        fmt::format("expert {} x expert tensor {} does not divide the {} ranks of a pipeline stage", p_.expert, t,
                    ranks_of_stage),
        nearest(p_.expert, m_.experts,
                [&](std::int64_t e) { return m_.experts % e == 0 && ranks_of_stage % (e * t) == 0; }));
  }

  void dispatch() {
    const DispatchRow& row = *find_dispatch(p_.dispatch.kind);
    if (row.even_only && t_.routing.kind != "even") {
      add("parallelism.dispatch", fmt::format("{} dispatch is simulated with even routing only", row.row.name),
          "nearest valid: all-to-all");
    }
    if (!row.by_node) return;
    const std::int64_t per = integer_option(p_.dispatch, row.row, "ranks_per_node");
    if (p_.expert % per == 0) return;
    add("parallelism.dispatch.ranks_per_node",
        fmt::format("{} ranks a node do not divide {} expert-parallel ranks", per, p_.expert),
        nearest(per, p_.expert, [&](std::int64_t n) { return p_.expert % n == 0; }));
  }

  [[nodiscard]] std::int64_t chunks() const { return chunks_of(p_.schedule, p_.pipeline); }

  void pipeline() {
    if (!schedule_sound_) return;
    const ScheduleRow& row = *find_schedule(p_.schedule.kind);
    const std::int64_t v = chunks();
    if (row.chunks == 0 && v > 1 && p_.pipeline == 1) {
      add("parallelism.schedule.virtual_stages",
          fmt::format("{} virtual stages need a pipeline, and its degree is 1", v), "nearest valid: 1");
    }
    if (row.even && p_.pipeline % 2 != 0) {
      add("parallelism.pipeline", fmt::format("{} needs an even number of stages, not {}", row.row.name, p_.pipeline),
          nearest(p_.pipeline, m_.layers, [&](std::int64_t p) { return p % 2 == 0 && m_.layers % p == 0; }));
      return;
    }
    append(stage_layers(m_.layers, p_, stage_grid(row, p_.pipeline, v)).problems());
    if (layers_sound_) append(check_expert_overlap(m_, t_, p_));
  }

  void data_and_batch() {
    const std::int64_t shard = p_.tensor * p_.pipeline * p_.context;
    if (ranks_ % shard != 0) {
      add("parallelism.data",
          fmt::format("{} GPUs cannot be split into replicas of {} (tensor {} x pipeline {} x context {})", ranks_,
                      shard, p_.tensor, p_.pipeline, p_.context),
          ranks_ < shard ? fmt::format("at least {} GPUs are needed", shard)
                         : fmt::format("use {} or {} GPUs", ranks_ / shard * shard, (ranks_ / shard + 1) * shard));
      return;
    }
    const std::int64_t replicas = ranks_ / shard;
    if (p_.data != 0 && p_.data != replicas) {
      add("parallelism.data",
          fmt::format("tensor {} x pipeline {} x context {} x data {} is {} ranks, and there are {} GPUs", p_.tensor,
                      p_.pipeline, p_.context, p_.data, shard * p_.data, ranks_),
          fmt::format("nearest valid: {}", replicas));
    }
    sharding(replicas * p_.context);
    batch(replicas);
  }

  // What the strategy's framework refuses.
  void sharding(std::int64_t replicas) {
    const ShardingRow* row = find_sharding(p_.sharding.kind);
    if (!sharding_sound_ || row->check == nullptr) return;
    append(row->check({.choice = p_.sharding,
                       .row = row->row,
                       .precision = t_.precision,
                       .autocast = t_.framework.autocast,
                       .replicas = replicas,
                       .pipeline = p_.pipeline,
                       .expert = p_.expert,
                       .micro_batches = t_.global_batch / (replicas / p_.context * t_.micro_batch),
                       .schedule = p_.schedule.kind}));
  }

  void batch(std::int64_t replicas) {
    const std::int64_t unit = replicas * t_.micro_batch;
    if (t_.global_batch % unit != 0) {
      add("training.global_batch",
          fmt::format("{} sequences are not a multiple of data degree {} x micro-batch {}", t_.global_batch, replicas,
                      t_.micro_batch),
          nearest(t_.global_batch, t_.global_batch + unit, [&](std::int64_t b) { return b % unit == 0; }));
      return;
    }
    if (schedule_sound_) schedule(unit);
  }

  // Micro-batches that the schedule can do with; a user's own table as a whole.
  void schedule(std::int64_t unit) {
    const ScheduleRow& row = *find_schedule(p_.schedule.kind);
    const std::int64_t micro_batches = t_.global_batch / unit;
    if (fits(row, p_.pipeline, micro_batches)) {
      // Rows make sound schedules, and long steps long ones: only a user's table is read here.
      if (row.slots != nullptr) {
        if (row.halves) halves();
        return;
      }
      const Result<Schedule> made = make_schedule(p_.schedule, p_.pipeline, micro_batches);
      append(made.problems());
      if (made && has_halves(*made)) halves();
      return;
    }
    if (row.even && p_.pipeline % 2 != 0) return;  // has been said
    std::string message = fmt::format("{} needs micro-batches ({}) in multiples of the pipeline degree ({})",
                                      p_.schedule.kind, micro_batches, p_.pipeline);
    if (!row.whole_rounds) {
      message = fmt::format("{} needs {}at least {} micro-batches ({} times the pipeline degree), not {}",
                            p_.schedule.kind, row.even ? "an even number and " : "", row.rounds_least * p_.pipeline,
                            row.rounds_least, micro_batches);
    }
    const std::int64_t most = t_.global_batch + std::max<std::int64_t>(2, row.rounds_least) * unit * p_.pipeline;
    add("training.global_batch", std::move(message), nearest(t_.global_batch, most, [&](std::int64_t b) {
          return b % unit == 0 && fits(row, p_.pipeline, b / unit);
        }));
  }

  // Of a schedule that runs backward passes by halves.
  void halves() {
    const ShardingRow* sharding = find_sharding(p_.sharding.kind);
    if (!sharding_sound_ || sharding->backward_halves) return;
    add("parallelism.sharding",
        fmt::format("{} is not simulated with backward passes by halves, as {} runs them", p_.sharding.kind,
                    p_.schedule.kind),
        "none, distributed-optimizer and fsdp are; or a schedule with whole backward passes, such as 1f1b");
  }

  void formats() {
    if (!formats_sound_) return;
    append(check_fp8(m_, t_, p_));
    append(check_sparsity(t_));
  }

  void lengths() {
    if (m_.position == PositionKind::learned && t_.sequence_length > m_.positions) {
      add("training.sequence_length",
          fmt::format("{} tokens exceed the model's table of {} positions", t_.sequence_length, m_.positions),
          fmt::format("at most {}", m_.positions));
    }
  }

  // Of a plan that is sound otherwise: whether it can be built and played out in reasonable memory and time.
  void size() {
    if (ranks_ > kRanksMost) {
      add("cluster", fmt::format("{} GPUs are too many to simulate, each by itself", ranks_),
          fmt::format("at most {}", kRanksMost));
      return;
    }
    const StepSize size = estimate_size(m_, t_, p_, chunks(), ranks_, variants_of(m_, t_, p_).count());
    if (size.pieces > kPiecesMost) {
      add("parallelism.sharding",
          fmt::format("state would be gathered or updated in {:.1e} pieces a step, which is too long to simulate",
                      size.pieces),
          fmt::format("at most {:.0e}: raise allgather_bucket_size or sub_group_size", kPiecesMost));
      return;
    }
    const double held = kProgramTasksMost / size.tasks * size.played;  // what fits into memory
    const double most = std::min(held, kPlayedTasksMost);
    if (size.played <= most) return;
    add("training.global_batch",
        fmt::format("the step is too long to simulate: about {:.1e} tasks ({} layers x {:.0f} micro-batches a replica, "
                    "on {} GPUs)",
                    size.played, m_.layers, size.micro_batches, ranks_),
        fmt::format("at most {:.1e}: raise training.micro_batch, or lower training.global_batch or the layers", most));
  }

  const ModelSpec& m_;
  const TrainingSpec& t_;
  const ParallelismSpec& p_;
  std::int64_t ranks_;
  Problems problems_;
  bool model_sound_ = true;
  bool schedule_sound_ = true;
  bool sharding_sound_ = true;
  bool formats_sound_ = true;  // choices of fp8 and sparsity
  bool layers_sound_ = true;   // choices of context, dispatch and routing
  bool positive_ = true;
};

// The schedule of sequence lengths, and the plan at each of them.
Problems check_curriculum(const ModelSpec& model, TrainingSpec training, const ParallelismSpec& parallelism,
                          std::int64_t ranks) {
  constexpr const char* kKey = "training.sequence_curriculum";
  const std::vector<CurriculumStage> stages = std::exchange(training.curriculum, {});
  Problems problems = check_plan(model, training, parallelism, ranks);
  double before = 0;
  for (const CurriculumStage& stage : stages) {
    if (stage.until <= before || stage.until > 1) {
      problems.push_back({kKey,
                          fmt::format("a part ends at {} of the steps, after one that ends at {}", stage.until, before),
                          "parts end one after the other, and the last at 1"});
    }
    before = stage.until;
  }
  const CurriculumStage& last = stages.back();
  if (last.until != 1 || last.sequence_length != training.sequence_length) {
    problems.push_back({kKey,
                        fmt::format("the last part must end at 1 with {} tokens, and ends at {} with {}",
                                    training.sequence_length, last.until, last.sequence_length),
                        "training.sequence_length is that of the last part"});
  }
  if (!problems.empty()) return problems;
  for (const CurriculumStage& stage : stages) {
    training.sequence_length = stage.sequence_length;
    for (Problem& problem : check_plan(model, training, parallelism, ranks)) {
      problems.push_back({kKey, fmt::format("at {} tokens: {}", stage.sequence_length, problem.message), problem.note});
    }
  }
  return problems;
}

}  // namespace

Problems check_plan(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
                    std::int64_t ranks) {
  if (!training.curriculum.empty()) return check_curriculum(model, training, parallelism, ranks);
  if (training.micro_batch == kLargestMicroBatch) {
    return possible_micro_batches(model, training, parallelism, ranks).problems();
  }
  return PlanCheck(model, training, parallelism, ranks).run();
}

}  // namespace orrery
