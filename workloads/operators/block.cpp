#include "workloads/operators/block.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

Bytes negative(Bytes bytes) { return Bytes(-bytes.count()); }

Step memory_step(std::vector<MemoryOperation> operations, Phase phase) {
  return {.kind = Step::Kind::memory, .phase = phase, .memory = std::move(operations)};
}

void append_frees(std::vector<MemoryOperation>& to, const std::vector<MemoryOperation>& operations) {
  for (auto it = operations.rbegin(); it != operations.rend(); ++it) to.push_back({negative(it->bytes), it->tag});
}

// Those of `holdings` that one of `held` names, in order.
template <class Holdings>
std::vector<MemoryOperation> chosen(const Holdings& holdings, std::initializer_list<Held> held) {
  std::vector<MemoryOperation> found;
  for (const auto& holding : holdings) {
    if (std::find(held.begin(), held.end(), holding.held) != held.end()) found.push_back(holding.operation);
  }
  return found;
}

template <class Holdings>
std::vector<MemoryOperation> all_of(const Holdings& holdings) {
  return chosen(holdings, {Held::input_half, Held::weight_half, Held::both_halves});
}

Step collective_step(const CollectiveCall& call, std::string_view label, const Launch& launch) {
  return {.kind = Step::Kind::collective,
          .asynchronous = launch.asynchronous,
          .handle = launch.handle,
          .call = call,
          .issue = launch.within_call ? Issue::within_call : Issue::alone,
          .stream = std::string(launch.stream),
          .label = std::string(label),
          .yields = launch.yields};
}

Step exchange_step(const RingExchange& exchange, std::string_view label, const Launch& launch) {
  return {.kind = Step::Kind::exchange,
          .asynchronous = true,
          .handle = launch.handle,
          .exchange = exchange,
          .stream = std::string(launch.stream),
          .label = std::string(label)};
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
void note_needs(std::vector<Step>& steps, std::size_t first, const std::vector<ParameterIndex>& uses) {
  if (first == steps.size()) return;
  steps[first].needs.insert(steps[first].needs.end(), uses.begin(), uses.end());
}

// The forward pass of one fragment; with `keep`, what it saves stays allocated.
void append_forward(std::vector<Step>& to, const std::vector<Step>& steps, Phase phase, bool keep,
                    const std::vector<MemoryOperation>& saved, const std::vector<MemoryOperation>& workspace,
                    const std::vector<ParameterIndex>& uses) {
  std::vector<MemoryOperation> before;
  if (keep) before.insert(before.end(), saved.begin(), saved.end());
  before.insert(before.end(), workspace.begin(), workspace.end());
  if (!keep) before.insert(before.end(), saved.begin(), saved.end());  // it exists while the fragment runs all the same
  std::vector<MemoryOperation> after;
  if (!keep) append_frees(after, saved);
  append_frees(after, workspace);
  const std::size_t first = to.size();
  append_pass(to, steps, phase, std::move(before), std::move(after));
  note_needs(to, first, uses);
}

}  // namespace

KernelId KernelPool::add(Kernel kernel) {
  const auto found = std::find(kernels_.rbegin(), kernels_.rend(), kernel);
  if (found != kernels_.rend()) return KernelId(static_cast<std::size_t>(kernels_.rend() - found - 1));
  kernels_.push_back(std::move(kernel));
  return KernelId(kernels_.size() - 1);
}

Fragment& Fragment::begin_call() {
  ORRERY_CHECK(call_ == Call::none, "a call has ended before the next begins");
  call_ = Call::begins;
  return *this;
}

Fragment& Fragment::end_call() {
  call_ = Call::none;
  return *this;
}

Step Fragment::kernel_step(Kernel kernel) {
  kernel.within_call = call_ == Call::goes_on;
  if (call_ == Call::begins) call_ = Call::goes_on;
  return {.kind = Step::Kind::kernel, .kernel = pool_->add(std::move(kernel))};
}

Step Fragment::in_call(Step communication) {
  if (call_ == Call::goes_on) communication.issue = Issue::within_call;
  if (call_ == Call::begins) {
    communication.issue = Issue::opens_call;
    call_ = Call::goes_on;
  }
  return communication;
}

Fragment& Fragment::forward(Kernel kernel) {
  forward_.push_back(kernel_step(std::move(kernel)));
  return *this;
}

