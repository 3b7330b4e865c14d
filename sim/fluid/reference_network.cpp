#include "sim/fluid/reference_network.hpp"

#include <algorithm>

namespace orrery {

ResourceId ReferenceNetwork::add_resource(Rate capacity) {
  ORRERY_CHECK(capacity >= Rate(0) && capacity <= kMaxRate, "a capacity out of range", capacity.count());
  resources_.push_back({capacity});
  return ResourceId(resources_.size() - 1);
}

void ReferenceNetwork::change_at(Instant now) {
  ORRERY_CHECK(!dirty_ || now == changed_at_, "the changes of one instant are solved before time moves on");
  ORRERY_CHECK(now >= changed_at_, "time runs forwards");
  dirty_ = true;
  changed_at_ = now;
}

void ReferenceNetwork::set_capacity(Instant now, ResourceId resource, Rate capacity) {
  ORRERY_CHECK(capacity >= Rate(0) && capacity <= kMaxRate, "a capacity out of range", capacity.count());
  change_at(now);
  resources_[resource.index()].capacity = capacity;
}

ActivityId ReferenceNetwork::start(Instant now, std::int64_t work, Rate cap, std::span<const Crossing> crossings,
                                   std::uint64_t tag) {
  ORRERY_CHECK(work >= 0, "work is not negative", work);
  change_at(now);
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Activity& activity = slots_[slot];
  activity.crossings.assign(crossings.begin(), crossings.end());
  activity.order = started_++;
  activity.tag = tag;
  activity.work = ticks_from_units(work);
  activity.idle_work = work == 0 || (crossings.empty() && cap == kUncapped);
  activity.remaining = activity.idle_work ? 0 : activity.work;
  activity.since = now;
  activity.rate = Rate(0);
  activity.cap = cap;
  active_.push_back(slot);
  return {slot, activity.generation};
}

void ReferenceNetwork::set_cap(Instant now, ActivityId activity, Rate cap) {
  change_at(now);
  Activity& changed = at(activity);
  changed.cap = cap;
  if (changed.crossings.empty() && cap == kUncapped) {  // nothing limits it any more
    changed.remaining = 0;
    changed.since = now;
    changed.rate = Rate(0);
    changed.idle_work = true;
  }
}

void ReferenceNetwork::cancel(Instant now, ActivityId activity) {
  change_at(now);
  end(activity.slot, at(activity).work - remaining_of(at(activity), now));
  std::erase(active_, activity.slot);
}

void ReferenceNetwork::end(std::uint32_t slot, Ticks done) {
  Activity& activity = slots_[slot];
  for (const Crossing& crossing : activity.crossings) {
    resources_[crossing.resource.index()].served_by_ended += done * crossing.count;
  }
  ++activity.generation;
  free_slots_.push_back(slot);
}

void ReferenceNetwork::solve(Instant now) {
  change_at(now);
  SharingProblem problem;
  for (const Resource& resource : resources_) problem.add_resource(resource.capacity);
  problem.first.push_back(0);
  // An activity that was started without work only waits to be handed out.
  std::vector<std::uint32_t> sharing;
  for (const std::uint32_t slot : active_) {
    if (!slots_[slot].idle_work) sharing.push_back(slot);
  }
  for (const std::uint32_t slot : sharing) problem.add_activity(slots_[slot].cap, slots_[slot].crossings);
  const SharingSolution solution = solve_full(problem);
  for (std::size_t f = 0; f < sharing.size(); ++f) {
    Activity& activity = slots_[sharing[f]];
    activity.remaining = remaining_of(activity, now);
    activity.since = now;
    activity.rate = solution.rate[f];
  }
  dirty_ = false;
}

Instant ReferenceNetwork::next_completion() const {
  Instant next = kNever;
  for (const std::uint32_t slot : active_) {
    const Activity& activity = slots_[slot];
    next = std::min(next, saturating_add(activity.since, time_for(activity.remaining, activity.rate)));
  }
  return next;
}

std::span<const Completion> ReferenceNetwork::pop_completed(Instant now) {
  completed_.clear();
  for (const std::uint32_t slot : active_) {
    if (remaining_of(slots_[slot], now) > 0) continue;
    completed_.push_back({{slot, slots_[slot].generation}, slots_[slot].tag});
  }
  if (completed_.empty()) return completed_;
  change_at(now);
  for (const Completion& completion : completed_) end(completion.activity.slot, slots_[completion.activity.slot].work);
  std::erase_if(active_, [this](std::uint32_t slot) { return remaining_of(slots_[slot], changed_at_) <= 0; });
  return completed_;
}

bool ReferenceNetwork::running(ActivityId activity) const {
  return activity.slot < slots_.size() && slots_[activity.slot].generation == activity.generation &&
         std::find(active_.begin(), active_.end(), activity.slot) != active_.end();
}

const ReferenceNetwork::Activity& ReferenceNetwork::at(ActivityId activity) const {
  ORRERY_CHECK(activity.slot < slots_.size() && slots_[activity.slot].generation == activity.generation,
               "the activity has ended", activity.slot);
  return slots_[activity.slot];
}

ReferenceNetwork::Activity& ReferenceNetwork::at(ActivityId activity) {
  return const_cast<Activity&>(static_cast<const ReferenceNetwork*>(this)->at(activity));
}

Ticks ReferenceNetwork::remaining_of(const Activity& activity, Instant now) {
  return std::max<Ticks>(0, activity.remaining - work_done(activity.rate, now - activity.since));
}

Rate ReferenceNetwork::rate(ActivityId activity) const { return at(activity).rate; }

Rate ReferenceNetwork::usage(ResourceId resource) const {
  Rate total{};
  for (const std::uint32_t slot : active_) {
    for (const Crossing& crossing : slots_[slot].crossings) {
      if (crossing.resource == resource) total += slots_[slot].rate * crossing.count;
    }
  }
  return total;
}

Ticks ReferenceNetwork::remaining_ticks(ActivityId activity, Instant now) const {
  return remaining_of(at(activity), now);
}

std::int64_t ReferenceNetwork::remaining(ActivityId activity, Instant now) const {
  return static_cast<std::int64_t>((remaining_ticks(activity, now) + kTicksPerUnit - 1) / kTicksPerUnit);
}

Ticks ReferenceNetwork::served_ticks(ResourceId resource, Instant now) const {
  Ticks total = resources_[resource.index()].served_by_ended;
  for (const std::uint32_t slot : active_) {
    for (const Crossing& crossing : slots_[slot].crossings) {
      if (crossing.resource != resource) continue;
      total += (slots_[slot].work - remaining_of(slots_[slot], now)) * crossing.count;
    }
  }
  return total;
}

double ReferenceNetwork::served(ResourceId resource, Instant now) const {
  return static_cast<double>(served_ticks(resource, now)) / static_cast<double>(kTicksPerUnit);
}

}  // namespace orrery
