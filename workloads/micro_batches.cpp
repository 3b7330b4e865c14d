#include "workloads/micro_batches.hpp"

#include <algorithm>

#include "workloads/build.hpp"

namespace orrery {

namespace {

// In ascending order; none of numbers below one.
std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t low = 1; low * low <= n; ++low) {
    if (n % low != 0) continue;
    found.push_back(low);
    if (n / low != low) found.push_back(n / low);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Result<std::vector<std::int64_t>> possible_micro_batches(const ModelSpec& model, const TrainingSpec& training,
                                                         const ParallelismSpec& parallelism, std::int64_t ranks) {
  TrainingSpec tried = training;
  tried.micro_batch = 1;
  const Problems of_one = check_plan(model, tried, parallelism, ranks);
  const auto degree = [](std::int64_t n) { return n < 1 ? 1 : n; };
  const std::int64_t shard = degree(parallelism.tensor) * degree(parallelism.pipeline) * degree(parallelism.context);
  const std::int64_t batch = training.global_batch / degree(ranks / shard);  // of a replica
  std::vector<std::int64_t> possible;
  for (const std::int64_t size : divisors(batch)) {
    tried.micro_batch = size;
    if (check_plan(model, tried, parallelism, ranks).empty()) possible.push_back(size);
  }
  if (possible.empty()) return of_one;
  return possible;
}

}  // namespace orrery