Fragment& Fragment::backward(Kernel kernel, std::vector<ParameterIndex> gradients) {
  backward_.push_back(kernel_step(std::move(kernel)));
  backward_.back().gradients = std::move(gradients);
  return *this;
}

Fragment& Fragment::forward(const CollectiveCall& call, std::string_view label, bool asynchronous) {
  return forward(call, label, Launch{.asynchronous = asynchronous});
}

Fragment& Fragment::backward(const CollectiveCall& call, std::string_view label, bool asynchronous) {
  return backward(call, label, Launch{.asynchronous = asynchronous});
}

Fragment& Fragment::forward(const CollectiveCall& call, std::string_view label, const Launch& launch) {
  forward_.push_back(in_call(collective_step(call, label, launch)));
  return *this;
}

Fragment& Fragment::backward(const CollectiveCall& call, std::string_view label, const Launch& launch) {
  backward_.push_back(in_call(collective_step(call, label, launch)));
  return *this;
}

Fragment& Fragment::forward(const RingExchange& exchange, std::string_view label, const Launch& launch) {
  forward_.push_back(in_call(exchange_step(exchange, label, launch)));
  return *this;
}

Fragment& Fragment::backward(const RingExchange& exchange, std::string_view label, const Launch& launch) {
  backward_.push_back(in_call(exchange_step(exchange, label, launch)));
  return *this;
}

Fragment& Fragment::forward_wait(std::int32_t handle, bool yields) {
  forward_.push_back({.kind = Step::Kind::wait, .handle = handle, .yields = yields});
  return *this;
}

Fragment& Fragment::backward_wait(std::int32_t handle, bool yields) {
  backward_.push_back({.kind = Step::Kind::wait, .handle = handle, .yields = yields});
  return *this;
}

Fragment& Fragment::forward_read(std::string_view label) {
  forward_.push_back({.kind = Step::Kind::read, .label = std::string(label)});
  return *this;
}

Fragment& Fragment::in_weight_half() {
  ORRERY_CHECK(!backward_.empty(), "a step of the weight half has been added");
  backward_.back().weight_half = true;
  return *this;
}

Fragment& Fragment::for_input() {
  ORRERY_CHECK(!backward_.empty(), "a step for the input has been added");
  backward_.back().for_input = true;
  return *this;
}

Fragment& Fragment::save_for_weights(Bytes bytes, MemoryTag tag) {
  if (bytes.count() > 0) saved_.push_back({{bytes, tag}, Held::both_halves, true});
  return *this;
}

Fragment& Fragment::save(Bytes bytes, MemoryTag tag, Held held) {
  if (bytes.count() > 0) saved_.push_back({{bytes, tag}, held});
  return *this;
}

Fragment& Fragment::save_input(Bytes bytes, Held held) {
  saved_input_ += bytes;
  input_held_ = held;
  return *this;
}

Fragment& Fragment::forward_workspace(Bytes bytes, MemoryTag tag) {
  if (bytes.count() > 0) forward_workspace_.push_back({bytes, tag});
  return *this;
}

Fragment& Fragment::backward_workspace(Bytes bytes, MemoryTag tag, Held held) {
  if (bytes.count() > 0) backward_workspace_.push_back({{bytes, tag}, held});
  return *this;
}

Fragment& Fragment::keep_output_gradient(Bytes bytes) {
  if (bytes.count() > 0) kept_.push_back({bytes, MemoryTag::activations});
  return *this;
}

Fragment& Fragment::recomputed_selectively() {
  selective_ = true;
  return *this;
}

namespace {

Part part_of(const ParameterTensor& tensor) {
  if (tensor.name.find("norm") != std::string::npos) return Part::norms;
  if (tensor.name == "logits.weight") return Part::head;
  if (tensor.module == "attention") return Part::attention;
  return tensor.module == "mlp" ? Part::mlp : Part::embedding;
}

}  // namespace

ParameterIndex BlockBuilder::parameter(ParameterTensor tensor) {
  tensor.module = module_;
  tensor.trained = tensor.adapter || training_.parts.has(part_of(tensor));
  block_.parameters.push_back(std::move(tensor));
  return static_cast<ParameterIndex>(block_.parameters.size() - 1);
}

