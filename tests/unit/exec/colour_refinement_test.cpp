// Colour refinement against its slow twin, and against partitions known by hand.
#include "sim/exec/folding/colour_refinement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"

using namespace orrery;

namespace {

// All elements look at all their neighbours at once, again and again, until nothing changes.
std::vector<std::uint32_t> refine_slowly(const Incidence& incidence) {
  using Seen = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  std::vector<std::uint32_t> colour(incidence.elements());
  std::map<std::uint64_t, std::uint32_t> first;
  for (std::size_t i = 0; i < colour.size(); ++i) {
    colour[i] = first.try_emplace(incidence.colours()[i], static_cast<std::uint32_t>(first.size())).first->second;
  }
  for (std::size_t classes = first.size();;) {
    std::vector<Seen> seen(colour.size());
    for (const Incidence::Entry& entry : incidence.entries()) {
      seen[entry.a].emplace_back(entry.a_sees, colour[entry.b]);
      seen[entry.b].emplace_back(entry.b_sees, colour[entry.a]);
    }
    std::map<std::pair<std::uint32_t, Seen>, std::uint32_t> next;
    for (std::size_t i = 0; i < colour.size(); ++i) {
      std::sort(seen[i].begin(), seen[i].end());
      const auto number = static_cast<std::uint32_t>(next.size());
      colour[i] = next.try_emplace({colour[i], seen[i]}, number).first->second;
    }
    if (next.size() == classes) return colour;
    classes = next.size();
  }
}

Incidence random_incidence(std::uint64_t seed) {
  RandomStream random(seed);
  Incidence incidence;
  const std::uint64_t elements = 1 + random.below(40);
  const std::uint64_t colours = 1 + random.below(3);
  const std::uint64_t labels = 1 + random.below(3);
  for (std::uint64_t i = 0; i < elements; ++i) incidence.add_element(random.below(colours));
  // Rings and copies of a random graph, so that there is symmetry to be found.
  const std::uint64_t copies = 1 + random.below(4);
  const std::uint64_t part = std::max<std::uint64_t>(1, elements / copies);
  const std::uint64_t edges = random.below(2 * part);
  for (std::uint64_t e = 0; e < edges; ++e) {
    const std::uint64_t a = random.below(part);
    const std::uint64_t b = random.below(part);
    const auto sees = static_cast<std::uint32_t>(random.below(labels));
    const auto is_seen = static_cast<std::uint32_t>(random.below(4) == 0 ? random.below(labels) : sees);
    for (std::uint64_t c = 0; (c + 1) * part <= elements; ++c) {
      incidence.add(static_cast<std::uint32_t>(c * part + a), static_cast<std::uint32_t>(c * part + b), sees, is_seen);
    }
  }
  return incidence;
}

Incidence ring(std::uint32_t n, std::uint32_t marked) {
  Incidence incidence;
  for (std::uint32_t i = 0; i < n; ++i) incidence.add_element(i == marked ? 1 : 0);
  for (std::uint32_t i = 0; i < n; ++i) incidence.add(i, (i + 1) % n, 0);
  return incidence;
}

}  // namespace

TEST_CASE("refinement with the smaller half gives the partition of the slow twin") {
  std::size_t folded = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    const Incidence incidence = random_incidence(seed);
    const ElementClasses classes = refine(incidence);
    const std::vector<std::uint32_t> slow = refine_slowly(incidence);
    // Equal up to the numbers of the classes.
    std::map<std::uint32_t, std::uint32_t> to_slow;
    std::map<std::uint32_t, std::uint32_t> to_fast;
    for (std::size_t i = 0; i < slow.size(); ++i) {
      REQUIRE(to_slow.try_emplace(classes.class_of[i], slow[i]).first->second == slow[i]);
      REQUIRE(to_fast.try_emplace(slow[i], classes.class_of[i]).first->second == classes.class_of[i]);
    }
    if (classes.representative.size() < slow.size()) ++folded;
  }
  CHECK(folded > 500);
}

TEST_CASE("classes are numbered by their first element, which represents them") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Incidence incidence = random_incidence(seed);
    const ElementClasses classes = refine(incidence);
    std::vector<std::uint32_t> size(classes.representative.size());
    for (std::uint32_t i = 0; i < classes.class_of.size(); ++i) {
      CHECK(classes.representative[classes.class_of[i]] <= i);
      ++size[classes.class_of[i]];
    }
    CHECK(size == classes.size);
    CHECK(std::is_sorted(classes.representative.begin(), classes.representative.end()));
  }
}

// A ring without marks is one class. With one marked element, elements are told apart by their distance from it:
// 1 + floor(n / 2) classes.
TEST_CASE("a ring folds to one class, a ring with a mark to one per distance") {
  CHECK(refine(ring(12, 99)).representative.size() == 1);
  CHECK(refine(ring(12, 5)).representative.size() == 7);
  CHECK(refine(ring(13, 0)).representative.size() == 7);
}

TEST_CASE("partitions that are not equitable are found out") {
  std::size_t coarser = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Incidence incidence = random_incidence(seed);
    ElementClasses classes = refine(incidence);
    CHECK(is_equitable(incidence, classes));
    if (classes.representative.size() < 2) continue;
    // Join the last class to another: no equitable partition is coarser than the coarsest.
    const auto last = static_cast<std::uint32_t>(classes.representative.size() - 1);
    const auto other = static_cast<std::uint32_t>(RandomStream(seed).below(last));
    for (std::uint32_t& c : classes.class_of) c = c == last ? other : c;
    classes.size[other] += classes.size[last];
    classes.size.pop_back();
    classes.representative.pop_back();
    CHECK_FALSE(is_equitable(incidence, classes));
    ++coarser;
  }
  CHECK(coarser > 100);
}
