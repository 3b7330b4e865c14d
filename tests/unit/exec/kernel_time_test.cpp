#include "sim/exec/kernel_time.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

using namespace orrery;
using namespace orrery::literals;

namespace {

constexpr std::size_t at(KernelKind kind) { return static_cast<std::size_t>(kind); }
constexpr std::size_t at(Precision precision) { return static_cast<std::size_t>(precision); }

// 100 SMs, 100 TFLOP/s in every precision, 1000 GB/s, and no inefficiency whatsoever.
GpuSpec ideal_gpu() {
  GpuSpec gpu;
  gpu.name = "ideal";
  gpu.peak.fill(100_TFLOPs);
  gpu.vector_peak = 100_TFLOPs;
  gpu.memory_bandwidth = 1000_GBps;
  gpu.multiprocessors = 100;
  KernelConstants& k = gpu.kernels;
  k.gemm_rate.fill(1);
  k.gemm_tile_overhead = k.gemm_depth_overhead = k.gemm_last_wave = 0;
  k.gemm_half_aligned_rate = k.gemm_misaligned_rate = k.gemm_misaligned_batched_rate = 1;
  k.attention_forward_rate = k.attention_backward_rate = 1;
  k.attention_head_overhead = k.attention_depth_overhead = 0;
  k.attention_forward_tail = k.attention_backward_tail = 0;
  k.memory_rate.fill(1);
  k.memory_ceiling = 1;
  k.gemm_fixed = k.attention_fixed = k.memory_fixed = k.kernel_gap = Duration::zero();
  return gpu;
}

// The defaults, on the same round figures.
GpuSpec default_gpu() {
  GpuSpec gpu = ideal_gpu();
  gpu.kernels = KernelConstants{};
  return gpu;
}

Kernel gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  const double flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k * batch);
  return {.name = "gemm",
          .kind = KernelKind::gemm,
          .m = m,
          .n = n,
          .k = k,
          .batch = batch,
          .flops = Flops(flops),
          .bytes = Bytes(2 * batch * (m * k + k * n + m * n))};
}

Kernel attention(KernelKind kind, std::int64_t sequence, std::int64_t heads, std::int64_t head, bool causal) {
  const double square = 4.0 * static_cast<double>(sequence * sequence) * static_cast<double>(heads * head);
  const double passes = kind == KernelKind::attention_backward ? 2.5 : 1;
  return {.name = "attention",
          .kind = kind,
          .m = sequence,
          .n = sequence,
          .k = head,
          .batch = heads,
          .causal = causal,
          .flops = Flops(square * passes / (causal ? 2 : 1)),
          .bytes = Bytes(8 * sequence * heads * head)};
}

Kernel memory_bound(KernelKind kind, Bytes bytes) {
  return {.name = "memory", .kind = kind, .m = 1, .n = bytes.count(), .bytes = bytes};
}