const std::vector<Step>& Block::steps(Pass pass) const {
  switch (pass) {
    case Pass::forward:
      return forward;
    case Pass::backward:
      return backward;
    case Pass::backward_input:
      return backward_input;
    case Pass::backward_weight:
      return backward_weight;
  }
  return forward;
}

void BlockBuilder::build_forward(Recompute recompute) {
  for (const Fragment& f : fragments_) {
    if (f.saved_input_.count() > 0) {
      block_.forward.push_back(memory_step({{f.saved_input_, MemoryTag::activations}}, Phase::forward));
      block_.saved += f.saved_input_;
    }
    const bool keep = recompute != Recompute::full && !(f.selective_ && recompute == Recompute::selective);
    const std::vector<MemoryOperation> saved = all_of(f.saved_);
    append_forward(block_.forward, f.forward_, Phase::forward, keep, saved, f.forward_workspace_, f.uses_);
    if (keep) {
      for (const MemoryOperation& operation : saved) block_.saved += operation.bytes;
    }
  }
}

// Full recomputation keeps the block's input only, and runs the whole forward pass again before the backward pass.
// Selective recomputation does the same for the marked fragments, just before their own backward pass.
// `pass`: the whole, or the half that makes gradients of inputs.
void BlockBuilder::build_backward(Recompute recompute, Pass pass) {
  const bool whole = pass == Pass::backward;
  std::vector<Step>& to = whole ? block_.backward : block_.backward_input;
  const auto again = [&](const Fragment& f) {
    append_forward(to, f.forward_, Phase::recompute, true, all_of(f.saved_), f.forward_workspace_, f.uses_);
  };
  const bool runs =
      std::any_of(fragments_.begin(), fragments_.end(), [](const Fragment& f) { return !f.backward_.empty(); });
  if (recompute == Recompute::full && runs) {
    for (const Fragment& f : fragments_) again(f);
  }
  for (auto f = fragments_.rbegin(); f != fragments_.rend(); ++f) {
    if (recompute == Recompute::selective && f->selective_) again(*f);
    std::vector<MemoryOperation> before =
        whole ? all_of(f->backward_workspace_) : chosen(f->backward_workspace_, {Held::input_half, Held::both_halves});
    if (!whole) before.insert(before.end(), f->kept_.begin(), f->kept_.end());
    std::vector<Step> steps;
    for (const Step& step : f->backward_) {
      if (whole || !step.weight_half) steps.push_back(step);
    }
    std::vector<MemoryOperation> after;
    append_frees(after, whole ? all_of(f->backward_workspace_) : chosen(f->backward_workspace_, {Held::input_half}));
    append_frees(after, whole ? all_of(f->saved_) : chosen(f->saved_, {Held::input_half}));
    const bool input_used = whole || f->input_held_ == Held::input_half;
    if (input_used && f->saved_input_.count() > 0) {
      after.push_back({negative(f->saved_input_), MemoryTag::activations});
    }
    const std::size_t first = to.size();
    append_pass(to, steps, Phase::backward, std::move(before), std::move(after));
    note_needs(to, first, f->uses_);
  }
}

// Operators in the order of the whole backward pass. None of it reads weights.
void BlockBuilder::build_backward_weight() {
  for (auto f = fragments_.rbegin(); f != fragments_.rend(); ++f) {
    std::vector<Step> steps;
    for (const Step& step : f->backward_) {
      if (step.weight_half) steps.push_back(step);
    }
    std::vector<MemoryOperation> after;
    append_frees(after, chosen(f->backward_workspace_, {Held::weight_half, Held::both_halves}));
    append_frees(after, f->kept_);
    append_frees(after, chosen(f->saved_, {Held::weight_half, Held::both_halves}));
    if (f->input_held_ != Held::input_half && f->saved_input_.count() > 0) {
      after.push_back({negative(f->saved_input_), MemoryTag::activations});
    }
    append_pass(block_.backward_weight, steps, Phase::weight_gradient,
                chosen(f->backward_workspace_, {Held::weight_half}), std::move(after));
  }
}

Block BlockBuilder::build(Recompute recompute) && {
  trim(recompute);
  build_forward(recompute);
  build_backward(recompute, Pass::backward);
  build_backward(recompute, Pass::backward_input);
  build_backward_weight();
  return std::move(block_);
}

}  // namespace orrery
