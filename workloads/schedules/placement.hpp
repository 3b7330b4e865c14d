// Where the parts of the model lie. Pipelines cut the model into virtual stages, in the order in which activations pass
// them; every stage holds as many of them as it has chunks. A schedule's placement says which, and everything else
// follows: who sends what to whom, who has the embedding, the head and the loss, and who holds the same parameters.
//
//   looped         chunk c of stage s is virtual stage c p + s: each chunk's way begins at the first stage again
//                  (Narayanan et al. 2021).
//   v_shaped       odd chunks come back from the last stage to the first, so that activations turn inside the end
//   stages
//                  and need no transfer there (Qi et al. 2024, section 6).
//   bidirectional  two copies of the model, of p virtual stages each. Half of the micro-batches pass the first from
//                  stage 0 to stage p - 1, the others the second from p - 1 to 0 (DeepSeek-AI 2024, DualPipe). Stages
//                  s and p - 1 - s hold the same two virtual stages; the one that is nearer to the model's beginning is
//                  chunk 0 on both, so that both run the same program and are replicas of one another.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery {

enum class ChunkPlacement : std::uint8_t { looped, v_shaped, bidirectional };

struct VirtualStage {
  std::int64_t index = 0;
  std::int64_t copy = 0;  // of the model

  friend bool operator==(const VirtualStage&, const VirtualStage&) = default;
};

// A chunk of a stage.
struct ChunkPlace {
  std::int64_t stage = 0;
  std::int64_t chunk = 0;

  friend bool operator==(const ChunkPlace&, const ChunkPlace&) = default;
};

class PipelinePlacement {
 public:
  // `chunks` of a bidirectional placement is 2.
  PipelinePlacement(ChunkPlacement kind, std::int64_t stages, std::int64_t chunks);
  // Any other. `at`: [stages][chunks]; every virtual stage of every copy once.
  explicit PipelinePlacement(std::vector<std::vector<VirtualStage>> at);

  [[nodiscard]] std::int64_t virtual_stages() const { return virtual_stages_; }  // of one copy
  [[nodiscard]] std::int64_t copies() const { return copies_; }
  [[nodiscard]] VirtualStage at(std::int64_t stage, std::int64_t chunk) const {
    return at_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(chunk)];
  }
  [[nodiscard]] ChunkPlace place_of(const VirtualStage& v) const {
    return place_of_[static_cast<std::size_t>(v.copy * virtual_stages_ + v.index)];
  }
  // Whether one stage holds both ends of the model.
  [[nodiscard]] bool ends_meet() const {
    return place_of({0, 0}).stage == place_of({virtual_stages_ - 1, copies_ - 1}).stage;
  }

 private:
  std::vector<std::vector<VirtualStage>> at_;
  std::vector<ChunkPlace> place_of_;  // [copies x virtual stages]
  std::int64_t virtual_stages_ = 0;
  std::int64_t copies_ = 1;
};

}  // namespace orrery
