// Any bytes at all are a scenario or are refused, and never more than that: no crash, no endless loop, no leak. What is
// refused names at least one problem; what is accepted holds what it promises.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "scenarios/load.hpp"
#include "sim/base/check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery;
  static const std::string catalog = ORRERY_SOURCE_DIR "/tests/unit/scenarios/catalog";
  std::string_view text(reinterpret_cast<const char*>(data), size);  // NOLINT: bytes are what a file holds

  // A first line "# set: key=value" is an override, as in tests/errors.
  LoadOptions options;
  options.catalog_root = catalog;
  constexpr std::string_view kMark = "# set: ";
  if (text.starts_with(kMark)) {
    const std::string_view line = text.substr(kMark.size(), text.find('\n') - kMark.size());
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) {
      options.overrides.push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
    }
  }

  const Result<Scenario> scenario = load_scenario_text(text, ORRERY_SOURCE_DIR "/tests/errors/fuzz.yaml", options);
  if (!scenario) {
    ORRERY_CHECK(!to_string(scenario.problems()).empty(), "a refusal says why");
    return 0;
  }
  ORRERY_CHECK(scenario->gpus > 0, "a scenario has GPUs");
  ORRERY_CHECK(!scenario->cluster.groups.empty(), "a scenario has nodes");
  ORRERY_CHECK(scenario->model.layers > 0 && scenario->training.global_batch > 0, "a scenario has work");
  for (const SweepAxis& axis : scenario->sweep) ORRERY_CHECK(!axis.values.empty(), "an axis has values");
  return 0;
}
