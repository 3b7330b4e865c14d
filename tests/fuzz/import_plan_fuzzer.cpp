// Any bytes at all are a plan of one of the import formats or are refused with a problem that has words; what is
// imported loads again as a scenario. The first byte picks the format.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "scenarios/import/import.hpp"
#include "scenarios/load.hpp"
#include "sim/base/check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);  // NOLINT: bytes are what a file holds
  ImportOptions options;
  options.load.catalog_root = ORRERY_SOURCE_DIR;
  options.clusters = {"dgx-a100-80gb x 2"};
  options.load.overrides = {{"training.sequence_length", "1024"}};
  const std::vector<std::string> formats = import_format_names();
  const std::size_t pick = data[0] % (formats.size() + 1);
  if (pick < formats.size()) options.format = formats[pick];
  if (options.format == "deepspeed") options.model = "gpt3-125m";  // the others may say it themselves

  // A plan as it stands in a file begins with its own first byte.
  for (const std::string_view plan : {text, text.substr(1)}) {
    const Result<ImportedPlan> imported = import_plan_text(plan, "plan", options);
    if (!imported) {
      ORRERY_CHECK(!to_string(imported.problems()).empty(), "a refusal says why");
      continue;
    }
    LoadOptions load;
    load.catalog_root = options.load.catalog_root;
    ORRERY_CHECK(load_scenario_text(imported->text, "imported.yaml", load).ok(), "what is imported can be loaded");
    ORRERY_CHECK(!to_string(imported->lines).empty(), "an import has a report");
  }
  return 0;
}
