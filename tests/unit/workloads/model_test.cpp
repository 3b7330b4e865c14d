#include "workloads/model.hpp"

#include <doctest/doctest.h>

#include "tests/unit/workloads/catalog.hpp"
#include "tests/unit/workloads/plans.hpp"
#include "workloads/flops.hpp"

using namespace orrery;
using namespace orrery::testing;

TEST_CASE("parameter counts equal the published ones") {
  // Counts that the publishers give with the weights (total of the safetensors index or the model card).
  const std::pair<const char*, std::int64_t> published[] = {
      {"llama2-7b", 6'738'415'616}, {"llama2-13b", 13'015'864'320}, {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248}, {"llama3-70b", 70'553'706'496}, {"llama3-405b", 405'853'388'800},
      {"bloom-560m", 559'214'592},  {"bloom-1b1", 1'065'314'304},   {"bloom-1b7", 1'722'408'960},
      {"bloom-3b", 3'002'557'440},  {"bloom-7b1", 7'069'016'064},   {"bloom-176b", 176'247'271'424},
      {"mpt-7b", 6'649'286'656},
  };
  for (const auto& entry : published) {  // clang 14 does not let CAPTURE use a structured binding
    const char* const name = entry.first;
    CAPTURE(name);
    const ModelSpec model = catalog_model(name);
    CHECK(check(model).empty());
    CHECK(parameters(model) == entry.second);
  }
}

TEST_CASE("GPT-3's parameter counts follow the formula of Narayanan et al. 2021") {
  // P = 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)); the formula leaves out the final norm's 2 h.
  const std::pair<const char*, double> published[] = {
      {"gpt3-125m", 125e6}, {"gpt3-350m", 350e6}, {"gpt3-760m", 760e6}, {"gpt3-1.3b", 1.3e9},
      {"gpt3-2.7b", 2.7e9}, {"gpt3-6.7b", 6.7e9}, {"gpt3-13b", 13.0e9}, {"gpt3-175b", 175.0e9},
  };
  for (const auto& entry : published) {
    const char* const name = entry.first;
    CAPTURE(name);
    const ModelSpec m = catalog_model(name);
    CHECK(check(m).empty());
    const std::int64_t formula =
        12 * m.layers * m.hidden * m.hidden + 13 * m.layers * m.hidden + (m.vocabulary + m.positions) * m.hidden;
    CHECK(parameters(m) == formula + 2 * m.hidden);
    CHECK(static_cast<double>(parameters(m)) == doctest::Approx(entry.second).epsilon(0.025));
  }
}

TEST_CASE("MPT-30B has neither biases nor norm biases") {
  // 48 layers of 12 h^2 + 2 h, 50,432 h in the table, h in the final norm, h = 7168.
  const std::int64_t h = 7168;
  CHECK(parameters(catalog_model("mpt-30b")) == 48 * (12 * h * h + 2 * h) + 50'432 * h + h);
}

TEST_CASE("a model whose heads cannot share key-value heads is refused, with the nearest that can") {
  ModelSpec m = llama(2, 64, 6, 4, 128);
  const Problems problems = check(m);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].key == "model.kv_heads");
  CHECK(problems[0].note == "nearest valid: 6");
  m.layers = 0;
  CHECK(check(m).size() == 2);
}

TEST_CASE("model FLOPs are 72 B s l h^2 (1 + s / 6h + V / 12 l h)") {
  // Narayanan et al. 2021, equation 3 with 96 -> 72 (no recomputation): the layers' part is three forward passes of
  // 24 B s h^2 + 4 B s^2 h, and the logits' part is 6 B s h V as before.
  const ModelSpec m = gpt(96, 12288, 96);
  const double b = 3;
  const double s = 2048;
  const double h = 12288;
  const double expected = 72 * b * s * 96 * h * h * (1 + s / (6 * h) + 51200 / (12 * 96 * h));
  CHECK(model_flops(m, 2048, 3).count() == doctest::Approx(expected).epsilon(1e-12));
}
