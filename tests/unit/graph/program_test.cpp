#include "sim/graph/program.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace orrery;
using namespace orrery::literals;

namespace {

KernelId kernel(std::size_t i) { return KernelId(i); }

}  // namespace

TEST_CASE("equal sequences, calls and labels are stored once") {
  ProgramBuilder b;
  const StreamId compute = b.stream("compute", true);
  b.kernels({kernel(0), kernel(1)}, {.stream = compute, .label = "layer"});
  b.kernels({kernel(0), kernel(1)}, {.stream = compute, .label = "layer"});
  b.kernels({kernel(1)}, {.stream = compute, .label = "head"});
  const Program p = std::move(b).freeze();
  CHECK(p.sequences().size() == 2);
  CHECK(p.tasks()[0].payload == p.tasks()[1].payload);
  CHECK(p.label(p.tasks()[1]) == "layer");
  CHECK(p.label(p.tasks()[2]) == "head");
  CHECK(p.sequence(p.tasks()[2]) == KernelSequence{kernel(1)});
}

TEST_CASE("a stream is made on first use and keeps its tasks in order") {
  ProgramBuilder b;
  const StreamId compute = b.stream("compute", true);
  const StreamId copy = b.stream("copy");
  CHECK(b.stream("compute") == compute);
  b.kernels({kernel(0)}, {.stream = compute});
  b.copy({CopyDirection::host_to_device, 8_B}, {.stream = copy});
  b.kernels({kernel(0)}, {.stream = compute});
  const Program p = std::move(b).freeze();
  REQUIRE(p.on_stream(compute).size() == 2);
  CHECK(p.on_stream(compute)[1] == TaskId(std::size_t{2}));
  CHECK(p.place_in_stream(TaskId(std::size_t{2})) == 1);
  CHECK(p.streams()[compute.index()].compute);
  CHECK_FALSE(p.streams()[copy.index()].compute);
  CHECK(p.copy(p.tasks()[1]).bytes == 8_B);
}

TEST_CASE("dependencies on the own stream, repeated and invalid ones are dropped") {
  ProgramBuilder b;
  const StreamId compute = b.stream("compute", true);
  const StreamId data = b.stream("data");
  const TaskId first = b.kernels({kernel(0)}, {.stream = compute});
  const TaskId second = b.collective({CollectiveOp::all_reduce, GroupKindId(std::size_t{0}), 8_B},
                                     {.stream = data, .after = std::span(&first, 1)});
  const std::array<TaskId, 4> after{first, second, second, TaskId()};
  const TaskId third = b.kernels({kernel(0)}, {.stream = compute, .after = after});
  const Program p = std::move(b).freeze();
  const auto of_third = p.dependencies(p.tasks()[third.index()]);
  REQUIRE(of_third.size() == 1);
  CHECK(of_third[0] == second);
  CHECK(p.dependencies(p.tasks()[second.index()])[0] == first);
}

TEST_CASE("memory operations stay with their task, in order; resident ones with the program") {
  ProgramBuilder b;
  b.resident({100_B, MemoryTag::weights});
  const std::array<MemoryOperation, 2> operations{MemoryOperation{8_B, MemoryTag::activations},
                                                  MemoryOperation{Bytes(-8), MemoryTag::activations}};
  b.host(5_us, {.stream = b.stream("host"), .memory = operations});
  const Program p = std::move(b).freeze();
  REQUIRE(p.memory(p.tasks()[0]).size() == 2);
  CHECK(p.memory(p.tasks()[0])[1] == operations[1]);
  CHECK(p.host_work(p.tasks()[0]) == 5_us);
  REQUIRE(p.resident_memory().size() == 1);
  CHECK(p.resident_memory()[0].bytes == 100_B);
}
