// Which fluid resource stands for which links and GPU memories. Unfolded, every link and every memory has one of its
// own; a folded run has one for each class of links that are crossed alike, with the capacity of a single one.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.hpp"

namespace orrery {

struct ResourceClasses {
  static constexpr std::uint32_t kNone = 0xffffffff;  // nobody ever crosses it

  struct LinkClass {
    LinkId representative;  // the first
    std::int64_t size = 1;
  };
  struct MemoryClass {
    GpuId representative;
    std::int64_t size = 1;
  };

  std::vector<std::uint32_t> class_of_link;    // [links]
  std::vector<std::uint32_t> class_of_memory;  // [GPUs]
  std::vector<LinkClass> links;
  std::vector<MemoryClass> memories;
};

// O(links + GPUs).
[[nodiscard]] ResourceClasses unfolded_resources(const Topology& topology);

}  // namespace orrery
