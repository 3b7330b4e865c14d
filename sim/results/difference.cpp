#include "sim/results/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/results/difference_words.hpp"

namespace orrery {

namespace {

constexpr double kSame = 0.002;         // amounts that differ by less are the same
constexpr double kAccountsFor = 0.5;    // of a difference: what is behind at least this share of it
constexpr double kBeyondOneGpu = 1.02;  // of what one GPU has: more than that on the path is a chain through several

bool differ(double a, double b) { return std::abs(a - b) > kSame * std::max(std::abs(a), std::abs(b)); }

DifferenceSide& operator+=(DifferenceSide& sum, const DifferenceSide& more) {
  sum.seconds += more.seconds;
  sum.busy_s += more.busy_s;
  sum.bytes += more.bytes;
  sum.count += more.count;
  sum.flops += more.flops;
  return sum;
}

// Kinds of work that are compared as one.
using Key = std::tuple<Work, Phase, std::string, std::string>;  // work, phase, among, operation

struct Pair {
  DifferenceSide base;
  DifferenceSide variant;
  std::map<std::string, double> labels;  // how much of the paths is theirs
};

// Schedules that run a backward pass by halves do the same work as those that run it whole.
Phase compared_phase(Phase phase) { return phase == Phase::weight_gradient ? Phase::backward : phase; }

Key key_of(const WorkKind& kind) {
  switch (kind.work) {
    case Work::compute:
    case Work::communication:
      return {kind.work, compared_phase(kind.during), kind.among, kind.operation};
    case Work::copying:
    case Work::host_work:
      return {kind.work, Phase::other, {}, kind.label};
    case Work::launching:
      return {kind.work, Phase::other, {}, {}};
  }
  return {};
}

DifferenceSide side_of(const WorkKind& kind, const WorkShare& share) {
  // Compute counts by how long kernels run on a GPU, wherever the path is; what the path has beyond is the rest.
  const bool compute = kind.work == Work::compute;
  return {compute ? share.busy_s : to_seconds(share.path), share.busy_s, share.bytes,
          compute ? share.kernels : share.count, share.flops};
}

std::map<Key, Pair> pairs_of(const StepProfile& base, const StepProfile& variant) {
  std::map<Key, Pair> pairs;
  const auto add = [&](const StepProfile& profile, DifferenceSide Pair::*side) {
    for (const auto& [kind, share] : profile) {
      Pair& pair = pairs[key_of(kind)];
      pair.*side += side_of(kind, share);
      if (!kind.label.empty()) pair.labels[kind.label] += to_seconds(share.path);
    }
  };
  add(base, &Pair::base);
  add(variant, &Pair::variant);
  return pairs;
}

// The path's kernels beyond what one GPU has of them.
double beyond_one_gpu(const StepProfile& profile) {
  double rest = 0;
  for (const auto& [kind, share] : profile) {
    if (kind.work == Work::compute) rest += to_seconds(share.path) - share.busy_s;
  }
  return rest;
}

Cause cause_of_compute(const Pair& pair, bool same_machine) {
  if (pair.base.count == 0) return Cause::variant_only;
  if (pair.variant.count == 0) return Cause::base_only;
  if (!same_machine) return Cause::machine;
  if (differ(pair.base.flops, pair.variant.flops) || differ(pair.base.bytes, pair.variant.bytes)) return Cause::work;
  return differ(pair.base.count, pair.variant.count) ? Cause::pieces : Cause::rate;
}

Cause cause_of_waits(const Pair& pair) {
  const DifferenceSide& b = pair.base;
  const DifferenceSide& v = pair.variant;
  if (b.count == 0) return Cause::variant_only;
  if (v.count == 0) return Cause::base_only;
  const double waits = v.seconds - b.seconds;
  const double busy = v.busy_s - b.busy_s;
  const auto accounts = [&](double amount, double other) {
    return differ(amount, other) && (amount > other) == (busy > 0);
  };
  if (waits * busy > 0 && std::abs(busy) >= kAccountsFor * std::abs(waits)) {
    if (accounts(v.bytes, b.bytes)) return Cause::traffic;
    return accounts(v.count, b.count) ? Cause::pieces : Cause::rate;
  }
  return b.seconds > kBeyondOneGpu * b.busy_s || v.seconds > kBeyondOneGpu * v.busy_s ? Cause::bubble : Cause::overlap;
}

std::string largest_label(const std::map<std::string, double>& labels) {
  const auto found =
      std::max_element(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return found == labels.end() ? "" : found->first;
}

class Differences {
 public:
  Differences(const ComparedRun& base, const ComparedRun& variant) : base_(base), variant_(variant) {}

  std::vector<Difference> all() && {
    const bool same_machine = base_.summary->cluster.gpu == variant_.summary->cluster.gpu &&
                              base_.summary->plan.precision == variant_.summary->plan.precision;
    for (const auto& [key, pair] : pairs_of(*base_.profile, *variant_.profile)) {
      const auto& [work, phase, among, operation] = key;
      if (work == Work::compute) {
        add_compute(cause_of_compute(pair, same_machine), phase, pair);
        continue;
      }
      Difference& difference = found_.emplace_back();
      difference.work = work;
      difference.base = pair.base;
      difference.variant = pair.variant;
      difference.subject = operation;  // of the host and copies: their label
      if (work == Work::launching || work == Work::host_work) difference.cause = Cause::host;
      if (work == Work::copying) difference.cause = Cause::copying;
      if (work != Work::communication) continue;
      difference.cause = cause_of_waits(pair);
      difference.among = among;
      difference.operation = operation;
      difference.phase = name_of(phase);
      difference.subject = subject_of(among, operation, phase, largest_label(pair.labels));
    }
    add_rest();
    const double least = kSame * kSame * base_.summary->step.time_s;
    std::erase_if(found_, [&](const Difference& d) { return std::abs(d.seconds()) <= least; });
    std::stable_sort(found_.begin(), found_.end(), [](const Difference& a, const Difference& b) {
      return std::abs(a.seconds()) > std::abs(b.seconds());
    });
    for (Difference& difference : found_) difference.text = words_of(difference, base_, variant_);
    return std::move(found_);
  }

 private:
  // Phases whose compute differs for the same cause are told together.
  void add_compute(Cause cause, Phase phase, const Pair& pair) {
    auto found = std::find_if(found_.begin(), found_.end(),
                              [&](const Difference& d) { return d.work == Work::compute && d.cause == cause; });
    if (found == found_.end()) {
      found_.emplace_back();
      found = found_.end() - 1;
      found->cause = cause;
    }
    // Where nothing of it differs, the phase is not worth a name.
    if (differ(pair.base.seconds, pair.variant.seconds)) {
      found->phase += fmt::format("{}{}", found->phase.empty() ? "" : ", ", name_of(phase));
      found->phases.push_back({phase, pair.base.seconds, pair.variant.seconds});
    }
    found->subject = found->phase;
    found->base += pair.base;
    found->variant += pair.variant;
  }

  void add_rest() {
    const bool pipeline = base_.summary->plan.pipeline > 1 || variant_.summary->plan.pipeline > 1;
    Difference& rest = found_.emplace_back();
    rest.cause = pipeline ? Cause::bubble : Cause::imbalance;
    rest.base.seconds = beyond_one_gpu(*base_.profile);
    rest.variant.seconds = beyond_one_gpu(*variant_.profile);
  }

  const ComparedRun& base_;
  const ComparedRun& variant_;
  std::vector<Difference> found_;
};

std::vector<MemoryDifference> memory_differences(const Summary& base, const Summary& variant) {
  std::map<std::string, MemoryDifference> by_tag;
  for (const auto& [tag, bytes] : base.memory.by_tag) by_tag[tag].base_bytes = bytes;
  for (const auto& [tag, bytes] : variant.memory.by_tag) by_tag[tag].variant_bytes = bytes;
  std::vector<MemoryDifference> differences;
  for (auto& [tag, difference] : by_tag) {
    difference.tag = tag;
    if (difference.base_bytes != difference.variant_bytes) differences.push_back(difference);
  }
  const auto size = [](const MemoryDifference& d) { return std::abs(d.variant_bytes - d.base_bytes); };
  std::stable_sort(differences.begin(), differences.end(),
                   [&](const MemoryDifference& a, const MemoryDifference& b) { return size(a) > size(b); });
  return differences;
}

}  // namespace

std::string_view name_of(Cause cause) {
  constexpr std::array<std::string_view, 12> kNames{"base_only", "variant_only", "work",    "machine",
                                                    "pieces",    "rate",         "traffic", "overlap",
                                                    "bubble",    "imbalance",    "host",    "copying"};
  return kNames[static_cast<std::size_t>(cause)];
}

Explanation explain(const ComparedRun& base, const ComparedRun& variant) {
  Explanation explanation;
  explanation.base = base.name;
  explanation.variant = variant.name;
  explanation.base_s = base.summary->step.time_s;
  explanation.variant_s = variant.summary->step.time_s;
  explanation.differences = Differences(base, variant).all();
  explanation.memory = memory_differences(*base.summary, *variant.summary);
  explanation.text = paragraph_of(explanation, base, variant);
  return explanation;
}

}  // namespace orrery
