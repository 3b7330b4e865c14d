// Which parameters ZeRO-3 gathers, when, and which it gives up: DeepSpeed's PartitionedParameterCoordinator
// (deepspeed/runtime/zero/partitioned_param_coordinator.py), after it has seen one forward and backward pass.
//
// The trace lists the modules in the order in which a micro-batch comes to them, forward and backward, with their
// parameters. Before a module runs, what is missing of it is fetched at once (fetch_sub_module); then parameters are
// taken from the queue of those to come, until as many elements as the prefetch bucket has are on their way or
// max_live_parameters are there (the last may pass the first bound). After it, its parameters are released unless they
// persist, or are used again within max_reuse_distance elements, or the prefetcher has passed over a later use of them
// (release_sub_module). The queue ends with the micro-batch: nothing is prefetched across.
//
// A module here is an operator: products that share their input are one, where DeepSpeed may know several.
// Cost: a release looks max_reuse_distance ahead.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/emit/stage.hpp"

namespace orrery {

struct CoordinatorLimits {
  std::int64_t prefetch = 0;        // elements
  std::int64_t live = 0;            // elements
  std::int64_t reuse_distance = 0;  // elements
};

// Parameters of each module, in the order of one micro-batch: forward, then backward.
using ParameterTrace = std::vector<std::vector<std::size_t>>;
[[nodiscard]] ParameterTrace trace_of(const Stage& stage);

class ParameterCoordinator {
 public:
  enum class Status : std::uint8_t { absent, under_way, there };

  // `persistent` parameters are always there.
  ParameterCoordinator(const Stage& stage, ParameterTrace trace, const std::vector<bool>& persistent,
                       const CoordinatorLimits& limits);

  // A new micro-batch: back to the beginning of the trace.
  void begin_pass();
  // The module that comes next.
  [[nodiscard]] const std::vector<std::size_t>& next_module() const { return trace_[step_]; }
  [[nodiscard]] bool at_end() const { return step_ == trace_.size(); }

  // For the next module, in this order. What must be gathered now:
  [[nodiscard]] std::vector<std::size_t> fetch();
  // (the caller waits for what is under way of it, and says so)
  void arrived(std::size_t parameter) { status_[parameter] = Status::there; }
  [[nodiscard]] Status status(std::size_t parameter) const { return status_[parameter]; }
  // What is to be gathered ahead; the module then counts as begun.
  [[nodiscard]] std::vector<std::size_t> prefetch();
  // What the module that was begun last gives up.
  [[nodiscard]] std::vector<std::size_t> release();

 private:
  struct Use {
    std::size_t parameter = 0;
    std::int64_t step = 0;
  };

  void take(std::vector<std::size_t>& to, std::size_t parameter);

  ParameterTrace trace_;
  std::vector<Use> uses_;
  std::vector<std::int64_t> elements_;
  std::vector<bool> persistent_;
  CoordinatorLimits limits_;
  std::vector<Status> status_;
  std::vector<std::int64_t> fetched_for_;  // the latest use that a parameter has been taken from the queue for
  std::size_t queue_ = 0;                  // index into uses_
  std::size_t step_ = 0;
  std::int64_t live_ = 0;  // elements there or under way, persistent ones aside
};

}  // namespace orrery
