// The simulated machine of one run: the clock and event queue, the fluid network, and which resource stands for which
// link or GPU memory. Kernels and traffic share it, and so contend.
//
// Two parties live on a machine: the executor (programs, kernels, copies) and the traffic layer (collectives and
// transfers). Each schedules events and flows under its own name and with a 32-bit target that means something to it
// alone; run() hands them back. A machine belongs to one run and is not shared between threads.
//
// Every link and every GPU's memory is a resource of the network, made before the run begins: links in the order of
// their ids, then memories. A folded run makes one per class; link() and memory() are the only places that know.
// A flow's work is in bytes; a resource that it crosses with count c is used at c times its rate.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/engine.hpp"
#include "sim/exec/longest_step.hpp"
#include "sim/exec/progress.hpp"
#include "sim/exec/slowdown.hpp"
#include "sim/fluid/driver.hpp"
#include "sim/fluid/network.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Whose event or flow it is.
enum class Owner : std::uint8_t { executor, traffic };

class Machine {
 public:
  explicit Machine(const Topology& topology, std::span<const GpuSlowdown> slow_gpus = {},
                   std::span<const LinkSlowdown> slow_links = {});
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] Instant now() const { return engine_.now(); }
  [[nodiscard]] const Topology& topology() const { return topology_; }

  // The fluid resource of a link (folded: of its class). Its capacity is link_bandwidth().
  [[nodiscard]] ResourceId link(LinkId link) const { return ResourceId(link.index()); }

  // How many links the resource of this link stands for: 1 when unfolded.
  [[nodiscard]] std::int64_t links_in_class(LinkId /*link*/) const { return 1; }

  // Payload bandwidth of a link, slowdowns included.
  [[nodiscard]] BytesPerSecond link_bandwidth(LinkId link) const;

  // The fluid resource of a GPU's memory. Its capacity is memory_bandwidth(), slowdowns included.
  [[nodiscard]] ResourceId memory(GpuId gpu) const {
    return ResourceId(static_cast<std::size_t>(topology_.links()) + gpu.index());
  }
  [[nodiscard]] BytesPerSecond memory_bandwidth(GpuId gpu) const {
    return BytesPerSecond(topology_.gpu_spec(gpu).usable_memory_bandwidth().count() * gpu_factor(gpu));
  }

  // How many GPUs' memories that resource stands for: 1 when unfolded.
  [[nodiscard]] std::int64_t memories_in_class(GpuId /*gpu*/) const { return 1; }

  // The slowdown of a GPU's compute and memory rates, in (0, 1]; 1 for most.
  [[nodiscard]] double gpu_factor(GpuId gpu) const;

  // The owner's handle(target) will be called at `when`, which must not be in the past. Events of one instant run phase
  // by phase; ends of whatever was going on belong to EventPhase::complete, the default.
  void at(Instant when, Owner owner, std::uint32_t target, EventPhase phase = EventPhase::complete) {
    engine_.at(when, phase, event_of(owner, target));
  }
  void after(Duration delay, Owner owner, std::uint32_t target, EventPhase phase = EventPhase::complete) {
    engine_.after(bounded(delay), phase, event_of(owner, target));
  }

  // The fast way for delays that recur: ask once for the lane of a delay, and schedule on it.
  LaneId lane(Duration delay, EventPhase phase = EventPhase::complete) { return engine_.lane(bounded(delay), phase); }
  void after(LaneId lane, Owner owner, std::uint32_t target) { engine_.after(lane, event_of(owner, target)); }

  // A timer that can be armed, moved and disarmed; the owner's handle(target) is called when it goes off.
  TimerId add_timer(Owner owner, std::uint32_t target, EventPhase phase = EventPhase::complete) {
    return engine_.add_timer(phase, event_of(owner, target));
  }
  void arm(TimerId timer, Instant when) { engine_.arm(timer, when); }
  void disarm(TimerId timer) { engine_.disarm(timer); }

  // Who is to be told how far the run has come.
  void watch(ProgressFunction progress) { progress_ = std::move(progress); }

  // Starts moving `work` bytes now, at no more than `cap`, over the resources crossed (each named once); the owner's
  // flow_completed(target) is called at the end. Rates are settled once per instant, after all changes.
  ActivityId start_flow(Bytes work, Rate cap, std::span<const Crossing> crossings, Owner owner, std::uint32_t target) {
    ++flows_;
    return fluid_.start(work.count(), cap, crossings, (static_cast<std::uint64_t>(owner) << 32) | target);
  }

  // Ends a flow without calling its owner.
  void cancel_flow(ActivityId flow) { fluid_.cancel(flow); }

  // What a running flow still has to do.
  [[nodiscard]] Ticks remaining(ActivityId flow) const { return network_.remaining_ticks(flow, engine_.now()); }

  // Plays until no event is left, or until kLongestStep is over. Both parties have handle(target) and
  // flow_completed(target); `after_event()` of the executor is called after each event, so that it can take up what a
  // callback of the traffic layer left for it.
  template <class Executor, class AnyTraffic>
  void run(Executor& executor, AnyTraffic& traffic) {
    engine_.run([&](const Event& event) {
      if (engine_.now() > Instant(kLongestStep)) {
        beyond_longest_ = true;
        engine_.stop();
        return;
      }
      const auto target = static_cast<std::uint32_t>(event.target);
      if (event.kind == kExecutorEvent) {
        executor.handle(target);
      } else if (event.kind == kTrafficEvent) {
        traffic.handle(target);
      } else {
        fluid_.handle(event, [&](std::uint64_t tag) {
          const auto flow_target = static_cast<std::uint32_t>(tag);
          if (static_cast<Owner>(tag >> 32) == Owner::executor) {
            executor.flow_completed(flow_target);
          } else {
            traffic.flow_completed(flow_target);
          }
        });
      }
      executor.after_event();
      if (engine_.event_count() % kProgressEvents == 0 && progress_) progress_(engine_.now(), events());
    });
  }

  // Whether something would have gone on beyond kLongestStep, perhaps for ever.
  [[nodiscard]] bool ran_too_long() const { return beyond_longest_ || network_.activity_count() > 0; }

  [[nodiscard]] std::int64_t events() const { return static_cast<std::int64_t>(engine_.event_count()); }
  [[nodiscard]] std::int64_t flows() const { return flows_; }

  // For reports.
  [[nodiscard]] const FluidNetwork& network() const { return network_; }

 private:
  static constexpr std::uint32_t kFluidCompletion = 0;
  static constexpr std::uint32_t kFluidSettle = 1;
  static constexpr std::uint32_t kExecutorEvent = 2;
  static constexpr std::uint32_t kTrafficEvent = 3;

  static Event event_of(Owner owner, std::uint32_t target) {
    return {owner == Owner::executor ? kExecutorEvent : kTrafficEvent, target};
  }

  const Topology& topology_;
  std::vector<GpuSlowdown> slow_gpus_;
  std::vector<LinkSlowdown> slow_links_;
  Engine<> engine_;
  ProgressFunction progress_;
  FluidNetwork network_;
  FluidDriver<Engine<>> fluid_{engine_, network_, kFluidCompletion, kFluidSettle};
  std::int64_t flows_ = 0;
  bool beyond_longest_ = false;
};

}  // namespace orrery
