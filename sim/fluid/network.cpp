#include "sim/fluid/network.hpp"

#include <algorithm>

namespace orrery {

namespace {

void check_capacity(Rate capacity) {
  ORRERY_CHECK(capacity >= Rate(0) && capacity <= kMaxRate, "a capacity out of range", capacity.count());
}

void check_cap(Rate cap) {
  ORRERY_CHECK(cap >= Rate(0) && (cap <= kMaxRate || cap == kUncapped), "a cap out of range", cap.count());
}

}  // namespace

// --- Resources -----------------------------------------------------------------------------------------------------

ResourceId FluidNetwork::add_resource(Rate capacity) {
  check_capacity(capacity);
  ORRERY_CHECK(started_ == 0, "resources are added before the first activity");
  sharing_.add_link(capacity.count());
  resources_.push_back({});
  occupant_.push_back(kNobody);
  return ResourceId(resources_.size() - 1);
}

void FluidNetwork::mark_redundant(ResourceId resource, ResourceId dominator) {
  ORRERY_CHECK(started_ == 0, "resources are marked before the first activity");
  ORRERY_CHECK(resource != dominator && resources_[dominator.index()].decides, "the dominator decides",
               dominator.value());
  ORRERY_CHECK(capacity(dominator) <= capacity(resource), "the dominator is no wider", resource.value());
  resources_[resource.index()] = {.decides = false, .dominator = dominator};
  has_redundant_ = true;
}

void FluidNetwork::leave_out(ResourceId resource) {
  ORRERY_CHECK(started_ == 0, "resources are left out before the first activity");
  resources_[resource.index()].decides = false;
}

void FluidNetwork::set_capacity(Instant now, ResourceId resource, Rate capacity) {
  check_capacity(capacity);
  const Resource& changed = resources_[resource.index()];
  ORRERY_CHECK(changed.decides || changed.dominator.valid(), "what is left out keeps its capacity", resource.value());
  pass_time(now);
  const std::uint32_t link = link_of(resource);
  if (sharing_.capacity(link) == capacity.count()) return;
  const std::uint32_t occupant = occupant_[link];
  const bool lone = occupant != kNobody && occupant != kShared;
  const Ticks left = lone ? left_of(occupant, now) : 0;
  sharing_.set_capacity(link, capacity.count());
  if (lone) run_alone(now, occupant, left);
  if (occupant == kShared) dirty_ = true;
  take_back_promises(now, resource);
}

// Promises that the new capacity of `resource` breaks.
void FluidNetwork::take_back_promises(Instant now, ResourceId changed) {
  if (!has_redundant_) return;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    const ResourceId dominator = resources_[r].dominator;
    if (!dominator.valid() || (ResourceId(r) != changed && dominator != changed)) continue;
    if (capacity(dominator) > capacity(ResourceId(r))) make_deciding(now, ResourceId(r));
  }
}

// The resource takes part in the sharing again, for those that run as well.
void FluidNetwork::make_deciding(Instant now, ResourceId resource) {
  resources_[resource.index()].decides = true;
  resources_[resource.index()].dominator = ResourceId();
  for (std::uint32_t slot = 0; slot < activities_.size(); ++slot) {
    Activity& activity = activities_[slot];
    if (activity.state != State::lone && activity.state != State::shared) continue;
    const std::uint32_t cap_use = activity.first_use + activity.deciding;
    for (std::uint32_t u = cap_use + 1; u <= cap_use + activity.redundant; ++u) {
      if (use(u).link != link_of(resource)) continue;
      const Ticks left = left_of(slot, now);
      take_out(now, slot);
      // The use moves to where the cap's was, which moves on by one.
      std::swap(use(u), use(cap_use + 1));
      std::swap(use(cap_use), use(cap_use + 1));
      ++activity.deciding;
      --activity.redundant;
      place(now, slot, left);
      break;
    }
  }
}

// --- Start and end -------------------------------------------------------------------------------------------------

void FluidNetwork::pass_time(Instant now) {
  ORRERY_CHECK(now >= now_, "time runs forwards", now.time_since_epoch().count());
  ORRERY_CHECK(!dirty_ || now == now_, "the changes of one instant are solved before time passes");
  now_ = now;
}

ActivityId FluidNetwork::start(Instant now, std::int64_t work, Rate cap, std::span<const Crossing> crossings,
                               std::uint64_t tag) {
  ORRERY_CHECK(work >= 0, "work is not negative", work);
  check_cap(cap);
  pass_time(now);
  const std::uint32_t slot = allocate(crossings);
  Activity& activity = activities_[slot];
  activity.cap = cap;
  activity.work = work;
  activity.order = started_++;
  activity.tag = tag;
  ++activity_count_;
  if (work == 0 || (crossings.empty() && cap == kUncapped)) {
    wait_for_pop(slot);
  } else {
    place(now, slot, ticks_from_units(work));
  }
  return {slot, activity.generation};
}

