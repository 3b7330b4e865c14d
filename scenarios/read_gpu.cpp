// GPUs: the catalogue's files, and GPUs that a scenario describes itself.
//
// A scenario may say as little as {peak: 50 TFLOP/s}. What it leaves out is scaled from an A100 (SXM, 80 GB), the GPU
// that most published training runs used: memory bandwidth, SMs, vector rate and power in proportion to the peak, and
// 24 GB of memory whatever the peak. Kernel constants are those of a GPU that nobody has measured (topology/gpu.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "scenarios/named.hpp"
#include "scenarios/readers.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

// NVIDIA A100 Tensor Core GPU datasheet (June 2021), SXM 80 GB: 312 TFLOP/s dense bf16, 19.5 TFLOP/s fp32, 2039 GB/s,
// 400 W; 108 SMs (A100 architecture white paper, 2020). Idle power: our estimate of an eighth of the limit.
constexpr double kReferencePeak = 312e12;
constexpr double kReferenceVectorPeak = 19.5e12;
constexpr double kReferenceMemoryBandwidth = 2039e9;
constexpr double kReferencePower = 400;
constexpr double kReferenceIdlePower = 50;
constexpr double kReferenceMultiprocessors = 108;
constexpr Bytes kDefaultMemory{24'000'000'000};

// fp32 without tensor cores is read from `vector_peak`; a rate by precision, or one for all but fp8.
void read_peak(Reader& reader, const YamlNode& node, const std::string& key, GpuSpec& gpu) {
  double rate = 0;
  if (node.is_scalar()) {
    if (!read_number(reader, node, key, Dimension::compute_rate, kComputeRate, rate)) return;
    gpu.peak.fill(FlopsPerSecond(rate));
    gpu.peak[static_cast<std::size_t>(Precision::fp8)] = FlopsPerSecond(0);
    return;
  }
  if (!expect_map(reader, node, key, "peak: {bf16: 312 TFLOP/s, fp32: 19.5 TFLOP/s}")) return;
  for (const YamlEntry& entry : node.entries) {
    const std::string path = child_key(key, entry.key);
    reader.locate(path, entry.value.place);
    const auto precision = precision_from_name(entry.key);
    if (!precision) {
      const std::vector<std::string> known(kPrecisionNames.begin(), kPrecisionNames.end());
      report_unknown_key(reader, entry, path, known);
    } else if (read_number(reader, entry.value, path, Dimension::compute_rate, kComputeRate, rate)) {
      gpu.peak[static_cast<std::size_t>(*precision)] = FlopsPerSecond(rate);
    }
  }
}

// A map of names to fractions, or one fraction for all.
template <std::size_t N>
void read_rates(Reader& reader, const YamlNode& node, const std::string& key,
                const std::array<std::string_view, N>& names, std::array<double, N>& rates) {
  double rate = 0;
  if (node.is_scalar()) {
    if (read_number(reader, node, key, Dimension::fraction, kPositiveFraction, rate)) rates.fill(rate);
    return;
  }
  if (!expect_map(reader, node, key, fmt::format("{{{}: 0.8}}", names[0]))) return;
  for (const YamlEntry& entry : node.entries) {
    const std::string path = child_key(key, entry.key);
    const auto name = std::find(names.begin(), names.end(), entry.key);
    if (name == names.end()) {
      report_unknown_key(reader, entry, path, std::vector<std::string>(names.begin(), names.end()));
    } else if (read_number(reader, entry.value, path, Dimension::fraction, kPositiveFraction, rate)) {
      rates[static_cast<std::size_t>(name - names.begin())] = rate;
    }
  }
}

void read_gemm_rate(Reader& reader, const YamlNode& node, const std::string& key, KernelConstants& kernels) {
  read_rates(reader, node, key, kPrecisionNames, kernels.gemm_rate);
}

void read_memory_rate(Reader& reader, const YamlNode& node, const std::string& key, KernelConstants& kernels) {
  read_rates(reader, node, key, kKernelKindNames, kernels.memory_rate);
}

constexpr Range kElements{0, 1e6};
constexpr Range kTail{0, 1e3};

using LibraryRow = FieldRow<AttentionLibrary>;
constexpr std::array kLibraryRows{
    LibraryRow{"forward_rate", &AttentionLibrary::forward_rate, kPositiveFraction, "fraction of peak", true},
    LibraryRow{"backward_rate", &AttentionLibrary::backward_rate, kPositiveFraction, "of its backward pass", true},
    LibraryRow{"head_overhead", &AttentionLibrary::head_overhead, kElements, "as attention_head_overhead", true},
    LibraryRow{"depth_overhead", &AttentionLibrary::depth_overhead, kElements, "as attention_depth_overhead", true},
    LibraryRow{"forward_tail", &AttentionLibrary::forward_tail, kTail, "as attention_forward_tail", true},
    LibraryRow{"backward_tail", &AttentionLibrary::backward_tail, kTail, "as attention_backward_tail", true},
};

void read_attention_library(Reader& reader, const YamlNode& node, const std::string& key, KernelConstants& kernels) {
  const int index = read_one_of(reader, node, key, kAttentionLibraries);
  if (index >= 0) kernels.attention_library = kAttentionLibraries[static_cast<std::size_t>(index)];
}

void read_attention_libraries(Reader& reader, const YamlNode& node, const std::string& key, KernelConstants& kernels) {
  if (!expect_map(reader, node, key, "attention_libraries: {flash-2: {forward_rate: 0.4, ...}}")) return;
  for (const YamlEntry& entry : node.entries) {
    const std::string path = child_key(key, entry.key);
    if (std::find(kAttentionLibraries.begin(), kAttentionLibraries.end(), entry.key) == kAttentionLibraries.end()) {
      report_unknown_key(reader, entry, path,
                         std::vector<std::string>(kAttentionLibraries.begin() + 1, kAttentionLibraries.end()));
      continue;
    }
    AttentionLibrary library;
    library.name = entry.key;
    if (!expect_map(reader, entry.value, path, "flash-2: {forward_rate: 0.4, ...}")) continue;
    read_fields<AttentionLibrary>(reader, entry.value, path, kLibraryRows, library, true);
    const auto same = std::find_if(kernels.attention_libraries.begin(), kernels.attention_libraries.end(),
                                   [&](const AttentionLibrary& other) { return other.name == library.name; });
    if (same == kernels.attention_libraries.end()) {
      kernels.attention_libraries.push_back(std::move(library));
    } else {
      *same = std::move(library);
    }
  }
}

using KernelRow = FieldRow<KernelConstants>;

constexpr std::array kKernelRows{
    KernelRow{"measured", &KernelConstants::measured, {}, "fitted on kernels of this very GPU"},
    KernelRow{"source", &KernelConstants::source, {}, "what the constants were fitted on, or carried over from", true},
    KernelRow{"gemm_rate", &read_gemm_rate, {}, "fraction of peak on large deep tiles, by precision"},
    KernelRow{"gemm_tile_overhead", &KernelConstants::gemm_tile_overhead, kElements, "of a tile, in elements"},
    KernelRow{"gemm_depth_overhead", &KernelConstants::gemm_depth_overhead, kElements, "of a tile, in elements of k"},
    KernelRow{"gemm_last_wave", &KernelConstants::gemm_last_wave, kFraction, "how far a part wave costs a whole one"},
    KernelRow{"gemm_half_aligned_rate", &KernelConstants::gemm_half_aligned_rate, kPositiveFraction,
              "of the aligned rate, where a row is a multiple of 8 bytes but not of 16"},
    KernelRow{"gemm_misaligned_rate", &KernelConstants::gemm_misaligned_rate, kPositiveFraction,
              "of the aligned rate, where a row is no multiple of 8 bytes"},
    KernelRow{"gemm_misaligned_batched_rate", &KernelConstants::gemm_misaligned_batched_rate, kPositiveFraction,
              "the most of either in batched products: 0.06 up to cuBLAS 11.6"},
    KernelRow{"gemm_fixed", &KernelConstants::gemm_fixed, kTime, "start-up and tear-down of a GEMM"},
    KernelRow{"attention_library", &read_attention_library, {}, "whose fused attention the figures are of"},
    KernelRow{"attention_libraries", &read_attention_libraries, {}, "figures of other libraries' fused attention"},
    KernelRow{"attention_forward_rate", &KernelConstants::attention_forward_rate, kPositiveFraction,
              "fraction of peak of fused attention"},
    KernelRow{"attention_backward_rate", &KernelConstants::attention_backward_rate, kPositiveFraction,
              "fraction of peak of its backward pass"},
    KernelRow{"attention_head_overhead", &KernelConstants::attention_head_overhead, kElements,
              "elements of head dimension that the softmax of one score is worth"},
    KernelRow{"attention_depth_overhead", &KernelConstants::attention_depth_overhead, kElements,
              "keys that start and end of a block are worth"},
    KernelRow{"attention_forward_tail", &KernelConstants::attention_forward_tail, kTail,
              "part of the longest block with which the kernel ends"},
    KernelRow{"attention_backward_tail", &KernelConstants::attention_backward_tail, kTail, "the same, backward"},
    KernelRow{"attention_fixed", &KernelConstants::attention_fixed, kTime, "start-up and tear-down of attention"},
    KernelRow{"memory_rate", &read_memory_rate, {}, "fraction of memory bandwidth, by kind of kernel"},
    KernelRow{"memory_ceiling", &KernelConstants::memory_ceiling, kPositiveFraction,
              "fraction of memory bandwidth that all traffic together reaches"},
    KernelRow{"memory_fixed", &KernelConstants::memory_fixed, kTime, "start-up of a memory-bound kernel"},
    KernelRow{"kernel_gap", &KernelConstants::kernel_gap, kTime, "from one kernel's start to the next's"},
};

void read_kernels(Reader& reader, const YamlNode& node, const std::string& key, GpuSpec& gpu) {
  if (!expect_map(reader, node, key, "kernels: {gemm_fixed: 5 us}")) return;
  read_fields<KernelConstants>(reader, node, key, kKernelRows, gpu.kernels, false);
}

using GpuRow = FieldRow<GpuSpec>;

constexpr std::array kGpuRows{
    GpuRow{
        "peak", &read_peak, {}, "dense rate by precision (fp32, tf32, fp16, bf16, fp8), or one for all but fp8", true},
    GpuRow{"vector_peak", &GpuSpec::vector_peak, kComputeRate, "fp32 rate outside the tensor cores", true},
    GpuRow{"memory", &GpuSpec::memory, kSize, "memory of one GPU", true},
    GpuRow{"memory_bandwidth", &GpuSpec::memory_bandwidth, kDataRate, "nominal", true},
    GpuRow{"multiprocessors", &GpuSpec::multiprocessors, Range{1, 1e5}, "SMs, or compute units", true},
    GpuRow{"power_max", &GpuSpec::power_max, kPower, "the board's limit", true},
    GpuRow{"power_idle", &GpuSpec::power_idle, kPower, "with a context open and no kernels", true},
    GpuRow{"nvlink_sharp",
           &GpuSpec::nvlink_sharp,
           {},
           "an NVSwitch can reduce and multicast for it (NVLS): Hopper and later; default: false"},
    GpuRow{"kernels", &read_kernels, {}, "efficiency constants; what is missing is that of an unmeasured GPU"},
};

void fill_in_from_reference(GpuSpec& gpu) {
  double peak = gpu.peak_of(Precision::bf16).count();
  if (peak == 0) peak = gpu.peak_of(Precision::fp16).count();
  for (const FlopsPerSecond rate : gpu.peak) peak = peak == 0 ? rate.count() : peak;
  const double scale = peak / kReferencePeak;
  if (gpu.vector_peak.count() == 0) gpu.vector_peak = FlopsPerSecond(kReferenceVectorPeak * scale);
  if (gpu.memory.count() == 0) gpu.memory = kDefaultMemory;
  if (gpu.memory_bandwidth.count() == 0) gpu.memory_bandwidth = BytesPerSecond(kReferenceMemoryBandwidth * scale);
  if (gpu.multiprocessors == 0) {
    gpu.multiprocessors = static_cast<int>(std::clamp(std::round(kReferenceMultiprocessors * scale), 1.0, 1e5));
  }
  if (gpu.power_max.count() == 0) gpu.power_max = Watts(kReferencePower * scale);
  if (gpu.power_idle.count() == 0) gpu.power_idle = Watts(kReferenceIdlePower * scale);
}

}  // namespace

