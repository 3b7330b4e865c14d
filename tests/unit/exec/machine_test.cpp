#include "sim/exec/machine.hpp"

#include <doctest/doctest.h>

#include "executor_fixtures.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// Writes down who was called when.
struct Diary {
  Machine* machine;
  std::string name;
  std::string* text;

  void handle(std::uint32_t target) { note("event", target); }
  void flow_completed(std::uint32_t target) { note("flow", target); }
  void after_event() {}
  void note(const char* what, std::uint32_t target) {
    *text += fmt::format("{} {} {} at {}; ", name, what, target, machine->now().time_since_epoch().count());
  }
};

}  // namespace

TEST_CASE("events and flows come back to their owner, in order of time and phase") {
  const Topology topology = std::move(Topology::build(plain_cluster(2))).value();
  Machine machine(topology);
  std::string text;
  Diary executor{&machine, "executor", &text};
  Diary traffic{&machine, "traffic", &text};
  machine.at(at(5_ns), Owner::traffic, 1, EventPhase::start);
  machine.at(at(5_ns), Owner::executor, 2);
  machine.after(1_ns, Owner::executor, 3);
  const TimerId timer = machine.add_timer(Owner::executor, 4);
  machine.arm(timer, at(2_ns));
  machine.arm(timer, at(7_ns));
  const Crossing crossing{machine.memory(GpuId(1)), 1};
  machine.start_flow(1000_B, kUncapped, {&crossing, 1}, Owner::traffic, 5);                      // 1 ns at 1000 GB/s
  machine.start_flow(1000_B, rate_from(100_GBps), {}, Owner::executor, 6);                       // 10 ns at its cap
  machine.cancel_flow(machine.start_flow(1000_B, rate_from(100_GBps), {}, Owner::executor, 7));  // never
  machine.run(executor, traffic);
  CHECK(text ==
        "executor event 3 at 1000; traffic flow 5 at 1000; executor event 2 at 5000; traffic event 1 at 5000; "
        "executor event 4 at 7000; executor flow 6 at 10000; ");
  CHECK(machine.flows() == 3);
  CHECK(machine.now() == at(10_ns));
}

TEST_CASE("slow parts have less capacity, and only they") {
  const Topology topology = std::move(Topology::build(plain_cluster(2))).value();
  const LinkId link = topology.find_link("node0.gpu1->nvswitch");
  REQUIRE(link.valid());
  const std::vector<GpuSlowdown> gpus{{GpuId(1), 0.5}};
  const std::vector<LinkSlowdown> links{{link, 0.25}};
  const Machine machine(topology, gpus, links);
  CHECK(machine.hardware().link_bandwidth(link) == 25_GBps);
  CHECK(machine.network().capacity(machine.link(link)) == rate_from(25_GBps));
  CHECK(machine.hardware().link_bandwidth(topology.find_link("node0.gpu0->nvswitch")) == 100_GBps);
  CHECK(machine.hardware().gpu_factor(GpuId(0)) == 1);
  CHECK(machine.hardware().gpu_factor(GpuId(1)) == 0.5);
  CHECK(machine.network().capacity(machine.memory(GpuId(0))) == rate_from(1000_GBps));
  CHECK(machine.network().capacity(machine.memory(GpuId(1))) == rate_from(500_GBps));
}
