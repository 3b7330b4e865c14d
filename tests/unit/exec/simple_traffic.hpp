// Traffic of plain rules (executor_fixtures.hpp) for those that play an executor by themselves.
#pragma once

#include "executor_fixtures.hpp"
#include "sim/exec/executor/executor.hpp"

namespace orrery::test {

TrafficFactory simple_traffic(const SimpleTrafficSettings& settings = {});

}  // namespace orrery::test
