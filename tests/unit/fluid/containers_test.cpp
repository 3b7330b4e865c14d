#include <doctest/doctest.h>

#include <map>
#include <set>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/fluid/indexed_heap.hpp"
#include "sim/fluid/lone_queue.hpp"
#include "sim/fluid/use_pool.hpp"

namespace orrery {
namespace {

TEST_CASE("the indexed heap's top is the least of what is in it, through any changes") {
  RandomStream random(1, "indexed_heap");
  IndexedHeap heap;
  heap.reserve_ids(50);
  std::map<std::uint32_t, std::int64_t> expected;
  for (int i = 0; i < 20000; ++i) {
    const auto id = static_cast<std::uint32_t>(random.below(50));
    if (random.below(3) == 0) {
      heap.erase(id);
      expected.erase(id);
    } else {
      const auto key = static_cast<std::int64_t>(random.below(40));
      heap.set(id, key);
      expected[id] = key;
    }
    REQUIRE(heap.empty() == expected.empty());
    REQUIRE(heap.contains(id) == (expected.count(id) == 1));
    if (expected.empty()) continue;
    std::pair<std::int64_t, std::uint32_t> least{expected.begin()->second, expected.begin()->first};
    for (const auto& [other, key] : expected) least = std::min(least, std::pair{key, other});
    REQUIRE(heap.top().key == least.first);
    REQUIRE(heap.top().id == least.second);
  }
}

TEST_CASE("the lone queue gives its entries in order of time") {
  RandomStream random(2, "lone_queue");
  LoneQueue queue;
  std::multiset<std::int64_t> expected;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    if (random.below(2) == 0 || expected.empty()) {
      const auto time = static_cast<std::int64_t>(i / 10 + random.below(random.below(2) == 0 ? 3 : 900));
      queue.push({time, i, 0});
      expected.insert(time);
    } else {
      REQUIRE(queue.front().time == *expected.begin());
      queue.pop_front();
      expected.erase(expected.begin());
    }
    REQUIRE(queue.size() == expected.size());
  }
  queue.purge([](const LoneQueue::Entry& entry) { return entry.slot % 2 == 0; });
  std::int64_t last = 0;
  for (; !queue.empty(); queue.pop_front()) {
    CHECK(queue.front().slot % 2 == 0);
    CHECK(queue.front().time >= last);
    last = queue.front().time;
  }
}

TEST_CASE("the pool's blocks do not overlap and are used again") {
  UsePool pool;
  const std::uint32_t five = pool.allocate(5);
  const std::uint32_t one = pool.allocate(1);
  const std::uint32_t eight = pool.allocate(8);
  CHECK((one >= five + 8 || one + 1 <= five));
  CHECK((eight >= five + 8 || eight + 8 <= five));
  pool.release(five, 5);
  CHECK(pool.allocate(7) == five);
}

}  // namespace
}  // namespace orrery
