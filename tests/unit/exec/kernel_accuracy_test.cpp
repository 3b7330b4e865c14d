// The kernel model against published timings: the constants of the catalogue, as shipped, on the tables that they were
// fitted on (tests/calibration). The bounds are those that the fits reached, rounded up: a change of the form or of a
// constant that makes the model worse fails here. Also: no constant of the catalogue is beyond physics.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/exec/kernel_time.hpp"

using namespace orrery;

namespace {

using Row = std::map<std::string, std::string>;  // column -> text

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The last column (the source) may contain commas.
std::vector<Row> table(const std::string& name) {
  std::istringstream text(text_of(std::filesystem::path(ORRERY_SOURCE_DIR) / "tests/calibration" / name));
  const auto split = [](const std::string& line, std::size_t columns) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; cells.size() + 1 < columns && std::getline(in, cell, ',');) cells.push_back(cell);
    std::string rest;
    std::getline(in, rest);
    cells.push_back(rest);
    return cells;
  };
  std::string line;
  std::getline(text, line);
  const auto header = split(line, static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1);
  std::vector<Row> rows;
  while (std::getline(text, line)) {
    const auto cells = split(line, header.size());
    Row row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = cells.at(i);
    rows.push_back(row);
  }
  return rows;
}

double number(const Row& row, const char* column) { return std::stod(row.at(column)); }
std::int64_t integer(const Row& row, const char* column) { return std::stoll(row.at(column)); }

// The value of a key, as written; empty if it is not there. The catalogue's files are regular: one key a line, and flow
// maps in braces.
std::string value_of(const std::string& yaml, const std::string& key) {
  for (const char* indent : {"\n", "\n  "}) {
    const std::size_t found = yaml.find(indent + key + ": ");
    if (found == std::string::npos) continue;
    const std::size_t begin = yaml.find(": ", found) + 2;
    return yaml.substr(begin, yaml.find(yaml[begin] == '{' ? '}' : '\n', begin) - begin);
  }
  return {};
}

double value_of(const std::string& yaml, const std::string& key, double otherwise) {
  const std::string value = value_of(yaml, key);
  return value.empty() ? otherwise : std::stod(value);
}

double entry_of(const std::string& map, std::string_view key, double otherwise) {
  for (const char* before : {"{", " "}) {
    const std::size_t found = map.find(before + std::string(key) + ": ");
    if (found != std::string::npos) return std::stod(map.substr(found + key.size() + 3));
  }
  return otherwise;
}

Duration microseconds(double count) { return Duration(std::llround(count * 1e6)); }

KernelConstants constants_of(const std::string& yaml) {
  KernelConstants k;
  k.measured = value_of(yaml, "measured") == "true";
  const std::string rates = value_of(yaml, "gemm_rate");
  const std::string memory = value_of(yaml, "memory_rate");
  for (std::size_t i = 0; i < kPrecisions; ++i) k.gemm_rate[i] = entry_of(rates, kPrecisionNames[i], k.gemm_rate[i]);
  for (std::size_t i = 0; i < kKernelKinds; ++i) {
    k.memory_rate[i] = entry_of(memory, kKernelKindNames[i], k.memory_rate[i]);
  }
  const std::vector<std::pair<const char*, double*>> numbers{
      {"gemm_tile_overhead", &k.gemm_tile_overhead},
      {"gemm_depth_overhead", &k.gemm_depth_overhead},
      {"gemm_last_wave", &k.gemm_last_wave},
      {"gemm_half_aligned_rate", &k.gemm_half_aligned_rate},
      {"gemm_misaligned_rate", &k.gemm_misaligned_rate},
      {"gemm_misaligned_batched_rate", &k.gemm_misaligned_batched_rate},
      {"attention_forward_rate", &k.attention_forward_rate},
      {"attention_backward_rate", &k.attention_backward_rate},
      {"attention_head_overhead", &k.attention_head_overhead},
      {"attention_depth_overhead", &k.attention_depth_overhead},
      {"attention_forward_tail", &k.attention_forward_tail},
      {"attention_backward_tail", &k.attention_backward_tail},
      {"memory_ceiling", &k.memory_ceiling},
  };
  for (const auto& [key, value] : numbers) *value = value_of(yaml, key, *value);
  const std::vector<std::pair<const char*, Duration*>> times{{"gemm_fixed", &k.gemm_fixed},
                                                             {"attention_fixed", &k.attention_fixed},
                                                             {"memory_fixed", &k.memory_fixed},
                                                             {"kernel_gap", &k.kernel_gap}};
  for (const auto& [key, value] : times) *value = microseconds(value_of(yaml, key, to_seconds(*value) * 1e6));
  return k;
}

