#include "sim/fluid/incremental_sharing.hpp"

#include <algorithm>
#include <bit>

namespace orrery {

namespace {

// Sums beyond this are not trusted: the next sum might not fit. A sum over a link that is not overloaded is at most
// kMaxRate, a quarter of it.
constexpr std::int64_t kMaxSum = std::int64_t{1} << 62;

}  // namespace

// --- Links and membership ------------------------------------------------------------------------------------------

std::uint32_t IncrementalSharing::add_link(std::int64_t capacity) {
  if (!free_links_.empty()) {
    const std::uint32_t link = free_links_.back();
    free_links_.pop_back();
    links_[link].capacity = capacity;
    return link;
  }
  links_.push_back({});
  links_.back().capacity = capacity;
  levels_.push_back(kOpen);
  clocks_.push_back({});
  members_.emplace_back();
  queue_.reserve_ids(links_.size());
  completions_.reserve_ids(links_.size());
  return static_cast<std::uint32_t>(links_.size() - 1);
}

void IncrementalSharing::remove_link(std::uint32_t link) {
  ORRERY_CHECK(members_[link].empty(), "a link is removed after its flows", link);
  free_links_.push_back(link);
}

void IncrementalSharing::set_capacity(std::uint32_t link, std::int64_t capacity) {
  // A flow that is provisionally bound by the old capacity of an unsaturated link would not be found again by repair.
  if (levels_[link] == kOpen && links_[link].own > 0) full_due_ = true;
  links_[link].capacity = capacity;
  touch_later(link);
}

void IncrementalSharing::touch_later(std::uint32_t link) {
  if (links_[link].touched) return;
  links_[link].touched = true;
  touched_.push_back(link);
}

// While rates are provisional a sum may exceed the capacity by far. What does not fit is made good by a full solve.
void IncrementalSharing::add_used(Link& link, std::int64_t rate, std::int64_t count) {
  std::int64_t amount = 0;
  bool wrapped = __builtin_mul_overflow(rate, count, &amount);
  wrapped |= __builtin_add_overflow(link.used, amount, &link.used);
  if (wrapped || link.used > kMaxSum || link.used < -kMaxSum) {
    full_due_ = true;
    link.used = 0;
  }
}

void IncrementalSharing::add_running(std::uint32_t flow, std::uint32_t first_use, std::uint32_t count) {
  if (flows_.size() <= flow) flows_.resize(flow + 1);
  Flow& state = flows_[flow];
  state.first_use = first_use;
  state.use_count = count;
  state.bottleneck = kNone;
  state.running_position = static_cast<std::uint32_t>(running_.size());
  running_.push_back(flow);
}

void IncrementalSharing::insert(std::uint32_t flow, std::uint32_t first_use, std::uint32_t count, Ticks remaining,
                                Instant now) {
  ORRERY_CHECK(count > 0, "a flow crosses at least one link", flow);
  add_running(flow, first_use, count);
  // The provisional rate: the least level, or what the flow would get alone where there is no level yet.
  std::int64_t rate = kOpen;
  std::uint32_t bottleneck = kNone;
  for (std::uint32_t u = first_use; u < first_use + count; ++u) {
    const std::int64_t level = levels_[uses_[u].link];
    const std::int64_t limit = level == kOpen ? links_[uses_[u].link].capacity / uses_[u].count : level;
    if (limit < rate) {
      rate = limit;
      bottleneck = u;
    }
  }
  for (std::uint32_t u = first_use; u < first_use + count; ++u) join(flow, u, rate);
  flows_[flow].rate = rate;
  assign(flow, bottleneck, remaining, now);
}

void IncrementalSharing::insert_alone(std::uint32_t flow, std::uint32_t first_use, std::uint32_t count, Ticks remaining,
                                      Instant now) {
  add_running(flow, first_use, count);
  std::int64_t rate = kOpen;
  for (std::uint32_t u = first_use; u < first_use + count; ++u) {
    rate = std::min(rate, links_[uses_[u].link].capacity / uses_[u].count);
  }
  std::uint32_t bottleneck = kNone;
  for (std::uint32_t u = first_use; u < first_use + count; ++u) {
    const std::uint32_t link = uses_[u].link;
    ORRERY_DCHECK(members_[link].empty(), "the only flow on its links", link);
    levels_[link] = links_[link].capacity / uses_[u].count == rate ? rate : kOpen;
    if (levels_[link] == rate) bottleneck = u;
    join(flow, u, rate);
    links_[link].near = false;
  }
  flows_[flow].rate = rate;
  assign(flow, bottleneck, remaining, now);
}

void IncrementalSharing::join(std::uint32_t flow, std::uint32_t use, std::int64_t rate) {
  Use& u = uses_[use];
  Link& link = links_[u.link];
  const std::int64_t level = levels_[u.link];
  if (members_[u.link].empty()) ++links_in_use_;
  u.position = static_cast<std::uint32_t>(members_[u.link].size());
  members_[u.link].push_back({flow, use});
  add_used(link, rate, u.count);
  link.uses += u.count;
  if (rate == level) link.at_level += u.count;
  if (link.uses > link.window) {
    link.window = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(link.uses)));
    link.near = true;  // the wider window may hold somebody
  }
  if (rate < level && rate > level - link.window) link.near = true;
  touch_later(u.link);
}

