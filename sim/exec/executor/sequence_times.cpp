#include "sim/exec/executor/sequence_times.hpp"

#include <algorithm>

#include "sim/exec/longest_step.hpp"

namespace orrery {

namespace {

GpuSpec scaled(GpuSpec gpu, double factor) {
  for (FlopsPerSecond& peak : gpu.peak) peak = peak * factor;
  gpu.vector_peak = gpu.vector_peak * factor;
  gpu.memory_bandwidth = gpu.memory_bandwidth * factor;
  return gpu;
}

Rate rate_at_most(BytesPerSecond rate) { return rate_from(std::min(rate.count(), units_per_second(kMaxRate))); }

}  // namespace

SequenceTable::SequenceTable(const Workload& workload, const HostCosts& costs) : workload_(workload), costs_(costs) {
  for (const Program& program : workload.programs) {
    first_sequence_.push_back(static_cast<std::uint32_t>(sequences_.size()));
    for (const KernelSequence& sequence : program.sequences()) sequences_.push_back(&sequence);
  }
}

std::uint32_t SequenceTable::gpu_kind(const GpuSpec& spec, double factor) {
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    if (kinds_[k]->spec == &spec && kinds_[k]->factor == factor) return static_cast<std::uint32_t>(k);
  }
  auto kind = std::make_unique<Kind>();
  kind->spec = &spec;
  kind->factor = factor;
  kind->gpu = scaled(spec, factor);
  kind->cost_of.assign(workload_.kernels.size(), -1);
  kind->by_sequence.resize(sequences_.size());
  kinds_.push_back(std::move(kind));
  return static_cast<std::uint32_t>(kinds_.size() - 1);
}

const SequenceTimes& SequenceTable::times(std::uint32_t gpu_kind, std::uint32_t sequence, int multiprocessors) {
  Kind& kind = *kinds_[gpu_kind];
  auto& known = kind.by_sequence[sequence];
  for (const auto& times : known) {
    if (times->multiprocessors == multiprocessors) return *times;
  }
  known.push_back(make(kind, *sequences_[sequence], multiprocessors));
  return *known.back();
}

const KernelCost& SequenceTable::cost(Kind& kind, KernelId kernel) {
  std::int32_t& index = kind.cost_of[kernel.index()];
  if (index < 0) {
    index = static_cast<std::int32_t>(kind.costs.size());
    kind.costs.push_back(kernel_cost(workload_.kernels[kernel.index()], kind.gpu));
  }
  return kind.costs[static_cast<std::size_t>(index)];
}

std::unique_ptr<SequenceTimes> SequenceTable::make(Kind& kind, const KernelSequence& sequence, int multiprocessors) {
  auto times = std::make_unique<SequenceTimes>();
  times->multiprocessors = multiprocessors;
  times->until.push_back(Duration{});
  const BytesPerSecond memory = kind.gpu.usable_memory_bandwidth();
  for (const KernelId id : sequence) {
    const KernelCost& kernel = cost(kind, id);
    const BytesPerSecond cap = kernel.rate_cap(multiprocessors);
    times->until.push_back(bounded(saturating_add(times->until.back(), kernel.alone(multiprocessors, memory))));
    times->parts.push_back(
        {bounded(kernel.fixed()), kernel.bytes(), rate_at_most(cap), cap.count() < kLightShare * memory.count()});
  }
  times->launched = costs_.launched(sequence, workload_.kernels);
  times->launch_bound.resize(sequence.size());
  Duration bound = Duration::min();
  for (std::uint32_t i = times->kernels(); i-- > 0;) {
    bound = std::max(bound, times->launched[i] - times->until[i]);
    times->launch_bound[i] = bound;
  }
  return times;
}

}  // namespace orrery
