// From operators to what a layer does on one rank for one micro-batch.
//
// An operator (a matrix product, attention, a norm, ...) says what it launches forward and backward, what it keeps from
// the one for the other, and which tensor-parallel collectives it needs: that is a Fragment. A Block (a transformer
// layer, the embedding, the head) is a chain of fragments: forward in order, backward in reverse, with recomputation
// put where the plan wants it. Blocks that are alike are built once and played many times (emit/stage.hpp).
//
// The backward pass is there three times: whole, and as its two halves (workloads/pass.hpp). The whole one is not the
// halves one after the other, since whoever runs both at once interleaves them operator by operator and hides
// collectives behind the weights' products. What an operator needs for the gradients of its weights (its input and the
// gradient of its output) lives until the weight half ends, everything else until the input half does. Recomputation
// belongs to the input half.
//
// Invariants: what a forward pass allocates, its backward pass (or its two halves together) frees (Fragment sees to
// it); the halves together launch the same kernels and collectives as the whole; each parameter's gradient is announced
// exactly once, by the kernel that completes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/graph/communication.hpp"
#include "sim/graph/kernel.hpp"
#include "sim/graph/program.hpp"
#include "workloads/pass.hpp"
#include "workloads/plan.hpp"
#include "workloads/trainable.hpp"

namespace orrery {

// Kernels, each stored once. Lookup is linear from the back: a workload has a few hundred distinct ones, and they are
// looked up when blocks are built, not when micro-batches are.
class KernelPool {
 public:
  KernelId add(Kernel kernel);
  [[nodiscard]] const Kernel& operator[](KernelId id) const { return kernels_[id.index()]; }
  [[nodiscard]] std::vector<Kernel> take() && { return std::move(kernels_); }

 private:
  std::vector<Kernel> kernels_;
};

// A weight tensor as one rank holds it.
struct ParameterTensor {
  std::string name;
  std::int64_t elements = 0;  // on this rank
  bool sharded = false;       // split over the tensor-parallel ranks; otherwise each of them has the whole
  // Each tensor-parallel rank sees only its part of the sequence, so that gradients must be summed over them
  // (norms and row-parallel biases under sequence parallelism).
  bool partial_gradient = false;
  bool tied = false;  // the head's and the embedding's table, when they are one
  // The part of the block that frameworks wrap by itself ("attention", "mlp"); empty: none.
  std::string module{};
  std::int64_t columns = 0;   // of its last dimension; 0: it has no other
  std::int64_t matrices = 1;  // of so many columns each (experts)
  bool table = false;         // of an embedding, which optimizers may treat by itself
  bool fp8 = false;           // products read it in fp8
  // Belongs to the experts that only this rank's expert-parallel peers of the same place hold: its replicas are
  // Groups::expert_data, not Groups::data.
  bool expert = false;
  // Has a gradient and is updated. Set by the builder, from what the block is told (BlockTraining), but for adapters,
  // which are always trained.
  bool trained = true;
  bool adapter = false;
  bool teacher = false;    // of the model that is learnt from
  bool quantized = false;  // frozen, and held in 4 bits
};

// NF4 with double quantisation: 4 bits, an 8-bit scale for 64 elements, a 32-bit one for 256 of those (Dettmers et al.
// 2023, section 3).
inline constexpr double kNf4BytesPerElement = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);

// A place in a block's list of parameters.
using ParameterIndex = std::int32_t;

// One step round a ring of ranks: so much to one neighbour, as much from the other.
struct RingExchange {
  PeerKindId to;
  PeerKindId from;
  Bytes bytes{};
};

// How communication of a block is launched. Its stream is named after the group that it goes over.
struct Launch {
  std::string_view stream = "tensor";
  bool asynchronous = false;  // compute goes on until a wait for `handle`
  std::int32_t handle = 0;    // tells apart what is under way at one time
  bool yields = false;        // Step::yields, where compute waits at once
  bool within_call = false;   // by the framework's call that issues the kernel behind it (Issue::within_call)
};

struct Step {
  enum class Kind : std::uint8_t {
    kernel,
    collective,
    exchange,  // send to one neighbour and receive from another, on streams of their own
    read,      // the host reads what the GPU has computed so far (.item(), .cpu()), and issues nothing before
    wait,      // the compute stream waits for the asynchronous communication with this handle
    memory,    // nothing but the memory operations
  };
  Kind kind = Kind::kernel;
  Phase phase = Phase::forward;
  bool asynchronous = false;
  std::int32_t handle = 0;
  KernelId kernel{};
  CollectiveCall call{};
  RingExchange exchange{};
  Issue issue = Issue::alone;               // communication only; of an exchange: of its first half
  std::string stream{};                     // communication only
  std::string label{};                      // communication only
  std::vector<MemoryOperation> memory{};    // before the step
  std::vector<ParameterIndex> needs{};      // used by this step or those of its operator behind it, in this pass
  std::vector<ParameterIndex> gradients{};  // complete when the step has ended
  bool weight_half = false;                 // backward: belongs to the half that makes gradients of weights
  bool for_input = false;                   // backward: makes the gradient of the operator's input, and nothing else
  // Compute waits for communication here that frameworks hide behind another micro-batch's pass, if one runs beside
  // this: that has its turn.
  bool yields = false;
};