void IncrementalSharing::remove(std::uint32_t flow) {
  unassign(flow);
  Flow& state = flows_[flow];
  for (std::uint32_t u = state.first_use; u < state.first_use + state.use_count; ++u) leave(flow, u);
  const std::uint32_t last = running_.back();
  running_[state.running_position] = last;
  flows_[last].running_position = state.running_position;
  running_.pop_back();
}

void IncrementalSharing::leave(std::uint32_t flow, std::uint32_t use) {
  const Use& u = uses_[use];
  Link& link = links_[u.link];
  const std::int64_t rate = flows_[flow].rate;
  add_used(link, -rate, u.count);
  link.uses -= u.count;
  if (rate == levels_[u.link]) link.at_level -= u.count;
  swap_members(u.link, u.position, static_cast<std::uint32_t>(members_[u.link].size() - 1));
  members_[u.link].pop_back();
  if (members_[u.link].empty()) --links_in_use_;
  touch_later(u.link);
}

void IncrementalSharing::swap_members(std::uint32_t link, std::uint32_t a, std::uint32_t b) {
  if (a == b) return;
  std::vector<Member>& members = members_[link];
  std::swap(members[a], members[b]);
  uses_[members[a].use].position = a;
  uses_[members[b].use].position = b;
}

void IncrementalSharing::make_own(std::uint32_t use) {
  Link& link = links_[uses_[use].link];
  swap_members(uses_[use].link, uses_[use].position, link.own++);
  link.own_uses += uses_[use].count;
}

void IncrementalSharing::make_common(std::uint32_t use) {
  Link& link = links_[uses_[use].link];
  swap_members(uses_[use].link, uses_[use].position, --link.own);
  link.own_uses -= uses_[use].count;
}

// --- Clocks --------------------------------------------------------------------------------------------------------

Ticks IncrementalSharing::clock_at(std::uint32_t link, Instant now) const {
  const Clock& clock = clocks_[link];
  if (levels_[link] == kOpen || clock.since == now) return clock.value;
  return clock.value + static_cast<Ticks>(levels_[link]) * (now - clock.since).count();
}

// The clock has run at the old level until now.
void IncrementalSharing::set_level(std::uint32_t link, std::int64_t level) {
  clocks_[link].value = links_[link].own == 0 ? 0 : clock_at(link, now_);
  clocks_[link].since = now_;
  levels_[link] = level;
  retime_later(link);
}

void IncrementalSharing::assign(std::uint32_t flow, std::uint32_t use, Ticks remaining, Instant now) {
  const std::uint32_t link = uses_[use].link;
  Clock& clock = clocks_[link];
  Flow& state = flows_[flow];
  make_own(use);
  state.bottleneck = use;
  if (links_[link].own == 1) {
    clock = {0, now, flow};
    state.target = remaining;
  } else {
    state.target = clock_at(link, now) + remaining;
    if (clock.first != kNone && state.target < flows_[clock.first].target) clock.first = flow;
  }
  retime_later(link);
}

