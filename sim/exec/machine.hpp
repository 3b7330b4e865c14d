// The simulated machine of one run: the clock and event queue, the fluid network, and which resource stands for which
// link or GPU memory. Kernels and traffic share it, and so contend.
//
// Two parties live on a machine: the executor (programs, kernels, copies) and the traffic layer (collectives and
// transfers). Each schedules events and flows under its own name and with a 32-bit target that means something to it
// alone; run() hands them back. A machine belongs to one run and is not shared between threads.
//
// Every link and every GPU's memory is a resource of the network, made before the run begins; a folded run has one per
// class (resource_classes.hpp), and link() and memory() are the only places that know. A flow's work is in bytes; a
// resource that it crosses with count c is used at c times its rate.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/engine.hpp"
#include "sim/exec/hardware.hpp"
#include "sim/exec/longest_step.hpp"
#include "sim/exec/progress.hpp"
#include "sim/exec/resource_classes.hpp"
#include "sim/fluid/driver.hpp"
#include "sim/fluid/network.hpp"
#include "topology/topology.hpp"

namespace orrery {

// How often one resource is used by one unit of an activity's progress.
struct RawUse {
  std::int32_t id = 0;  // LinkId, or GpuId
  bool memory = false;
  std::int64_t count = 0;
};

// Whose event or flow it is.
enum class Owner : std::uint8_t { executor, traffic };

class Machine {
 public:
  Machine(Hardware hardware, ResourceClasses classes);
  // Unfolded.
  explicit Machine(const Hardware& hardware);
  explicit Machine(const Topology& topology, std::span<const GpuSlowdown> slow_gpus = {},
                   std::span<const LinkSlowdown> slow_links = {});
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] Instant now() const { return engine_.now(); }
  [[nodiscard]] const Hardware& hardware() const { return hardware_; }
  [[nodiscard]] const Topology& topology() const { return hardware_.topology(); }
  [[nodiscard]] const ResourceClasses& classes() const { return classes_; }

  // The fluid resource of a link (folded: of its class). Its capacity is that of one link. The link must be one that
  // somebody may cross (checked).
  [[nodiscard]] ResourceId link(LinkId link) const { return link_class(link_class_of(link)); }
  // The same of the n-th class.
  [[nodiscard]] static ResourceId link_class(std::size_t n) { return ResourceId(n); }

  // Over how many links the uses of the resource are spread: 1 when unfolded, and of pools, which count them all.
  [[nodiscard]] std::int64_t links_in_class(LinkId link) const {
    const ResourceClasses::LinkClass& found = classes_.links[link_class_of(link)];
    return found.pool ? 1 : found.size;
  }

  // The fluid resource of a GPU's memory. Its capacity is that of one GPU.
  [[nodiscard]] ResourceId memory(GpuId gpu) const { return ResourceId(classes_.links.size() + memory_class_of(gpu)); }

  // How many GPUs' memories that resource stands for: 1 when unfolded.
  [[nodiscard]] std::int64_t memories_in_class(GpuId gpu) const { return classes_.memories[memory_class_of(gpu)].size; }

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

  // The same for flows that recur over the same resources: made once, each then started as often as wanted, one at a
  // time. To be discarded while it rests.
  ActivityId keep_flow(Rate cap, std::span<const Crossing> crossings, Owner owner, std::uint32_t target) {
    return fluid_.keep(cap, crossings, (static_cast<std::uint64_t>(owner) << 32) | target);
  }
  void run_flow(ActivityId flow, Bytes work) {
    ++flows_;
    fluid_.run(flow, work.count());
  }
  void discard_flow(ActivityId flow) { fluid_.discard(flow); }

  // Counts bytes that pass without taking bandwidth from anybody: `bytes` for each use, by `multiplicity` operations
  // alike.
  void carry(std::span<const RawUse> uses, Bytes bytes, std::int64_t multiplicity);
  // Those of a resource, of all links or memories that it stands for together; and by kind those over links that
  // nothing else ever crosses, which have no resource when folded.
  [[nodiscard]] std::int64_t carried(ResourceId resource) const { return carried_[resource.index()]; }
  [[nodiscard]] const std::array<std::int64_t, kLinkKinds>& carried_elsewhere() const { return carried_elsewhere_; }

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

  [[nodiscard]] std::size_t link_class_of(LinkId link) const {
    const std::uint32_t found = classes_.class_of_link[link.index()];
    ORRERY_CHECK(found != ResourceClasses::kNone, "a link that somebody may cross", link.value());
    return found;
  }
  [[nodiscard]] std::size_t memory_class_of(GpuId gpu) const {
    const std::uint32_t found = classes_.class_of_memory[gpu.index()];
    ORRERY_CHECK(found != ResourceClasses::kNone, "a GPU that takes part", gpu.value());
    return found;
  }

  Hardware hardware_;
  ResourceClasses classes_;
  Engine<> engine_;
  ProgressFunction progress_;
  FluidNetwork network_;
  FluidDriver<Engine<>> fluid_{engine_, network_, kFluidCompletion, kFluidSettle};
  std::int64_t flows_ = 0;
  std::vector<std::int64_t> carried_;  // [resources]
  std::array<std::int64_t, kLinkKinds> carried_elsewhere_{};
  bool beyond_longest_ = false;
};

}  // namespace orrery