struct Block {
  std::string name;
  std::vector<Step> forward;
  std::vector<Step> backward;  // recomputation included
  std::vector<Step> backward_input;
  std::vector<Step> backward_weight;
  std::vector<ParameterTensor> parameters;
  Bytes saved{};  // held from the forward to the backward pass

  [[nodiscard]] const std::vector<Step>& steps(Pass pass) const;
};

// Which halves of the backward pass need what is held, when they run apart: it is there from the beginning of the first
// that does (what is saved: from the forward pass) to the end of the last.
enum class Held : std::uint8_t { input_half, weight_half, both_halves };

// What one operator adds to a block. Forward and backward steps are given in the order in which they run.
class Fragment {
 public:
  explicit Fragment(KernelPool& pool) : pool_(&pool) {}

  Fragment& forward(Kernel kernel);
  Fragment& backward(Kernel kernel, std::vector<ParameterIndex> gradients = {});
  Fragment& forward(const CollectiveCall& call, std::string_view label, bool asynchronous = false);
  Fragment& backward(const CollectiveCall& call, std::string_view label, bool asynchronous = false);
  Fragment& forward(const CollectiveCall& call, std::string_view label, const Launch& launch);
  Fragment& backward(const CollectiveCall& call, std::string_view label, const Launch& launch);
  // Always asynchronous. Streams "<stream>_send" and "<stream>_receive".
  Fragment& forward(const RingExchange& exchange, std::string_view label, const Launch& launch);
  Fragment& backward(const RingExchange& exchange, std::string_view label, const Launch& launch);
  Fragment& forward_wait(std::int32_t handle = 0, bool yields = false);
  Fragment& backward_wait(std::int32_t handle = 0, bool yields = false);
  // What is added between the two is issued by one call of the framework: only the first kernel or communication of it
  // costs the host the way there.
  Fragment& begin_call();
  Fragment& end_call();
  // The host waits for a number of the forward pass, such as the sizes of what it is to send.
  Fragment& forward_read(std::string_view label);
  // The backward step added last makes gradients of weights, or is for those that do.
  Fragment& in_weight_half();
  // The backward step added last is for the gradient of the operator's input alone. Where none is asked for it is not
  // there (operators/trim.cpp).
  Fragment& for_input();

  // Kept from this operator's forward to the end of its backward pass.
  Fragment& save(Bytes bytes, MemoryTag tag = MemoryTag::activations, Held held = Held::input_half);
  // The same of what the gradients of the operator's weights alone need: its input, as a rule.
  Fragment& save_for_weights(Bytes bytes, MemoryTag tag = MemoryTag::activations);
  // The same for the block's own input, which full recomputation keeps as well.
  Fragment& save_input(Bytes bytes, Held held = Held::input_half);
  // Needed only while the forward (backward) steps run.
  Fragment& forward_workspace(Bytes bytes, MemoryTag tag = MemoryTag::workspace);
  Fragment& backward_workspace(Bytes bytes, MemoryTag tag = MemoryTag::workspace, Held held = Held::input_half);
  // The gradient of this operator's output, which its weight half reads: held beyond the input half when the halves run
  // apart. (Of the whole pass it is the workspace of whoever makes it.)
  Fragment& keep_output_gradient(Bytes bytes);

  // Marks the fragment as one that selective recomputation redoes.
  Fragment& recomputed_selectively();

 private:
  friend class BlockBuilder;
  Step kernel_step(Kernel kernel);
  Step in_call(Step communication);
  KernelPool* pool_;
  enum class Call : std::uint8_t { none, begins, goes_on } call_ = Call::none;
  std::vector<Step> forward_;
  std::vector<Step> backward_;
  // Memory of the backward pass, and which halves need it.
  struct Holding {
    MemoryOperation operation;
    Held held = Held::input_half;
    bool for_weights = false;
  };
  std::vector<Holding> saved_;
  Bytes saved_input_{};
  Held input_held_ = Held::input_half;
  std::vector<MemoryOperation> forward_workspace_;
  std::vector<Holding> backward_workspace_;
  std::vector<MemoryOperation> kept_;  // between the halves
  std::vector<ParameterIndex> uses_;   // set when the block is built
  bool selective_ = false;
};

class BlockBuilder {
 public:
  BlockBuilder(KernelPool& pool, std::string_view name, const BlockTraining& training = {})
      : pool_(&pool), training_(training) {
    block_.name = name;
  }

  [[nodiscard]] Fragment fragment() const { return Fragment(*pool_); }
  // What is added from here on belongs to this part of the block (ParameterTensor::module).
  void begin_module(std::string_view name) { module_ = name; }
  ParameterIndex parameter(ParameterTensor tensor);
  [[nodiscard]] bool trains(ParameterIndex parameter) const {
    return block_.parameters[static_cast<std::size_t>(parameter)].trained;
  }
  void add(Fragment fragment) { fragments_.push_back(std::move(fragment)); }

  [[nodiscard]] Block build(Recompute recompute) &&;

 private:
  void trim(Recompute recompute);
  void trim_weight_steps(Fragment& fragment) const;
  void build_forward(Recompute recompute);
  void build_backward(Recompute recompute, Pass pass);
  void build_backward_weight();

  KernelPool* pool_;
  BlockTraining training_;
  std::string module_;
  Block block_;
  std::vector<Fragment> fragments_;
};

}  // namespace orrery
