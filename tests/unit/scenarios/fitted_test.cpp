// The list of fits names constants that exist, and knows what the catalogue says is a fit.
#include "scenarios/fitted.hpp"

#include <doctest/doctest.h>

#include <set>

#include "tests/support/temporary_folder.hpp"

using namespace orrery;

TEST_CASE("every constant of the list is in its file, once, and says what it was fitted on") {
  const Result<std::vector<FittedConstant>> constants = fitted_constants(ORRERY_SOURCE_DIR);
  REQUIRE_MESSAGE(constants.ok(), to_string(constants.problems()));
  std::set<std::string> seen;
  for (const FittedConstant& constant : *constants) {
    CAPTURE(constant.file);
    CAPTURE(constant.key);
    CHECK(seen.insert(constant.file + " " + constant.key).second);
    CHECK_FALSE(constant.on.empty());
    const bool known =
        constant.measured == "kernels" || constant.measured == "collectives" || constant.measured == "steps";
    CHECK(known);
    CHECK(constant.value.empty() != constant.file.ends_with(".yaml"));
  }
  // Every framework whose entry speaks of a fit has its constants in the list.
  for (const char* name : {"megatron-lm", "megatron-deepspeed", "llm-foundry"}) {
    CHECK(seen.count("workloads/frameworks/" + std::string(name) + ".yaml launch") == 1);
  }
}

TEST_CASE("a constant that is no longer in its file is told with its place in the list") {
  const test::TemporaryFolder folder;
  folder.write("topology/catalog/gpus/x.yaml", "kernels: {gemm_rate: {bf16: 0.5}}\n");
  folder.write(
      "topology/catalog/fitted.csv",
      "file,key,measured,on\ntopology/catalog/gpus/x.yaml,kernels.gemm_rate.bf16,kernels,a\n"
      "topology/catalog/gpus/x.yaml,kernels.gone,kernels,b\ntopology/catalog/gpus/y.yaml,kernels.a,kernels,b\n");
  const Result<std::vector<FittedConstant>> constants = fitted_constants(folder.path);
  REQUIRE_FALSE(constants.ok());
  CHECK(constants.problems().size() == 2);
  CHECK(to_string(constants.problems()).find("fitted.csv:3:") != std::string::npos);
  CHECK(to_string(constants.problems()).find("\"kernels.gone\" is not in topology/catalog/gpus/x.yaml") !=
        std::string::npos);
}