GpuSpec gpu_of(const std::filesystem::path& path) {
  const std::string yaml = text_of(path);
  GpuSpec gpu;
  gpu.name = path.stem().string();
  const std::string peak = value_of(yaml, "peak");
  for (std::size_t i = 0; i < kPrecisions; ++i) {
    gpu.peak[i] = FlopsPerSecond(entry_of(peak, kPrecisionNames[i], 0) * 1e12);
  }
  gpu.vector_peak = FlopsPerSecond(value_of(yaml, "vector_peak", 0) * 1e12);
  gpu.memory = Bytes(std::llround(value_of(yaml, "memory", 0) * 1024 * 1024 * 1024));
  gpu.memory_bandwidth = BytesPerSecond(value_of(yaml, "memory_bandwidth", 0) * 1e9);
  gpu.multiprocessors = static_cast<int>(value_of(yaml, "multiprocessors", 0));
  gpu.power_max = Watts(value_of(yaml, "power_max", 0));
  gpu.power_idle = Watts(value_of(yaml, "power_idle", 0));
  gpu.kernels = constants_of(yaml);
  return gpu;
}

std::filesystem::path catalogue() { return std::filesystem::path(ORRERY_SOURCE_DIR) / "topology/catalog/gpus"; }
GpuSpec gpu_named(const std::string& name) { return gpu_of(catalogue() / (name + ".yaml")); }

Kernel gemm_of(const Row& row) {
  Kernel kernel{.name = "gemm",
                .kind = KernelKind::gemm,
                .precision = precision_from_name(row.at("precision")).value(),
                .m = integer(row, "m"),
                .n = integer(row, "n"),
                .k = integer(row, "k"),
                .batch = integer(row, "batch"),
                .row_multiple = 8};
  // The benchmarks pad or choose aligned shapes, but for the one on alignment.
  if (row.at("gpu") == "a100") kernel.row_multiple = kernel.k % 8 == 0 ? 8 : 4;
  const std::int64_t element = bytes_per_element(kernel.precision);
  if (kernel.precision == Precision::fp8) kernel.row_multiple = 16;
  kernel.bytes = Bytes(kernel.batch * (element * (kernel.m * kernel.k + kernel.k * kernel.n) +
                                       integer(row, "output_bytes") * kernel.m * kernel.n));
  kernel.flops = Flops(2.0 * static_cast<double>(kernel.batch * kernel.m * kernel.n) * static_cast<double>(kernel.k));
  return kernel;
}

Kernel attention_of(const Row& row, bool value_heads_padded) {
  const bool backward = row.at("direction") == "backward";
  const double heads = number(row, "head_dim") + number(row, value_heads_padded ? "head_dim" : "value_dim");
  const double sequence = number(row, "sequence");
  const bool causal = row.at("causal") == "1";
  return {.name = "attention",
          .kind = backward ? KernelKind::attention_backward : KernelKind::attention_forward,
          .m = integer(row, "sequence"),
          .n = integer(row, "sequence"),
          .k = integer(row, "head_dim"),
          .batch = integer(row, "heads_x_batch"),
          .causal = causal,
          .flops = Flops(2 * sequence * sequence * number(row, "heads_x_batch") * heads * (backward ? 2.5 : 1) /
                         (causal ? 2 : 1)),
          .bytes = Bytes(4 * integer(row, "sequence") * integer(row, "heads_x_batch") *
                         (integer(row, "head_dim") + integer(row, "value_dim")))};
}

double relative_error(const Kernel& kernel, const GpuSpec& gpu, double measured_seconds) {
  return to_seconds(time_alone(kernel, gpu)) / measured_seconds - 1;
}

struct Errors {
  double absolute = 0;  // mean |predicted / measured - 1|, percent
  double bias = 0;      // mean of it with its sign
  std::size_t rows = 0;
};

Errors mean_of(const std::vector<double>& errors) {
  Errors mean{.rows = errors.size()};
  for (const double error : errors) {
    mean.absolute += 100 * std::abs(error) / static_cast<double>(errors.size());
    mean.bias += 100 * error / static_cast<double>(errors.size());
  }
  return mean;
}

// GEMM rows of one GPU that `takes` accepts, on that GPU's entry with its rates times `speed`.
template <class Takes>
Errors gemm_errors(const std::string& name, const Takes& takes, double speed = 1) {
  GpuSpec gpu = gpu_named(name);
  for (double& rate : gpu.kernels.gemm_rate) rate *= speed;
  std::vector<double> errors;
  for (const Row& row : table("gemm.csv")) {
    if (row.at("gpu") != name || !takes(row)) continue;
    const Kernel kernel = gemm_of(row);
    errors.push_back(relative_error(kernel, gpu, kernel.flops.count() / number(row, "tflops") / 1e12));
  }
  return mean_of(errors);
}