std::uint32_t FluidNetwork::allocate(std::span<const Crossing> crossings) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(activities_.size()));
    activities_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  store_uses(activities_[slot], crossings);
  return slot;
}

void FluidNetwork::store_uses(Activity& activity, std::span<const Crossing> crossings) {
  const std::uint32_t first = sharing_.uses().allocate(crossings.size() + 1);
  std::uint32_t front = first;
  std::uint32_t back = first + static_cast<std::uint32_t>(crossings.size()) + 1;
  for (const Crossing& crossing : crossings) {
    ORRERY_CHECK(crossing.count >= 1, "a count is at least 1", crossing.count);
    const bool decides = resources_[crossing.resource.index()].decides;
    use(decides ? front++ : --back) = {link_of(crossing.resource), crossing.count, 0};
  }
  activity.first_use = first;
  activity.deciding = front - first;
  activity.redundant = static_cast<std::uint32_t>(crossings.size()) - activity.deciding;
  activity.cap_attached = false;
  if (activity.redundant > 0) check_promises(activity);
}

void FluidNetwork::check_promises(const Activity& activity) const {
  const std::uint32_t cap_use = activity.first_use + activity.deciding;
  for (std::uint32_t u = cap_use + 1; u <= cap_use + activity.redundant; ++u) {
    const Resource& resource = resources_[use(u).link];
    if (!resource.dominator.valid()) continue;
    const std::uint32_t dominator = link_of(resource.dominator);
    bool kept = false;
    for (std::uint32_t v = activity.first_use; v <= cap_use + activity.redundant && !kept; ++v) {
      kept = v != cap_use && use(v).link == dominator && use(v).count >= use(u).count;
    }
    ORRERY_CHECK(kept, "who crosses a redundant resource crosses its dominator as often", use(u).link, dominator);
  }
}

// Lets an activity that has nothing to do complete at once.
void FluidNetwork::wait_for_pop(std::uint32_t slot) {
  activities_[slot].state = State::idle_work;
  without_work_.push_back(slot);
}

// Lets an activity that is nowhere run: alone if it can.
void FluidNetwork::place(Instant now, std::uint32_t slot, Ticks left) {
  if (is_alone(activities_[slot])) {
    ++lone_count_;
    run_alone(now, slot, left);
    return;
  }
  const Activity& activity = activities_[slot];
  for (std::uint32_t u = activity.first_use; u < activity.first_use + activity.deciding; ++u) {
    const std::uint32_t occupant = occupant_[use(u).link];
    if (occupant != kNobody && occupant != kShared) promote(now, occupant);
  }
  join_sharing(now, slot, left, false);
}

bool FluidNetwork::is_alone(const Activity& activity) const {
  if (activity.deciding == 0) return true;
  if (!options_.lone_fast_path) return false;
  for (std::uint32_t u = activity.first_use; u < activity.first_use + activity.deciding; ++u) {
    if (occupant_[use(u).link] != kNobody) return false;
  }
  return true;
}

// Starts or goes on alone, with the rate that progressive filling would find.
void FluidNetwork::run_alone(Instant now, std::uint32_t slot, Ticks left) {
  Activity& activity = activities_[slot];
  std::int64_t rate = activity.cap.count();
  for (std::uint32_t u = activity.first_use; u < activity.first_use + activity.deciding; ++u) {
    const std::int64_t capacity = sharing_.capacity(use(u).link);
    rate = std::min(rate, use(u).count == 1 ? capacity : capacity / use(u).count);
    occupant_[use(u).link] = slot;
  }
  activity.state = State::lone;
  activity.left = left;
  activity.since = now;
  activity.rate = Rate(rate);
  activity.end = saturating_add(now, time_for(left, Rate(rate)));
  if (activity.end == kNever) return;
  lone_queue_.push({activity.end.time_since_epoch().count(), slot, activity.generation});
  if (lone_queue_.size() > 2 * lone_count_ + 1024) {
    lone_queue_.purge([this](const LoneQueue::Entry& entry) { return holds(entry); });
  }
}

void FluidNetwork::promote(Instant now, std::uint32_t slot) {
  const Ticks left = left_of(slot, now);
  --lone_count_;
  join_sharing(now, slot, left, true);
}

