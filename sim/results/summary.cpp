#include "sim/results/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/int128.hpp"

namespace orrery {

namespace {

constexpr int kOperationsPerParameter = 6;           // 2 forward, 4 backward
constexpr int kOperationsPerParameterRecompute = 8;  // and the forward pass again
constexpr double kTera = 1e12;
constexpr double kSecondsPerHour = 3600;

Duration parts_of(const RankTimes& times) {
  Duration sum = times.compute + times.bubble + times.waiting + times.data_stall + times.other;
  for (const auto& [kind, exposed] : times.exposed_communication) sum += exposed;
  return sum;
}

// Sums of picoseconds weighted by multiplicity, kept exact: 2^63 ps times a hundred thousand ranks needs 80 bits.
class WeightedMean {
 public:
  void add(Duration value, std::int64_t weight) { sum_ += static_cast<Int128>(value.count()) * weight; }
  [[nodiscard]] double seconds(std::int64_t total_weight) const {
    return static_cast<double>(sum_) / static_cast<double>(total_weight) / kPicosecondsPerSecond;
  }

 private:
  Int128 sum_ = 0;
};

Summary::Breakdown mean_breakdown(const RunResult& run) {
  std::int64_t ranks = 0;
  WeightedMean compute, idle, waiting, data_stall, other;
  std::map<std::string, WeightedMean> exposed;
  for (const RankResult& rank : run.ranks) {
    ORRERY_CHECK(parts_of(rank.times) == run.step_time, "a rank's times add up to the step", rank.rank.value(),
                 parts_of(rank.times).count(), run.step_time.count());
    const std::int64_t weight = rank.multiplicity;
    ranks += weight;
    compute.add(rank.times.compute, weight);
    idle.add(rank.times.bubble + rank.times.waiting, weight);
    waiting.add(rank.times.waiting, weight);
    data_stall.add(rank.times.data_stall, weight);
    other.add(rank.times.other, weight);
    for (const auto& [kind, time] : rank.times.exposed_communication) exposed[kind].add(time, weight);
  }
  Summary::Breakdown mean{.compute_s = compute.seconds(ranks),
                          .exposed_communication_s = {},
                          .bubble_s = idle.seconds(ranks),
                          .waiting_s = waiting.seconds(ranks),
                          .data_stall_s = data_stall.seconds(ranks),
                          .other_s = other.seconds(ranks)};
  for (const auto& [kind, sum] : exposed) mean.exposed_communication_s[kind] = sum.seconds(ranks);
  return mean;
}

Summary::Step step_figures(const RunResult& run, const Workload& workload, const RunFacts& facts) {
  const double time_s = to_seconds(run.step_time);
  const double gpus = static_cast<double>(facts.gpus);
  Summary::Step step{.time_s = time_s,
                     .tokens = workload.tokens_per_step,
                     .tokens_per_s = static_cast<double>(workload.tokens_per_step) / time_s,
                     .tokens_per_s_per_gpu = static_cast<double>(workload.tokens_per_step) / time_s / gpus,
                     .images = facts.images_per_step,
                     .images_per_s = static_cast<double>(facts.images_per_step) / time_s,
                     .images_per_s_per_gpu = static_cast<double>(facts.images_per_step) / time_s / gpus,
                     .model_tflops_per_gpu = workload.model_flops.count() / time_s / gpus / kTera,
                     .hardware_tflops_per_gpu = workload.hardware_flops.count() / time_s / gpus / kTera,
                     .mfu = std::nullopt,
                     .hfu = std::nullopt};
  if (facts.peak.count() > 0) {
    step.mfu = workload.model_flops.count() / (time_s * facts.peak.count());
    step.hfu = workload.hardware_flops.count() / (time_s * facts.peak.count());
  }
  return step;
}

Summary::Communication communication_figures(const RunResult& run) {
  Summary::Communication communication{.messages = 0,
                                       .bytes = 0,
                                       .by_kind = run.traffic_by_kind,
                                       .by_link_kind = run.bytes_by_link_kind,
                                       .utilization_by_link_kind = run.utilization_by_link_kind,
                                       .busiest_links = run.busiest_links};
  for (const auto& [kind, count] : run.traffic_by_kind) {
    communication.messages += count.messages;
    communication.bytes += count.bytes;
  }
  return communication;
}

// Of the class with the least room; of equal ones the first.
std::size_t tightest_class(const RunResult& run, const std::vector<Bytes>& limits) {
  const auto room = [&](std::size_t i) { return (limits.empty() ? Bytes() : limits[i]) - run.ranks[i].memory.peak; };
  std::size_t tightest = 0;
  for (std::size_t i = 1; i < run.ranks.size(); ++i) {
    if (room(i) < room(tightest)) tightest = i;
  }
  return tightest;
}

Summary::Memory memory_figures(const RunResult& run, const Workload& workload, const std::vector<Bytes>& limits) {
  ORRERY_CHECK(limits.empty() || limits.size() == run.ranks.size(), "one memory limit per rank class", limits.size(),
               run.ranks.size());
  const std::size_t index = tightest_class(run, limits);
  const RankResult& rank = run.ranks[index];
  Summary::Memory memory;
  memory.peak_bytes = rank.memory.peak.count();
  memory.rank = rank.rank.value();
  memory.when_s = to_seconds(rank.memory.when.time_since_epoch());
  if (!limits.empty()) {
    memory.limit_bytes = limits[index].count();
    memory.fits = rank.memory.peak <= limits[index];
  }
  for (std::size_t tag = 0; tag < kMemoryTags; ++tag) {
    const std::int64_t bytes = rank.memory.by_tag[tag].count();
    if (bytes != 0) memory.by_tag.emplace_back(kMemoryTagNames[tag], bytes);
  }
  std::stable_sort(memory.by_tag.begin(), memory.by_tag.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (rank.memory.task.valid()) {
    const Program& program = workload.programs[rank.role.index()];
    memory.task = program.label(program.tasks()[rank.memory.task.index()]);
  }
  if (rank.memory.first_beyond.valid()) {
    const Program& program = workload.programs[rank.role.index()];
    const Task& task = program.tasks()[rank.memory.first_beyond.index()];
    memory.runs_out_at = fmt::format("{} of {}", name_of(task.phase), program.label(task));
    if (task.layer >= 0) memory.runs_out_at += fmt::format(" {}", task.layer);
    if (task.micro_batch >= 0) memory.runs_out_at += fmt::format(", micro-batch {}", task.micro_batch);
  }
  return memory;
}

std::optional<Summary::Training> training_figures(const Summary::Step& step, const Workload& workload,
                                                  const RunFacts& facts) {
  const bool images = step.images > 0;
  const double work = images ? facts.images : facts.tokens;
  const std::int64_t per_step = throughput_of(step).per_step;
  if (work <= 0 || per_step <= 0) return std::nullopt;
  Summary::Training training;
  training.steps = static_cast<std::int64_t>(std::ceil(work / static_cast<double>(per_step)));
  (images ? training.images : training.tokens) = work;
  training.ideal_operations = ideal_operations(facts.full_recompute);
  training.time_s = static_cast<double>(training.steps) * step.time_s;
  training.gpu_hours = training.time_s * static_cast<double>(facts.gpus) / kSecondsPerHour;
  if (facts.peak.count() > 0 && !images) {  // what an image costs is no multiple of the parameters
    training.ideal_time_s = ideal_training_time_s(static_cast<double>(workload.active_parameters), facts.tokens,
                                                  facts.peak, facts.full_recompute);
  }
  return training;
}

}  // namespace

Throughput throughput_of(const Summary::Step& step) {
  if (step.images > 0) return {"images", step.images, step.images_per_s, step.images_per_s_per_gpu};
  return {"tokens", step.tokens, step.tokens_per_s, step.tokens_per_s_per_gpu};
}

double Summary::Breakdown::exposed_total_s() const {
  double sum = 0;
  for (const auto& [kind, seconds] : exposed_communication_s) sum += seconds;
  return sum;
}

int ideal_operations(bool full_recompute) {
  return full_recompute ? kOperationsPerParameterRecompute : kOperationsPerParameter;
}

double ideal_training_time_s(double parameters, double tokens, FlopsPerSecond peak_total, bool full_recompute) {
  return ideal_operations(full_recompute) * parameters * tokens / peak_total.count();
}

Summary summarize(const RunResult& run, const Workload& workload, const RunFacts& facts) {
  ORRERY_CHECK(!run.ranks.empty(), "a run has ranks");
  ORRERY_CHECK(run.step_time > Duration::zero(), "a step takes time");
  ORRERY_CHECK(facts.gpus > 0, "a run has GPUs");
  Summary summary;
  summary.scenario = facts.scenario;
  summary.fingerprint = run.fingerprint;
  summary.cluster = {.gpus = facts.gpus, .nodes = facts.nodes, .gpu = facts.gpu, .peak_tflops_per_gpu = std::nullopt};
  if (facts.peak.count() > 0) {
    summary.cluster.peak_tflops_per_gpu = facts.peak.count() / static_cast<double>(facts.gpus) / kTera;
  }
  summary.model = {
      .name = facts.model, .parameters = workload.parameters, .active_parameters = workload.active_parameters};
  summary.plan = facts.plan;
  summary.step = step_figures(run, workload, facts);
  summary.breakdown = mean_breakdown(run);
  summary.communication = communication_figures(run);
  summary.memory = memory_figures(run, workload, facts.memory_limits);
  summary.off_device = facts.off_device;
  summary.training = training_figures(summary.step, workload, facts);
  if (facts.without_slow_parts) {
    const double without = to_seconds(*facts.without_slow_parts);
    summary.slow_parts = {.step_without_s = without, .lost_s = summary.step.time_s - without};
  }
  summary.simulation = {.events = run.events,
                        .flows = run.flows,
                        .ranks = static_cast<std::int64_t>(run.class_of.size()),
                        .rank_classes = static_cast<std::int64_t>(run.ranks.size()),
                        .unfolded_because = facts.unfolded_because,
                        .fidelity = facts.fidelity,
                        .algorithms = facts.algorithms,
                        .wall_s = facts.wall_s};
  summary.remarks = facts.remarks;
  summary.warnings = run.warnings;
  return summary;
}

}  // namespace orrery
