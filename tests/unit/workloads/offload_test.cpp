// State off the GPU: what stays on the device, what lies where, and what is moved in a step. Amounts per parameter are
// written down from what DeepSpeed and PyTorch do (offload.hpp, zero12.cpp, zero_reducer.cpp, fsdp1.cpp, fsdp2.cpp).
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/trainables.hpp"
#include "workloads/build.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

using Options = std::map<std::string, OptionValue>;

constexpr std::int64_t kRanks = 4;
constexpr std::int64_t kParameters =
    4 * 49'984 + 41'088;  // of gpt(4, 64, 4, 512, 128); multiples of 4, tensor by tensor
constexpr std::int64_t kOwn = kParameters / kRanks;
constexpr std::int64_t kLargest = 512 * 64;  // the vocabulary's table

std::string text(const char* value) { return value; }

Result<Workload> built(const Choice& choice, std::int64_t micro_batches = 1) {
  ParallelismSpec plan = parallel(1);
  plan.sharding = choice;
  return build_workload(gpt(4, 64, 4, 512, 128), training(32, kRanks * micro_batches), plan, kRanks);
}

Program program_of(const Choice& choice, std::int64_t micro_batches = 1) {
  const Result<Workload> w = built(choice, micro_batches);
  REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
  return w->programs[0];
}

std::int64_t resident(const Program& program, MemoryTag tag) {
  std::int64_t sum = 0;
  for (const MemoryOperation& m : program.resident_memory()) sum += m.tag == tag ? m.bytes.count() : 0;
  return sum;
}

// Bytes of offloaded state in a direction; of one phase, unless it is `other`.
std::int64_t moved(const Program& program, CopyDirection direction, Phase phase = Phase::other) {
  std::int64_t sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::copy || (phase != Phase::other && task.phase != phase)) continue;
    const CopyCall& call = program.copy(task);
    if (call.offload && call.direction == direction) sum += call.bytes.count();
  }
  return sum;
}

std::int64_t gathered(const Program& program) {
  std::int64_t sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::collective || program.collective(task).op != CollectiveOp::all_gather) continue;
    sum += program.collective(task).bytes.count();
  }
  return sum;
}

constexpr auto kIn = CopyDirection::host_to_device;
constexpr auto kOut = CopyDirection::device_to_host;
constexpr auto kCpu = CopyDirection::in_host_memory;

}  // namespace

// ZeRO-2: 2 P of weights stay. In host memory, per parameter of the rank's part: 4 master, 8 of Adam, 4 of gradients, 2
// of the pinned copy; and a buffer of the largest parameter on both sides.
TEST_CASE("ZeRO-2 with its optimizer in host memory keeps weights on the GPU, and neither state nor gradients") {
  const Program program = program_of({"zero2", {{"offload_optimizer", text("cpu")}}});
  CHECK(resident(program, MemoryTag::weights) == 2 * kParameters);
  CHECK(resident(program, MemoryTag::optimizer_state) == 0);
  CHECK(resident(program, MemoryTag::gradients) == 0);
  CHECK(resident(program, MemoryTag::communication_buffers) == 2 * kLargest);
  CHECK(program.off_device().host_memory == Bytes(18 * kOwn + 2 * kLargest));
  CHECK(program.off_device().drives == Bytes(0));
}

// Out: gradients in fp32, 4. In: weights, 2. The CPUs: clipping 8, Adam 24 and its gradient 4, the cast 4 + 2.
TEST_CASE("ZeRO-2 moves gradients out in fp32 and weights in, and the CPUs pass over all arrays once") {
  for (const bool overlap : {false, true}) {
    const Program program = program_of({"zero2", {{"offload_optimizer", text("cpu")}, {"overlap_comm", overlap}}});
    CHECK(moved(program, kOut) == 4 * kOwn);
    CHECK(moved(program, kIn) == 2 * kOwn);
    CHECK(moved(program, kCpu) == (8 + 28 + 6) * kOwn);
  }
}

TEST_CASE("DeepSpeed's CPU Adam is one pass, also where the framework's own optimizers are many") {
  ParallelismSpec plan = parallel(1);
  TrainingSpec t = training(32, kRanks);
  t.framework.fused_kernels = false;
  for (const char* kind : {"zero2", "zero3"}) {
    plan.sharding = {kind, {{"offload_optimizer", text("cpu")}}};
    const Result<Workload> w = build_workload(gpt(4, 64, 4, 512, 128), t, plan, kRanks);
    REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
    CHECK(moved(w->programs[0], kCpu) == 42 * kOwn);
  }
}

// Three micro-batches: 2 out; 2 in, 2 out; 2 in, 4 out. And the weights in.
TEST_CASE("ZeRO-2 adds up the gradients of micro-batches on the GPU, there and back") {
  const Program program = program_of({"zero2", {{"offload_optimizer", text("cpu")}}}, 3);
  CHECK(moved(program, kOut) == (2 + 2 + 4) * kOwn);
  CHECK(moved(program, kIn) == (2 + 2 + 2) * kOwn);
  CHECK(program.off_device().host_memory == Bytes(20 * kOwn + 2 * kLargest));
  // Stage 1 keeps them on the GPU until the last.
  const Program one = program_of({"zero1", {{"offload_optimizer", text("cpu")}}}, 3);
  CHECK(moved(one, kOut) == 4 * kOwn);
  CHECK(moved(one, kIn) == 2 * kOwn);
  CHECK(resident(one, MemoryTag::gradients) == 2 * kParameters);
}

