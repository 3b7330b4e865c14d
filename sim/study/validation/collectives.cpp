#include "sim/study/validation/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "scenarios/catalog.hpp"
#include "scenarios/csv_cells.hpp"
#include "scenarios/load.hpp"
#include "sim/exec/machine.hpp"
#include "sim/exec/traffic.hpp"
#include "sim/results/quantities.hpp"
#include "topology/topology.hpp"

namespace orrery {

namespace {

// A machine of a log that is not quite a node of the catalogue.
struct MachineRow {
  std::string_view name;
  std::string_view node;
  std::string_view library = "nccl";  // a row of library_rows()
  bool tcpxo = false;
};
constexpr std::array kMachines{
    MachineRow{"dgx-a100-40gb", "dgx-a100-40gb", "nccl-2021"},
    MachineRow{"hgx-h100", "dgx-h100"},
    MachineRow{"nd-h100", "dgx-h100"},
    MachineRow{"oci-h100", "dgx-h100"},
    MachineRow{"nd-a100", "dgx-a100-40gb"},
    // GCP's A3 Mega: 200 Gb/s a GPU over GPUDirect-TCPXO, 5 us at either end, as EFA. Its plugin installs NCCL_PROTO=
    // Simple, NCCL_BUFFSIZE=8388608 and NCCL_ALGO=Ring,Tree (nccl-env-profile.sh): no sharp.
    MachineRow{.name = "a3-mega", .node = "dgx-h100", .tcpxo = true},
};

constexpr std::int64_t kTcpxoBuffer = 8 << 20;

struct Cluster {
  Topology topology;
  TrafficOptions options;
  std::vector<GpuId> members;
};

Result<Cluster> cluster_of(Catalog& catalog, const std::string& machine, int nodes) {
  const auto* const row =
      std::find_if(kMachines.begin(), kMachines.end(), [&](const MachineRow& r) { return r.name == machine; });
  const bool own = row != kMachines.end();
  const Result<NodeSpec>& found = catalog.node(own ? std::string(row->node) : machine);
  if (!found) return found.problems();
  NodeSpec node = *found;
  TrafficOptions options;
  if (own) options.library = row->library;
  if (own && row->tcpxo) {
    node.nic.bandwidth = BytesPerSecond(25e9);
    node.nic.efficiency = 0.96;
    node.nic.latency = Duration(50'000);
    node.nic.adapter_latency = Duration(5'000'000);
    node.gpu.nvlink_sharp = false;
    options.protocol = "simple";
    options.buffer = Bytes(kTcpxoBuffer);
  }
  ClusterSpec cluster;
  cluster.groups = {{node, nodes}};
  cluster.fabric.kind = FabricKind::rail_optimized;
  cluster.fabric.link = node.nic;
  Result<Topology> topology = Topology::build(cluster);
  if (!topology) return topology.problems();
  Cluster built{std::move(topology).value(), options, {}};
  for (int i = 0; i < built.topology.gpus(); ++i) built.members.emplace_back(i);
  return built;
}

// One operation on an idle machine.
class Play final : public TrafficListener {
 public:
  explicit Play(const Cluster& cluster)
      : cluster_(cluster), machine_(cluster.topology), traffic_(machine_, cluster.options, *this) {}

  Duration time_of(CollectiveOp op, std::int64_t bytes) {
    CollectiveCall call;
    call.op = op;
    call.bytes = Bytes(bytes);
    traffic_.start_collective(cluster_.members, call, 1, 0, 0);
    Nobody nobody;
    machine_.run(nobody, traffic_);
    return ended_;
  }

  void operation_ended(std::uint64_t /*token*/) override { ended_ = machine_.now() - Instant{}; }

 private:
  // There is no executor beside the traffic.
  struct Nobody {
    void handle(std::uint32_t /*target*/) {}
    void flow_completed(std::uint32_t /*target*/) {}
    void after_event() {}
  };

  const Cluster& cluster_;
  Machine machine_;
  Traffic traffic_;
  Duration ended_{};
};

std::optional<CollectiveOp> op_named(std::string_view name) {
  for (std::size_t i = 0; i < kCollectiveOps; ++i) {
    if (kCollectiveOpNames[i] == name) return static_cast<CollectiveOp>(i);
  }
  return std::nullopt;
}

class Player {
 public:
  void play(ComparedCollective& row) {
    const std::optional<CollectiveOp> op = op_named(row.op);
    if (!op) {
      row.error = fmt::format("operation {}", row.op);
      return;
    }
    const std::pair key(row.machine, row.nodes);
    auto found = clusters_.find(key);
    if (found == clusters_.end()) {
      found = clusters_.emplace(key, cluster_of(catalog_, row.machine, row.nodes)).first;
    }
    if (!found->second) {
      row.error = found->second.problems().front().message;
      return;
    }
    row.simulated_s = to_seconds(Play(*found->second).time_of(*op, row.bytes));
  }

 private:
  Catalog catalog_{find_catalog_root()};
  std::map<std::pair<std::string, int>, Result<Cluster>> clusters_;
};

constexpr std::array<std::string_view, 6> kColumns{"machine", "nodes", "op", "bytes", "time_us", "source"};

// "1 MiB to 16 MiB": of a factor of 16 each.
std::string size_class(std::int64_t bytes) {
  constexpr std::array<std::int64_t, 7> kFrom{0, 1 << 10, 16 << 10, 1 << 18, 1 << 20, 16 << 20, 1 << 28};
  constexpr std::array<std::string_view, 7> kNames{"below 1 KiB",      "1 to 16 KiB",     "16 to 256 KiB",
                                                   "256 KiB to 1 MiB", "1 MiB to 16 MiB", "16 to 256 MiB",
                                                   "256 MiB and more"};
  std::size_t at = kFrom.size() - 1;
  while (at > 0 && bytes < kFrom[at]) --at;
  return std::string(kNames[at]);
}

std::string key_of(const ComparedCollective& row, CollectiveKey key) {
  switch (key) {
    case CollectiveKey::log:
      return row.log();
    case CollectiveKey::operation:
      return row.op;
    case CollectiveKey::size:
      return size_class(row.bytes);
  }
  return "";
}

std::string line_of(const ErrorSummary* sum) {
  if (sum == nullptr || sum->rows == 0) return fmt::format("{:>5} {:>8} {:>9} {:>8}", "", "", "", "");
  return fmt::format("{:>5} {:>8} {:>9} {:>+6.1f} %", sum->rows, human_percent(sum->mean),
                     human_percent(sum->geometric), sum->bias * 100);
}

std::string table_of(std::span<const ComparedCollective> rows, CollectiveKey key, std::string_view title) {
  const std::vector<ErrorSummary> large = collective_errors(rows, key, true);
  const std::vector<ErrorSummary> small = collective_errors(rows, key, false);
  const auto named = [](const std::vector<ErrorSummary>& sums, const std::string& name) -> const ErrorSummary* {
    const auto found = std::find_if(sums.begin(), sums.end(), [&](const ErrorSummary& s) { return s.group == name; });
    return found == sums.end() ? nullptr : &*found;
  };
  std::vector<std::string> names;
  for (const ComparedCollective& row : rows) {
    const std::string name = key_of(row, key);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string text = fmt::format("{:<30} {:>5} {:>8} {:>9} {:>8}  | {:>5} {:>8} {:>9} {:>8}\n", title, "rows", "mean",
                                 "geometric", "bias", "rows", "mean", "geometric", "bias");
  for (const std::string& name : names) {
    text += fmt::format("{:<30} {}  | {}\n", name, line_of(named(large, name)), line_of(named(small, name)));
  }
  if (key != CollectiveKey::log) return text;
  return text + fmt::format("{:<30} {:>5} {:>8} {:>9} {:>8}  | {:>5} {:>8} {:>9}\n", "mean over logs", "",
                            human_percent(mean_over(large, &ErrorSummary::mean)),
                            human_percent(mean_over(large, &ErrorSummary::geometric)), "", "",
                            human_percent(mean_over(small, &ErrorSummary::mean)),
                            human_percent(mean_over(small, &ErrorSummary::geometric)));
}

}  // namespace

Result<std::vector<ComparedCollective>> validate_collectives(std::span<const std::string> files) {
  Problems problems;
  std::vector<ComparedCollective> rows;
  for (const std::string& file : files) {
    const Result<CsvTable> table = read_csv_table(file);
    Problems wrong = table ? missing_columns(*table, kColumns, "collectives") : table.problems();
    if (wrong.empty()) {
      for (const CsvRow& line : table->rows) {
        CsvCells cells(*table, line, wrong);
        rows.push_back({.machine = cells.text("machine"),
                        .nodes = static_cast<int>(cells.number("nodes", 1)),
                        .op = cells.text("op"),
                        .bytes = cells.count("bytes"),
                        .source = cells.text("source"),
                        .measured_s = cells.number("time_us", 1e-6) * 1e-6,
                        .simulated_s = std::nullopt,
                        .error = ""});
      }
    }
    problems.insert(problems.end(), wrong.begin(), wrong.end());
  }
  if (!problems.empty()) return problems;
  Player player;
  for (ComparedCollective& row : rows) player.play(row);
  return rows;
}

std::vector<ErrorSummary> collective_errors(std::span<const ComparedCollective> rows, CollectiveKey key, bool large) {
  std::vector<NamedError> errors;
  for (const ComparedCollective& row : rows) {
    if ((row.bytes >= kLargeMessage) != large) continue;
    NamedError error{key_of(row, key), fmt::format("{} {}", row.log(), row.bytes), std::nullopt,
                     !row.simulated_s.has_value()};
    if (row.simulated_s) error.error = *row.simulated_s / row.measured_s - 1;
    errors.push_back(std::move(error));
  }
  return summed_up(errors);
}

std::string collectives_text(std::span<const ComparedCollective> rows, bool each) {
  std::string text;
  for (const ComparedCollective& row : rows) {
    if (!each) break;
    text += fmt::format("{:<30} {:>3} nodes {:>12} {:>10} ", row.log(), row.nodes, with_separators(row.bytes),
                        human_seconds(row.measured_s));
    text += row.simulated_s ? fmt::format("{:>10} {:>+7.1f} %\n", human_seconds(*row.simulated_s),
                                          (*row.simulated_s / row.measured_s - 1) * 100)
                            : row.error + "\n";
  }
  if (each) text += "\n";
  text += fmt::format("{:<30} {:<33}  | below\n", "", "  from 1 MiB up");
  text += table_of(rows, CollectiveKey::log, "log and operation") + "\n";
  text += table_of(rows, CollectiveKey::operation, "operation") + "\n";
  text += table_of(rows, CollectiveKey::size, "size");
  std::map<std::string, int> reasons;
  for (const ComparedCollective& row : rows) {
    if (!row.error.empty()) ++reasons[row.machine + ": " + row.error];
  }
  if (!reasons.empty()) text += "\nnot simulated\n";
  for (const auto& [reason, count] : reasons) text += fmt::format("  {:>4}  {}\n", count, reason);
  return text;
}

std::string collectives_csv(std::span<const ComparedCollective> rows) {
  std::string text = "machine,nodes,op,bytes,measured_s,simulated_s,error\n";
  for (const ComparedCollective& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{}\n", row.machine, row.nodes, row.op, row.bytes, row.measured_s,
                        row.simulated_s ? fmt::format("{}", *row.simulated_s) : "",
                        row.simulated_s ? fmt::format("{}", *row.simulated_s / row.measured_s - 1) : "");
  }
  return text;
}

}  // namespace orrery
