// Independent pieces of work on several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace orrery {

// How many threads there are to be: `wanted`, or as many as the machine has cores where that is 0.
[[nodiscard]] inline std::size_t threads_for(int wanted) {
  if (wanted > 0) return static_cast<std::size_t>(wanted);
  const unsigned cores = std::thread::hardware_concurrency();
  return cores > 0 ? cores : 1;
}

// Calls work(i) for all i below `count`, handed out in order to at most `threads` threads, the caller's among them.
template <class Work>
void on_threads(std::size_t count, std::size_t threads, Work&& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < threads && t < count; ++t) others.emplace_back(take);
  take();
}

}  // namespace orrery
