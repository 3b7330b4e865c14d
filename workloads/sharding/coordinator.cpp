#include "workloads/sharding/coordinator.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

namespace {

void append_modules(ParameterTrace& trace, const Unit& unit, const std::vector<Step>& steps) {
  if (unit.borrowed >= 0) trace.push_back({static_cast<std::size_t>(unit.borrowed)});
  for (const Step& step : steps) {
    if (step.needs.empty()) continue;
    std::vector<std::size_t> parameters;
    for (const ParameterIndex i : step.needs) parameters.push_back(unit.first_parameter + static_cast<std::size_t>(i));
    trace.push_back(std::move(parameters));
  }
}

}  // namespace

ParameterTrace trace_of(const Stage& stage) {
  ParameterTrace trace;
  for (const Unit& unit : stage.units) append_modules(trace, unit, unit.block->forward);
  for (auto unit = stage.units.rbegin(); unit != stage.units.rend(); ++unit) {
    append_modules(trace, *unit, unit->block->backward);
  }
  return trace;
}

ParameterCoordinator::ParameterCoordinator(const Stage& stage, ParameterTrace trace,
                                           const std::vector<bool>& persistent, const CoordinatorLimits& limits)
    : trace_(std::move(trace)), persistent_(persistent), limits_(limits) {
  for (std::size_t step = 0; step < trace_.size(); ++step) {
    for (const std::size_t p : trace_[step]) uses_.push_back({p, static_cast<std::int64_t>(step)});
  }
  for (std::size_t p = 0; p < stage.parameters.size(); ++p) {
    elements_.push_back(stage.parameters[p].elements);
    status_.push_back(persistent[p] ? Status::there : Status::absent);
  }
  begin_pass();
}

void ParameterCoordinator::begin_pass() {
  fetched_for_.assign(elements_.size(), -1);
  queue_ = 0;
  step_ = 0;
}

void ParameterCoordinator::take(std::vector<std::size_t>& to, std::size_t parameter) {
  status_[parameter] = Status::under_way;
  live_ += elements_[parameter];
  to.push_back(parameter);
}

std::vector<std::size_t> ParameterCoordinator::fetch() {
  std::vector<std::size_t> now;
  for (const std::size_t p : trace_[step_]) {
    if (status_[p] == Status::absent) take(now, p);
  }
  return now;
}

std::vector<std::size_t> ParameterCoordinator::prefetch() {
  const auto step = static_cast<std::int64_t>(step_);
  // The module's own uses leave the queue, unless prefetching has taken them already.
  const auto own =
      std::count_if(trace_[step_].begin(), trace_[step_].end(), [&](std::size_t p) { return fetched_for_[p] < step; });
  for (std::int64_t i = 0; i < own && queue_ < uses_.size(); ++i) {
    const Use use = uses_[queue_++];
    fetched_for_[use.parameter] = use.step;
  }
  ++step_;
  std::vector<std::size_t> ahead;
  if (limits_.prefetch == 0) return ahead;
  const std::int64_t most = std::min(limits_.live - live_, limits_.prefetch);
  std::int64_t elements = 0;
  while (queue_ < uses_.size() && elements < most) {
    const Use use = uses_[queue_++];
    fetched_for_[use.parameter] = std::max(fetched_for_[use.parameter], use.step);
    if (status_[use.parameter] != Status::absent) continue;
    take(ahead, use.parameter);
    elements += elements_[use.parameter];
  }
  return ahead;
}

std::vector<std::size_t> ParameterCoordinator::release() {
  std::vector<std::size_t> given;
  if (step_ == 0) return given;
  const auto step = static_cast<std::int64_t>(step_);
  for (const std::size_t p : trace_[step_ - 1]) {
    if (!persistent_[p] && fetched_for_[p] <= step && status_[p] == Status::there) given.push_back(p);
  }
  std::int64_t passed = 0;
  for (std::size_t s = step_; s < trace_.size() && passed < limits_.reuse_distance && !given.empty(); ++s) {
    for (const std::size_t p : trace_[s]) {
      given.erase(std::remove(given.begin(), given.end(), p), given.end());
      passed += elements_[p];
    }
  }
  for (const std::size_t p : given) {
    status_[p] = Status::absent;
    live_ -= elements_[p];
  }
  return given;
}

}  // namespace orrery
