// Whole runs through engine and network: the churn (flows per second) and the ring (every message).
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "sim/fluid/network.hpp"
#include "tests/bench/churn.hpp"
#include "tests/bench/ring.hpp"

namespace orrery {
namespace {

using bench::Churn;
using bench::ChurnCase;
using bench::ChurnResult;
using bench::Ring;
using bench::RingCase;
using bench::RingResult;

// The largest resident size of the process so far: run one benchmark alone to know its own.
double resident_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Arguments: leaves, hosts on a leaf, flows.
void churn(benchmark::State& state) {
  ChurnResult result;
  for (auto _ : state) {
    FluidNetwork network;
    result = Churn<FluidNetwork>({state.range(0), state.range(1), state.range(2)}, network).run();
  }
  state.SetItemsProcessed(state.iterations() * state.range(2));
  state.counters["simulated_ms"] = to_seconds(result.makespan) * 1e3;
  state.counters["resident_MB"] = resident_megabytes();
}
BENCHMARK(churn)
    ->Args({8, 16, 10'000})
    ->Args({32, 16, 10'000})
    ->Args({8, 16, 100'000})
    ->Args({32, 16, 100'000})
    ->Unit(benchmark::kMillisecond);

// Arguments: leaves, hosts on a leaf.
void ring(benchmark::State& state) {
  RingResult result;
  for (auto _ : state) {
    FluidNetwork network;
    result = Ring<FluidNetwork>({state.range(0), state.range(1)}, network).run();
  }
  state.SetItemsProcessed(state.iterations() * result.messages);
  state.counters["simulated_ms"] = to_seconds(result.makespan) * 1e3;
  state.counters["resident_MB"] = resident_megabytes();
}
BENCHMARK(ring)->Args({2, 4})->Args({4, 16})->Args({32, 16})->Args({256, 16})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery
