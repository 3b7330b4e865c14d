// A 4-ary heap of (key, id) in which each id occurs at most once and can be re-keyed or taken out in place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery {

// Ids are small integers; equal keys come in the order of their ids. All changes are O(log n), lookups O(1).
class IndexedHeap {
 public:
  struct Entry {
    std::int64_t key;
    std::uint32_t id;

    friend bool operator<(const Entry& a, const Entry& b) { return a.key < b.key || (a.key == b.key && a.id < b.id); }
  };

  // Ids below `count` may be used.
  void reserve_ids(std::size_t count) {
    if (position_.size() < count) position_.resize(count, kAbsent);
  }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] bool contains(std::uint32_t id) const { return position_[id] != kAbsent; }
  [[nodiscard]] const Entry& top() const { return heap_.front(); }

  // Inserts the id or changes its key.
  void set(std::uint32_t id, std::int64_t key) {
    const std::uint32_t at = position_[id];
    if (at == kAbsent) {
      heap_.push_back({key, id});
      sift_up(heap_.size() - 1, {key, id});
    } else if (key != heap_[at].key) {
      replace(at, {key, id});
    }
  }

  void erase(std::uint32_t id) {
    const std::uint32_t at = position_[id];
    if (at == kAbsent) return;
    position_[id] = kAbsent;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at < heap_.size()) replace(at, last);
  }

  void clear() {
    for (const Entry& entry : heap_) position_[entry.id] = kAbsent;
    heap_.clear();
  }

 private:
  static constexpr std::uint32_t kAbsent = 0xffffffff;

  void place(std::size_t index, const Entry& entry) {
    heap_[index] = entry;
    position_[entry.id] = static_cast<std::uint32_t>(index);
  }

  void replace(std::size_t index, const Entry& entry) {
    if (index > 0 && entry < heap_[(index - 1) / 4]) {
      sift_up(index, entry);
    } else {
      sift_down(index, entry);
    }
  }

  void sift_up(std::size_t index, const Entry& entry) {
    while (index > 0) {
      const std::size_t parent = (index - 1) / 4;
      if (!(entry < heap_[parent])) break;
      place(index, heap_[parent]);
      index = parent;
    }
    place(index, entry);
  }

  void sift_down(std::size_t index, const Entry& entry) {
    const std::size_t count = heap_.size();
    for (;;) {
      const std::size_t first = index * 4 + 1;
      if (first >= count) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < std::min(first + 4, count); ++child) {
        if (heap_[child] < heap_[least]) least = child;
      }
      if (!(heap_[least] < entry)) break;
      place(index, heap_[least]);
      index = least;
    }
    place(index, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> position_;  // [ids] place in heap_, or kAbsent
};

}  // namespace orrery
