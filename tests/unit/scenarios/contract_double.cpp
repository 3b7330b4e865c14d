// Stand-ins for the workloads layer, weak, so that the loader's tests link and run where that layer's own definitions
// are not part of the build. Where they are, the linker takes the real ones.
#include <array>

#include "sim/base/problem.hpp"
#include "workloads/build.hpp"
#include "workloads/registry.hpp"

namespace orrery {

namespace {
constexpr std::array kBuckets{OptionDoc{"bucket", "bytes", "25 MiB", 1, 1e12, ""}};
constexpr std::array kVirtual{OptionDoc{"virtual_stages", "integer", "2", 1, 1024, ""}};
constexpr std::array kMomentum{OptionDoc{"momentum", "number", "0.9", 0, 1, ""}};
constexpr std::array kSharding{RegistryRow{"none", "", kBuckets}, RegistryRow{"zero1", "", {}}};
constexpr std::array kSchedule{RegistryRow{"1f1b", "", {}}, RegistryRow{"interleaved-1f1b", "", kVirtual}};
constexpr std::array kOptimizer{RegistryRow{"adamw", "", {}}, RegistryRow{"sgd", "", kMomentum}};
}  // namespace

__attribute__((weak)) std::span<const RegistryRow> sharding_rows() { return kSharding; }
__attribute__((weak)) std::span<const RegistryRow> schedule_rows() { return kSchedule; }
__attribute__((weak)) std::span<const RegistryRow> optimizer_rows() { return kOptimizer; }
__attribute__((weak)) Problems check(const ModelSpec&) { return {}; }
__attribute__((weak)) Problems check_plan(const ModelSpec&, const TrainingSpec&, const ParallelismSpec&, std::int64_t) {
  return {};
}
__attribute__((weak)) std::int64_t parameters(const ModelSpec& m) {
  return m.vocabulary * m.hidden + m.layers * 12 * m.hidden * m.hidden;
}

}  // namespace orrery