void FluidNetwork::join_sharing(Instant now, std::uint32_t slot, Ticks left, bool alone) {
  Activity& activity = activities_[slot];
  activity.state = State::shared;
  for (std::uint32_t u = activity.first_use; u < activity.first_use + activity.deciding; ++u) {
    occupant_[use(u).link] = kShared;
  }
  std::uint32_t count = activity.deciding;
  if (activity.cap != kUncapped) {
    activity.cap_attached = true;
    use(activity.first_use + count) = {sharing_.add_link(activity.cap.count()), 1, 0};
    ++count;
  }
  if (alone) {
    sharing_.insert_alone(slot, activity.first_use, count, left, now);
  } else {
    sharing_.insert(slot, activity.first_use, count, left, now);
  }
  dirty_ = true;
}

void FluidNetwork::leave_sharing(std::uint32_t slot) {
  sharing_.remove(slot);
  clear_occupants(slot);
  dirty_ = true;
}

// After a shared activity has left: frees its links that nobody else uses, and its cap.
void FluidNetwork::clear_occupants(std::uint32_t slot) {
  Activity& activity = activities_[slot];
  for (std::uint32_t u = activity.first_use; u < activity.first_use + activity.deciding; ++u) {
    if (!sharing_.in_use(use(u).link)) occupant_[use(u).link] = kNobody;
  }
  if (activity.cap_attached) sharing_.remove_link(use(activity.first_use + activity.deciding).link);
  activity.cap_attached = false;
}

// Takes a running activity from wherever it is.
void FluidNetwork::take_out(Instant now, std::uint32_t slot) {
  pass_time(now);
  Activity& activity = activities_[slot];
  if (activity.state == State::shared) {
    leave_sharing(slot);
  } else if (activity.state == State::lone) {
    --lone_count_;
    for (std::uint32_t u = activity.first_use; u < activity.first_use + activity.deciding; ++u) {
      occupant_[use(u).link] = kNobody;
    }
  } else {
    std::erase(without_work_, slot);
  }
}

void FluidNetwork::set_cap(Instant now, ActivityId id, Rate cap) {
  check_cap(cap);
  pass_time(now);
  const std::uint32_t slot = slot_of(id);
  Activity& activity = activities_[slot];
  if (activity.cap == cap) return;
  if (activity.state == State::idle_work) {
    activity.cap = cap;
    return;
  }
  const Ticks left = left_of(slot, now);
  take_out(now, slot);
  activity.cap = cap;
  if (activity.deciding == 0 && cap == kUncapped) {
    wait_for_pop(slot);
  } else {
    place(now, slot, left);
  }
}

void FluidNetwork::cancel(Instant now, ActivityId id) {
  const std::uint32_t slot = slot_of(id);
  const Ticks done = ticks_from_units(activities_[slot].work) - std::max<Ticks>(0, left_of(slot, now));
  take_out(now, slot);
  release(slot, done);
}

// Forgets an activity that is nowhere any more.
void FluidNetwork::release(std::uint32_t slot, Ticks done) {
  Activity& activity = activities_[slot];
  const std::uint32_t end = activity.first_use + activity.deciding + 1 + activity.redundant;
  for (std::uint32_t u = activity.first_use; u < end; ++u) {
    if (u == activity.first_use + activity.deciding) continue;
    resources_[use(u).link].served_by_ended += done * use(u).count;
  }
  sharing_.uses().release(activity.first_use, end - activity.first_use);
  activity.state = State::ended;
  ++activity.generation;
  free_slots_.push_back(slot);
  --activity_count_;
}

// --- Time ----------------------------------------------------------------------------------------------------------

void FluidNetwork::solve(Instant now) {
  pass_time(now);
  sharing_.solve(now);
  dirty_ = false;
}

bool FluidNetwork::holds(const LoneQueue::Entry& entry) const {
  const Activity& activity = activities_[entry.slot];
  return activity.generation == entry.generation && activity.state == State::lone &&
         activity.end.time_since_epoch().count() == entry.time;
}

Instant FluidNetwork::next_completion() {
  if (!without_work_.empty()) return now_;
  while (!lone_queue_.empty() && !holds(lone_queue_.front())) lone_queue_.pop_front();
  Instant next = sharing_.next_completion();
  if (!lone_queue_.empty()) next = std::min(next, Instant(Duration(lone_queue_.front().time)));
  return std::max(next, now_);
}