// A mix of shapes for properties: seeded, so that a failure can be repeated.
std::vector<Kernel> some_kernels() {
  std::mt19937_64 random(7);  // NOLINT: the same sequence on every platform is what is wanted
  const auto draw = [&random](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::vector<Kernel> kernels;
  for (int i = 0; i < 100; ++i) {
    kernels.push_back(gemm(draw(1, 9000), draw(1, 9000), draw(1, 9000), draw(1, 4)));
    kernels.push_back(attention(i % 2 == 0 ? KernelKind::attention_forward : KernelKind::attention_backward,
                                draw(1, 8192), draw(1, 64), 64 * draw(1, 3), i % 3 == 0));
    kernels.push_back(memory_bound(static_cast<KernelKind>(3 + i % 7), Bytes(draw(0, 1'000'000'000))));
  }
  return kernels;
}

}  // namespace

TEST_CASE("without inefficiency a GEMM lies on the roofline, whichever side bounds it") {
  const GpuSpec gpu = ideal_gpu();
  // 2 x 12,800 x 12,800 x 10,000 FLOPs = 3.2768e12 at 100 TFLOP/s: 32.768 ms. 256 x 128 tiles: 50 x 100 = 5,000, whole
  // waves. Bytes: 2 (2 x 1.28e8 + 1.6384e8) = 8.4e8, 0.84 ms: not the bound.
  CHECK(time_alone(gemm(12'800, 12'800, 10'000), gpu) == Duration(32'768'000'000));
  // 128 x 100,000 x 64: 1.6384e9 FLOPs, 16.4 us, but 2 (8,192 + 6.4e6 + 1.28e7) = 3.8416e7 bytes take 38.416384 us.
  CHECK(time_alone(gemm(128, 100'000, 64), gpu) == Duration(38'416'384));
}

TEST_CASE("a memory-bound kernel takes its start-up and its bytes at the rate of its kind") {
  GpuSpec gpu = ideal_gpu();
  gpu.kernels.memory_rate[at(KernelKind::elementwise)] = 0.8;
  gpu.kernels.memory_fixed = 4_us;
  // 800 MB / (0.8 x 1000 GB/s) = 1 ms, and 4 us before.
  CHECK(time_alone(memory_bound(KernelKind::elementwise, 800_MB), gpu) == 1004_us);
  // The other kinds are still ideal: 0.8 ms.
  CHECK(time_alone(memory_bound(KernelKind::softmax, 800_MB), gpu) == 804_us);
}

TEST_CASE("arithmetic outside the tensor cores bounds a kernel that has much of it") {
  const GpuSpec gpu = ideal_gpu();
  Kernel kernel = memory_bound(KernelKind::elementwise, 1_MB);  // 1 us of memory
  kernel.flops = Flops(1e9);                                    // 10 us at 100 TFLOP/s
  CHECK(time_alone(kernel, gpu) == 10_us);
}

TEST_CASE("all traffic together stays below the ceiling of the memory") {
  GpuSpec gpu = ideal_gpu();
  gpu.kernels.memory_ceiling = 0.5;
  CHECK(gpu.usable_memory_bandwidth() == 500_GBps);
  CHECK(time_alone(memory_bound(KernelKind::elementwise, 1_MB), gpu) == 2_us);
}

TEST_CASE("one tile more than a full wave costs a share of another wave") {
  GpuSpec gpu = ideal_gpu();
  gpu.kernels.memory_rate.fill(1);
  gpu.memory_bandwidth = BytesPerSecond(1e18);  // memory never bounds
  gpu.kernels.gemm_tile_overhead = 10'000;      // only the largest tiles are worth using
  // One 256 x 128 tile with k = 15,625 is 1.024e9 FLOPs; one of 100 SMs makes 1 TFLOP/s: 1.024 ms. Split-k does not
  // help a full wave (reduction aside) and is ruled out below by looking at times.
  const Kernel full = gemm(256 * 100, 128, 15'625);
  const Kernel more = gemm(256 * 101, 128, 15'625);
  SUBCASE("no quantisation: in proportion") {
    gpu.kernels.gemm_last_wave = 0;
    CHECK(time_alone(full, gpu) == 1024_us);
    CHECK(to_seconds(time_alone(more, gpu)) == doctest::Approx(1.024e-3 * 1.01).epsilon(1e-9));
  }
  SUBCASE("full quantisation: a whole wave, or the least of finer cuts") {
    gpu.kernels.gemm_last_wave = 1;
    CHECK(time_alone(full, gpu) == 1024_us);
    const KernelCost cost = kernel_cost(more, gpu);
    // 101 tiles are two waves of 1.024 ms; cut in 8 along k, 808 tiles are 9 waves of an eighth (1,954 deep, as 15,625
    // is not divisible): 9 x 2 x 32,768 x 1,954 / 1e12 = 1.152516 ms, plus 4 x 8 x 25,856 x 128 bytes at 1e18.
    CHECK(cost.parts().tiles == 808);
    CHECK(to_seconds(cost.compute(100)) == doctest::Approx(9 * 65'536.0 * 1'954 / 1e12).epsilon(1e-6));
  }
  SUBCASE("in between") {
    gpu.kernels.gemm_last_wave = 0.5;
    const KernelCost cost = kernel_cost(full, gpu);
    CHECK(cost.parts().tiles == 100);
    // The same 100 tiles on 80 SMs: w = 1.25, waves = 1.25 + 0.5 x 0.75 = 1.625.
    CHECK(cost.compute(80) == 1664_us);
    // On 50 SMs two full waves.
    CHECK(cost.compute(50) == 2048_us);
    // On 99: w = 1.0101, waves = 1.0101 + 0.5 x 0.9899 = 1.5051.
    CHECK(to_seconds(cost.compute(99)) == doctest::Approx(1.024e-3 * (100.0 / 99 + 0.5 * (2 - 100.0 / 99))));
  }
}

TEST_CASE("fewer tiles than SMs take as long as one tile") {
  GpuSpec gpu = ideal_gpu();
  gpu.memory_bandwidth = BytesPerSecond(1e18);
  gpu.kernels.gemm_depth_overhead = 999;
  // k = 1 cannot be split, and 640 x 64 is 10 of the smallest tiles: 2 x 64 x 64 x 1,000 FLOPs each at 1 TFLOP/s.
  const KernelCost cost = kernel_cost(gemm(640, 64, 1), gpu);
  CHECK(cost.parts().tiles == 10);
  CHECK(to_seconds(cost.compute(100)) == doctest::Approx(8.192e-6));
  CHECK(to_seconds(cost.compute(10)) == doctest::Approx(8.192e-6));
  CHECK(to_seconds(cost.compute(5)) == doctest::Approx(16.384e-6));
}

TEST_CASE("splitting k lets a product of few tiles and great depth use all SMs") {
  GpuSpec gpu = ideal_gpu();
  // 256 x 256 is 16 of the smallest tiles: unsplit, 16 of 100 SMs work for 2 x 64 x 64 x 800,000 FLOPs at 1 TFLOP/s,
  // 6.55 ms. In 8 parts 128 tiles of 0.8192 ms make 1.28 waves, plus 4 x 8 x 256 x 256 bytes of partial sums.
  const KernelCost cost = kernel_cost(gemm(256, 256, 800'000), gpu);
  CHECK(cost.parts().tiles == 128);
  CHECK(to_seconds(cost.compute(100)) == doctest::Approx(1.28 * 0.8192e-3 + 32 * 65'536 / 1e12).epsilon(1e-9));
}

TEST_CASE("narrow tiles and shallow products lose efficiency by the stated overheads") {
  GpuSpec gpu = ideal_gpu();
  gpu.memory_bandwidth = BytesPerSecond(1e18);
  gpu.kernels.gemm_depth_overhead = 100;
  // 300 deep instead of 100 + 300: 25 % lost. 12,800 x 12,800 in 256 x 128 tiles: 50 waves of 2 x 32,768 x 400 FLOPs.
  CHECK(to_seconds(time_alone(gemm(12'800, 12'800, 300), gpu)) == doctest::Approx(50 * 65'536.0 * 400 / 1e12));
  gpu.kernels.gemm_depth_overhead = 0;
  gpu.kernels.gemm_tile_overhead = 64;
  // 64 rows fit no better tile than 64 x 256, h = 51.2: (1 + 64/51.2) / (1 + 64/85.33) = 2.25 / 1.75. 100 such tiles.
  CHECK(to_seconds(time_alone(gemm(64, 25'600, 1000), gpu)) ==
        doctest::Approx(2 * 64 * 256 * 1000 * (2.25 / 1.75) / 1e12));
}

TEST_CASE("rows that are no multiple of 16 bytes are slower, in steps") {
  GpuSpec gpu = ideal_gpu();
  gpu.memory_bandwidth = BytesPerSecond(1e18);
  gpu.kernels.gemm_half_aligned_rate = 0.5;
  gpu.kernels.gemm_misaligned_rate = 0.25;
  gpu.kernels.gemm_misaligned_batched_rate = 0.125;
  Kernel kernel = gemm(12'800, 12'800, 1000);
  const double aligned = to_seconds(time_alone(kernel, gpu));
  const auto slowdown = [&](const Kernel& k) { return to_seconds(time_alone(k, gpu)) / aligned; };
  kernel.row_multiple = 4;  // 8 bytes in bf16
  CHECK(slowdown(kernel) == doctest::Approx(2));
  kernel.row_multiple = 1;
  CHECK(slowdown(kernel) == doctest::Approx(4));
  kernel.row_multiple = 8;
  CHECK(slowdown(kernel) == doctest::Approx(1));
  kernel.row_multiple = 4;
  kernel.precision = Precision::fp32;  // 4 elements are 16 bytes
  CHECK(slowdown(kernel) == doctest::Approx(1));
  kernel.precision = Precision::fp8;  // 8 elements are 8 bytes
  kernel.row_multiple = 8;
  CHECK(slowdown(kernel) == doctest::Approx(2));
  // Without a statement n and k tell: 50,257 is odd; m, a number of tokens, does not matter.
  const auto rate = [&gpu](const Kernel& k) { return k.flops.count() / to_seconds(time_alone(k, gpu)); };
  CHECK(rate(gemm(4096, 50'257, 4096)) < 0.26 * rate(gemm(4096, 50'304, 4096)));
  CHECK(rate(gemm(4097, 50'304, 4096)) > 0.9 * rate(gemm(4096, 50'304, 4096)));
  // Batched products, as attention without fusion makes them.
  CHECK(rate(gemm(2048, 2048, 150, 64)) < 0.13 * rate(gemm(2048, 2048, 152, 64)));
}

TEST_CASE("attention takes its FLOPs at its rate, half of them when causal") {
  GpuSpec gpu = ideal_gpu();
  gpu.kernels.attention_forward_rate = 0.5;
  gpu.kernels.attention_backward_rate = 0.25;
  const KernelKind forward = KernelKind::attention_forward;
  // 4 x 1e4^2 x 32 x 128 FLOPs = 1.6384e12 at 50 TFLOP/s: 32.768 ms.
  const Kernel full = attention(forward, 10'000, 32, 128, false);
  CHECK(to_seconds(time_alone(full, gpu)) == doctest::Approx(32.768e-3));
  // Causal: half, and 64 keys more per query than the mean of 5,000.
  CHECK(to_seconds(time_alone(attention(forward, 10'000, 32, 128, true), gpu)) ==
        doctest::Approx(16.384e-3 * (1 + 64.0 / 5000)));
  // Backward: 2.5 times the FLOPs at half the rate.
  CHECK(to_seconds(time_alone(attention(KernelKind::attention_backward, 10'000, 32, 128, false), gpu)) ==
        doctest::Approx(5 * 32.768e-3));
}

TEST_CASE("small heads, short sequences and the last block cost attention what the constants say") {
  GpuSpec gpu = ideal_gpu();
  const KernelKind forward = KernelKind::attention_forward;
  const auto seconds = [&gpu](const Kernel& kernel) { return to_seconds(time_alone(kernel, gpu)); };
  const Kernel head_64 = attention(forward, 8192, 32, 64, false);
  const Kernel head_128 = attention(forward, 8192, 16, 128, false);  // as many FLOPs
  const double plain = seconds(head_128);
  CHECK(seconds(head_64) == doctest::Approx(plain));
  gpu.kernels.attention_head_overhead = 64;
  // Rates are stated at 128, so that one stays; at 64: (1 + 64/128) / (1 + 64/64) = 0.75 of it.
  CHECK(seconds(head_128) == doctest::Approx(plain));
  CHECK(seconds(head_64) == doctest::Approx(plain / 0.75));
  gpu.kernels.attention_head_overhead = 0;
  gpu.kernels.attention_depth_overhead = 8192;
  CHECK(seconds(head_128) == doctest::Approx(2 * plain));
  gpu.kernels.attention_depth_overhead = 0;
  gpu.kernels.attention_forward_tail = 1;
  // 16 heads x 64 blocks on 100 SMs: 10.24 blocks' time each, and one block more.
  CHECK(seconds(head_128) == doctest::Approx(plain * (1 + 1 / 10.24)));
}

TEST_CASE("an optimizer step of Adam costs its bytes") {
  GpuSpec gpu = ideal_gpu();
  gpu.kernels.memory_rate[at(KernelKind::optimizer)] = 0.8;
  // 1e9 parameters x (read gradient 4, read and write weight, two moments 3 x 8, write bf16 copy 2) = 30 GB at 800
  // GB/s.
  CHECK(time_alone(memory_bound(KernelKind::optimizer, 30_GB), gpu) == Duration(37'500'000'000));
}

TEST_CASE("no kernel starts faster than the gap between kernels, and none is without bytes or time") {
  GpuSpec gpu = ideal_gpu();
  gpu.kernels.kernel_gap = 2_us;
  const KernelCost cost = kernel_cost(memory_bound(KernelKind::elementwise, 0_B), gpu);
  CHECK(cost.fixed() == 2_us);
  CHECK(cost.bytes() == 1_B);
  CHECK(cost.compute(1) >= Duration(1));
  CHECK(cost.rate_cap(100).count() > 0);
}

TEST_CASE("fewer SMs never make a kernel faster") {
  const GpuSpec gpu = default_gpu();
  for (const Kernel& kernel : some_kernels()) {
    const KernelCost cost = kernel_cost(kernel, gpu);
    for (int sms = 2; sms <= gpu.multiprocessors; ++sms) {
      INFO(kernel.m, " x ", kernel.n, " x ", kernel.k, " x ", kernel.batch, " on ", sms);
      REQUIRE(cost.compute(sms) <= cost.compute(sms - 1));
    }
  }
}

TEST_CASE("streaming kernels do without half of the SMs, and slow down in proportion below") {
  const KernelCost cost = kernel_cost(memory_bound(KernelKind::elementwise, 750_MB), default_gpu());
  CHECK(cost.compute(50) == cost.compute(100));
  CHECK(cost.compute(25) == 2 * cost.compute(50));
}

TEST_CASE("an activity of `bytes` at rate_cap lasts as long as the kernel computes") {
  const GpuSpec gpu = default_gpu();
  for (const Kernel& kernel : some_kernels()) {
    const KernelCost cost = kernel_cost(kernel, gpu);
    for (const int sms : {1, 37, 100}) {
      // Rounded up twice, so at most 1 ps and one part in 2^50 apart.
      const Duration played = transfer_time(cost.bytes(), cost.rate_cap(sms));
      const std::int64_t apart = std::abs((played - cost.compute(sms)).count());
      REQUIRE(static_cast<double>(apart) <= 1 + 1e-14 * static_cast<double>(played.count()));
    }
  }
}

TEST_CASE("no kernel beats peak FLOP/s or nominal bandwidth, and none is shorter than its start-up") {
  const GpuSpec gpu = default_gpu();
  for (const Kernel& kernel : some_kernels()) {
    const double seconds = to_seconds(time_alone(kernel, gpu));
    REQUIRE(kernel.flops.count() / seconds <= 100e12);
    REQUIRE(static_cast<double>(kernel.bytes.count()) / seconds <= 1000e9);
    REQUIRE(time_alone(kernel, gpu) > kernel_cost(kernel, gpu).fixed());
  }
}

TEST_CASE("rates twice as high and fixed times half as long halve every kernel's time") {
  GpuSpec slow = default_gpu();
  GpuSpec fast = slow;
  for (auto& peak : fast.peak) peak = peak * 2.0;
  fast.vector_peak = fast.vector_peak * 2.0;
  fast.memory_bandwidth = fast.memory_bandwidth * 2.0;
  KernelConstants& k = fast.kernels;
  for (Duration* fixed : {&k.gemm_fixed, &k.attention_fixed, &k.memory_fixed, &k.kernel_gap}) *fixed /= 2;
  for (const Kernel& kernel : some_kernels()) {
    const std::int64_t twice = 2 * time_alone(kernel, fast).count();
    REQUIRE(std::abs(twice - time_alone(kernel, slow).count()) <= 2);
  }
}

TEST_CASE("a GEMM and its transpose cost the same") {
  const GpuSpec gpu = default_gpu();
  for (const Kernel& kernel : some_kernels()) {
    if (kernel.kind != KernelKind::gemm) continue;
    Kernel transposed = kernel;
    std::swap(transposed.m, transposed.n);
    // Alignment is told, since it is otherwise guessed from n and k.
    Kernel original = kernel;
    original.row_multiple = transposed.row_multiple = 8;
    REQUIRE(time_alone(original, gpu) == time_alone(transposed, gpu));
  }
}

TEST_CASE("less bandwidth for a kernel lengthens it only where memory bounds it") {
  const GpuSpec gpu = default_gpu();
  const KernelCost streaming = kernel_cost(memory_bound(KernelKind::elementwise, 1_GB), gpu);
  // 1 GB at 500 GB/s: 2 ms.
  CHECK(streaming.alone(100, 500_GBps) == streaming.fixed() + 2_ms);
  const KernelCost dense = kernel_cost(gemm(8192, 8192, 8192), gpu);
  // 403 MB in 14 ms ask for 29 GB/s.
  CHECK(dense.alone(100, 100_GBps) == dense.alone(100, 1000_GBps));
}

TEST_CASE("a GPU cannot run a GEMM in a precision it has no rate for") {
  GpuSpec gpu = ideal_gpu();
  gpu.peak[at(Precision::fp8)] = FlopsPerSecond(0);
  Kernel kernel = gemm(128, 128, 128);
  CHECK(can_run(kernel, gpu));
  kernel.precision = Precision::fp8;
  CHECK_FALSE(can_run(kernel, gpu));
  Kernel cast = memory_bound(KernelKind::elementwise, 1_MB);
  cast.precision = Precision::fp8;
  CHECK(can_run(cast, gpu));
}
