// The fast network against its slow twin, bit for bit at every instant: rates, usage, what is left, what was served,
// the next completion and the completions themselves. Systems are small and their capacities of few steps, so that ties
// and floors are everywhere.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/fluid/network.hpp"
#include "sim/fluid/reference_network.hpp"

namespace orrery {
namespace {

struct Style {
  std::string name;
  std::uint64_t resources;
  std::uint64_t route_length;  // at most
  std::int64_t capacity_least;
  std::int64_t capacity_range;  // 1: all equal
  std::uint64_t counts;         // counts in [1, counts]
  bool caps;
  bool nested;  // a route is a run of neighbouring resources
  bool events;  // changes of capacity and cap, cancellations
};

const std::vector<Style>& styles() {
  static const std::vector<Style> kStyles = {
      {"random", 8, 4, 20, 200, 1, false, false, false},
      {"symmetric", 8, 3, 60, 1, 1, false, false, false},
      {"symmetric, counted and capped", 7, 3, 120, 1, 4, true, false, false},
      {"nested", 10, 6, 40, 3, 1, false, true, false},
      {"nested, counted", 10, 6, 90, 20, 5, true, true, true},
      {"one step apart", 6, 3, 30, 3, 2, true, false, false},
      {"starved", 5, 3, 0, 12, 3, true, false, true},
      {"everything", 12, 5, 10, 400, 6, true, false, true},
      {"large capacities", 12, 4, std::int64_t{1} << 40, 1 << 20, 3, true, false, true},
      {"largest capacities", 5, 3, (std::int64_t{1} << 60) - 5, 6, 9, true, false, true},
      {"room for several", 8, 4, 30, 90, 3, true, false, true},
      {"many resources", 40, 4, 100, 4, 2, true, false, true},
  };
  return kStyles;
}

// One operation, so that all twins see the same.
struct Operation {
  enum class Kind { start, set_cap, set_capacity, cancel } kind;
  std::size_t victim = 0;  // index among the running activities
  ResourceId resource{};
  Rate rate{};
  std::int64_t work = 0;
  std::vector<Crossing> crossings;
};

class Script {
 public:
  Script(const Style& style, std::uint64_t seed) : style_(style), random_(seed, style.name) {
    for (std::uint64_t r = 0; r < style.resources; ++r) capacities_.push_back(capacity());
  }

  [[nodiscard]] const std::vector<Rate>& capacities() const { return capacities_; }
  RandomStream& random() { return random_; }

  Operation next(std::size_t running) {
    Operation operation{};
    const std::uint64_t dice = style_.events && running > 0 ? random_.below(10) : 0;
    operation.victim = running > 0 ? static_cast<std::size_t>(random_.below(running)) : 0;
    if (dice == 9) {
      operation.kind = Operation::Kind::set_capacity;
      operation.resource = ResourceId(static_cast<std::size_t>(random_.below(style_.resources)));
      operation.rate = capacity();
    } else if (dice == 8) {
      operation.kind = Operation::Kind::set_cap;
      operation.rate = cap();
    } else if (dice == 7) {
      operation.kind = Operation::Kind::cancel;
    } else {
      operation.kind = Operation::Kind::start;
      operation.work = random_.below(12) == 0 ? 0 : static_cast<std::int64_t>(1 + random_.below(400));
      const std::size_t again = static_cast<std::size_t>(random_.below(2 * kRemembered));
      if (again >= remembered_.size()) {
        remembered_.insert(remembered_.begin(), {cap(), route()});
        if (remembered_.size() > kRemembered) remembered_.pop_back();
      }
      const auto& [cap, crossings] = remembered_[again < remembered_.size() ? again : 0];
      operation.rate = cap;
      operation.crossings = crossings;
    }
    return operation;
  }

 private:
  Rate capacity() {
    return Rate(style_.capacity_least +
                static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(style_.capacity_range))));
  }

