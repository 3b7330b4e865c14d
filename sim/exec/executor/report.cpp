// What the executor tells at the end: times and memory per rank class, traffic, the fingerprint; or who is stuck.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "sim/base/fingerprint.hpp"
#include "sim/exec/executor/executor.hpp"
#include "sim/exec/executor/link_use.hpp"

namespace orrery {

RunResult Executor::result(const TrafficPort& traffic) {
  RunResult result;
  Instant end{};
  for (const Rank& rank : ranks_) end = std::max(end, rank.finished);
  result.step_time = end - Instant{};
  result.ranks.reserve(ranks_.size());
  result.class_of = partition_.class_of;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) result.ranks.push_back(rank_result(r, end));
  for (const auto& [kind, count] : traffic.count_by_kind()) {
    TrafficCount& total = result.traffic_by_kind[names_[static_cast<std::size_t>(kind)]];
    total.messages += count.messages;
    total.bytes += count.bytes;
  }
  report_link_use(machine_, result.step_time, result);
  warn_of_unmeasured_gpus(result);
  for (const std::string& warning : traffic.warnings()) result.warnings.push_back(warning);
  result.events = machine_.events();
  result.flows = machine_.flows();
  result.fingerprint = fingerprint(result);
  return result;
}

void Executor::warn_of_unmeasured_gpus(RunResult& result) const {
  std::vector<const GpuSpec*> seen;
  for (const Partition::Rank& member : partition_.ranks) {
    const GpuSpec& gpu = machine_.topology().gpu_spec(member.gpu);
    const auto same = [&](const GpuSpec* known) { return known == &gpu || *known == gpu; };
    if (gpu.kernels.measured || std::any_of(seen.begin(), seen.end(), same)) continue;
    seen.push_back(&gpu);
    result.warnings.push_back(fmt::format("kernel times on {} rest on constants that were not measured on it{}",
                                          gpu.name, gpu.kernels.source.empty() ? "" : " (" + gpu.kernels.source + ")"));
  }
}

RankResult Executor::rank_result(std::uint32_t r, Instant end) {
  const Partition::Rank& member = partition_.ranks[r];
  RankResult result;
  result.rank = member.representative;
  result.role = member.role;
  result.multiplicity = member.multiplicity;

  account_->settle(r, end);
  Duration sum{};
  for (std::size_t cause = 0; cause < account_->causes(); ++cause) {
    ORRERY_CHECK(account_->of(r, cause) >= Duration{}, "no cause has a negative time", r, cause,
                 account_->of(r, cause).count());
    sum += account_->of(r, cause);
  }
  ORRERY_CHECK(sum == end - Instant{}, "the parts of a rank's time add up to the step", r, sum.count(),
               end.time_since_epoch().count());
  result.times.compute = account_->of(r, kCompute);
  result.times.bubble = account_->of(r, kBubble);
  result.times.waiting = account_->of(r, kWaiting);
  result.times.data_stall = account_->of(r, kDataStall);
  result.times.other = account_->of(r, kOther);
  for (std::size_t name = 0; name < names_.size(); ++name) {
    const Duration exposed = account_->of(r, kExposed + name);
    if (exposed > Duration{}) result.times.exposed_communication[names_[name]] = exposed;
  }

  const MemoryLedger& ledger = ledgers_[member.role.index()];
  const Bytes limit = machine_.topology().gpu_spec(member.gpu).memory;
  result.memory = {ledger.peak(), ledger.peak_by_tag(), ranks_[r].memory_peak_at, ledger.peak_task(),
                   ledger.first_beyond(limit)};
  if (ranks_[r].record >= 0) {
    result.tasks = std::move(records_[static_cast<std::size_t>(ranks_[r].record)]);
    result.memory_over_time = memory_over_time(ledger, result.tasks);
  }
  return result;
}

// The course of memory in program order, by the clock of the GPU: memory_ledger.hpp says how.
std::vector<MemorySample> Executor::memory_over_time(const MemoryLedger& ledger,
                                                     const std::vector<TaskRecord>& tasks) const {
  std::vector<MemorySample> samples{{Instant{}, ledger.resident()}};
  Instant last{};
  for (const MemoryLedger::Step& step : ledger.steps()) {
    if (step.rises) samples.push_back({last = std::max(last, tasks[step.task].begin), step.highest});
    if (step.falls) samples.push_back({last = std::max(last, tasks[step.task].end), step.allocated});
  }
  return samples;
}