TEST_CASE("one GPU alone offloads as well: all of it") {
  ParallelismSpec plan = parallel(1);
  plan.sharding = {"zero2", {{"offload_optimizer", text("cpu")}}};
  const Result<Workload> w = build_workload(gpt(4, 64, 4, 512, 128), training(32, 1), plan, 1);
  REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
  CHECK(moved(w->programs[0], kOut) == 4 * kParameters);
  CHECK(moved(w->programs[0], kIn) == 2 * kParameters);
}

// Gradients: 2 out and back, 4 out. Weights after the update: 2 in.
TEST_CASE("ZeRO-3 with its optimizer in host memory: gradients also come back to be read for the norm") {
  const Options cpu{{"offload_optimizer", text("cpu")}, {"stage3_param_persistence_threshold", std::int64_t{0}}};
  const Program program = program_of({"zero3", cpu});
  CHECK(moved(program, kOut) == 6 * kOwn);
  CHECK(moved(program, kIn) == 4 * kOwn);
  CHECK(moved(program, kCpu) == 42 * kOwn);
  CHECK(resident(program, MemoryTag::weights) == 2 * kOwn);
  CHECK(resident(program, MemoryTag::optimizer_state) + resident(program, MemoryTag::gradients) == 0);
  CHECK(program.off_device().host_memory == Bytes((2 + 4 + 4 + 8) * kOwn));
}

