// ZB-V (Qi et al. 2024, section 6): zero bubble with 1F1B's memory. Every stage has two chunks, placed as a V, so that
// micro-batches come back to the stage where they began, and their activations are freed as soon there as anywhere
// else: p micro-batches (2 p passes through chunks) are in flight on every stage, and with equal times of forward
// pass, input half and weight half none idles between its first pass and its last.
//
// The paper's search (scheduler/zbv.py in sail-sg/zero-bubble-pipeline-parallelism) fills bubbles for given times; this
// is the order that it comes to for equal ones, as PyTorch's ScheduleZBVZeroBubble has it. Per stage:
//
//   1. 2 (p - s) - 1 forward passes of chunk 0, until the first micro-batch is back from the turn;
//   2. s times a forward pass of each chunk;
//   3. p - s times forward and both halves of backward of chunk 1, until gradients are back at chunk 0;
//   4. forward, and both halves, of chunk 0 and of chunk 1 in turn, until forward passes run out;
//   5. s times an input half of each chunk; p - s times an input and a weight half of chunk 0; then the weight halves
//      that are left.
//
// It is made for at least 2 p - 1 micro-batches; with fewer, those that are too many are left out.
#include <algorithm>
#include <array>

#include "workloads/schedules/schedule.hpp"

namespace orrery {

namespace {

class ZbV {
 public:
  ZbV(const ScheduleShape& shape, std::int64_t stage)
      : p_(shape.stages), s_(stage), m_(shape.micro_batches), planned_(std::max(m_, 2 * p_ - 1)) {}

  std::vector<Slot> run() && {
    for (std::int64_t i = 0; i < 2 * (p_ - s_) - 1; ++i) add(Pass::forward, 0);
    for (std::int64_t i = 0; i < s_; ++i) {
      add(Pass::forward, 1);
      add(Pass::forward, 0);
    }
    for (std::int64_t i = 0; i < p_ - s_; ++i) {
      add(Pass::forward, 1);
      both_halves(1);
    }
    while (done(Pass::forward, 1) < planned_) {
      if (done(Pass::forward, 0) < planned_) add(Pass::forward, 0);
      both_halves(0);
      add(Pass::forward, 1);
      both_halves(1);
    }
    for (std::int64_t i = 0; i < s_; ++i) {
      add(Pass::backward_input, 0);
      add(Pass::backward_input, 1);
    }
    for (std::int64_t i = 0; i < p_ - s_; ++i) both_halves(0);
    for (const std::int32_t chunk : {1, 0}) {
      while (done(Pass::backward_weight, chunk) < planned_) add(Pass::backward_weight, chunk);
    }
    return std::move(slots_);
  }

 private:
  [[nodiscard]] std::int32_t& done(Pass pass, std::int32_t chunk) {
    return done_[static_cast<std::size_t>(pass)][static_cast<std::size_t>(chunk)];
  }

  void add(Pass pass, std::int32_t chunk) {
    const std::int32_t micro_batch = done(pass, chunk)++;
    if (micro_batch < m_) slots_.push_back({pass, micro_batch, chunk});
  }

  void both_halves(std::int32_t chunk) {
    add(Pass::backward_input, chunk);
    add(Pass::backward_weight, chunk);
  }

  std::int64_t p_;
  std::int64_t s_;
  std::int64_t m_;
  std::int64_t planned_;
  std::array<std::array<std::int32_t, 2>, kPasses> done_{};  // [passes][chunks]
  std::vector<Slot> slots_;
};

}  // namespace

std::vector<Slot> zb_v_slots(const ScheduleShape& shape, std::int64_t stage) { return ZbV(shape, stage).run(); }

}  // namespace orrery
