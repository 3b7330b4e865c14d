#include "workloads/operators/block.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

namespace {

Bytes negative(Bytes bytes) { return Bytes(-bytes.count()); }

Step memory_step(std::vector<MemoryOperation> operations, Phase phase) {
  return {.kind = Step::Kind::memory, .phase = phase, .memory = std::move(operations)};
}

// Allocations of `operations`, or their frees, latest first.
void append_allocations(std::vector<MemoryOperation>& to, const std::vector<MemoryOperation>& operations) {
  to.insert(to.end(), operations.begin(), operations.end());
}

void append_frees(std::vector<MemoryOperation>& to, const std::vector<MemoryOperation>& operations) {
  for (auto it = operations.rbegin(); it != operations.rend(); ++it) to.push_back({negative(it->bytes), it->tag});
}

Step collective_step(const CollectiveCall& call, std::string_view label, bool asynchronous) {
  return {.kind = Step::Kind::collective, .asynchronous = asynchronous, .call = call, .label = std::string(label)};
}

// Adds a pass over `steps` with what it allocates first and frees last.
void append_pass(std::vector<Step>& to, const std::vector<Step>& steps, Phase phase,
                 std::vector<MemoryOperation> before, std::vector<MemoryOperation> after) {
  if (!before.empty()) to.push_back(memory_step(std::move(before), phase));
  for (Step step : steps) {
    step.phase = phase;
    to.push_back(std::move(step));
  }
  if (!after.empty()) to.push_back(memory_step(std::move(after), phase));
}

// An operator's parameters are used from its first step on.
void note_needs(std::vector<Step>& steps, std::size_t first, const std::vector<Step>& backward) {
  if (first == steps.size()) return;
  for (const Step& step : backward) {
    steps[first].needs.insert(steps[first].needs.end(), step.gradients.begin(), step.gradients.end());
  }
}

}  // namespace

KernelId KernelPool::add(Kernel kernel) {
  const auto found = std::find(kernels_.rbegin(), kernels_.rend(), kernel);
  if (found != kernels_.rend()) return KernelId(static_cast<std::size_t>(kernels_.rend() - found - 1));
  kernels_.push_back(std::move(kernel));
  return KernelId(kernels_.size() - 1);
}

Fragment& Fragment::forward(Kernel kernel) {
  forward_.push_back({.kind = Step::Kind::kernel, .kernel = pool_->add(std::move(kernel))});
  return *this;
}

Fragment& Fragment::backward(Kernel kernel, std::vector<ParameterIndex> gradients) {
  backward_.push_back(
      {.kind = Step::Kind::kernel, .kernel = pool_->add(std::move(kernel)), .gradients = std::move(gradients)});
  return *this;
}

Fragment& Fragment::forward(const CollectiveCall& call, std::string_view label, bool asynchronous) {
  forward_.push_back(collective_step(call, label, asynchronous));
  return *this;
}

Fragment& Fragment::backward(const CollectiveCall& call, std::string_view label, bool asynchronous) {
  backward_.push_back(collective_step(call, label, asynchronous));
  return *this;
}

Fragment& Fragment::forward_wait() {
  forward_.push_back({.kind = Step::Kind::wait});
  return *this;
}

Fragment& Fragment::backward_wait() {
  backward_.push_back({.kind = Step::Kind::wait});
  return *this;
}

Fragment& Fragment::save(Bytes bytes, MemoryTag tag) {
  if (bytes.count() > 0) saved_.push_back({bytes, tag});
  return *this;
}

Fragment& Fragment::save_input(Bytes bytes) {
  saved_input_ += bytes;
  return *this;
}

Fragment& Fragment::forward_workspace(Bytes bytes, MemoryTag tag) {
  if (bytes.count() > 0) forward_workspace_.push_back({bytes, tag});
  return *this;
}

Fragment& Fragment::backward_workspace(Bytes bytes, MemoryTag tag) {
  if (bytes.count() > 0) backward_workspace_.push_back({bytes, tag});
  return *this;
}

Fragment& Fragment::recomputed_selectively() {
  selective_ = true;
  return *this;
}

ParameterIndex BlockBuilder::parameter(ParameterTensor tensor) {
  tensor.module = module_;
  block_.parameters.push_back(std::move(tensor));
  return static_cast<ParameterIndex>(block_.parameters.size() - 1);
}

// Full recomputation keeps the block's input only, and runs the whole forward pass again before the backward pass.
// Selective recomputation does the same for the marked fragments, just before their own backward pass.
Block BlockBuilder::build(Recompute recompute) && {
  const bool full = recompute == Recompute::full;
  Block block = std::move(block_);
  // The forward pass of one fragment; with `keep`, what it saves stays allocated.
  const auto forward_pass = [](std::vector<Step>& to, const Fragment& f, Phase phase, bool keep) {
    std::vector<MemoryOperation> before;
    if (keep) append_allocations(before, f.saved_);
    append_allocations(before, f.forward_workspace_);
    if (!keep) append_allocations(before, f.saved_);  // it exists while the fragment runs all the same
    std::vector<MemoryOperation> after;
    if (!keep) append_frees(after, f.saved_);
    append_frees(after, f.forward_workspace_);
    const std::size_t first = to.size();
    append_pass(to, f.forward_, phase, std::move(before), std::move(after));
    note_needs(to, first, f.backward_);
  };
  for (const Fragment& f : fragments_) {
    if (f.saved_input_.count() > 0) {
      block.forward.push_back(memory_step({{f.saved_input_, MemoryTag::activations}}, Phase::forward));
      block.saved += f.saved_input_;
    }
    const bool keep = !full && !(f.selective_ && recompute == Recompute::selective);
    forward_pass(block.forward, f, Phase::forward, keep);
    if (keep) {
      for (const MemoryOperation& operation : f.saved_) block.saved += operation.bytes;
    }
  }
  if (full) {
    for (const Fragment& f : fragments_) forward_pass(block.backward, f, Phase::recompute, true);
  }
  for (auto f = fragments_.rbegin(); f != fragments_.rend(); ++f) {
    if (!full && recompute == Recompute::selective && f->selective_) {
      forward_pass(block.backward, *f, Phase::recompute, true);
    }
    std::vector<MemoryOperation> before;
    append_allocations(before, f->backward_workspace_);
    std::vector<MemoryOperation> after;
    append_frees(after, f->backward_workspace_);
    append_frees(after, f->saved_);
    if (f->saved_input_.count() > 0) after.push_back({negative(f->saved_input_), MemoryTag::activations});
    const std::size_t first = block.backward.size();
    append_pass(block.backward, f->backward_, Phase::backward, std::move(before), std::move(after));
    note_needs(block.backward, first, f->backward_);
  }
  return block;
}

}  // namespace orrery
