#include "workloads/schedules/placement.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

VirtualStage virtual_stage(ChunkPlacement kind, std::int64_t stages, std::int64_t stage, std::int64_t chunk) {
  const std::int64_t mirrored = stages - 1 - stage;
  switch (kind) {
    case ChunkPlacement::looped:
      return {chunk * stages + stage, 0};
    case ChunkPlacement::v_shaped:
      return {chunk * stages + (chunk % 2 == 0 ? stage : mirrored), 0};
    case ChunkPlacement::bidirectional:
      return {chunk == 0 ? std::min(stage, mirrored) : std::max(stage, mirrored), stage < mirrored ? chunk : 1 - chunk};
  }
  return {};
}

std::vector<std::vector<VirtualStage>> all_places(ChunkPlacement kind, std::int64_t stages, std::int64_t chunks) {
  std::vector<std::vector<VirtualStage>> at(static_cast<std::size_t>(stages));
  for (std::int64_t s = 0; s < stages; ++s) {
    for (std::int64_t c = 0; c < chunks; ++c) {
      at[static_cast<std::size_t>(s)].push_back(virtual_stage(kind, stages, s, c));
    }
  }
  return at;
}

}  // namespace

PipelinePlacement::PipelinePlacement(ChunkPlacement kind, std::int64_t stages, std::int64_t chunks)
    : PipelinePlacement(all_places(kind, stages, chunks)) {}

PipelinePlacement::PipelinePlacement(std::vector<std::vector<VirtualStage>> at) : at_(std::move(at)) {
  std::size_t places = 0;
  for (const auto& chunks : at_) {
    for (const VirtualStage& v : chunks) {
      virtual_stages_ = std::max(virtual_stages_, v.index + 1);
      copies_ = std::max(copies_, v.copy + 1);
      ++places;
    }
  }
  ORRERY_CHECK(places == static_cast<std::size_t>(virtual_stages_ * copies_), "every virtual stage has one place",
               places, virtual_stages_, copies_);
  place_of_.resize(places);
  for (std::size_t s = 0; s < at_.size(); ++s) {
    for (std::size_t c = 0; c < at_[s].size(); ++c) {
      const VirtualStage& v = at_[s][c];
      place_of_[static_cast<std::size_t>(v.copy * virtual_stages_ + v.index)] = {static_cast<std::int64_t>(s),
                                                                                 static_cast<std::int64_t>(c)};
    }
  }
}

}  // namespace orrery
