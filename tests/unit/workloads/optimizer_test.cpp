#include "workloads/optimizers/optimizer.hpp"

#include <doctest/doctest.h>

#include "workloads/registry.hpp"

using namespace orrery;

namespace {

std::int64_t total_bytes(const std::vector<Kernel>& kernels) {
  std::int64_t sum = 0;
  for (const Kernel& k : kernels) sum += k.bytes.count();
  return sum;
}

std::int64_t total_elements(const std::vector<Kernel>& kernels) {
  std::int64_t sum = 0;
  for (const Kernel& k : kernels) sum += k.n;
  return sum;
}

std::vector<Kernel> step(std::string_view name, const OptimizerWork& work, const Choice& choice = {}) {
  const OptimizerRow* row = find_optimizer(name);
  REQUIRE(row != nullptr);
  return row->kernels(choice, row->row, work);
}

std::int64_t state(std::string_view name, const OptimizerWork& work, const Choice& choice = {}) {
  const OptimizerRow* row = find_optimizer(name);
  REQUIRE(row != nullptr);
  return row->state_bytes(choice, row->row, work);
}

}  // namespace

TEST_CASE("a launch over many tensors takes 320 chunks of 65,536 elements, or 36 tensors") {
  // 320 x 65,536 = 20,971,520 elements a launch: 50 million need three; 100 small tensors need three as well.
  CHECK(multi_tensor("x", {.elements = 50'000'000, .tensors = 1}, 4, 1).size() == 3);
  CHECK(multi_tensor("x", {.elements = 1'000, .tensors = 100}, 4, 1).size() == 3);
  CHECK(total_elements(multi_tensor("x", {.elements = 50'000'001, .tensors = 7}, 4, 1)) == 50'000'001);
  CHECK(multi_tensor("x", {.elements = 0, .tensors = 0}, 4, 1).empty());
}

TEST_CASE("fused AdamW moves 28 bytes a parameter with fp32 gradients") {
  // Reads weight, gradient and two moments (16), writes weight and moments (12).
  CHECK(total_bytes(step("adamw", {.elements = 1'000, .tensors = 1})) == 28'000);
}

TEST_CASE("AdamW as single operations moves 80 bytes a parameter") {
  // decay 8, lerp 12, scale 8, addcmul 12, root 8, divide 8, epsilon 8, addcdiv 16.
  CHECK(total_bytes(step("adamw", {.elements = 1'000, .tensors = 1, .fused = false})) == 80'000);
}

TEST_CASE("SGD keeps and moves its buffer only with momentum") {
  const OptimizerRow* row = find_optimizer("sgd");
  REQUIRE(row != nullptr);
  const Choice plain{"sgd", {{"momentum", 0.0}}};
  const Choice heavy{"sgd", {}};
  const OptimizerWork work{.elements = 1'000, .tensors = 1};
  CHECK(row->state_bytes(plain, row->row, work) == 0);
  CHECK(row->state_bytes(heavy, row->row, work) == 4'000);
  CHECK(total_bytes(step("sgd", {.elements = 1'000, .tensors = 1}, plain)) == 12'000);
  CHECK(total_bytes(step("sgd", {.elements = 1'000, .tensors = 1}, heavy)) == 20'000);
}

TEST_CASE("Adafactor keeps a row and a column of a matrix, and all of what has no shape") {
  // [300, 50] and 7 biases: 300 + 50 + 7 numbers; two experts' [30, 50] each: 2 (30 + 50). As flat pieces: everything.
  OptimizerWork work{.elements = 18'007, .tensors = 3};
  CHECK(state("adafactor", work) == 4 * 18'007);
  work.shapes = {
      {.elements = 15'000, .columns = 50}, {.elements = 3'000, .columns = 50, .matrices = 2}, {.elements = 7}};
  CHECK(state("adafactor", work) == 4 * (350 + 160 + 7));
  const Choice first{"adafactor", {{"first_moment", true}}};
  CHECK(state("adafactor", work, first) == 4 * (350 + 160 + 7 + 18'007));
}

TEST_CASE("Adafactor passes over a matrix twelve times, and over its rows and columns eight") {
  // Norm 4, square 8, epsilon 8, two means 8, outer product 4, times gradient 12, norm 4, clip 8, rate 8, negate 8, add
  // 12: 84 bytes an element. Rows: 8 + 12 + 4 + 8 + 8 = 40; columns: 8 + 12 + 8 = 28.
  const OptimizerWork work{.elements = 15'000, .tensors = 1, .shapes = {{.elements = 15'000, .columns = 50}}};
  const std::vector<Kernel> kernels = step("adafactor", work);
  CHECK(total_bytes(kernels) == 84 * 15'000 + 40 * 300 + 28 * 50);
  CHECK(kernels.size() == 20);
}

TEST_CASE("8-bit AdamW keeps two bytes an element, two scales a block and two tables of meanings") {
  // 10,000 elements are 40 blocks of 256: 20,000 + 2 x 4 x 40 bytes, and 2 x 1,024 once. 4,095 elements stay in fp32.
  OptimizerWork work{.elements = 10'000, .tensors = 1};
  CHECK(state("adamw-8bit", work) == 20'000 + 320 + 2'048);
  work = {.elements = 4'095, .tensors = 1};
  CHECK(state("adamw-8bit", work) == 8 * 4'095);
  work = {.elements = 4'096, .tensors = 1};
  CHECK(state("adamw-8bit", work) == 2 * 4'096 + 8 * 16 + 2'048);
  // A table does as well, unless told otherwise.
  work.shapes = {{.elements = 4'096, .columns = 64, .table = true}};
  CHECK(state("adamw-8bit", work) == 8 * 4'096);
  CHECK(state("adamw-8bit", work, {"adamw-8bit", {{"tables_in_fp32", false}}}) == 2 * 4'096 + 8 * 16 + 2'048);
  // Paper: blocks of 2,048.
  CHECK(state("adamw-8bit", work, {"adamw-8bit", {{"tables_in_fp32", false}, {"block", std::int64_t{2'048}}}}) ==
        2 * 4'096 + 8 * 2 + 2'048);
}

TEST_CASE("8-bit AdamW moves weights and gradients in fp32 and moments as they are kept") {
  // 8 + 4, and two moments read and written at 1 + 4 / 256 bytes: 16.0625 bytes an element, against 28.
  CHECK(total_bytes(step("adamw-8bit", {.elements = 25'600, .tensors = 1})) == 12 * 25'600 + 4 * (25'600 + 400));
  CHECK(total_bytes(step("adamw-8bit", {.elements = 1'000, .tensors = 1})) == 28'000);
  CHECK(step("adamw-8bit", {.elements = 100'000, .tensors = 10}).size() == 10);
}

TEST_CASE("flat pieces add up to what is updated") {
  for (const std::int64_t tensors : {1, 3, 7, 1'000}) {
    std::int64_t sum = 0;
    for (const OptimizerTensor& piece : tensors_of({.elements = 1'009, .tensors = tensors})) {
      CHECK(piece.elements > 0);
      sum += piece.elements;
    }
    CHECK(sum == 1'009);
  }
}

TEST_CASE("every optimizer reads each gradient and writes each weight, and fusion never adds launches") {
  for (const RegistryRow& public_row : optimizer_rows()) {
    const OptimizerRow* row = find_optimizer(public_row.name);
    REQUIRE(row != nullptr);
    const OptimizerWork fused{.elements = 10'000, .tensors = 3};
    CHECK(row->state_bytes({}, row->row, fused) >= 0);
    CHECK(row->state_bytes({}, row->row, {}) == 0);
    OptimizerWork separate = fused;
    separate.fused = false;
    CHECK(total_bytes(step(public_row.name, fused)) >= 12 * fused.elements);
    CHECK(step(public_row.name, fused).size() <= step(public_row.name, separate).size());
  }
}
