// 128-bit integers, which gcc and clang have on every 64-bit target although ISO C++ does not name them.
#pragma once

#include <cstdint>

namespace orrery {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

}  // namespace orrery