void FluidNetwork::collect_lone(Instant now) {
  const std::int64_t time = now.time_since_epoch().count();
  while (!lone_queue_.empty() && lone_queue_.front().time <= time) {
    const LoneQueue::Entry entry = lone_queue_.front();
    lone_queue_.pop_front();
    if (!holds(entry)) continue;
    take_out(now, entry.slot);
    activities_[entry.slot].state = State::ended;  // so that a second entry for the same time does not hold
    done_.push_back(entry.slot);
  }
}

std::span<const Completion> FluidNetwork::pop_completed(Instant now) {
  pass_time(now);
  completed_.clear();
  done_.clear();
  done_.swap(without_work_);
  collect_lone(now);
  const std::size_t first_shared = done_.size();
  sharing_.remove_completed(now, done_);
  for (std::size_t i = first_shared; i < done_.size(); ++i) clear_occupants(done_[i]);
  dirty_ |= done_.size() > first_shared;
  const auto earlier = [this](std::uint32_t a, std::uint32_t b) { return activities_[a].order < activities_[b].order; };
  if (!std::is_sorted(done_.begin(), done_.end(), earlier)) std::sort(done_.begin(), done_.end(), earlier);
  for (const std::uint32_t slot : done_) {
    completed_.push_back({{slot, activities_[slot].generation}, activities_[slot].tag});
    release(slot, ticks_from_units(activities_[slot].work));
  }
  return completed_;
}

// --- Questions -----------------------------------------------------------------------------------------------------

std::uint32_t FluidNetwork::slot_of(ActivityId activity) const {
  ORRERY_CHECK(running(activity), "the activity has ended", activity.slot);
  return activity.slot;
}

bool FluidNetwork::running(ActivityId activity) const {
  return activity.slot < activities_.size() && activities_[activity.slot].generation == activity.generation &&
         activities_[activity.slot].state != State::ended;
}

Rate FluidNetwork::rate(ActivityId id) const {
  ORRERY_CHECK(!dirty_, "rates are not known while a solve is due");
  const std::uint32_t slot = slot_of(id);
  if (activities_[slot].state == State::shared) return Rate(sharing_.rate(slot));
  return activities_[slot].state == State::lone ? activities_[slot].rate : Rate(0);
}

Ticks FluidNetwork::left_of(std::uint32_t slot, Instant now) const {
  const Activity& activity = activities_[slot];
  if (activity.state == State::shared) return sharing_.remaining(slot, now);
  if (activity.state == State::lone) return activity.left - work_done(activity.rate, now - activity.since);
  return 0;
}

Ticks FluidNetwork::remaining_ticks(ActivityId activity, Instant now) const {
  return std::max<Ticks>(0, left_of(slot_of(activity), now));
}

std::int64_t FluidNetwork::remaining(ActivityId activity, Instant now) const {
  return static_cast<std::int64_t>((remaining_ticks(activity, now) + kTicksPerUnit - 1) / kTicksPerUnit);
}

// function(slot, use) for every activity that runs across the resource.
template <class Function>
void FluidNetwork::for_each_use_of(ResourceId resource, Function&& function) const {
  for (std::uint32_t slot = 0; slot < activities_.size(); ++slot) {
    const Activity& activity = activities_[slot];
    if (activity.state != State::lone && activity.state != State::shared) continue;
    const std::uint32_t cap_use = activity.first_use + activity.deciding;
    for (std::uint32_t u = activity.first_use; u <= cap_use + activity.redundant; ++u) {
      if (u != cap_use && use(u).link == link_of(resource)) function(slot, use(u));
    }
  }
}

Rate FluidNetwork::usage(ResourceId resource) const {
  ORRERY_CHECK(!dirty_, "rates are not known while a solve is due");
  const std::uint32_t link = link_of(resource);
  if (occupant_[link] == kShared) return Rate(sharing_.used(link));
  Rate total{};
  if (occupant_[link] == kNobody && resources_[resource.index()].decides) return total;
  for_each_use_of(resource, [&](std::uint32_t slot, const Use& use) {
    const bool shared = activities_[slot].state == State::shared;
    total += (shared ? Rate(sharing_.rate(slot)) : activities_[slot].rate) * use.count;
  });
  return total;
}

Ticks FluidNetwork::served_ticks(ResourceId resource, Instant now) const {
  Ticks total = resources_[resource.index()].served_by_ended;
  for_each_use_of(resource, [&](std::uint32_t slot, const Use& use) {
    const Ticks left = std::max<Ticks>(0, left_of(slot, now));
    total += (ticks_from_units(activities_[slot].work) - left) * use.count;
  });
  return total;
}

double FluidNetwork::served(ResourceId resource, Instant now) const {
  return static_cast<double>(served_ticks(resource, now)) / static_cast<double>(kTicksPerUnit);
}

}  // namespace orrery
