// What must hold for every way of sharding, over schedules, accumulation and degrees.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <map>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/played_ledger.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "workloads/build.hpp"

using namespace orrery;
using namespace orrery::testing;

TEST_CASE("every way of sharding agrees with itself, ends, and leaves memory as it was") {
  struct Setting {
    const char* schedule;
    std::int64_t tensor;
    std::int64_t pipeline;
    std::int64_t data;
  };
  std::size_t turn = 0;
  int refused = 0;
  std::map<std::string, int> built;
  std::vector<Choice> choices = sharding_choices();
  for (Choice& choice : offload_choices()) choices.push_back(std::move(choice));
  for (const Choice& choice : choices) {
    for (const Setting& s :
         {Setting{"1f1b", 1, 1, 4}, Setting{"1f1b", 2, 1, 2}, Setting{"1f1b", 1, 2, 4},
          Setting{"interleaved-1f1b", 1, 2, 2}, Setting{"zb-h1", 1, 2, 2}, Setting{"gpipe", 1, 1, 1}}) {
      for (const std::int64_t micro_batches : {1, 2}) {
        const ModelSpec model = turn % 2 == 0 ? gpt(4, 64, 4, 512, 128) : llama(4, 64, 4, 2, 96, 512);
        TrainingSpec t = training(32, 2 * micro_batches * s.data * s.pipeline, 2);
        t.recompute = static_cast<Recompute>(turn % 3);
        t.precision = turn % 5 == 0 ? PrecisionRecipe::fp16 : turn % 7 == 0 ? PrecisionRecipe::fp32 : t.precision;
        t.framework.fused_kernels = turn % 2 == 0;
        t.framework.autocast = turn % 11 < 3;
        ParallelismSpec plan = parallel(s.tensor, s.pipeline, turn % 4 < 2);
        plan.schedule.kind = s.schedule;
        plan.sharding = choice;
        ++turn;
        CAPTURE(testing::name_of(choice));
        CAPTURE(fmt::format("{} t{} p{} d{} m{} turn {}", s.schedule, s.tensor, s.pipeline, s.data, micro_batches,
                            turn - 1));
        const Result<Workload> w = build_workload(model, t, plan, s.tensor * s.pipeline * s.data);
        if (!w.ok() && only_sharding(w.problems())) {
          ++refused;
          continue;
        }
        REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
        ++built[choice.kind];
        const std::vector<std::string> found = inconsistencies(*w);
        CHECK_MESSAGE(found.empty(), found.front());
        CHECK(UntimedRun(*w).deadlock() == "");
        for (const Program& program : w->programs) CHECK(play_ledger(program).fault == "");
      }
    }
  }
  CHECK(refused > 0);
  for (const RegistryRow& row : sharding_rows()) CHECK(built[std::string(row.name)] >= 5);
}
