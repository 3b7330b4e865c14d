// When the activities that share nothing with anybody will end.
//
// They are started and ended at high rates, mostly with few distinct durations (equal messages on equal routes), so
// their ends come nearly sorted. The queue is a few sorted lanes: an entry is appended to the lane with the latest back
// that is not after it, and only what fits nowhere goes to a heap. Cancelling is rare, so entries are not searched for:
// the caller says of an entry at the front whether it still holds.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace orrery {

class LoneQueue {
 public:
  struct Entry {
    std::int64_t time;
    std::uint32_t slot;
    std::uint32_t generation;
  };

  // O(1) amortised when the entries fall into kLanes sorted sequences, else O(log n).
  void push(const Entry& entry) {
    ++size_;
    std::size_t best = kLanes;
    for (std::size_t i = 0; i < kLanes; ++i) {
      if (back_[i] <= entry.time && (best == kLanes || back_[i] > back_[best])) best = i;
    }
    if (best == kLanes) {
      overflow_.push_back(entry);
      std::push_heap(overflow_.begin(), overflow_.end(), Later());
      head_[kLanes] = overflow_.front().time;
      return;
    }
    Lane& lane = lanes_[best];
    if (lane.empty()) head_[best] = entry.time;
    lane.entries.push_back(entry);
    back_[best] = entry.time;
  }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // An entry with the least time.
  [[nodiscard]] const Entry& front() const {
    const std::size_t lane = first_lane();
    return lane == kLanes ? overflow_.front() : lanes_[lane].entries[lanes_[lane].next];
  }

  void pop_front() {
    --size_;
    const std::size_t first = first_lane();
    if (first == kLanes) {
      std::pop_heap(overflow_.begin(), overflow_.end(), Later());
      overflow_.pop_back();
      head_[kLanes] = overflow_.empty() ? kNothing : overflow_.front().time;
      return;
    }
    Lane& lane = lanes_[first];
    ++lane.next;
    lane.compact();
    head_[first] = lane.empty() ? kNothing : lane.entries[lane.next].time;
    if (lane.empty()) back_[first] = std::numeric_limits<std::int64_t>::min();
  }

  // Drops every entry for which holds(entry) is false. O(n).
  template <class Holds>
  void purge(Holds&& holds) {
    std::vector<Entry> kept;
    for (; !empty(); pop_front()) {
      if (holds(front())) kept.push_back(front());
    }
    for (const Entry& entry : kept) push(entry);
  }

 private:
  static constexpr std::size_t kLanes = 7;
  static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::max();

  struct Later {
    bool operator()(const Entry& a, const Entry& b) const { return a.time > b.time; }
  };
  struct Lane {
    std::vector<Entry> entries;
    std::size_t next = 0;

    [[nodiscard]] bool empty() const { return next == entries.size(); }
    // Gives the room of popped entries back when they are more than half of all.
    void compact() {
      if (next == entries.size()) {
        entries.clear();
        next = 0;
      } else if (next >= 64 && next * 2 >= entries.size()) {
        entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(next));
        next = 0;
      }
    }
  };

  static constexpr std::array<std::int64_t, kLanes> all_free() {
    std::array<std::int64_t, kLanes> backs{};
    backs.fill(std::numeric_limits<std::int64_t>::min());
    return backs;
  }
  static constexpr std::array<std::int64_t, kLanes + 1> all_empty() {
    std::array<std::int64_t, kLanes + 1> heads{};
    heads.fill(kNothing);
    return heads;
  }

  [[nodiscard]] std::size_t first_lane() const {
    std::size_t first = 0;
    for (std::size_t i = 1; i <= kLanes; ++i) first = head_[i] < head_[first] ? i : first;
    return first;
  }

  std::array<Lane, kLanes> lanes_;
  std::array<std::int64_t, kLanes> back_ = all_free();       // time of the last entry; the least number: lane is free
  std::array<std::int64_t, kLanes + 1> head_ = all_empty();  // time of the first entry; the last one is overflow_'s
  std::vector<Entry> overflow_;
  std::size_t size_ = 0;
};

}  // namespace orrery
