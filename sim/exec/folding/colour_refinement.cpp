#include "sim/exec/folding/colour_refinement.hpp"

#include <algorithm>
#include <deque>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace orrery {

namespace {

// Who sees an element, and how.
struct Seer {
  std::uint32_t element;
  std::uint32_t label;
};

// Neighbourhoods by the element that is seen.
struct Seers {
  std::vector<std::uint32_t> first;  // [elements + 1]
  std::vector<Seer> all;

  [[nodiscard]] std::span<const Seer> of(std::uint32_t element) const {
    return std::span(all).subspan(first[element], first[element + 1] - first[element]);
  }
};

Seers seers_of(const Incidence& incidence) {
  ORRERY_CHECK(incidence.entries().size() < (std::size_t{1} << 31), "too many neighbourhoods");
  Seers seers;
  seers.first.assign(incidence.elements() + 2, 0);
  for (const Incidence::Entry& entry : incidence.entries()) {
    ++seers.first[entry.a + 2];
    ++seers.first[entry.b + 2];
  }
  for (std::size_t i = 2; i < seers.first.size(); ++i) seers.first[i] += seers.first[i - 1];
  seers.all.resize(2 * incidence.entries().size());
  // first[i + 1] runs from the beginning of element i to its end.
  for (const Incidence::Entry& entry : incidence.entries()) {
    seers.all[seers.first[entry.a + 1]++] = {entry.b, entry.b_sees};
    seers.all[seers.first[entry.b + 1]++] = {entry.a, entry.a_sees};
  }
  seers.first.pop_back();
  return seers;
}

class Refiner {
 public:
  explicit Refiner(const Incidence& incidence)
      : seers_(seers_of(incidence)), order_(incidence.elements()), place_(incidence.elements()) {
    class_of_.resize(incidence.elements());
    sum_.assign(incidence.elements(), 0);
    begin_with(incidence.colours());
    while (!splitters_.empty()) {
      const std::uint32_t splitter = splitters_.front();
      splitters_.pop_front();
      classes_[splitter].waiting = false;
      split_by(splitter);
    }
  }

  [[nodiscard]] ElementClasses take() const {
    constexpr std::uint32_t kNone = 0xffffffff;
    std::vector<std::uint32_t> number(classes_.size(), kNone);
    ElementClasses result;
    result.class_of.reserve(class_of_.size());
    for (std::uint32_t element = 0; element < class_of_.size(); ++element) {
      std::uint32_t& mine = number[class_of_[element]];
      if (mine == kNone) {
        mine = static_cast<std::uint32_t>(result.representative.size());
        result.representative.push_back(element);
        result.size.push_back(classes_[class_of_[element]].end - classes_[class_of_[element]].begin);
      }
      result.class_of.push_back(mine);
    }
    return result;
  }

 private:
  // A stretch of order_.
  struct Class {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t touched = 0;  // the last so many elements have a sum
    bool waiting = false;       // is in splitters_
  };

  void begin_with(std::span<const std::uint64_t> colours) {
    for (std::uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return colours[a] < colours[b]; });
    for (std::uint32_t i = 0; i < order_.size(); ++i) {
      if (i == 0 || colours[order_[i]] != colours[order_[i - 1]]) classes_.push_back({i, i, 0, false});
      classes_.back().end = i + 1;
      place_[order_[i]] = i;
      class_of_[order_[i]] = static_cast<std::uint32_t>(classes_.size() - 1);
    }
    for (std::uint32_t c = 0; c < classes_.size(); ++c) wait(c);
  }

  void wait(std::uint32_t c) {
    if (classes_[c].waiting) return;
    classes_[c].waiting = true;
    splitters_.push_back(c);
  }

  // Moves an element to the touched end of its class.
  void touch(std::uint32_t element) {
    Class& mine = classes_[class_of_[element]];
    if (place_[element] >= mine.end - mine.touched) return;
    if (mine.touched++ == 0) touched_classes_.push_back(class_of_[element]);
    const std::uint32_t to = mine.end - mine.touched;
    const std::uint32_t other = order_[to];
    std::swap(order_[place_[element]], order_[to]);
    place_[other] = place_[element];
    place_[element] = to;
  }

  void split_by(std::uint32_t splitter) {
    // Sums are those of the splitter as it is now, also where it is itself split by them.
    touched_classes_.clear();
    for (std::uint32_t i = classes_[splitter].begin; i < classes_[splitter].end; ++i) {
      for (const Seer& seer : seers_.of(order_[i])) seen_.push_back(seer);
    }
    for (const Seer& seer : seen_) {
      touch(seer.element);
      sum_[seer.element] += splitmix64(seer.label);
    }
    seen_.clear();
    for (const std::uint32_t c : touched_classes_) divide(c);
  }