TEST_CASE("sub-groups cut the update, and change nothing that is moved") {
  Options options{{"offload_optimizer", text("nvme")},
                  {"stage3_param_persistence_threshold", std::int64_t{0}},
                  {"sub_group_size", std::int64_t{20'000}}};
  for (const bool pipelined : {false, true}) {
    options["offload_optimizer_pipeline_read"] = options["offload_optimizer_pipeline_write"] = pipelined;
    const Program program = program_of({"zero3", options});
    // Read: master, both moments, gradient; written: those but the gradient, which the backward pass has written.
    CHECK(moved(program, CopyDirection::drive_to_host) == 16 * kOwn);
    CHECK(moved(program, CopyDirection::host_to_drive) == (12 + 4) * kOwn);
    CHECK(moved(program, kCpu) == 42 * kOwn);
    std::int64_t updates = 0;
    for (const Task& task : program.tasks()) updates += program.label(task) == "update on the CPU" ? 1 : 0;
    CHECK(updates == 4);  // 60,256 elements
    // Gradients in 16 bits, and four buffers of a sub-group.
    CHECK(program.off_device().host_memory == Bytes(2 * kOwn + 4 * 4 * 20'000));
    CHECK(program.off_device().drives == Bytes(16 * kOwn));
  }
}

TEST_CASE("offloaded parameters go to the GPU once for each gather, a rank's part each") {
  Options options{{"offload_optimizer", text("cpu")},
                  {"offload_param", text("cpu")},
                  {"stage3_param_persistence_threshold", std::int64_t{0}},
                  {"stage3_prefetch_bucket_size", std::int64_t{0}},
                  {"stage3_max_reuse_distance", std::int64_t{0}}};
  const Program program = program_of({"zero3", options}, 2);
  CHECK(gathered(program) >= 4 * 2 * kParameters);  // two micro-batches, forward and backward
  CHECK(moved(program, kIn, Phase::parameter_gather) == gathered(program) / kRanks);
  CHECK(moved(program, kIn, Phase::optimizer) == 0);
  CHECK(resident(program, MemoryTag::weights) == 0);
  // On drives: all but the first 30,000 elements or so.
  options["offload_param"] = text("nvme");
  options["offload_param_max_in_cpu"] = std::int64_t{30'000};
  const Program drives = program_of({"zero3", options}, 2);
  CHECK(moved(drives, kIn, Phase::parameter_gather) == gathered(drives) / kRanks);
  const std::int64_t kept = drives.off_device().drives.count() / 2;
  CHECK(kept >= kOwn - 30'000);
  CHECK(kept < kOwn);
  CHECK(moved(drives, CopyDirection::drive_to_host) >= 4 * 2 * kept);
  CHECK(moved(drives, CopyDirection::host_to_drive) == 2 * kept);
  // Optimizer on the GPU: it gives the weights back.
  options["offload_optimizer"] = text("none");
  options["offload_param"] = text("cpu");
  CHECK(moved(program_of({"zero3", options}, 2), kOut) == 2 * kOwn);
}

// Weights travel in fp32 for each gather, gradients in fp32 after each reduction. The CPUs: the norm 4, clipping 8,
// Adam 28; and 12 where gradients are added.
TEST_CASE("FSDP with CPU offload keeps nothing on the GPU, and moves what it gathers and reduces") {
  for (const std::int64_t version : {1, 2}) {
    const Program program = program_of({"fsdp", {{"version", version}, {"cpu_offload", true}}});
    CHECK(resident(program, MemoryTag::weights) == 0);
    CHECK(resident(program, MemoryTag::gradients) + resident(program, MemoryTag::optimizer_state) == 0);
    CHECK(program.off_device().host_memory == Bytes(16 * kOwn));
    CHECK(moved(program, kIn) == gathered(program) / kRanks * 2);  // 4 bytes where gathers have 2
    CHECK(moved(program, kOut) == 4 * kOwn);
    CHECK(moved(program, kCpu) == 40 * kOwn);
  }
  const Program two = program_of({"fsdp", {{"cpu_offload", true}}}, 2);
  CHECK(moved(two, kOut) == 2 * 4 * kOwn);
  CHECK(moved(two, kCpu) == (40 + 12) * kOwn);
}

TEST_CASE("what the frameworks do not offload is refused with the nearest that they do") {
  const auto refused = [](const Choice& choice, const char* key, std::int64_t micro_batches = 1) {
    const Result<Workload> w = built(choice, micro_batches);
    REQUIRE(!w.ok());
    CHECK(w.problems()[0].key == std::string("parallelism.sharding.") + key);
    CHECK(!w.problems()[0].note.empty());
  };
  refused({"zero2", {{"offload_optimizer", text("nvme")}}}, "offload_optimizer");
  refused({"zero2", {{"offload_param", text("cpu")}}}, "offload_param");
  refused({"zero3", {{"offload_optimizer", text("disk")}}}, "offload_optimizer");
  refused({"fsdp", {{"version", std::int64_t{1}}, {"cpu_offload", true}}}, "cpu_offload", 2);
  refused({"fsdp", {{"version", std::int64_t{1}}, {"strategy", text("no-shard")}, {"cpu_offload", true}}},
          "cpu_offload");
  refused({"fsdp", {{"float8_all_gather", true}, {"cpu_offload", true}}}, "float8_all_gather");
}

TEST_CASE("offloaded state, wherever it lies, is never less than what is split, and none of it is on the GPU") {
  for (const Choice& choice : offload_choices()) {
    CAPTURE(testing::name_of(choice));
    const Program program = program_of(choice);
    const OffDevice& off = program.off_device();
    const bool parameters_alone =
        choice.kind == "zero3" && std::get<std::string>(choice.options.at("offload_optimizer")) == "none";
    CHECK((off.host_memory + off.drives).count() >= (parameters_alone ? 2 : 12) * kOwn);
    if (!parameters_alone) CHECK(resident(program, MemoryTag::optimizer_state) == 0);
  }
}

// Only attention is trained: T elements of all P. Host memory: what is listed above for T of a rank's part, and frozen
// weights as they are gathered where weights are offloaded.
TEST_CASE("of frozen parts only weights are offloaded") {
  const ModelSpec model = gpt(4, 64, 4, 512, 128);
  TrainingSpec t = training(32, kRanks);
  t.trainable = only({Part::attention});
  const std::int64_t trained = trained_parameters(model, t.trainable) / kRanks;
  const std::int64_t frozen = kOwn - trained;
  REQUIRE(trained > 0);
  REQUIRE(frozen > trained);
  const auto program = [&](const Choice& choice) {
    ParallelismSpec plan = parallel(1);
    plan.sharding = choice;
    const Result<Workload> w = build_workload(model, t, plan, kRanks);
    REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
    return w->programs[0];
  };
  const Program two = program({"zero2", {{"offload_optimizer", text("cpu")}}});
  CHECK(resident(two, MemoryTag::weights) == 2 * kParameters);
  CHECK(moved(two, kOut) == 4 * trained);
  CHECK(moved(two, kIn) == 2 * trained);
  CHECK(moved(two, kCpu) == 42 * trained);
  Options options{{"offload_optimizer", text("cpu")}, {"offload_param", text("cpu")}};
  const Program three = program({"zero3", options});
  CHECK(three.off_device().host_memory == Bytes(20 * trained + 2 * frozen));
  CHECK(moved(three, kOut) == (2 + 4) * trained);
  CHECK(moved(three, kCpu) == 42 * trained);
  options["offload_param"] = text("nvme");
  options["offload_param_max_in_cpu"] = std::int64_t{0};
  const Program drives = program({"zero3", options});
  CHECK(drives.off_device().drives == Bytes(2 * kOwn));
  CHECK(moved(drives, CopyDirection::host_to_drive) == 2 * trained);
  options["offload_optimizer"] = text("none");
  CHECK(moved(program({"zero3", options}), kOut) == 2 * trained);
  const Program fsdp = program({"fsdp", {{"cpu_offload", true}}});
  CHECK(fsdp.off_device().host_memory == Bytes(16 * trained + 2 * frozen));
  CHECK(moved(fsdp, kOut) == 4 * trained);
  CHECK(moved(fsdp, kCpu) == 40 * trained);
}
