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
  resources_.push_back({.capacity = capacity.count()});
  accounts_.push_back({});
  return ResourceId(resources_.size() - 1);
}

void FluidNetwork::leave_out(ResourceId resource) {
  ORRERY_CHECK(started_ == 0, "resources are left out before the first activity");
  accounts_[resource.index()].decides = false;
}

// Whoever crosses the resource has another rate alone, which counts on all its resources: they are placed anew.
// O(activities).
void FluidNetwork::set_capacity(Instant now, ResourceId resource, Rate capacity) {
  check_capacity(capacity);
  ORRERY_CHECK(accounts_[resource.index()].decides, "what is left out keeps its capacity", resource.value());
  pass_time(now);
  if (this->capacity(resource) == capacity) return;
  std::vector<std::pair<std::uint32_t, Ticks>> placed_anew;
  for_each_use_of(resource, [&](std::uint32_t slot, const Use&) {
    if (activities_[slot].progresses()) placed_anew.emplace_back(slot, left_of(slot, now));
  });
  for (const auto& [slot, left] : placed_anew) take_out(now, slot);
  for (Activity& activity : activities_) activity.alone_known = false;
  resources_[resource.index()].capacity = capacity.count();
  sharing_.set_capacity(link_of(resource), capacity.count());
  for (const auto& [slot, left] : placed_anew) place(now, slot, left);
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
  const std::uint32_t slot = allocate(cap, crossings, tag);
  begin(now, slot, work);
  return {slot, activities_[slot].generation};
}

ActivityId FluidNetwork::keep(Rate cap, std::span<const Crossing> crossings, std::uint64_t tag) {
  check_cap(cap);
  const std::uint32_t slot = allocate(cap, crossings, tag);
  activities_[slot].kept = true;
  activities_[slot].state = State::resting;
  ++kept_count_;
  return {slot, activities_[slot].generation};
}

void FluidNetwork::run(Instant now, ActivityId resting, std::int64_t work) {
  ORRERY_CHECK(work >= 0, "work is not negative", work);
  pass_time(now);
  begin(now, resting_slot(resting), work);
}

void FluidNetwork::discard(ActivityId resting) {
  const std::uint32_t slot = resting_slot(resting);
  count_served(activities_[slot], activities_[slot].served_before);
  --kept_count_;
  forget(slot);
}

std::uint32_t FluidNetwork::resting_slot(ActivityId id) const {
  const Activity& activity = activities_[id.slot];
  ORRERY_CHECK(activity.generation == id.generation && activity.state == State::resting, "the activity rests", id.slot);
  return id.slot;
}

void FluidNetwork::begin(Instant now, std::uint32_t slot, std::int64_t work) {
  Activity& activity = activities_[slot];
  activity.work = work;
  activity.order = started_++;
  ++activity_count_;
  if (work == 0 || (activity.deciding + activity.left_out == 0 && activity.cap == kUncapped)) {
    wait_for_pop(slot);
  } else {
    place(now, slot, ticks_from_units(work));
  }
}

std::uint32_t FluidNetwork::allocate(Rate cap, std::span<const Crossing> crossings, std::uint64_t tag) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(activities_.size()));
    activities_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Activity& activity = activities_[slot];
  activity.cap = cap;
  activity.tag = tag;
  activity.alone_known = false;
  activity.kept = false;
  activity.served_before = 0;
  store_uses(slot, crossings);
  return slot;
}

void FluidNetwork::store_uses(std::uint32_t slot, std::span<const Crossing> crossings) {
  Activity& activity = activities_[slot];
  const std::uint32_t first = sharing_.uses().allocate(crossings.size() + 1);
  if (owner_.size() < sharing_.uses().size()) owner_.resize(sharing_.uses().size());
  std::uint32_t front = first + 1;
  std::uint32_t back = front + static_cast<std::uint32_t>(crossings.size());
  for (const Crossing& crossing : crossings) {
    ORRERY_CHECK(crossing.count >= 1, "a count is at least 1", crossing.count);
    const std::uint32_t index = accounts_[crossing.resource.index()].decides ? front++ : --back;
    use(index) = {.link = link_of(crossing.resource), .count = crossing.count};
    owner_[index] = slot;
  }
  activity.first_use = first;
  activity.in_sharing = 0;
  activity.deciding = front - first - 1;
  activity.left_out = static_cast<std::uint32_t>(crossings.size()) - activity.deciding;
  activity.cap_attached = false;
}

