// Room for the crossings of activities: blocks of power-of-two sizes in one array, used again when an activity ends.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery {

// One activity on one link. What position and next say is a matter of who keeps account of the link: the sharing, of
// links that may decide a rate, or the network, of those that do not.
struct Use {
  std::uint32_t link = 0;
  std::uint32_t position = 0;  // sharing: where the activity stands in the link's list of members; network: see next
  std::int64_t count = 0;
  std::uint32_t next = 0;  // network: the next use in the link's list, and `position` the one before
};

class UsePool {
 public:
  // The index of the first of at least `count` consecutive uses.
  std::uint32_t allocate(std::size_t count) {
    std::vector<std::uint32_t>& free = free_[size_class(count)];
    if (!free.empty()) {
      const std::uint32_t first = free.back();
      free.pop_back();
      return first;
    }
    const std::size_t first = uses_.size();
    uses_.resize(first + (std::size_t{1} << size_class(count)));
    return static_cast<std::uint32_t>(first);
  }

  void release(std::uint32_t first, std::size_t count) { free_[size_class(count)].push_back(first); }

  [[nodiscard]] std::size_t size() const { return uses_.size(); }

  Use& operator[](std::size_t index) { return uses_[index]; }
  const Use& operator[](std::size_t index) const { return uses_[index]; }

 private:
  static std::size_t size_class(std::size_t count) { return std::bit_width(count < 2 ? std::size_t{1} : count - 1); }

  std::vector<Use> uses_;
  std::array<std::vector<std::uint32_t>, 33> free_;
};

}  // namespace orrery
