#include "tests/support/same_run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace orrery::test {

namespace {

bool same(const RankTimes& a, const RankTimes& b) {
  return a.compute == b.compute && a.exposed_communication == b.exposed_communication && a.bubble == b.bubble &&
         a.waiting == b.waiting && a.data_stall == b.data_stall && a.other == b.other;
}

bool same(const MemoryPeak& a, const MemoryPeak& b) {
  return a.peak == b.peak && a.by_tag == b.by_tag && a.when == b.when && a.task == b.task &&
         a.first_beyond == b.first_beyond;
}

bool same(const TaskRecord& a, const TaskRecord& b) {
  return a.task == b.task && a.begin == b.begin && a.active == b.active && a.end == b.end && a.gaps == b.gaps &&
         a.issue_begin == b.issue_begin && a.issued == b.issued && a.late_launch == b.late_launch &&
         a.latency == b.latency;
}

bool same(const MemorySample& a, const MemorySample& b) { return a.when == b.when && a.allocated == b.allocated; }

bool same(const TrafficCount& a, const TrafficCount& b) { return a.messages == b.messages && a.bytes == b.bytes; }

bool same(const LinkUse& a, const LinkUse& b) {
  return a.name == b.name && a.kind == b.kind && a.bytes == b.bytes && a.utilization == b.utilization;
}

template <class Item>
bool same(const std::vector<Item>& a, const std::vector<Item>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Item& x, const Item& y) { return same(x, y); });
}

class Comparison {
 public:
  void check(bool good, const std::string& what) {
    constexpr std::size_t kMost = 12;
    if (!good && found.size() < kMost) found.push_back(what);
  }
  std::vector<std::string> found;
};

void compare_rank(const RankResult& a, const RankResult& b, std::size_t rank, Comparison& comparison) {
  comparison.check(a.role == b.role, fmt::format("rank {}: role", rank));
  comparison.check(same(a.times, b.times), fmt::format("rank {}: times", rank));
  comparison.check(same(a.memory, b.memory), fmt::format("rank {}: memory peak", rank));
  comparison.check(a.tasks.size() == b.tasks.size(), fmt::format("rank {}: number of recorded tasks", rank));
  for (std::size_t t = 0; t < std::min(a.tasks.size(), b.tasks.size()); ++t) {
    const auto end = [](const TaskRecord& task) { return task.end.time_since_epoch().count(); };
    comparison.check(same(a.tasks[t], b.tasks[t]),
                     fmt::format("rank {}: task {} ends at {}, and at {}", rank, t, end(a.tasks[t]), end(b.tasks[t])));
  }
  comparison.check(same(a.memory_over_time, b.memory_over_time), fmt::format("rank {}: memory over time", rank));
}

}  // namespace

std::vector<std::string> differences(const RunResult& a, const RunResult& b) {
  Comparison comparison;
  comparison.check(a.step_time == b.step_time,
                   fmt::format("step time {} and {}", a.step_time.count(), b.step_time.count()));
  comparison.check(a.class_of.size() == b.class_of.size(), "number of ranks");
  for (std::size_t rank = 0; rank < std::min(a.class_of.size(), b.class_of.size()); ++rank) {
    compare_rank(a.ranks[a.class_of[rank]], b.ranks[b.class_of[rank]], rank, comparison);
  }
  const auto traffic_same = [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); };
  comparison.check(std::equal(a.traffic_by_kind.begin(), a.traffic_by_kind.end(), b.traffic_by_kind.begin(),
                              b.traffic_by_kind.end(), traffic_same),
                   "messages and bytes by kind");
  comparison.check(a.bytes_by_link_kind == b.bytes_by_link_kind, "bytes by kind of link");
  comparison.check(a.utilization_by_link_kind == b.utilization_by_link_kind, "utilization by kind of link");
  comparison.check(same(a.busiest_links, b.busiest_links), "busiest links");
  comparison.check(a.warnings == b.warnings, "warnings");
  comparison.check(a.fingerprint == b.fingerprint, fmt::format("fingerprint {} and {}", a.fingerprint, b.fingerprint));
  return std::move(comparison.found);
}

}  // namespace orrery::test