void IncrementalSharing::unassign(std::uint32_t flow) {
  const std::uint32_t use = flows_[flow].bottleneck;
  const std::uint32_t link = uses_[use].link;
  make_common(use);
  if (clocks_[link].first == flow) clocks_[link].first = kNone;
  retime_later(link);
}

void IncrementalSharing::reassign(std::uint32_t flow, std::uint32_t use) {
  const Ticks left = remaining(flow, now_);
  unassign(flow);
  assign(flow, use, left, now_);
}

Ticks IncrementalSharing::remaining(std::uint32_t flow, Instant now) const {
  return flows_[flow].target - clock_at(uses_[flows_[flow].bottleneck].link, now);
}

void IncrementalSharing::retime_later(std::uint32_t link) {
  if (links_[link].retime) return;
  links_[link].retime = true;
  retimed_.push_back(link);
}

void IncrementalSharing::retime(std::uint32_t link) {
  Clock& clock = clocks_[link];
  const Link& state = links_[link];
  if (state.own == 0 || levels_[link] == kOpen) {
    completions_.erase(link);
    return;
  }
  if (clock.first == kNone) {
    clock.first = members_[link][0].flow;
    for (std::uint32_t i = 1; i < state.own; ++i) {
      const std::uint32_t flow = members_[link][i].flow;
      if (flows_[flow].target < flows_[clock.first].target) clock.first = flow;
    }
  }
  const Duration left = time_for(flows_[clock.first].target - clock.value, Rate(levels_[link]));
  const Instant end = saturating_add(clock.since, left);
  if (end == kNever) {
    completions_.erase(link);
  } else {
    completions_.set(link, end.time_since_epoch().count());
  }
}

void IncrementalSharing::remove_completed(Instant now, std::vector<std::uint32_t>& done) {
  const std::size_t first = done.size();
  while (!completions_.empty() && completions_.top().key <= now.time_since_epoch().count()) {
    const std::uint32_t link = completions_.top().id;
    const Ticks reached = clock_at(link, now);
    for (std::uint32_t i = 0; i < links_[link].own; ++i) {
      const std::uint32_t flow = members_[link][i].flow;
      if (flows_[flow].target <= reached) done.push_back(flow);
    }
    completions_.erase(link);
    retime_later(link);
  }
  for (std::size_t i = first; i < done.size(); ++i) remove(done[i]);
}

// --- Solving -------------------------------------------------------------------------------------------------------

void IncrementalSharing::solve(Instant now) {
  now_ = now;
  ++statistics_.solves;
  const auto touched = static_cast<std::int64_t>(touched_.size());
  const bool widespread = full_share_ == 1 || (full_share_ > 0 && touched * full_share_ > links_in_use_);
  if (widespread && !full_due_ && full_share_ > 1) {
    fill(false);
  } else if (full_due_ || widespread || !repair()) {
    fill(true);
  }
  for (const std::uint32_t link : retimed_) {
    links_[link].retime = false;
    retime(link);
  }
  retimed_.clear();
}

// Brings all equations back to hold, starting from the touched links. False if that was given up.
bool IncrementalSharing::repair() {
  const std::int64_t limit = statistics_.expansions + 64 + 8 * links_in_use_;
  touch_marked();
  while (!queue_.empty()) {
    process(queue_.top().id);
    if (full_due_ || statistics_.expansions > limit) return false;
    touch_marked();
  }
  return true;
}

void IncrementalSharing::touch_marked() {
  for (const std::uint32_t link : touched_) {
    links_[link].touched = false;
    requeue(link);
  }
  touched_.clear();
}

