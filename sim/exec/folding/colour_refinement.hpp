// Colour refinement: which elements of a labelled incidence structure cannot be told apart.
//
// Problem. Elements have colours, and some are neighbours, with a label on each neighbourhood. Wanted is the coarsest
// partition that refines the colours and is equitable: two elements of one class have, for every class and label,
// equally many neighbours of that class with that label.
//
// Method. Partition refinement with the smaller half (Hopcroft 1971; Paige and Tarjan 1987; for colour refinement
// Berkholz, Bonsma and Grohe 2017). A class that was split off is a splitter: every element adds up the labels with
// which it sees the splitter, and classes are divided by these sums. When a class falls into parts, its largest part
// need not become a splitter: what an element sees of it is what it saw of the whole less what it sees of the others.
// Multisets of labels are compared as sums of 64-bit hashes of the labels. A collision could only leave a class too
// coarse, so the result is checked element by element afterwards, by comparing sorted lists and no hashes.
//
// Invariants. Every difference between elements of one class can be seen through a splitter that is still waiting. The
// result does not depend on the order of splitters: classes are numbered by their first element.
//
// Cost. O(log elements) visits of each neighbourhood, which are sorted, and 32 bytes a neighbourhood at the peak.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace orrery {

// Build: add elements, then neighbourhoods.
class Incidence {
 public:
  // Elements are numbered from 0.
  std::uint32_t add_element(std::uint64_t colour) {
    colours_.push_back(colour);
    return static_cast<std::uint32_t>(colours_.size() - 1);
  }

  // `a` sees `b` under the first label, `b` sees `a` under the second. The same pair may be added several times, which
  // is another thing than once.
  void add(std::uint32_t a, std::uint32_t b, std::uint32_t a_sees, std::uint32_t b_sees) {
    entries_.push_back({a, b, a_sees, b_sees});
  }
  void add(std::uint32_t a, std::uint32_t b, std::uint32_t label) { add(a, b, label, label); }

  struct Entry {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t a_sees = 0;
    std::uint32_t b_sees = 0;
  };

  [[nodiscard]] std::size_t elements() const { return colours_.size(); }
  [[nodiscard]] std::span<const std::uint64_t> colours() const { return colours_; }
  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<std::uint64_t> colours_;
  std::vector<Entry> entries_;
};

struct ElementClasses {
  std::vector<std::uint32_t> class_of;        // [elements]
  std::vector<std::uint32_t> representative;  // [classes] the first element; ascending
  std::vector<std::uint32_t> size;            // [classes]
};

// The coarsest equitable partition. Checked (ORRERY_CHECK) by is_equitable().
[[nodiscard]] ElementClasses refine(const Incidence& incidence);

// Whether the classes refine the colours and are equitable.
[[nodiscard]] bool is_equitable(const Incidence& incidence, const ElementClasses& classes);

}  // namespace orrery
