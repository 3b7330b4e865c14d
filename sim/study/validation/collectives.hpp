// Published timings of collectives (nccl-tests), each played out on its machine by itself and compared.
//
// A table has the columns machine, nodes, op, bytes, time_us, source: operations as this project calls them
// (all_reduce), bytes of the whole buffer as nccl-tests counts its size. A machine is a node of the catalogue, or one
// of the logs' machines that differ from it (kMachines in the .cpp: another NIC, a library of its day, settings that
// its operator installs). All its GPUs take part, on a rail-optimised fabric.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/problem.hpp"
#include "sim/study/validation/errors.hpp"

namespace orrery {

struct ComparedCollective {
  std::string machine;
  int nodes = 1;
  std::string op;
  std::int64_t bytes = 0;
  std::string source;
  double measured_s = 0;
  std::optional<double> simulated_s;  // absent: it could not be simulated
  std::string error;                  // why not

  // "dgx-h100 all_reduce".
  [[nodiscard]] std::string log() const { return machine + " " + op; }
};

// From this size on bandwidth decides, below it latency: the two are reported apart.
inline constexpr std::int64_t kLargeMessage = std::int64_t{1} << 20;

// Reads the tables and simulates every row. Problems: those of the tables.
[[nodiscard]] Result<std::vector<ComparedCollective>> validate_collectives(std::span<const std::string> files);

// Errors of those from kLargeMessage up, or of those below, by what `key` says of a row, in order of appearance.
enum class CollectiveKey : std::uint8_t { log, operation, size };
[[nodiscard]] std::vector<ErrorSummary> collective_errors(std::span<const ComparedCollective> rows, CollectiveKey key,
                                                          bool large);

// Arithmetic and geometric mean errors by log, operation and size, from 1 MiB up and below; why rows could not be
// simulated. `rows`: a line for each row too.
[[nodiscard]] std::string collectives_text(std::span<const ComparedCollective> rows, bool each);
[[nodiscard]] std::string collectives_csv(std::span<const ComparedCollective> rows);

}  // namespace orrery
