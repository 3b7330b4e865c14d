// Which weights a training run changes: all of them, some parts of the model (the others are frozen), or adapters
// beside frozen weights.
//
// A frozen weight has no gradient, no optimizer state and no reduction, and its product's input need not be kept. What
// autograd computes follows from requires_grad alone (torch/csrc/autograd: a node of the graph exists where any input
// requires a gradient): a product makes the gradient of its input if anything before it in the model is trained, and
// the backward pass ends at the first operator that has something to train. Here this is the residual stream's state:
// from the first trained operator on it carries gradients (`live`).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace orrery {

enum class Part : std::uint8_t {
  embedding,  // the table, and learned positions; the head's too where they are one
  attention,  // matrices and biases
  mlp,        // the same of the MLP: experts, shared experts and router
  norms,      // everywhere
  head,       // the table of logits, where it is one of its own
};
inline constexpr std::array<std::string_view, 5> kPartNames{"embedding", "attention", "mlp", "norms", "head"};
[[nodiscard]] constexpr std::string_view name_of(Part part) { return kPartNames[static_cast<std::size_t>(part)]; }

class TrainedParts {
 public:
  [[nodiscard]] static constexpr TrainedParts none() {
    TrainedParts parts;
    parts.trained_.fill(false);
    return parts;
  }
  constexpr TrainedParts() { trained_.fill(true); }
  [[nodiscard]] constexpr bool has(Part part) const { return trained_[static_cast<std::size_t>(part)]; }
  constexpr void set(Part part, bool trained) { trained_[static_cast<std::size_t>(part)] = trained; }

  friend bool operator==(const TrainedParts&, const TrainedParts&) = default;

 private:
  std::array<bool, 5> trained_{};
};

// Layers first..last, counted from 0, both included.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// The matrices of a layer that an adapter may stand beside, or that may be low-rank products.
enum class Target : std::uint8_t { q, k, v, o, gate, up, down };
inline constexpr std::array<std::string_view, 7> kTargetNames{"q", "k", "v", "o", "gate", "up", "down"};

class Targets {
 public:
  [[nodiscard]] constexpr bool has(Target target) const { return chosen_[static_cast<std::size_t>(target)]; }
  constexpr void add(Target target) { chosen_[static_cast<std::size_t>(target)] = true; }
  constexpr void remove(Target target) { chosen_[static_cast<std::size_t>(target)] = false; }
  [[nodiscard]] constexpr bool attention() const {
    return has(Target::q) || has(Target::k) || has(Target::v) || has(Target::o);
  }
  [[nodiscard]] constexpr bool mlp() const { return has(Target::gate) || has(Target::up) || has(Target::down); }
  [[nodiscard]] constexpr bool any() const { return attention() || mlp(); }

  friend bool operator==(const Targets&, const Targets&) = default;

 private:
  std::array<bool, 7> chosen_{};
};

// Low-rank adapters (Hu et al. 2021): y = W x + B (A x), W frozen, A [rank, in] and B [out, rank] trained.
struct LoraSpec {
  std::int64_t rank = 0;  // 0: none
  Targets targets;
  double dropout = 0;  // of an adapter's input
  bool nf4 = false;    // the layers' frozen matrices are held in 4 bits (QLoRA, Dettmers et al. 2023)

  friend bool operator==(const LoraSpec&, const LoraSpec&) = default;
};

struct TrainableSpec {
  TrainedParts parts;
  std::vector<LayerRange> frozen_layers;  // nothing of these is trained, and they have no adapters
  LoraSpec lora;

  friend bool operator==(const TrainableSpec&, const TrainableSpec&) = default;
};

// What a block needs to know: which of its weights are trained, whether the gradient of its input is asked for, and
// whether adapters stand in it.
struct BlockTraining {
  TrainedParts parts;
  bool live = true;
  bool adapters = false;

  friend bool operator==(const BlockTraining&, const BlockTraining&) = default;
};

struct ModelSpec;

// Of every block of a model, in forward order.
struct TrainingOfBlocks {
  BlockTraining embedding;
  std::vector<BlockTraining> layers;
  BlockTraining head;

  // Whether anything is trained, and so whether there is a backward pass.
  [[nodiscard]] bool any() const;
};
[[nodiscard]] TrainingOfBlocks training_of_blocks(const ModelSpec& model, const TrainableSpec& trainable);

// Weights of all adapters, and of everything that is trained (these included).
[[nodiscard]] std::int64_t adapter_parameters(const ModelSpec& model, const TrainableSpec& trainable);
[[nodiscard]] std::int64_t trained_parameters(const ModelSpec& model, const TrainableSpec& trainable);

}  // namespace orrery
