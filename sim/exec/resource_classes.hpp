// Which fluid resource stands for which links and GPU memories. Unfolded, every link and every memory has one of its
// own; a folded run has one for each class of links that are crossed alike, with the capacity of a single one.
//
// Links that never decide a rate (Hardware::may_decide) are left out of the sharing in every run, folded or not. In a
// folded run those of one bandwidth have one resource together, a pool, which counts what passes over all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/exec/hardware.hpp"

namespace orrery {

struct ResourceClasses {
  static constexpr std::uint32_t kNone = 0xffffffff;  // nobody ever crosses it

  struct LinkClass {
    LinkId representative;  // the first
    std::int64_t size = 1;
    bool pool = false;  // never decides
  };
  struct MemoryClass {
    GpuId representative;
    std::int64_t size = 1;
  };

  std::vector<std::uint32_t> class_of_link;    // [links]
  std::vector<std::uint32_t> class_of_memory;  // [GPUs]
  std::vector<LinkClass> links;
  std::vector<MemoryClass> memories;

  // Adds the links that never decide, as pools. class_of_link must have its size, links that decide may be in it.
  void add_pools(const Hardware& hardware);
};

// O(links + GPUs).
[[nodiscard]] ResourceClasses unfolded_resources(const Hardware& hardware);

}  // namespace orrery
