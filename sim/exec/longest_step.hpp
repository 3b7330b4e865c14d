// The longest training step that can be simulated: 26 days.
//
// Instants are picoseconds in 64 bits, which end after 106 days. Whatever takes longer than the longest step is cut to
// kTooLong, which still reaches beyond the longest step from any moment of it, so that it is noticed (Machine); and
// three of either fit in 64 bits together, so that sums need no check.
#pragma once

#include "sim/base/units.hpp"

namespace orrery {

inline constexpr Duration kLongestStep{std::int64_t{1} << 61};
inline constexpr Duration kTooLong = kLongestStep + Duration(1);
static_assert(kTooLong.count() <= Duration::max().count() / 3);

[[nodiscard]] constexpr Duration bounded(Duration d) { return d < kTooLong ? d : kTooLong; }

}  // namespace orrery
