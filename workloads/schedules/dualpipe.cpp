// DualPipe (DeepSeek-AI 2024, DeepSeek-V3 technical report, section 3.2.1; deepseek-ai/DualPipe, dualpipe.py, step) and
// its half, DualPipeV (the same with stages folded: PyTorch's ScheduleDualPipeV). Micro-batches come from both ends of
// the pipeline, so that forward passes of one direction run beside backward passes of the other.
//
// Both are one order of two streams of micro-batches, 0 and 1, over h stages from the end (r = 0) where stream 0 sets
// out to the middle (r = h - 1): with DualPipe, h = p / 2, r counts from the nearer end of the pipeline and the streams
// are the two directions; with DualPipeV, h = p, r = s and the streams are the two chunks of a V. Weight halves wait in
// a queue.
//
//   1. 2 (h - r - 1) times F0                  5. h - r - 1 times B1, and F1 beside B0
//   2. r + 1 times F0, F1                      6. r + 1 times B1, B0, in the second half input halves only
//   3. h - r - 1 times I1, W, F1               7. h - r - 1 times W, I0
//   4. F0 beside B1, F1 beside B0: the rest    8. r + 1 times W
//
// With passes of F, B (whole) and W, and F&B for two that begin and end together, the bubble is
// (h - 1) (F&B + B - 3 W), (p / 2 - 1) (F&B + B - 3 W) of DualPipe; p + 1 micro-batches are in flight.
//
// What runs beside what here: a pair's kernels share one compute stream. They take turns at the all-to-alls of experts,
// so that the rows of one pass travel while the other computes (DeepSeek's figure 4; emit/step.cpp, pair), and the pair
// begins when both can. Without experts, or with overlap_pairs false, F&B = F + B; and the forward pass comes first and
// hands on its result before the backward pass begins, which the formula's pairs do not: for F = W and B = 2 W the
// bubble is h - 1 in place of 2 (h - 1). Transfers, tensor and data-parallel collectives run beside both.
// PyTorch runs pairs (OVERLAP_F_B) one after the other unless it is given a function of the user's for them; so does a
// table here.
#include <algorithm>
#include <array>
#include <deque>

#include "workloads/schedules/schedule.hpp"

namespace orrery {

namespace {

class Dual {
 public:
  // `first`: the first micro-batch of each stream, [2].
  Dual(std::int64_t half, std::int64_t r, std::int64_t each, std::array<std::int64_t, 2> first)
      : half_(half), r_(r), each_(each), first_(first) {}

  std::vector<Slot> run() && {
    const std::int64_t from_middle = half_ - r_ - 1;
    for (std::int64_t i = 0; i < 2 * from_middle; ++i) forward(0);
    for (std::int64_t i = 0; i < r_ + 1; ++i) {
      forward(0);
      forward(1);
    }
    for (std::int64_t i = 0; i < from_middle; ++i) {
      input_half(1);
      weight_half();
      forward(1);
    }
    for (std::int64_t i = 0; i < each_ - 2 * half_ + r_ + 1; ++i) {
      // Not the first in the middle of the pipeline: what it hands on is needed at once.
      if (i == 0 && from_middle == 0) {
        forward(0);
        backward(1);
      } else {
        pair(0, 1);
      }
      pair(1, 0);
    }
    for (std::int64_t i = 0; i < from_middle; ++i) {
      backward(1);
      pair(1, 0);
    }
    // Of 2 (r + 1) passes, the last r + 1.
    for (std::int64_t i = 0; i < 2 * (r_ + 1); ++i) {
      const int stream = i % 2 == 0 ? 1 : 0;
      if (i >= r_ + 1) {
        input_half(stream);
      } else {
        backward(stream);
      }
    }
    for (std::int64_t i = 0; i < from_middle; ++i) {
      weight_half();
      input_half(0);
    }
    for (std::int64_t i = 0; i < r_ + 1; ++i) weight_half();
    return std::move(slots_);
  }

 private:
  Slot next(Pass pass, int stream, std::array<std::int64_t, 2>& done) {
    const auto at = static_cast<std::size_t>(stream);
    return {pass, static_cast<std::int32_t>(first_[at] + done[at]++), stream};
  }

  void forward(int stream) { slots_.push_back(next(Pass::forward, stream, forwards_)); }
  void backward(int stream) { slots_.push_back(next(Pass::backward, stream, backwards_)); }
  void pair(int forward_stream, int backward_stream) {
    forward(forward_stream);
    slots_.back().paired = true;
    backward(backward_stream);
  }
  void input_half(int stream) {
    slots_.push_back(next(Pass::backward_input, stream, backwards_));
    waiting_.push_back(slots_.back());
  }
  void weight_half() {
    slots_.push_back(waiting_.front());
    slots_.back().pass = Pass::backward_weight;
    waiting_.pop_front();
  }

  std::int64_t half_;
  std::int64_t r_;
  std::int64_t each_;  // micro-batches of one stream
  std::array<std::int64_t, 2> first_;
  std::array<std::int64_t, 2> forwards_{};
  std::array<std::int64_t, 2> backwards_{};
  std::deque<Slot> waiting_;  // input halves whose weight halves are to come
  std::vector<Slot> slots_;
};

}  // namespace

// The stream of micro-batches that sets out from the nearer end is chunk 0 (placement.hpp).
std::vector<Slot> dualpipe_slots(const ScheduleShape& shape, std::int64_t stage) {
  const std::int64_t each = shape.micro_batches / 2;
  const std::int64_t mirrored = shape.stages - 1 - stage;
  const std::array<std::int64_t, 2> first =
      stage < mirrored ? std::array<std::int64_t, 2>{0, each} : std::array<std::int64_t, 2>{each, 0};
  return Dual(shape.stages / 2, std::min(stage, mirrored), each, first).run();
}

std::vector<Slot> dualpipe_v_slots(const ScheduleShape& shape, std::int64_t stage) {
  return Dual(shape.stages, stage, shape.micro_batches, {0, 0}).run();
}

}  // namespace orrery