// Lets an activity that has nothing to do complete at once.
void FluidNetwork::wait_for_pop(std::uint32_t slot) {
  activities_[slot].state = State::idle_work;
  without_work_.push_back(slot);
}

// Lets an activity that is nowhere run: alone if all its resources are calm.
void FluidNetwork::place(Instant now, std::uint32_t slot, Ticks left) {
  Activity& activity = activities_[slot];
  if (!activity.alone_known) {
    activity.alone = rate_alone(activity);
    activity.alone_known = true;
  }
  const std::uint32_t begin = activity.first_use + 1;
  const std::uint32_t end = begin + activity.deciding;
  bool shared = !options_.lone_fast_path && activity.deciding > 0;
  for (std::uint32_t u = begin; u < end; ++u) {
    Resource& resource = resources_[use(u).link];
    resource.load += load_of(activity, use(u));
    ++resource.running;
    shared |= resource.first == kTight || (resource.running > 1 && resource.load > resource.capacity);
    if (resource.first != kTight) list(u);
  }
  if (shared) {
    share(now, slot, left);
  } else {
    run_alone(now, slot, left);
  }
}

Rate FluidNetwork::rate_alone(const Activity& activity) const {
  std::int64_t rate = activity.cap.count();
  for (std::uint32_t u = activity.first_use + 1; u <= activity.first_use + activity.deciding; ++u) {
    const std::int64_t capacity = resources_[use(u).link].capacity;
    rate = std::min(rate, use(u).count == 1 ? capacity : capacity / use(u).count);
  }
  return Rate(rate);
}

void FluidNetwork::run_alone(Instant now, std::uint32_t slot, Ticks left) {
  Activity& activity = activities_[slot];
  ++lone_count_;
  activity.state = State::lone;
  activity.left = left;
  activity.since = now;
  activity.end = saturating_add(now, time_for(left, activity.alone));
  if (activity.end == kNever) return;
  next_lone_ = std::min(next_lone_, activity.end);
  lone_queue_.push({activity.end.time_since_epoch().count(), slot, activity.generation});
  if (lone_queue_.size() > 2 * lone_count_ + 1024) {
    lone_queue_.purge([this](const LoneQueue::Entry& entry) { return holds(entry); });
  }
}

// Starts an activity on resources some of which are or become tight: whoever runs on those enters the sharing first.
void FluidNetwork::share(Instant now, std::uint32_t slot, Ticks left) {
  const Activity& activity = activities_[slot];
  promoted_.clear();
  for (std::uint32_t u = activity.first_use + 1; u <= activity.first_use + activity.deciding; ++u) {
    Resource& resource = resources_[use(u).link];
    if (resource.first == kTight || (options_.lone_fast_path && resource.load <= resource.capacity)) continue;
    for (std::uint32_t v = resource.first; v != kNone; v = use(v).next) {
      if (v != u) promoted_.push_back(owner_[v]);
    }
    resource.first = kTight;
  }
  for (const std::uint32_t other : promoted_) promote(now, other);
  join_sharing(now, slot, left);
}

// Of an activity, alone or not, one of whose resources has become tight.
void FluidNetwork::promote(Instant now, std::uint32_t slot) {
  const Ticks left = left_of(slot, now);
  if (activities_[slot].state == State::shared) {
    sharing_.remove(slot);
    left_sharing(slot);
  } else {
    no_longer_alone(activities_[slot]);
  }
  join_sharing(now, slot, left);
}

void FluidNetwork::no_longer_alone(const Activity& activity) {
  --lone_count_;
  if (activity.end == next_lone_) next_lone_known_ = false;
}

void FluidNetwork::join_sharing(Instant now, std::uint32_t slot, Ticks left) {
  Activity& activity = activities_[slot];
  activity.state = State::shared;
  gather_tight(activity);
  const std::uint32_t cap_use = activity.cap_use();
  std::uint32_t count = activity.in_sharing;
  bool alone = true;
  for (std::uint32_t u = activity.first_use; u < cap_use; ++u) alone = alone && !sharing_.in_use(use(u).link);
  if (activity.cap != kUncapped) {
    activity.cap_attached = true;
    use(cap_use) = {.link = sharing_.add_link(activity.cap.count()), .count = 1};
    ++count;
  }
  if (alone) {
    sharing_.insert_alone(slot, activity.first_use, count, left, now);
  } else {
    sharing_.insert(slot, activity.first_use, count, left, now);
  }
  dirty_ = true;
}