  Rate cap() {
    if (!style_.caps || random_.below(3) == 0) return kUncapped;
    return Rate(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(style_.capacity_least) / 2 + 20)));
  }

  std::vector<Crossing> route() {
    std::vector<std::size_t> resources(style_.resources);
    for (std::size_t r = 0; r < resources.size(); ++r) resources[r] = r;
    const std::uint64_t length = random_.below(style_.route_length + 1);
    if (style_.nested) {
      std::rotate(resources.begin(), resources.begin() + static_cast<std::ptrdiff_t>(random_.below(style_.resources)),
                  resources.end());
    } else {
      for (std::size_t r = resources.size() - 1; r > 0; --r) std::swap(resources[r], resources[random_.below(r + 1)]);
    }
    std::vector<Crossing> crossings;
    for (std::size_t i = 0; i < length; ++i) {
      crossings.push_back({ResourceId(resources[i]), static_cast<std::int32_t>(1 + random_.below(style_.counts))});
    }
    return crossings;
  }

  static constexpr std::size_t kRemembered = 8;

  const Style& style_;
  RandomStream random_;
  std::vector<std::pair<Rate, std::vector<Crossing>>> remembered_;  // starts that may come again, the latest first
  std::vector<Rate> capacities_;
};

// A network with the ids of what runs on it, in order of start. One that can keep activities does so with two of three
// starts, and lets those run again that have the same cap and crossings.
template <class Network>
class Twin {
 public:
  explicit Twin(Network network) : network_(std::move(network)) {}

  void build(const std::vector<Rate>& capacities) {
    for (const Rate capacity : capacities) network_.add_resource(capacity);
  }

  void apply(Instant now, const Operation& operation) {
    switch (operation.kind) {
      case Operation::Kind::start:
        ++tags_;
        running_.push_back(start(now, operation));
        tag_of_.push_back(tags_);
        break;
      case Operation::Kind::set_cap:
        for (Kept& kept : kept_) {
          if (kept.id == running_[operation.victim]) kept.cap = operation.rate;
        }
        network_.set_cap(now, running_[operation.victim], operation.rate);
        break;
      case Operation::Kind::set_capacity:
        network_.set_capacity(now, operation.resource, operation.rate);
        break;
      case Operation::Kind::cancel:
        network_.cancel(now, running_[operation.victim]);
        forget(operation.victim);
        break;
    }
  }

  std::vector<std::uint64_t> pop(Instant now) {
    std::vector<std::uint64_t> tags;
    for (const Completion& completion : network_.pop_completed(now)) {
      tags.push_back(completion.tag < kKeptTags ? completion.tag : kept_[completion.tag - kKeptTags].tag);
      const auto found = std::find(tag_of_.begin(), tag_of_.end(), tags.back());
      REQUIRE(found != tag_of_.end());
      forget(static_cast<std::size_t>(found - tag_of_.begin()));
    }
    return tags;
  }

  void settle(Instant now) {
    if (network_.needs_solve()) network_.solve(now);
  }

  Network& network() { return network_; }
  [[nodiscard]] const std::vector<ActivityId>& running() const { return running_; }

 private:
  static constexpr std::uint64_t kKeptTags = std::uint64_t{1} << 40;
  struct Kept {
    ActivityId id;
    Rate cap;
    std::vector<Crossing> crossings;
    std::uint64_t tag = 0;  // of its last start
  };

  ActivityId start(Instant now, const Operation& operation) {
    if constexpr (requires { network_.discard(ActivityId()); }) {
      if (tags_ % 3 != 0) {
        Kept& kept = resting(operation.rate, operation.crossings);
        kept.tag = tags_;
        network_.run(now, kept.id, operation.work);
        return kept.id;
      }
    }
    return network_.start(now, operation.work, operation.rate, operation.crossings, tags_);
  }

