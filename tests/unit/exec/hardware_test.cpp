#include "sim/exec/hardware.hpp"

#include <doctest/doctest.h>

#include <array>

#include "tests/unit/exec/folding_cases.hpp"

using namespace orrery;

TEST_CASE("a link that a slowdown makes narrower than what is behind it may decide again") {
  int left_out = 0;
  int back = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto drawn = test::random_case(seed);
    if (!drawn) continue;
    const Topology& topology = drawn->topology;
    const Hardware plain(topology, {}, {});
    for (int l = 0; l < topology.links(); ++l) {
      const LinkId link(static_cast<std::size_t>(l));
      const std::array<LinkSlowdown, 1> slow{{{link, 0.25}}};
      const Hardware slowed(topology, {}, slow);
      CHECK(plain.may_decide(link) == (topology.ports_behind(link) > topology.link(link).bandwidth));
      CHECK(slowed.may_decide(link) ==
            (topology.ports_behind(link).count() > 0.25 * topology.link(link).bandwidth.count()));
      left_out += plain.may_decide(link) ? 0 : 1;
      back += !plain.may_decide(link) && slowed.may_decide(link) ? 1 : 0;
    }
  }
  CHECK(left_out > 0);
  CHECK(back > 0);
}