// Puts the uses of tight resources in front of the cap's. A resource that limits the activity even alone is tight now:
// nobody else is there, else it would have been before.
void FluidNetwork::gather_tight(Activity& activity) {
  std::uint32_t gap = activity.first_use;
  const std::uint32_t end = gap + activity.deciding;
  for (std::uint32_t u = gap + 1; u <= end; ++u) {
    Resource& resource = resources_[use(u).link];
    if (resource.load > resource.capacity) resource.first = kTight;
    if (resource.first != kTight) continue;
    use(gap++) = use(u);
    if (u == gap) continue;
    use(u) = use(gap);
    moved(u);
  }
  activity.in_sharing = gap - activity.first_use;
}

// After the sharing has forgotten an activity: its uses as they were, the cap's in front.
void FluidNetwork::left_sharing(std::uint32_t slot) {
  Activity& activity = activities_[slot];
  if (activity.cap_attached) sharing_.remove_link(use(activity.cap_use()).link);
  activity.cap_attached = false;
  use(activity.cap_use()) = use(activity.first_use);
  activity.in_sharing = 0;
}

// Of an activity that runs neither alone nor shared any more.
void FluidNetwork::leave_resources(std::uint32_t slot) {
  const Activity& activity = activities_[slot];
  for (std::uint32_t u = activity.first_use + 1; u <= activity.first_use + activity.deciding; ++u) {
    Resource& resource = resources_[use(u).link];
    resource.load -= load_of(activity, use(u));
    --resource.running;
    if (resource.first != kTight) {
      unlist(u);
    } else if (resource.running == 0) {
      resource.first = kNone;
    }
  }
}

// --- Lists of the uses of calm resources ---------------------------------------------------------------------------

void FluidNetwork::list(std::uint32_t index) {
  Use& added = use(index);
  std::uint32_t& first = resources_[added.link].first;
  added.position = kNone;
  added.next = first;
  if (first != kNone) use(first).position = index;
  first = index;
}

void FluidNetwork::unlist(std::uint32_t index) {
  const Use& gone = use(index);
  if (gone.next != kNone) use(gone.next).position = gone.position;
  if (gone.position != kNone) {
    use(gone.position).next = gone.next;
  } else {
    resources_[gone.link].first = gone.next;
  }
}

// A listed use has come to this place.
void FluidNetwork::moved(std::uint32_t index) {
  const Use& here = use(index);
  if (here.next != kNone) use(here.next).position = index;
  if (here.position != kNone) {
    use(here.position).next = index;
  } else {
    resources_[here.link].first = index;
  }
}

// Takes a running activity from wherever it is.
void FluidNetwork::take_out(Instant now, std::uint32_t slot) {
  pass_time(now);
  const State state = activities_[slot].state;
  if (state == State::idle_work) {
    std::erase(without_work_, slot);
    return;
  }
  if (state == State::shared) {
    sharing_.remove(slot);
    left_sharing(slot);
    dirty_ = true;
  } else {
    no_longer_alone(activities_[slot]);
  }
  leave_resources(slot);
}

