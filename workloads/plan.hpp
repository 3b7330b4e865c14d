// How a model is trained: batch, precision, optimizer, recomputation (TrainingSpec), and how the work is split over
// ranks (ParallelismSpec). Plain data; check_plan() (build.hpp) tells what cannot be combined and the nearest that can.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/base/precision.hpp"
#include "sim/base/problem.hpp"
#include "sim/base/units.hpp"
#include "workloads/model.hpp"
#include "workloads/trainable.hpp"

namespace orrery {

enum class Recompute : std::uint8_t { none, selective, full };
inline constexpr std::array<std::string_view, 3> kRecomputeNames{"none", "selective", "full"};
[[nodiscard]] constexpr std::string_view name_of(Recompute recompute) {
  return kRecomputeNames[static_cast<std::size_t>(recompute)];
}

// How the number formats are mixed in training.
enum class PrecisionRecipe : std::uint8_t {
  fp32,  // everything in fp32
  tf32,  // fp32 storage, matrix products in tf32
  fp16,  // automatic mixed precision: fp16 compute, fp32 master weights, dynamic loss scaling
  bf16,  // bf16 compute, fp32 master weights
  fp8,   // as bf16, with the products of the layers' linear operators in fp8
};
inline constexpr std::array<std::string_view, 5> kPrecisionRecipeNames{"fp32", "tf32", "fp16", "bf16", "fp8"};
[[nodiscard]] constexpr std::string_view name_of(PrecisionRecipe recipe) {
  return kPrecisionRecipeNames[static_cast<std::size_t>(recipe)];
}

enum class AttentionKind : std::uint8_t { flash, plain };

// Who computes the loss (operators/loss.cpp).
enum class LossKind : std::uint8_t { vocab_parallel, pytorch, in_place };
inline constexpr std::array<std::string_view, 3> kLossNames{"vocab-parallel", "pytorch", "in-place"};

// How a framework runs a model on the host and which kernels it fuses. One YAML file each in workloads/frameworks.
struct FrameworkSpec {
  std::string name;
  std::string source;
  Duration launch{};             // host time to issue one kernel (eager)
  Duration collective_launch{};  // host time to issue one collective or send/receive
  // Host time to issue one more kernel, send or receive within a call that issues several: the driver's part. No more
  // than the two above.
  Duration driver_launch = Duration::max();
  Duration step_overhead{};   // host time per optimizer step outside kernels
  bool graphs = false;        // CUDA graphs: one launch per kernel sequence, at `launch`, whatever its length
  bool fused_kernels = true;  // bias+activation, bias+dropout+add, norm and softmax run as one kernel each
  std::string attention_library = "auto";  // whose fused attention it calls (topology/gpu.hpp)
  LossKind loss = LossKind::vocab_parallel;
  // How 16-bit recipes are held. False, as in Megatron: 16-bit weights beside fp32 master weights. True, as in
  // torch.autocast: fp32 weights and gradients, and a 16-bit copy of each weight cast anew in every forward pass.
  bool autocast = false;
  // The host waits for the GPU after every pipeline send and receive (Megatron's batch_p2p_sync).
  bool transfers_block_host = false;
  // The vocabulary is padded to a multiple of this times the tensor degree (Megatron's make_vocab_size_divisible_by).
  std::int64_t vocabulary_multiple = 1;
  Bytes context{};       // GPU memory that the framework, CUDA context and libraries take
  Bytes communicator{};  // GPU memory per communicator (NCCL buffers)

  friend bool operator==(const FrameworkSpec&, const FrameworkSpec&) = default;
};

// A file that an option names, as it was read.
struct FileText {
  std::string path;  // as shown in messages
  std::string text;

  friend bool operator==(const FileText&, const FileText&) = default;
};

// A value of an option of a schedule, sharding strategy or optimizer.
using OptionValue = std::variant<std::int64_t, double, bool, std::string, FileText>;

// One of a registry's rows by name, with its options ("interleaved-1f1b", {virtual_stages: 2}).
struct Choice {
  std::string kind;
  std::map<std::string, OptionValue> options;

  friend bool operator==(const Choice&, const Choice&) = default;
};

// The micro-batch that is to be found: the largest that fits (sim/study/micro_batch.hpp).
inline constexpr std::int64_t kLargestMicroBatch = 0;

// A part of training with sequences of one length (sequence-length curriculum).
struct CurriculumStage {
  double until = 0;  // share of all steps at which it ends; the last ends at 1
  std::int64_t sequence_length = 0;

  friend bool operator==(const CurriculumStage&, const CurriculumStage&) = default;
};

struct TrainingSpec {
  std::int64_t sequence_length = 0;  // of an image model: tokens of one image (tokens_per_image)
  std::int64_t global_batch = 0;     // sequences (images) per optimizer step
  std::int64_t micro_batch = 1;      // sequences per micro-batch and data-parallel replica, or kLargestMicroBatch
  double tokens = 0;                 // of the whole training run; 0: not given
  double images = 0;                 // the same of an image model
  PrecisionRecipe precision = PrecisionRecipe::bf16;
  Choice fp8{"delayed", {}};                // how fp8 operands are scaled; of precision fp8
  Choice sparsity{"none", {}};              // of weights
  std::vector<CurriculumStage> curriculum;  // empty: all steps have sequences of sequence_length
  Choice optimizer{"adamw", {}};
  Recompute recompute = Recompute::none;
  AttentionKind attention = AttentionKind::flash;
  double dropout = 0;
  Choice routing{"even", {}};  // of tokens to experts
  TrainableSpec trainable;
  // Distillation: a second model, frozen, whose forward pass comes before the student's for each micro-batch. No
  // layers: there is none.
  ModelSpec teacher;
  FrameworkSpec framework;

  [[nodiscard]] bool distills() const { return teacher.layers > 0; }

  friend bool operator==(const TrainingSpec&, const TrainingSpec&) = default;
};

struct ParallelismSpec {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t data = 0;  // 0: derived from the number of GPUs
  std::int64_t context = 1;
  std::int64_t expert = 1;         // ranks over which a layer's experts are spread
  std::int64_t expert_tensor = 0;  // ranks over which each expert's matrices are split; 0: as `tensor`
  bool sequence_parallel = false;
  // Transformer Engine's overlap of tensor-parallel communication with the products beside it, by Megatron-LM's names
  // (operators/tensor_overlap.hpp).
  bool tp_comm_overlap = false;
  bool tp_comm_overlap_ag = true;         // of gathers with the product that reads them
  bool tp_comm_overlap_rs = true;         // of products with the scattering of what they made, forward
  bool tp_comm_overlap_rs_dgrad = false;  // and of input gradients
  // Layers of each virtual stage, in the order of the model; the first also has the embedding, the last the head.
  // Empty: as many in each, or as the four below say.
  std::vector<std::int64_t> stage_layers;
  bool account_for_embedding = false;   // the embedding counts as a layer when layers are dealt out
  bool account_for_loss = false;        // the head and the loss count as one
  std::int64_t first_stage_layers = 0;  // of the first pipeline stage, all its chunks together; 0: as many as others
  std::int64_t last_stage_layers = 0;   // of the last
  Choice schedule{"1f1b", {}};
  Choice sharding{"none", {}};
  Choice context_kind{"ring", {}};
  Choice dispatch{"all-to-all", {}};

  friend bool operator==(const ParallelismSpec&, const ParallelismSpec&) = default;
};

}  // namespace orrery
