// How users of the fluid layer name what runs and learn what has ended.
#pragma once

#include <cstdint>

namespace orrery {

// A running activity. Slots are used again, generations are not: the id of an ended activity is recognised as such.
struct ActivityId {
  std::uint32_t slot = 0xffffffff;
  std::uint32_t generation = 0;

  friend bool operator==(ActivityId, ActivityId) = default;
};

// An activity that has done its work, with the tag that it was started with.
struct Completion {
  ActivityId activity;
  std::uint64_t tag = 0;

  friend bool operator==(const Completion&, const Completion&) = default;
};

}  // namespace orrery