// Takes the link out of the queue if its equation holds, else puts it there under a lower bound of the level at which
// it will matter.
void IncrementalSharing::requeue(std::uint32_t link) {
  Link& state = links_[link];
  const std::int64_t level = levels_[link];
  const std::int64_t slack = state.capacity - state.used;
  if (state.uses == 0) {
    if (level != kOpen) set_level(link, kOpen);
    state.near = false;
    queue_.erase(link);
    return;
  }
  if (level == kOpen) {
    const std::int64_t value = slack >= state.window ? kOpen : evaluate_from_below(link);
    if (value == kOpen) {
      queue_.erase(link);
    } else {
      queue_.set(link, value);
    }
    return;
  }
  if (state.at_level == 0 && slack >= 0 && slack < state.window) {
    // Nobody is left at this level. As for an unsaturated link, a fixed point may lie anywhere below.
    state.near = true;
    queue_.set(link, std::min(level, evaluate_from_below(link)));
    return;
  }
  const bool holds = slack >= 0 && slack < state.at_level;
  if (!state.near && holds) {
    queue_.erase(link);
  } else if (slack >= 0) {
    queue_.set(link, state.near ? level - state.window : level);
  } else if (state.at_level > 0) {
    const std::int64_t left = slack + state.at_level * level;
    const std::int64_t bound = left < 0 ? 0 : left / state.at_level - state.window;
    queue_.set(link, std::max(bound, state.capacity / state.uses));
  } else {
    queue_.set(link, evaluate_from_below(link));
  }
}

// Looks at the link at the head of the queue: requeues it at the level that it will have, or sets that level if
// nothing else comes before.
void IncrementalSharing::process(std::uint32_t link) {
  const Link& state = links_[link];
  const std::int64_t level = levels_[link];
  const bool rises = level != kOpen && !state.near && state.used <= state.capacity;
  const std::int64_t value = rises ? evaluate_rising(link) : evaluate_from_below(link);
  if (value == level) {
    queue_.erase(link);
    refresh_near(link);
    return;
  }
  queue_.set(link, std::min(value, level));
  if (queue_.top().id != link) return;
  queue_.erase(link);
  ++statistics_.expansions;
  if (value < level) {
    lower(link, value);
  } else {
    raise(link, value);
  }
}

// The fixed point, approached from capacity / uses. Flows above the present level count as unlimited elsewhere, which
// is right for any result up to it; beyond, the link rises.
std::int64_t IncrementalSharing::evaluate_from_below(std::uint32_t link) {
  ++statistics_.evaluations;
  const std::int64_t level = levels_[link];
  terms_.clear();
  for (const Member& member : members_[link]) {
    const std::int64_t rate = flows_[member.flow].rate;
    if (rate < level) terms_.push_back({rate, uses_[member.use].count});
  }
  std::int64_t left = links_[link].capacity;
  std::int64_t open = links_[link].uses;
  for (;;) {
    const std::int64_t value = left / open;
    const std::int64_t open_before = open;
    std::size_t kept = 0;
    for (const Term& term : terms_) {
      if (term.level < value) {
        left -= term.level * term.count;
        open -= term.count;
      } else {
        terms_[kept++] = term;
      }
    }
    terms_.resize(kept);
    if (open == open_before && value <= level) return value;
    if (open == 0 && level == kOpen) return kOpen;
    if (open == 0 || value > level) return evaluate_rising(link);
  }
}

// The fixed point above the present level: only own flows can go higher, up to what limits them elsewhere.
std::int64_t IncrementalSharing::evaluate_rising(std::uint32_t link) {
  ++statistics_.evaluations;
  const Link& state = links_[link];
  std::int64_t open = state.own_uses;
  std::int64_t left = state.capacity - state.used + open * levels_[link];
  if (open == 0) return kOpen;
  terms_.clear();
  for (std::uint32_t i = 0; i < state.own; ++i) {
    const Member& member = members_[link][i];
    terms_.push_back({limit_elsewhere(flows_[member.flow], member.use).level, uses_[member.use].count});
  }
  for (;;) {
    const std::int64_t value = left / open;
    const std::int64_t open_before = open;
    std::size_t kept = 0;
    for (const Term& term : terms_) {
      if (term.level < value) {
        left -= term.level * term.count;
        open -= term.count;
      } else {
        terms_[kept++] = term;
      }
    }
    terms_.resize(kept);
    if (open == 0) return kOpen;
    if (open == open_before) return value;
  }
}