void FluidNetwork::set_cap(Instant now, ActivityId id, Rate cap) {
  check_cap(cap);
  pass_time(now);
  const std::uint32_t slot = slot_of(id);
  Activity& activity = activities_[slot];
  if (activity.cap == cap) return;
  activity.alone_known = false;
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

// Of an activity that runs no more and has done so much.
void FluidNetwork::release(std::uint32_t slot, Ticks done) {
  Activity& activity = activities_[slot];
  --activity_count_;
  if (activity.kept) {
    activity.served_before += done;
    activity.state = State::resting;
    return;
  }
  count_served(activity, done);
  forget(slot);
}

void FluidNetwork::count_served(const Activity& activity, Ticks done) {
  for (std::uint32_t u = activity.first_use + 1; u < activity.end_use(); ++u) {
    accounts_[use(u).link].served_by_ended += done * use(u).count;
  }
}

void FluidNetwork::forget(std::uint32_t slot) {
  Activity& activity = activities_[slot];
  sharing_.uses().release(activity.first_use, activity.end_use() - activity.first_use);
  activity.state = State::ended;
  ++activity.generation;
  free_slots_.push_back(slot);
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
  if (!next_lone_known_) {
    while (!lone_queue_.empty() && !holds(lone_queue_.front())) lone_queue_.pop_front();
    next_lone_ = lone_queue_.empty() ? kNever : Instant(Duration(lone_queue_.front().time));
    next_lone_known_ = true;
  }
  return std::max(std::min(next_lone_, sharing_.next_completion()), now_);
}

void FluidNetwork::collect_lone(Instant now) {
  const std::int64_t time = now.time_since_epoch().count();
  next_lone_known_ = false;
  while (!lone_queue_.empty() && lone_queue_.front().time <= time) {
    const LoneQueue::Entry entry = lone_queue_.front();
    lone_queue_.pop_front();
    if (!holds(entry)) continue;
    take_out(now, entry.slot);
    activities_[entry.slot].state = State::resting;  // so that a second entry for the same time does not hold
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
  for (std::size_t i = first_shared; i < done_.size(); ++i) {
    left_sharing(done_[i]);
    leave_resources(done_[i]);
  }
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
         activities_[activity.slot].state > State::resting;
}

Rate FluidNetwork::rate(ActivityId id) const {
  ORRERY_CHECK(!dirty_, "rates are not known while a solve is due");
  return rate_of(slot_of(id));
}

Rate FluidNetwork::rate_of(std::uint32_t slot) const {
  if (activities_[slot].state == State::shared) return Rate(sharing_.rate(slot));
  return activities_[slot].state == State::lone ? activities_[slot].alone : Rate(0);
}

Ticks FluidNetwork::left_of(std::uint32_t slot, Instant now) const {
  const Activity& activity = activities_[slot];
  if (activity.state == State::shared) return sharing_.remaining(slot, now);
  if (activity.state == State::lone) return activity.left - work_done(activity.alone, now - activity.since);
  return 0;
}

Ticks FluidNetwork::remaining_ticks(ActivityId activity, Instant now) const {
  return std::max<Ticks>(0, left_of(slot_of(activity), now));
}

std::int64_t FluidNetwork::remaining(ActivityId activity, Instant now) const {
  return static_cast<std::int64_t>((remaining_ticks(activity, now) + kTicksPerUnit - 1) / kTicksPerUnit);
}

// function(slot, use) for every activity, running or kept, that crosses the resource.
template <class Function>
void FluidNetwork::for_each_use_of(ResourceId resource, Function&& function) const {
  for (std::uint32_t slot = 0; slot < activities_.size(); ++slot) {
    const Activity& activity = activities_[slot];
    if (activity.state == State::ended) continue;
    for (std::uint32_t u = activity.first_use; u < activity.end_use(); ++u) {
      if (u != activity.cap_use() && use(u).link == link_of(resource)) function(slot, use(u));
    }
  }
}

Rate FluidNetwork::usage(ResourceId resource) const {
  ORRERY_CHECK(!dirty_, "rates are not known while a solve is due");
  const std::uint32_t link = link_of(resource);
  if (is_tight(link)) return Rate(sharing_.used(link));
  Rate total{};
  if (accounts_[link].decides) {
    for (std::uint32_t u = resources_[link].first; u != kNone; u = use(u).next)
      total += rate_of(owner_[u]) * use(u).count;
  } else {
    for_each_use_of(resource, [&](std::uint32_t slot, const Use& use) { total += rate_of(slot) * use.count; });
  }
  return total;
}

Ticks FluidNetwork::served_ticks(ResourceId resource, Instant now) const {
  Ticks total = accounts_[resource.index()].served_by_ended;
  if (activity_count_ + kept_count_ == 0) return total;
  for_each_use_of(resource, [&](std::uint32_t slot, const Use& use) {
    const Activity& activity = activities_[slot];
    total += activity.served_before * use.count;
    if (!activity.progresses()) return;
    total += (ticks_from_units(activity.work) - std::max<Ticks>(0, left_of(slot, now))) * use.count;
  });
  return total;
}

double FluidNetwork::served(ResourceId resource, Instant now) const {
  return static_cast<double>(served_ticks(resource, now)) / static_cast<double>(kTicksPerUnit);
}

}  // namespace orrery
