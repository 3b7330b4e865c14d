#include "sim/study/schedule_drawing.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/check.hpp"
#include "workloads/schedules/ideal.hpp"

namespace orrery {

namespace {

using Json = nlohmann::ordered_json;

bool is_pass(Phase phase) {
  return phase == Phase::forward || phase == Phase::backward || phase == Phase::recompute ||
         phase == Phase::weight_gradient;
}

// One drawing: times by a function of stage and slot, as numbers in its unit.
template <class Begin, class End>
Json drawing(const Schedule& schedule, const char* unit, Begin&& begin, End&& end) {
  Json slots = Json::array();
  double last = 0;
  double within = 0;  // sum over stages of the time from first pass to last
  double busy = 0;
  for (std::size_t s = 0; s < schedule.slots.size(); ++s) {
    Json stage = Json::array();
    const std::size_t n = schedule.slots[s].size();
    for (std::size_t i = 0; i < n; ++i) {
      const Slot& slot = schedule.slots[s][i];
      stage.push_back({{"pass", std::string(1, letter_of(slot.pass))},
                       {"micro_batch", slot.micro_batch},
                       {"chunk", slot.chunk},
                       {"paired", slot.paired},
                       {"begin", begin(s, i)},
                       {"end", end(s, i)}});
      busy += end(s, i) - begin(s, i);
      last = std::max(last, end(s, i));
    }
    if (n > 0) within += end(s, n - 1) - begin(s, 0);
    slots.push_back(std::move(stage));
  }
  const double all = last * static_cast<double>(schedule.slots.size());
  return {{"unit", unit},
          {"step", last},
          {"idle_share", all > 0 ? 1 - busy / all : 0},
          {"idle_share_within", within > 0 ? 1 - busy / within : 0},
          {"slots", std::move(slots)}};
}

}  // namespace

Result<Schedule> schedule_of(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  const std::int64_t replicas = scenario.gpus / (p.tensor * p.pipeline * p.context);
  return make_schedule(p.schedule, p.pipeline,
                       scenario.training.global_batch / (replicas * scenario.training.micro_batch));
}

std::vector<std::vector<SlotSpan>> slots_in(const Simulation& simulation) {
  std::vector<std::vector<SlotSpan>> all(simulation.workload.programs.size());
  for (const RankResult& rank : simulation.run.ranks) {
    std::vector<SlotSpan>& spans = all[rank.role.index()];
    if (rank.tasks.empty() || !spans.empty()) continue;
    const Program& program = simulation.workload.programs[rank.role.index()];
    const auto slots = program.slots();
    ORRERY_CHECK(rank.tasks.size() == program.tasks().size(), "a recorded rank has a record of every task");
    Instant before{};
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const std::size_t end = i + 1 < slots.size() ? slots[i + 1].index() : program.tasks().size();
      SlotSpan span{before, before};
      bool any = false;
      for (std::size_t t = slots[i].index(); t < end; ++t) {
        const Task& task = program.tasks()[t];
        if (task.kind != TaskKind::kernels || !is_pass(task.phase)) continue;
        if (!any) span.begin = rank.tasks[t].begin;
        span.end = rank.tasks[t].end;
        any = true;
      }
      // The two of a pair that take turns begin and end together.
      if (i > 0 && slots[i - 1] == slots[i]) spans.back() = span;
      spans.push_back(span);
      before = span.end;
    }
  }
  return all;
}

std::string schedule_json(const Scenario& scenario, const Schedule& schedule, const Simulation& simulation) {
  const IdealRun ideal = play_ideally(schedule);
  const std::vector<std::vector<SlotSpan>> spans = slots_in(simulation);
  const auto seconds = [](Instant when) { return to_seconds(when.time_since_epoch()); };
  Json json{{"name", scenario.name},
            {"schedule", scenario.parallelism.schedule.kind},
            {"stages", schedule.shape.stages},
            {"micro_batches", schedule.shape.micro_batches},
            {"chunks", schedule.shape.chunks}};
  json["ideal"] = drawing(
      schedule, "forward passes of a chunk",
      [&](std::size_t s, std::size_t i) { return static_cast<double>(ideal.times[s][i].begin); },
      [&](std::size_t s, std::size_t i) { return static_cast<double>(ideal.times[s][i].end); });
  json["run"] = drawing(
      schedule, "s", [&](std::size_t s, std::size_t i) { return seconds(spans[s][i].begin); },
      [&](std::size_t s, std::size_t i) { return seconds(spans[s][i].end); });
  return json.dump() + "\n";
}

}  // namespace orrery