IncrementalSharing::Limit IncrementalSharing::limit_elsewhere(const Flow& flow, std::uint32_t use) const {
  Limit limit{kOpen, kNone};
  for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.use_count; ++u) {
    const std::int64_t level = u == use ? kOpen : levels_[uses_[u].link];
    if (level < limit.level) limit = {level, u};
  }
  return limit;
}

// The level falls: flows above it come down and become own.
void IncrementalSharing::lower(std::uint32_t link, std::int64_t level) {
  set_level(link, level);
  Link& state = links_[link];
  const std::vector<Member>& members = members_[link];
  state.used = 0;
  state.at_level = 0;
  state.near = false;
  const std::uint32_t own_before = state.own;
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    const Member member = members[i];
    if (flows_[member.flow].rate > level) {
      change_rate(member.flow, level, link);
      // Swaps the member with one that has been looked at.
      if (i >= own_before) reassign(member.flow, member.use);
    }
    const std::int64_t rate = flows_[member.flow].rate;
    const std::int64_t count = uses_[member.use].count;
    add_used(state, rate, count);
    if (rate == level) {
      state.at_level += count;
    } else if (rate > level - state.window) {
      state.near = true;
    }
  }
}

// The level rises: own flows follow, as far as their other links let them.
void IncrementalSharing::raise(std::uint32_t link, std::int64_t level) {
  const std::int64_t level_before = levels_[link];
  set_level(link, level);
  Link& state = links_[link];
  state.near = level - level_before < state.window;
  for (std::uint32_t i = 0; i < state.own;) {
    const Member member = members_[link][i];
    const Limit limit = limit_elsewhere(flows_[member.flow], member.use);
    const std::int64_t rate = std::min(level, limit.level);
    if (rate != level_before) {
      add_used(state, rate - level_before, uses_[member.use].count);
      change_rate(member.flow, rate, link);
    }
    if (limit.level < level) {
      if (rate > level - state.window) state.near = true;
      reassign(member.flow, limit.use);  // the last own member takes place i
    } else {
      ++i;
    }
  }
  state.at_level = state.own_uses;
  if (level == kOpen) state.near = false;
}

// Gives the flow a new rate and passes it to its links other than `except`.
void IncrementalSharing::change_rate(std::uint32_t flow, std::int64_t rate, std::uint32_t except) {
  Flow& state = flows_[flow];
  const std::int64_t before = state.rate;
  const std::int64_t change = rate - before;
  ++statistics_.rate_changes;
  state.rate = rate;
  for (std::uint32_t u = state.first_use; u < state.first_use + state.use_count; ++u) {
    const Use& use = uses_[u];
    if (use.link == except) continue;
    Link& link = links_[use.link];
    const std::int64_t level = levels_[use.link];
    add_used(link, change, use.count);
    if (level != kOpen) {
      if (before == level) link.at_level -= use.count;
      if (rate == level) link.at_level += use.count;
      if (rate < level && rate > level - link.window) link.near = true;
    } else if (link.capacity - link.used >= link.window && !queue_.contains(use.link)) {
      continue;
    }
    touch_later(use.link);
  }
}

void IncrementalSharing::refresh_near(std::uint32_t link) {
  Link& state = links_[link];
  const std::int64_t level = levels_[link];
  state.near = std::any_of(members_[link].begin(), members_[link].end(), [&](const Member& member) {
    const std::int64_t rate = flows_[member.flow].rate;
    return rate < level && rate > level - state.window;
  });
}

// --- Progressive filling -------------------------------------------------------------------------------------------

// Flows and links that hang together are filled on their own: nothing passes from one such component to another, and
// its heap and its tables are small. Those without a touched link keep their rates, unless `everything` is asked for.
void IncrementalSharing::fill(bool everything) {
  ++statistics_.full_solves;
  queue_.clear();
  busy_links_.clear();
  for (const std::uint32_t link : touched_) {
    links_[link].touched = false;
    if (members_[link].empty()) levels_[link] = kOpen;
  }
  if (everything) {
    for (const std::uint32_t flow : running_) fill_component(uses_[flows_[flow].first_use].link);
  } else {
    for (const std::uint32_t link : touched_) fill_component(link);
  }
  touched_.clear();
  for (const std::uint32_t link : busy_links_) links_[link].touched = false;
  full_due_ = false;
}

