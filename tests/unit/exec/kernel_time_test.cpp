#include "sim/exec/kernel_time.hpp"

#include <doctest/doctest.h>

using namespace orrery;
using namespace orrery::literals;

TEST_CASE("a memory-bound kernel takes its start-up and its bytes at the rate of its kind") {
  GpuSpec gpu;
  gpu.multiprocessors = 100;
  gpu.memory_bandwidth = 1000_GBps;
  gpu.kernels.memory_rate[static_cast<std::size_t>(KernelKind::elementwise)] = 0.8;
  gpu.kernels.memory_fixed = 4_us;
  const Kernel kernel{.name = "add", .kind = KernelKind::elementwise, .m = 1, .n = 1, .bytes = 800_MB};
  // 800 MB / (0.8 x 1000 GB/s) = 1 ms, and 4 us before.
  CHECK(time_alone(kernel, gpu) == 1004_us);
}