// What happened, by rank and in rank order, whether ranks were played one by one or as classes. How many events it
// took, and which flows there were, is left out: that may differ between runs that are the same. Bytes by kind of link
// are left out too: no time rests on them; who compares runs looks at them by themselves.
std::string Executor::fingerprint(const RunResult& result) const {
  Fingerprint print;
  print.add(result.step_time.count());
  for (const std::uint32_t r : partition_.class_of) {
    const RankTimes& times = result.ranks[r].times;
    print.add(ranks_[r].finished.time_since_epoch().count());
    print.add(times.compute.count()).add(times.bubble.count()).add(times.waiting.count());
    print.add(times.data_stall.count()).add(times.other.count());
    for (const auto& [name, exposed] : times.exposed_communication) print.add(name).add(exposed.count());
    print.add(result.ranks[r].memory.peak.count());
    print.add(result.ranks[r].memory.when.time_since_epoch().count());
  }
  for (const auto& [name, count] : result.traffic_by_kind) print.add(name).add(count.messages).add(count.bytes);
  return print.to_string();
}

// Blocked ranks are many, causes few: the first few ranks in order, and how many there are.
Problem Executor::deadlock() const {
  constexpr std::size_t kShown = 6;
  std::size_t classes = 0;
  std::int64_t blocked = 0;
  std::int64_t unshown = 0;
  std::string shown;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].done) continue;
    blocked += partition_.ranks[r].multiplicity;
    if (classes++ >= kShown) {
      unshown += partition_.ranks[r].multiplicity;
    } else {
      shown += fmt::format("{}rank {}: {}", shown.empty() ? "" : "; ", partition_.ranks[r].representative.value(),
                           what_blocks(ranks_[r]));
    }
  }
  if (unshown > 0) shown += fmt::format("; and {} more", unshown);
  return {"parallelism.schedule",
          fmt::format("deadlock after {:.6f} s: {} of {} ranks wait for one another",
                      to_seconds(machine_.now() - Instant{}), blocked, partition_.class_of.size()),
          shown,
          {}};
}

// The key names what the first rank that is not waiting for others is busy with.
Problem Executor::too_long() const {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const std::uint16_t cause = cause_now(r);
    if (ranks_[r].done || is_waiting(cause)) continue;
    const char* key = cause == kCompute ? "model" : cause == kOther ? "training.framework" : "cluster";
    const char* what = cause == kCompute ? "computes" : cause == kOther ? "waits for its host" : "moves bytes";
    return {key,
            std::string(kTooLongMessage),
            fmt::format("rank {} still {}", partition_.ranks[r].representative.value(), what),
            {}};
  }
  return {"cluster", std::string(kTooLongMessage), "", {}};
}

std::string Executor::what_blocks(const Rank& rank) const {
  std::string all;
  for (std::uint32_t s = 0; s < rank.program->stream_tasks.size(); ++s) {
    const Head head = stream(rank, s).head;
    if (head != Head::posted && head != Head::active && head != Head::issue_known) continue;
    all += (all.empty() ? "" : ", ") + describe(rank, s);
  }
  // Nobody can be stuck without communication: dependencies point backwards.
  return all.empty() ? "waits for nothing that is known" : all;
}

std::string Executor::describe(const Rank& rank, std::uint32_t s) const {
  const std::uint32_t t = head_task(rank, s);
  const auto r = static_cast<std::uint32_t>(&rank - ranks_.data());
  const Program& program = *rank.program->program;
  const PlayTask& task = rank.program->tasks[t];
  const Task& source = program.tasks()[t];
  const std::string what =
      fmt::format("task {} '{}' on stream '{}'", t, program.label(source), program.streams()[s].name);
  if (task.kind == TaskKind::collective) {
    const Partition::Group& group = partition_.groups[partition_.group_of[task.group_kind][r]];
    constexpr int kShown = 8;
    std::string missing;
    int count = 0;
    for (const Partition::Member& member : partition_.members_of(group)) {
      const Rank& other = ranks_[member.rank];
      const auto& tasks = other.program->collective_tasks[task.group_kind];
      const bool arrived = task.ordinal < tasks.size() &&
                           stream(other, other.program->tasks[tasks[task.ordinal]].stream).head == Head::posted &&
                           head_task(other, other.program->tasks[tasks[task.ordinal]].stream) == tasks[task.ordinal];
      if (arrived || ++count > kShown) continue;
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", partition_.ranks[member.rank].representative.value());
    }
    if (count > kShown) missing += fmt::format(" and {} more", count - kShown);
    return fmt::format("{} waits in {} over group '{}' for rank {}", what,
                       name_of(calls_[task.group_kind][task.payload].op), workload_.group_kinds[task.group_kind].name,
                       missing);
  }
  if (task.kind == TaskKind::send || task.kind == TaskKind::receive) {
    const Partition::Channel& channel = partition_.channels[channel_of(r, t)];
    const bool send = task.kind == TaskKind::send;
    return fmt::format("{} waits for rank {} to {} tag {}", what,
                       partition_.ranks[send ? channel.receiver : channel.sender].representative.value(),
                       send ? "receive" : "send", program.transfer(source).tag);
  }
  return what;
}

}  // namespace orrery
