// The event queue under the hold model: n events pending, each step pops the next and pushes one an exponential time
// later. Reported is the time for a pop and a push, the draw included.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/event_queue.hpp"

namespace orrery {
namespace {

// Exponential increments with a mean of a microsecond, drawn beforehand: the logarithm is not what is measured.
std::vector<Duration> increments() {
  RandomStream random(1, "hold_increments");
  std::vector<Duration> drawn(1 << 16);
  for (Duration& d : drawn) d = Duration(static_cast<std::int64_t>(-1e6 * std::log(1 - random.uniform())));
  return drawn;
}

template <std::size_t Arity>
void hold(benchmark::State& state) {
  const std::vector<Duration> drawn = increments();
  EventQueue<Instant, Arity> queue;
  std::size_t next = 0;
  const auto draw = [&] { return drawn[next++ & (drawn.size() - 1)]; };
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    queue.push(Instant(draw()), EventPhase::start, {0, static_cast<std::uint64_t>(i)});
  }
  for (std::int64_t i = 0; i < 4 * state.range(0); ++i) {  // let the distribution of pending times settle
    const auto event = queue.pop();
    queue.push(event.time + draw(), EventPhase::start, event.event);
  }
  for (auto _ : state) {
    const auto event = queue.pop();
    queue.push(event.time + draw(), EventPhase::start, event.event);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_TEMPLATE(hold, 4)->RangeMultiplier(10)->Range(100, 1'000'000);
BENCHMARK_TEMPLATE(hold, 2)->Arg(1'000)->Arg(1'000'000);
BENCHMARK_TEMPLATE(hold, 8)->Arg(1'000)->Arg(1'000'000);

// The same with timers, which know their place.
void hold_timers(benchmark::State& state) {
  const std::vector<Duration> drawn = increments();
  EventQueue<Instant> queue;
  std::size_t next = 0;
  const auto draw = [&] { return drawn[next++ & (drawn.size() - 1)]; };
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    queue.arm(queue.add_timer(EventPhase::start, {0, static_cast<std::uint64_t>(i)}), Instant(draw()));
  }
  for (auto _ : state) {
    const auto event = queue.pop();
    queue.arm(TimerId(static_cast<std::size_t>(event.event.target)), event.time + draw());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(hold_timers)->Arg(1'000)->Arg(100'000)->Arg(1'000'000);

// Constant delays in lanes: four distinct delays, n events pending.
void hold_lanes(benchmark::State& state) {
  EventQueue<Instant> queue;
  std::vector<LaneId> lanes;
  for (int i = 0; i < 4; ++i) lanes.push_back(queue.add_lane(EventPhase::start));
  const auto delay = [](std::uint64_t lane) { return Duration(1'000'000 + 37'000 * static_cast<std::int64_t>(lane)); };
  Instant start{};
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    const auto lane = static_cast<std::uint64_t>(i % 4);
    queue.push(lanes[lane], start + Duration(i) + delay(lane), {0, lane});
  }
  for (auto _ : state) {
    const auto event = queue.pop();
    queue.push(lanes[event.event.target], event.time + delay(event.event.target), event.event);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(hold_lanes)->Arg(1'000)->Arg(1'000'000);

}  // namespace
}  // namespace orrery