void check(const Errors& errors, std::size_t rows, double bound) {
  INFO(errors.rows, " rows, error ", errors.absolute, " %, bias ", errors.bias, " %");
  CHECK(errors.rows == rows);
  CHECK(errors.absolute <= bound);
}

}  // namespace

TEST_CASE("GEMM on A100 is within 4 % over 183 shapes") {
  check(gemm_errors("a100-80gb-pcie", [](const Row&) { return true; }), 183, 4.0);
}

TEST_CASE("GEMM on V100 is within 13 % over 95 shapes, half of them tiny") {
  check(
      gemm_errors("v100-16gb-sxm", [](const Row& r) { return r.at("set") == "sweep" && r.at("precision") == "fp16"; }),
      95, 13.0);
}

TEST_CASE("GEMM on H100 is within 7 % over 33 shapes in bf16, fp16 and fp8") {
  check(gemm_errors("h100-80gb-sxm",
                    [](const Row& r) { return r.at("precision") != "fp32" && r.at("precision") != "tf32"; }),
        33, 7.0);
}

TEST_CASE("GEMM on B200 is within 11 % over 325 shapes, at the speed of that machine") {
  // That machine reached 0.499 where the other sources reach 0.693: see the note.
  check(gemm_errors(
            "b200-180gb-sxm", [](const Row& r) { return r.at("set") == "sweep"; }, 0.499 / 0.693),
        325, 11.0);
  check(
      gemm_errors("b200-180gb-sxm", [](const Row& r) { return r.at("set") != "sweep" && r.at("precision") == "bf16"; }),
      19, 8.0);
}

TEST_CASE("hot square products are within 10 % on the GPUs of which nothing else is known") {
  for (const char* name : {"a100-40gb-pcie", "h20-96gb-sxm", "l4", "a40", "a10g", "rtx-4090"}) {
    CAPTURE(std::string(name));
    check(gemm_errors(name, [](const Row& r) { return number(r, "m") >= 4096; }), 12, 10.0);
  }
}

TEST_CASE("rows of 8 bytes slow batched products on A100 as measured") {
  // Memory bounds the aligned product and arithmetic the other one. Which A100 it was is not said; the slowdown counts.
  const GpuSpec gpu = gpu_named("a100-40gb-sxm");
  std::map<std::int64_t, double> measured;
  std::map<std::int64_t, double> predicted;
  for (const Row& row : table("gemm.csv")) {
    if (row.at("gpu") != "a100" || row.at("precision") != "bf16") continue;
    const Kernel kernel = gemm_of(row);
    measured[kernel.k] = number(row, "tflops");
    predicted[kernel.k] = kernel.flops.count() / to_seconds(time_alone(kernel, gpu)) / 1e12;
  }
  CHECK(predicted.at(140) / measured.at(140) == doctest::Approx(1).epsilon(0.2));
  CHECK(predicted.at(128) / measured.at(128) == doctest::Approx(1).epsilon(0.2));
}

TEST_CASE("flash attention is within 3 % on A100, 7 % on H100 (cuDNN) and 11 % on B200") {
  struct Expected {
    const char* gpu;
    const char* implementation;
    std::size_t rows;
    double bound;
  };
  for (const Expected& expected :
       {Expected{"a100-80gb-pcie", "simumax", 24, 3.0}, Expected{"h100-80gb-sxm", "cudnn", 39, 7.0},
        Expected{"b200-180gb-sxm", "simumax", 48, 11.0}}) {
    CAPTURE(std::string(expected.gpu));
    const GpuSpec gpu = gpu_named(expected.gpu);
    std::vector<double> errors;
    for (const Row& row : table("attention.csv")) {
      if (row.at("gpu") != expected.gpu || row.at("implementation") != expected.implementation) continue;
      // FlashAttention-2, which the A100 rows ran, needs query and value heads of one size.
      const Kernel kernel = attention_of(row, gpu.name.starts_with("a100"));
      errors.push_back(relative_error(kernel, gpu, number(row, "time_us") * 1e-6));
    }
    check(mean_of(errors), expected.rows, expected.bound);
  }
}