  // A kept activity like this that rests; else, in the place of another that rests or of none, a new one.
  Kept& resting(Rate cap, const std::vector<Crossing>& crossings) {
    Kept* other = nullptr;
    for (Kept& kept : kept_) {
      if (network_.running(kept.id)) continue;
      if (kept.cap == cap && std::equal(kept.crossings.begin(), kept.crossings.end(), crossings.begin(),
                                        crossings.end(), [](const Crossing& a, const Crossing& b) {
                                          return a.resource == b.resource && a.count == b.count;
                                        })) {
        return kept;
      }
      other = &kept;
    }
    if (other != nullptr && kept_.size() >= 6) {
      network_.discard(other->id);
    } else {
      other = &kept_.emplace_back();
    }
    const std::uint64_t tag = kKeptTags + static_cast<std::uint64_t>(other - kept_.data());
    *other = {network_.keep(cap, crossings, tag), cap, crossings};
    return *other;
  }

  void forget(std::size_t index) {
    CHECK_FALSE(network_.running(running_[index]));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    tag_of_.erase(tag_of_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  Network network_;
  std::vector<ActivityId> running_;
  std::vector<std::uint64_t> tag_of_;
  std::vector<Kept> kept_;
  std::uint64_t tags_ = 0;
};

// What differs first; empty if nothing does.
template <class A, class B>
std::string difference(Twin<A>& a, Twin<B>& b, std::size_t resources, Instant now) {
  if (a.network().next_completion() != b.network().next_completion()) return "next completion";
  if (a.network().activity_count() != b.network().activity_count()) return "number of activities";
  for (std::size_t f = 0; f < a.running().size(); ++f) {
    const ActivityId in_a = a.running()[f];
    const ActivityId in_b = b.running()[f];
    if (a.network().rate(in_a) != b.network().rate(in_b)) {
      return fmt::format("rate of {}: {} and {}", f, a.network().rate(in_a).count(), b.network().rate(in_b).count());
    }
    if (a.network().remaining_ticks(in_a, now) != b.network().remaining_ticks(in_b, now)) {
      return fmt::format("what is left of {}", f);
    }
  }
  for (std::size_t r = 0; r < resources; ++r) {
    const ResourceId resource(r);
    if (a.network().usage(resource) != b.network().usage(resource)) return fmt::format("usage of {}", r);
    if (a.network().served_ticks(resource, now) != b.network().served_ticks(resource, now)) {
      return fmt::format("what {} served", r);
    }
  }
  return {};
}

void run_case(const Style& style, std::uint64_t seed, FluidOptions options, int instants) {
  CAPTURE(style.name);
  CAPTURE(seed);
  Script script(style, seed);
  Twin<FluidNetwork> fast{FluidNetwork(options)};
  Twin<ReferenceNetwork> slow{ReferenceNetwork()};
  fast.build(script.capacities());
  slow.build(script.capacities());
  Instant now{};
  for (int i = 0; i < instants; ++i) {
    CAPTURE(i);
    REQUIRE(fast.pop(now) == slow.pop(now));
    const std::uint64_t changes = script.random().below(4) == 0 ? script.random().below(8) : script.random().below(2);
    for (std::uint64_t c = 0; c < changes; ++c) {
      const Operation operation = script.next(fast.running().size());
      fast.apply(now, operation);
      slow.apply(now, operation);
    }
    fast.settle(now);
    slow.settle(now);
    REQUIRE(difference(fast, slow, style.resources, now) == "");
    // On to the next completion, or to some moment before it.
    const Instant next = slow.network().next_completion();
    Instant step = now + Duration(static_cast<std::int64_t>(1 + script.random().below(100'000'000'000'000)));
    if (style.capacity_least > 1'000'000)
      step = now + Duration(static_cast<std::int64_t>(1 + script.random().below(900)));
    now = script.random().below(3) == 0 ? std::min(step, next) : (next == kNever ? step : next);
  }
}

TEST_CASE("the network equals its slow twin at every instant") {
  // Repair alone; repair with the fallback; full solves only; everything through the solver.
  const std::array<FluidOptions, 4> all = {FluidOptions{.lone_fast_path = true, .full_share = 0}, FluidOptions{},
                                           FluidOptions::full(),
                                           FluidOptions{.lone_fast_path = false, .full_share = 0}};
  for (const Style& style : styles()) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      for (const FluidOptions& options : all) run_case(style, seed, options, 60);
    }
  }
}

}  // namespace
}  // namespace orrery