// While filling, links that have been reached are `touched`.
void IncrementalSharing::fill_component(std::uint32_t link) {
  if (links_[link].touched || members_[link].empty()) return;
  filling_.clear();
  const std::size_t first = busy_links_.size();
  open(link);
  for (std::size_t i = first; i < busy_links_.size(); ++i) {
    for (const Member& member : members_[busy_links_[i]]) {
      Flow& flow = flows_[member.flow];
      if (flow.bottleneck == kNone) continue;  // reached before
      flow.bottleneck = kNone;
      for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.use_count; ++u) {
        if (!links_[uses_[u].link].touched) open(uses_[u].link);
      }
    }
  }
  std::make_heap(filling_.begin(), filling_.end(), std::greater<>());
  while (!filling_.empty()) saturate_least();
  for (std::size_t i = first; i < busy_links_.size(); ++i) take_stock(busy_links_[i]);
}

// Forgets the link's level. While filling, its `used` is what fixed flows take and `at_level` counts the unfixed ones;
// a flow's target is the work that is left, and it is unfixed while it has no bottleneck.
void IncrementalSharing::open(std::uint32_t link) {
  Link& state = links_[link];
  const Ticks done = clock_at(link, now_);
  for (std::uint32_t i = 0; i < state.own; ++i) flows_[members_[link][i].flow].target -= done;
  state.touched = true;
  state.used = 0;
  state.at_level = state.uses;
  state.own = 0;
  state.own_uses = 0;
  levels_[link] = kOpen;
  busy_links_.push_back(link);
  filling_.emplace_back(state.capacity / state.uses, link);
}

// Takes the links that saturate next out of the heap. Levels only rise while filling, so a key that is out of date is
// too low: such links go back with their present value.
void IncrementalSharing::saturate_least() {
  const auto pop = [this] {
    const auto entry = filling_.front();
    std::pop_heap(filling_.begin(), filling_.end(), std::greater<>());
    filling_.pop_back();
    return entry;
  };
  saturated_.clear();
  std::int64_t level = kOpen;
  while (!filling_.empty() && filling_.front().first <= level) {
    const auto [key, l] = pop();
    const Link& link = links_[l];
    if (link.at_level == 0) continue;
    const std::int64_t value = (link.capacity - link.used) / link.at_level;
    if (value == key) {
      level = value;
      saturated_.push_back(l);
    } else {
      filling_.emplace_back(value, l);
      std::push_heap(filling_.begin(), filling_.end(), std::greater<>());
    }
  }
  for (const std::uint32_t link : saturated_) levels_[link] = level;
  for (const std::uint32_t link : saturated_) fix_members(link, level);
}

void IncrementalSharing::fix_members(std::uint32_t link, std::int64_t level) {
  for (const Member& member : members_[link]) {
    Flow& flow = flows_[member.flow];
    if (flow.bottleneck != kNone) continue;
    flow.bottleneck = member.use;
    flow.rate = level;
    for (std::uint32_t u = flow.first_use; u < flow.first_use + flow.use_count; ++u) {
      Link& other = links_[uses_[u].link];
      other.used += level * uses_[u].count;
      other.at_level -= uses_[u].count;
    }
  }
}

// Makes a link's state from the rates of its flows, with a clock that starts now.
void IncrementalSharing::take_stock(std::uint32_t link) {
  Link& state = links_[link];
  state.at_level = 0;
  clocks_[link] = {0, now_, kNone};
  for (std::uint32_t i = 0; i < members_[link].size(); ++i) {
    const Member member = members_[link][i];
    const Flow& flow = flows_[member.flow];
    if (flow.rate == levels_[link]) state.at_level += uses_[member.use].count;
    if (flow.bottleneck == member.use) make_own(member.use);
  }
  refresh_near(link);
  if (levels_[link] == kOpen) state.near = false;
  retime_later(link);
}

}  // namespace orrery