void read_gpu_entry(Reader& reader, const YamlNode& root, GpuSpec& gpu) {
  read_fields<GpuSpec>(reader, root, "", kGpuRows, gpu, true, kSourceKeys);
}

bool read_gpu(Reader& reader, const YamlNode& node, const std::string& key, GpuSpec& gpu) {
  constexpr std::string_view kOwn[] = {kBaseKey, "name"};
  const Given given = read_base<GpuSpec>(reader, node, key, &Catalog::gpu, gpu);
  if (given == Given::wrong) return false;
  if (given == Given::name) return true;
  const bool changes = given == Given::changes || !gpu.name.empty();  // of a base here, or of the node's own GPU
  const std::size_t before = reader.problems().size();
  read_fields<GpuSpec>(reader, node, key, kGpuRows, gpu, false, kOwn);
  if (const YamlEntry* name = node.find("name")) read_text(reader, name->value, child_key(key, "name"), gpu.name);
  if (!changes) {
    if (node.find("peak") == nullptr) {
      report_missing_key(reader, node, key, "peak", "such as peak: {bf16: 50 TFLOP/s}; or name a GPU with base:");
      return false;
    }
    fill_in_from_reference(gpu);
    if (gpu.name.empty()) gpu.name = "inline";
  }
  return reader.problems().size() == before;
}

void append_gpu_docs(std::vector<KeyDoc>& docs, const std::string& prefix) {
  append_docs<GpuSpec>(docs, prefix, kGpuRows);
  append_docs<KernelConstants>(docs, child_key(prefix, "kernels"), kKernelRows);
  append_docs<AttentionLibrary>(docs, child_key(prefix, "kernels.attention_libraries.NAME"), kLibraryRows);
}

}  // namespace orrery