  // Divides a class by the sums of its touched elements; the others have none.
  void divide(std::uint32_t c) {
    const Class whole = classes_[c];
    classes_[c].touched = 0;
    const std::uint32_t first = whole.end - whole.touched;
    const auto begin = order_.begin() + first;
    const auto end = order_.begin() + whole.end;
    const std::uint64_t sum = sum_[*begin];
    const bool alike = std::all_of(begin, end, [&](std::uint32_t element) { return sum_[element] == sum; });
    if (!alike) {
      std::sort(begin, end,
                [&](std::uint32_t a, std::uint32_t b) { return sum_[a] != sum_[b] ? sum_[a] < sum_[b] : a < b; });
      for (std::uint32_t i = first; i < whole.end; ++i) place_[order_[i]] = i;
    }
    if (!alike || first > whole.begin) make_parts(c, first);
    for (std::uint32_t i = first; i < whole.end; ++i) sum_[order_[i]] = 0;
  }

  // The parts: what comes before `first`, if anything, and stretches of equal sums. The first part keeps the number.
  void make_parts(std::uint32_t c, std::uint32_t first) {
    const std::uint32_t end = classes_[c].end;
    parts_.assign(1, c);
    std::uint32_t i = first;
    if (first == classes_[c].begin) {
      while (i < end && sum_[order_[i]] == sum_[order_[first]]) ++i;
    }
    classes_[c].end = i;
    while (i < end) {
      const auto part = static_cast<std::uint32_t>(classes_.size());
      classes_.push_back({i, i, 0, false});
      const std::uint64_t sum = sum_[order_[i]];
      for (; i < end && sum_[order_[i]] == sum; ++i) class_of_[order_[i]] = part;
      classes_.back().end = i;
      parts_.push_back(part);
    }
    const auto size = [&](std::uint32_t part) { return classes_[part].end - classes_[part].begin; };
    std::uint32_t largest = c;
    for (const std::uint32_t part : parts_) {
      if (size(part) > size(largest)) largest = part;
    }
    const bool all = classes_[c].waiting;
    for (const std::uint32_t part : parts_) {
      if (all || part != largest) wait(part);
    }
  }

  Seers seers_;
  std::vector<std::uint32_t> order_;     // elements, class after class
  std::vector<std::uint32_t> place_;     // [elements] in order_
  std::vector<std::uint32_t> class_of_;  // [elements]
  std::vector<std::uint64_t> sum_;       // [elements] of what it sees of the splitter
  std::vector<Class> classes_;
  std::deque<std::uint32_t> splitters_;
  std::vector<std::uint32_t> touched_classes_;
  std::vector<std::uint32_t> parts_;
  std::vector<Seer> seen_;
};

}  // namespace

bool is_equitable(const Incidence& incidence, const ElementClasses& classes) {
  for (std::uint32_t i = 0; i < incidence.elements(); ++i) {
    if (incidence.colours()[i] != incidence.colours()[classes.representative[classes.class_of[i]]]) return false;
  }
  // What each element sees. Elements that are alone in their class cannot differ from anybody.
  std::vector<std::uint32_t> first(incidence.elements() + 2, 0);
  const auto matters = [&](std::uint32_t element) { return classes.size[classes.class_of[element]] > 1; };
  for (const Incidence::Entry& entry : incidence.entries()) {
    if (matters(entry.a)) ++first[entry.a + 2];
    if (matters(entry.b)) ++first[entry.b + 2];
  }
  for (std::size_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<std::uint64_t> seen(first.back());
  const auto key = [&](std::uint32_t label, std::uint32_t element) {
    return static_cast<std::uint64_t>(label) << 32 | classes.class_of[element];
  };
  for (const Incidence::Entry& entry : incidence.entries()) {
    if (matters(entry.a)) seen[first[entry.a + 1]++] = key(entry.a_sees, entry.b);
    if (matters(entry.b)) seen[first[entry.b + 1]++] = key(entry.b_sees, entry.a);
  }
  const auto of = [&](std::uint32_t element) {
    return std::span(seen).subspan(first[element], first[element + 1] - first[element]);
  };
  for (std::uint32_t i = 0; i < incidence.elements(); ++i) {
    if (!matters(i)) continue;
    std::sort(of(i).begin(), of(i).end());
    const auto model = of(classes.representative[classes.class_of[i]]);
    if (!std::equal(of(i).begin(), of(i).end(), model.begin(), model.end())) return false;
  }
  return true;
}

ElementClasses refine(const Incidence& incidence) {
  ElementClasses classes = Refiner(incidence).take();
  ORRERY_CHECK(is_equitable(incidence, classes), "colour refinement ends with an equitable partition");
  return classes;
}

}  // namespace orrery
