// Every plan in tests/imports becomes exactly the expected scenario and report, or is refused in the expected words.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "import_support.hpp"
#include "scenarios/load.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;
using namespace scenario_tests;

std::vector<fs::path> plans() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kImports)) {
    const std::string ending = entry.path().extension().string();
    if (ending != ".expected" && ending != ".md") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_broken(const fs::path& file) { return file.filename().string().starts_with("broken-"); }

std::string without_folder(std::string text) {
  for (std::size_t at = text.find(kImports); at != std::string::npos; at = text.find(kImports)) {
    text.erase(at, kImports.size());
  }
  return text;
}

Result<ImportedPlan> import_file(const fs::path& file) {
  return import_plan(file.string(), options_in(contents(file)));
}

}  // namespace

TEST_CASE("imported plans become the expected scenarios, and broken ones are refused in the expected words") {
  const bool update = std::getenv("ORRERY_UPDATE_EXPECTED") != nullptr;
  const std::vector<fs::path> files = plans();
  CHECK(files.size() >= 15);
  for (const fs::path& file : files) {
    CAPTURE(file.filename().string());
    const Result<ImportedPlan> plan = import_file(file);
    CHECK(plan.ok() != is_broken(file));
    const std::string found = plan ? plan->text + "\n" + to_string(plan->lines) : to_string(plan.problems()) + "\n";
    const std::string expected = file.string() + ".expected";
    if (update) std::ofstream(expected, std::ios::binary) << without_folder(found);
    CHECK(without_folder(found) == contents(expected));
  }
}

TEST_CASE("an imported plan's text loads as the scenario that was made of the plan") {
  for (const fs::path& file : plans()) {
    if (is_broken(file)) continue;
    CAPTURE(file.filename().string());
    const Result<ImportedPlan> plan = import_file(file);
    REQUIRE(plan.ok());
    const Result<Scenario> loaded = load_scenario_text(plan->text, "imported.yaml", {{}, kSource});
    REQUIRE_MESSAGE(loaded.ok(), to_string(loaded.problems()));
    CHECK(loaded->name == plan->scenario.name);
    CHECK(loaded->gpus == plan->scenario.gpus);
    CHECK(loaded->model == plan->scenario.model);
    CHECK(loaded->training == plan->scenario.training);
    CHECK(loaded->parallelism == plan->scenario.parallelism);
  }
}

TEST_CASE("every key of an imported plan is in its report, once, with a place and an outcome") {
  for (const fs::path& file : plans()) {
    if (is_broken(file)) continue;
    CAPTURE(file.filename().string());
    const Result<ImportedPlan> plan = import_file(file);
    REQUIRE(plan.ok());
    std::size_t of_the_plan = 0;
    for (const ImportLine& line : plan->lines) {
      CAPTURE(line.key);
      if (line.where.line > 0) {
        ++of_the_plan;
        CHECK(line.where.file == file.string());
      } else {
        CHECK(line.fate == Fate::assumed);
      }
      CHECK((line.fate == Fate::understood || line.fate == Fate::assumed) == !line.leads_to.empty());
      CHECK((!line.leads_to.empty() || !line.why.empty() || line.fate == Fate::unknown));
    }
    CHECK(of_the_plan > 5);
    // What the plan says is not assumed besides.
    for (const ImportLine& assumed : plan->lines) {
      if (assumed.fate != Fate::assumed) continue;
      const std::string target = assumed.leads_to.substr(0, assumed.leads_to.find(':') + 1);
      for (const ImportLine& said : plan->lines) {
        const bool both = said.fate == Fate::understood && said.leads_to.find(target) != std::string::npos;
        CHECK_FALSE_MESSAGE(both, said.key << " and " << assumed.key << " lead to " << target);
      }
    }
  }
}

TEST_CASE("every problem of a broken plan stands at a place in the plan or at an option") {
  for (const fs::path& file : plans()) {
    if (!is_broken(file)) continue;
    CAPTURE(file.filename().string());
    for (const Problem& problem : import_file(file).problems()) {
      CAPTURE(problem.message);
      const bool option = problem.where.file.starts_with("--");
      CHECK((option || problem.where.file == file.string()));
      CHECK((option || problem.where.line >= 1));
      CHECK(!problem.message.empty());
    }
  }
}

}  // namespace orrery
