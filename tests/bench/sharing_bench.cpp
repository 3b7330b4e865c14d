// The solver in size classes of 10, 100, 2,000 and 20,000 resources (those of SimGrid's maxmin_bench), with twice as
// many activities of four crossings: a full solve, and one end and one start repaired locally.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/fluid/network.hpp"

namespace orrery {
namespace {

class System {
 public:
  System(std::int64_t resources, FluidOptions options) : network_(options), random_(1, "sharing_bench") {
    for (std::int64_t r = 0; r < resources; ++r) {
      network_.add_resource(BytesPerSecond(1e9 * static_cast<double>(10 + random_.below(90))));
    }
    for (std::int64_t f = 0; f < 2 * resources; ++f) running_.push_back(start());
    network_.solve(Instant());
  }

  // Replaces a random activity by another one.
  void exchange() {
    ActivityId& victim = running_[random_.below(running_.size())];
    network_.cancel(Instant(), victim);
    victim = start();
    network_.solve(Instant());
  }

 private:
  ActivityId start() {
    std::array<Crossing, 4> crossings;
    const std::uint64_t part = network_.resource_count() / crossings.size();
    for (std::uint64_t i = 0; i < crossings.size(); ++i) {
      crossings[i] = {ResourceId(static_cast<std::size_t>(i * part + random_.below(part))), 1};
    }
    return network_.start(Instant(), std::int64_t{1} << 40, kUncapped, crossings, 0);
  }

  FluidNetwork network_;
  RandomStream random_;
  std::vector<ActivityId> running_;
};

void full_solve(benchmark::State& state) {
  System system(state.range(0), FluidOptions::full());
  for (auto _ : state) system.exchange();
}
BENCHMARK(full_solve)->Arg(10)->Arg(100)->Arg(2'000)->Arg(20'000)->Unit(benchmark::kMicrosecond);

void local_repair(benchmark::State& state) {
  System system(state.range(0), FluidOptions{});
  for (auto _ : state) system.exchange();
}
BENCHMARK(local_repair)->Arg(10)->Arg(100)->Arg(2'000)->Arg(20'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace orrery