TEST_CASE("memory-bound kernels that frameworks run by default are within 20 %") {
  struct Expected {
    const char* gpu;
    const char* operation;
    const char* implementation;
    std::size_t rows;
  };
  for (const Expected& expected :
       {Expected{"a100-80gb-sxm", "layer_norm", "huggingface", 5},
        Expected{"a100-80gb-sxm", "layer_norm (full less forward)", "huggingface", 5},
        Expected{"a100-80gb-sxm", "cross_entropy forward and backward", "huggingface", 6},
        Expected{"a100-80gb-sxm", "cross_entropy forward and backward", "liger", 6},
        Expected{"h100-80gb-sxm", "megatron_rms_norm", "megatron", 10},
        Expected{"h100-80gb-sxm", "megatron_rms_norm", "torch", 10},
        Expected{"h100-80gb-sxm", "megatron_cross_entropy forward and backward", "megatron-fused", 6},
        Expected{"h100-80gb-sxm", "megatron_cross_entropy forward and backward", "megatron-unfused", 6}}) {
    CAPTURE(std::string(expected.gpu));
    CAPTURE(std::string(expected.operation));
    CAPTURE(std::string(expected.implementation));
    const GpuSpec gpu = gpu_named(expected.gpu);
    std::vector<double> errors;
    for (const Row& row : table("memory.csv")) {
      if (row.at("gpu") != expected.gpu || row.at("operation") != expected.operation ||
          row.at("implementation") != expected.implementation) {
        continue;
      }
      const auto kind = std::find(kKernelKindNames.begin(), kKernelKindNames.end(), row.at("kind"));
      REQUIRE(kind != kKernelKindNames.end());
      const Kernel kernel{.name = row.at("operation"),
                          .kind = static_cast<KernelKind>(kind - kKernelKindNames.begin()),
                          .m = integer(row, "rows"),
                          .n = integer(row, "columns"),
                          .bytes = Bytes(integer(row, "bytes"))};
      errors.push_back(relative_error(kernel, gpu, number(row, "time_us") * 1e-6));
    }
    check(mean_of(errors), expected.rows, 20.0);
  }
}

TEST_CASE("every GPU of the catalogue is within physical bounds and names its sources") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(catalogue())) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  CHECK(files.size() >= 27);
  const auto fraction = [](double value) { return value > 0 && value <= 1; };
  for (const auto& file : files) {
    CAPTURE(file.string());
    const std::string yaml = text_of(file);
    CHECK(yaml.find("\nsource: ") != std::string::npos);
    CHECK(yaml.find("\n  source: ") != std::string::npos);
    const GpuSpec gpu = gpu_of(file);
    CHECK(gpu.peak_of(Precision::fp32).count() >= 5e12);
    CHECK(*std::max_element(gpu.peak.begin(), gpu.peak.end()) < FlopsPerSecond(2e16));
    CHECK(gpu.vector_peak.count() >= 5e12);
    CHECK(gpu.vector_peak.count() <= 120e12);
    CHECK(gpu.memory >= Bytes(14LL << 30));
    CHECK(gpu.memory <= Bytes(300LL << 30));
    CHECK(gpu.memory_bandwidth.count() >= 250e9);
    CHECK(gpu.memory_bandwidth.count() <= 10e12);
    CHECK(gpu.multiprocessors >= 40);
    CHECK(gpu.multiprocessors <= 200);
    CHECK(gpu.power_idle.count() > 0);
    CHECK(gpu.power_idle < gpu.power_max);
    CHECK(gpu.power_max.count() <= 1500);
    const KernelConstants& k = gpu.kernels;
    CHECK(std::all_of(k.gemm_rate.begin(), k.gemm_rate.end(), fraction));
    CHECK(std::all_of(k.memory_rate.begin(), k.memory_rate.end(), fraction));
    for (const double rate : {k.gemm_half_aligned_rate, k.gemm_misaligned_rate, k.gemm_misaligned_batched_rate,
                              k.attention_forward_rate, k.attention_backward_rate, k.memory_ceiling}) {
      CHECK(fraction(rate));
    }
    CHECK(k.gemm_last_wave >= 0);
    CHECK(k.gemm_last_wave <= 1);
    for (const double overhead : {k.gemm_tile_overhead, k.gemm_depth_overhead, k.attention_head_overhead,
                                  k.attention_depth_overhead, k.attention_forward_tail, k.attention_backward_tail}) {
      CHECK(overhead >= 0);
      CHECK(overhead <= 400);
    }
    for (const Duration fixed : {k.gemm_fixed, k.attention_fixed, k.memory_fixed, k.kernel_gap}) {
      CHECK(fixed >= Duration::zero());
      CHECK(fixed <= microseconds(15));
    }
    // A large GEMM runs at between 30 % and all of its peak, in every precision the GPU has.
    for (std::size_t i = 0; i < kPrecisions; ++i) {
      Kernel kernel{.name = "gemm", .kind = KernelKind::gemm, .precision = static_cast<Precision>(i)};
      kernel.m = kernel.n = kernel.k = 8192;
      kernel.flops = Flops(2.0 * 8192 * 8192 * 8192);
      kernel.bytes = Bytes(3LL * 8192 * 8192 * bytes_per_element(kernel.precision));
      if (!can_run(kernel, gpu)) continue;
      const double reached = kernel.flops.count() / to_seconds(time_alone(kernel, gpu)) / gpu.peak[i].count();
      CHECK(reached > 0.3);
      CHECK(reached <= 1);
    }
  }
}
