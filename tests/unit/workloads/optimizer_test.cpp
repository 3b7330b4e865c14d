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
  CHECK(row->state_bytes(plain, row->row) == 0);
  CHECK(row->state_bytes(heavy, row->row) == 4);
  CHECK(total_bytes(step("sgd", {.elements = 1'000, .tensors = 1}, plain)) == 12'000);
  CHECK(total_bytes(step("sgd", {.elements = 1'000, .tensors = 1}, heavy)) == 20'000);
}

TEST_CASE("every optimizer reads each gradient and writes each weight, and fusion never adds launches") {
  for (const RegistryRow& public_row : optimizer_rows()) {
    const OptimizerRow* row = find_optimizer(public_row.name);
    REQUIRE(row != nullptr);
    CHECK(row->state_bytes({}, row->row) >= 0);
    const OptimizerWork fused{.elements = 10'000, .tensors = 3};
    OptimizerWork separate = fused;
    separate.fused = false;
    CHECK(total_bytes(step(public_row.name, fused)) >= 12 * fused.elements);
    CHECK(step(public_row.name, fused).size() <= step(public_row.name, separate).size());
  }
}
