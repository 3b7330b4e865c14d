// Whatever becomes of a plan's text, importing it ends with a scenario or with problems that say why.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "import_support.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;
using namespace scenario_tests;

// A linear congruential generator (Knuth's MMIX constants): the same mutations everywhere.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t count) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>((state_ >> 33) % count);
  }

 private:
  std::uint64_t state_;
};

std::vector<fs::path> plans() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kImports)) {
    const std::string ending = entry.path().extension().string();
    if (ending != ".expected" && ending != ".md") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Bytes that mean something in one of the formats, pieces cut out, doubled, or moved.
std::string mutated(std::string text, Draws& draws) {
  constexpr std::string_view kBytes = "{}[]()\"'$\\#=,:.-\n\t 0a*\x01\xff";
  const std::size_t changes = 1 + draws.below(4);
  for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
    const std::size_t at = draws.below(text.size());
    const std::size_t length = std::min(text.size() - at, 1 + draws.below(40));
    switch (draws.below(4)) {
      case 0:
        text[at] = kBytes[draws.below(kBytes.size())];
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(draws.below(text.size()), text.substr(at, length));
        break;
      default:
        text.insert(at, 1, kBytes[draws.below(kBytes.size())]);
    }
  }
  return text;
}

// A result names a scenario that loads, or at least one problem with words.
void check_outcome(const std::string& text, const std::string& name, const ImportOptions& options) {
  CAPTURE(name);
  CAPTURE(text);
  const Result<ImportedPlan> plan = import_plan_text(text, name, options);
  if (plan) {
    const Result<Scenario> loaded = load_scenario_text(plan->text, "imported.yaml", {{}, kSource});
    CHECK_MESSAGE(loaded.ok(), to_string(loaded.problems()));
  } else {
    for (const Problem& problem : plan.problems()) {
      CHECK(!problem.message.empty());
      CHECK((!problem.where.file.empty() || !problem.key.empty()));
    }
  }
}

}  // namespace

TEST_CASE("a plan that is cut off anywhere is imported or refused") {
  for (const fs::path& file : plans()) {
    const std::string text = contents(file);
    const ImportOptions options = options_in(text);
    for (std::size_t length = 0; length < text.size(); length += 1 + text.size() / 25) {
      check_outcome(text.substr(0, length), file.string(), options);
    }
  }
}

TEST_CASE("a plan with slips of the pen is imported or refused") {
  std::uint64_t seed = 0;
  for (const fs::path& file : plans()) {
    const std::string text = contents(file);
    const ImportOptions options = options_in(text);
    for (int i = 0; i < 60; ++i) {
      CAPTURE(++seed);
      Draws draws(seed);
      check_outcome(mutated(text, draws), file.string(), options);
    }
  }
}

TEST_CASE("a plan read as another format's is imported or refused") {
  for (const fs::path& file : plans()) {
    const std::string text = contents(file);
    for (const std::string& format : import_format_names()) {
      ImportOptions options = options_in(text);
      options.format = format;
      check_outcome(text, file.string(), options);
    }
  }
}

TEST_CASE("values beyond all bounds in a plan are refused with a place") {
  ImportOptions options;
  options.load.catalog_root = kSource;
  options.model = "llama2-7b";
  options.clusters = {"dgx-a100-80gb x 1"};
  ImportOptions without_model = options;
  without_model.model.clear();
  const std::string huge = "9223372036854775807";
  for (const std::string& value : {huge, std::string("-1"), std::string("1e300"), std::string("0")}) {
    check_outcome(fmt::format(R"({{"train_batch_size": {}, "gradient_accumulation_steps": {}}})", value, value),
                  "a.json", options);
    check_outcome("[training]\nlocal_batch_size = " + value +
                      "\nseq_len = 1\n[parallelism]\ndata_parallel_shard_degree = " + value +
                      "\ndata_parallel_replicate_degree = " + value + "\npipeline_parallel_degree = " + value,
                  "a.toml", options);
    check_outcome("--seq-length " + value + " --num-layers " + value + " --hidden-size " + value +
                      " --num-attention-heads 8 --pipeline-model-parallel-size " + value +
                      " --num-layers-per-virtual-pipeline-stage " + value + " --train-iters " + value +
                      " --decoder-first-pipeline-num-layers " + value,
                  "a.sh", without_model);
  }
}

TEST_CASE("nesting and sizes without end in a plan are refused") {
  const auto refused = [](const std::string& text, const std::string& name) {
    return to_string(import_text(text, name).problems());
  };
  CHECK(refused(std::string(90'000, '['), "a.json").find("nested too deeply") != std::string::npos);
  CHECK(refused("a = " + std::string(90'000, '['), "a.toml").find("error:") != std::string::npos);
  std::string dotted = "a";
  for (int i = 0; i < 90'000; ++i) dotted += ".a";
  CHECK(refused(dotted + " = 1", "a.toml").find("more than 64 dots in a line") != std::string::npos);
  CHECK(refused("[" + dotted + "]", "a.toml").find("more than 64 dots in a line") != std::string::npos);
  CHECK(refused("# " + std::string(2'000'000, 'x') + "\n--num-layers 2", "a.sh").find("too many for a script") !=
        std::string::npos);
}

}  // namespace orrery
