// What of an operator's backward pass is there when not everything is trained.
//
// Operators say everything that they could do; this takes away what nobody asks for, as autograd never records it
// (workloads/trainable.hpp). Fragments are a chain, residual branches included, since a branch begins with the stream
// and ends in it: so one flag goes through it, whether the stream carries gradients yet.
//
//   before the first trained operator    no backward step, nothing saved, nothing recomputed
//   that operator itself                 no step for its input (Fragment::for_input)
//   behind it, frozen                    no step for weights, and what only these need is not saved
//
// The steps that belong to a weight are the ones of the weight half that end with the kernel that completes its
// gradient; steps of the weight half behind the last of these belong to a weight of another block (the tied head).
// Communication of the weight half goes when its last kernel does.
//
// With full recomputation the block's input stays if any of its operators runs backward, and all of the block is
// computed again, as torch.utils.checkpoint does.
//
// Left out: below the lowest trained router, the way of rows to experts is retraced though only scores need it.
#include <algorithm>
#include <utility>

#include "workloads/operators/block.hpp"

namespace orrery {

void BlockBuilder::trim_weight_steps(Fragment& f) const {
  std::vector<Step> kept;
  std::vector<std::size_t> of_next;  // kernels of the weight half since a gradient was complete
  const auto drop = [&] {
    for (auto it = of_next.rbegin(); it != of_next.rend(); ++it) {
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(*it));
    }
  };
  for (Step& step : f.backward_) {
    const bool completes = !step.gradients.empty();
    std::vector<ParameterIndex> trained;
    for (const ParameterIndex p : step.gradients) {
      if (trains(p)) trained.push_back(p);
    }
    step.gradients = std::move(trained);
    const bool nobody = step.gradients.empty();
    kept.push_back(std::move(step));
    if (!kept.back().weight_half || kept.back().kind != Step::Kind::kernel) continue;
    of_next.push_back(kept.size() - 1);
    if (!completes) continue;
    if (nobody) drop();
    of_next.clear();
  }
  if (!training_.parts.has(Part::head)) drop();
  f.backward_ = std::move(kept);
}

void BlockBuilder::trim(Recompute recompute) {
  bool live = training_.live;
  bool runs_any = false;
  for (Fragment& f : fragments_) {
    for (const Step& step : f.backward_) f.uses_.insert(f.uses_.end(), step.gradients.begin(), step.gradients.end());
    trim_weight_steps(f);
    const bool weights = std::any_of(f.backward_.begin(), f.backward_.end(), [](const Step& step) {
      return step.weight_half && step.kind == Step::Kind::kernel;
    });
    const bool trains = weights || std::any_of(f.backward_.begin(), f.backward_.end(),
                                               [](const Step& step) { return !step.gradients.empty(); });
    const bool runs = live || trains;
    const auto without = [&](const Step& step) {
      return !runs || (step.weight_half && !weights) || (step.for_input && !live);
    };
    f.backward_.erase(std::remove_if(f.backward_.begin(), f.backward_.end(), without), f.backward_.end());
    const auto unsaved = [&](const Fragment::Holding& saved) { return !runs || (saved.for_weights && !weights); };
    f.saved_.erase(std::remove_if(f.saved_.begin(), f.saved_.end(), unsaved), f.saved_.end());
    // What an operator with weights holds for the input half is the gradient of its input.
    const auto unused = [&](const Fragment::Holding& held) {
      return !runs || (held.held == Held::weight_half && !weights) ||
             (held.held == Held::input_half && !f.uses_.empty() && !live);
    };
    f.backward_workspace_.erase(std::remove_if(f.backward_workspace_.begin(), f.backward_workspace_.end(), unused),
                                f.backward_workspace_.end());
    if (!weights) {  // then nothing is left to the weight half
      f.kept_.clear();
      for (Fragment::Holding& held : f.backward_workspace_) held.held = Held::input_half;
      for (Fragment::Holding& held : f.saved_) held.held = Held::input_half;
    }
    if (!runs) {
      f.selective_ = false;
      if (recompute != Recompute::full) f.saved_input_ = Bytes();
    }
    runs_any = runs_any || runs;
    live = runs;
  }
  if (runs_any) return;
  for (Fragment& f : fragments_) f.saved_input_ = Bytes();
}

}  // namespace orrery
