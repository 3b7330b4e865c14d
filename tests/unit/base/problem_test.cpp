#include "sim/base/problem.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "sim/base/ids.hpp"
#include "sim/base/text.hpp"

using namespace orrery;

TEST_CASE("a problem with a place reads as compilers print it") {
  const Problem problem{.key = "parallelism.tensor",
                        .message = "tensor degree 5 does not divide 96 attention heads",
                        .note = "nearest valid: 4, 6",
                        .where = {"a.yaml", 14, 9}};
  CHECK(to_string(problem) ==
        "a.yaml:14:9: error: tensor degree 5 does not divide 96 attention heads\n  note: nearest valid: 4, 6");
}

TEST_CASE("a problem without a place names its key") {
  CHECK(to_string(Problem{.key = "model.heads", .message = "must be positive", .note = ""}) ==
        "error: model.heads: must be positive");
}

TEST_CASE("problems are printed in the order of their places") {
  const Problems problems{{"", "second", "", {"a.yaml", 9, 1}}, {"", "first", "", {"a.yaml", 2, 4}}};
  CHECK(to_string(problems) == "a.yaml:2:4: error: first\na.yaml:9:1: error: second");
}

TEST_CASE("a result holds a value or problems") {
  const Result<int> good = 3;
  CHECK(good.ok());
  CHECK(*good == 3);
  CHECK(good.problems().empty());
  const Result<int> bad = Problem{.key = "k", .message = "m", .note = ""};
  CHECK_FALSE(bad.ok());
  CHECK(bad.problems().size() == 1);
}

TEST_CASE("the nearest name is found through typing mistakes, and far ones are not suggested") {
  const std::array<std::string, 3> names{"tensor", "pipeline", "data"};
  CHECK(nearest_name("tesnor", names) == "tensor");
  CHECK(nearest_name("pipline", names) == "pipeline");
  CHECK(nearest_name("dat", names) == "data");
  CHECK(nearest_name("zebra", names).empty());
  CHECK(nearest_name("", names).empty());
}

TEST_CASE("a name cut short is completed before a whole name is suspected of typing mistakes") {
  const std::array<std::string, 3> nodes{"dgx-h100", "dgx-a100-40gb", "dgx-a100-80gb"};
  CHECK(nearest_name("dgx-a100", nodes) == "dgx-a100-40gb");
  CHECK(nearest_name("dgx-h10", nodes) == "dgx-h100");
  CHECK(nearest_name("d", nodes).empty());
}

TEST_CASE("an id is valid once it has a value") {
  using TestId = Id<struct TestTag>;
  CHECK_FALSE(TestId().valid());
  CHECK(TestId(0).valid());
  CHECK(TestId(2) > TestId(1));
}
