// Two ways to play an operation.
//
// message: every message of the plan is a flow (collectives/message_player.hpp).
// coupled: phase by phase, first the wait for the phase's chain of latencies (and, in a pipeline, until its first chunk
// has passed all edges but the last, at the rate that the phase has on an idle machine), then one activity that moves
// what each edge carries over all links of all edges at once. Edges of a phase carry one stream and wait for one
// another, so they do progress at one rate: that of the slowest, which the fluid solver finds. A transfer is a phase
// of one edge in both.
#include "sim/exec/traffic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/exec/collectives/communicator.hpp"
#include "sim/exec/collectives/message_player.hpp"
#include "sim/exec/collectives/transfer_route.hpp"
#include "sim/exec/machine.hpp"

namespace orrery {

namespace {

// Targets below are edges of the message player; above, operations.
constexpr std::uint32_t kOperationBit = std::uint32_t{1} << 31;

// The most blocks (channels) that a transfer runs on (NCCL v2.30.7, src/graph/paths.cc): over the network one for each
// 14 GB/s of the path, over NVLink two for each link's worth of it (20 GB/s as planned), two over PCIe; rounded up to a
// power of two, at most 32.
constexpr double kNetworkPerBlock = 14e9;
constexpr double kNvlinkPerTwoBlocks = 20e9;
constexpr std::int64_t kMostBlocks = 32;

std::int64_t most_blocks(Hop hop, double bandwidth) {
  double blocks = 2;
  if (hop == Hop::network) blocks = std::ceil(bandwidth / kNetworkPerBlock);
  if (hop == Hop::nvlink) blocks = 2 * std::ceil(bandwidth / kNvlinkPerTwoBlocks);
  const double most = std::clamp(blocks, 1.0, static_cast<double>(kMostBlocks));
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));
}

// A block gets at least and, while there are blocks left, at most this much of a transfer: chunks of 512 KiB on NVLink
// and 128 KiB elsewhere, times the factors of NCCL's addP2pToPlan (src/enqueue.cc).
struct PartSizes {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

PartSizes part_sizes(Hop hop) {
  const std::int64_t chunk = (hop == Hop::nvlink ? 512 : 128) << 10;
  return hop == Hop::network ? PartSizes{chunk / 2, chunk} : PartSizes{chunk / 8, chunk * 32};
}

// NCCL plans for transfers with all ranks of the communicator at once, so that a large communicator begins with few
// blocks for each, and adds to them only where the parts are large. Over NVLink 16 MiB go on 4 blocks in a communicator
// of 8 ranks, on 16 in one of 2.
std::int64_t transfer_blocks(Hop hop, double bandwidth, std::int64_t bytes, std::int64_t ranks) {
  const std::int64_t most = most_blocks(hop, bandwidth);
  const PartSizes sizes = part_sizes(hop);
  std::int64_t blocks = most;
  while (blocks > 1 && blocks * ranks > most) blocks /= 2;
  blocks = std::clamp<std::int64_t>(divide_up(bytes, sizes.least), 1, blocks);
  while (divide_up(bytes, blocks) > sizes.most && blocks <= most / 2) blocks *= 2;
  return blocks;
}

Duration library_base(const TrafficOptions& options) {
  const LibraryRow* library = find_library(options.library);
  return library == nullptr ? Duration::zero() : library->base;
}

}  // namespace

TuningRequest tuning_request(const TrafficOptions& options) {
  return {.algorithm = options.algorithm,
          .protocol = options.protocol,
          .channels = options.channels,
          .buffer = options.buffer,
          .sharp = options.sharp,
          .pxn = options.pxn};
}

std::shared_ptr<CommunicatorCache> communicator_cache(const Hardware& hardware, const TrafficOptions& options) {
  return std::make_shared<CommunicatorCache>(hardware, tuning_request(options), library_base(options),
                                             options.fidelity == TrafficFidelity::message);
}

struct Traffic::Impl {
  // Wait, then move.
  struct Stage {
    Duration wait{};
    Bytes work{};
    Rate cap = kUncapped;
    const std::vector<Crossing>* crossings = nullptr;
  };
  struct Operation {
    std::uint64_t token = 0;
    const CollectiveInstance* instance = nullptr;  // null: a transfer, or a group of one
    const PhaseCrossings* crossings = nullptr;
    const MessageTables* tables = nullptr;  // message fidelity
    std::size_t stage = 0;
    Stage transfer;  // no crossings: nothing to move
  };
  struct Transfer {
    TransferRoute route;
    std::map<std::int64_t, std::vector<Crossing>> crossings;  // by multiplicity
  };

  Impl(Machine& machine_in, const TrafficOptions& options_in, TrafficListener& listener_in,
       std::shared_ptr<CommunicatorCache> communicators)
      : machine(machine_in),
        options(options_in),
        listener(listener_in),
        extra_base(library_base(options)),
        shared_cache(communicators != nullptr ? std::move(communicators)
                                              : communicator_cache(machine.hardware(), options)),
        cache(*shared_cache),
        player(machine) {}

  Machine& machine;
  TrafficOptions options;
  TrafficListener& listener;
  Duration extra_base{};
  std::shared_ptr<CommunicatorCache> shared_cache;
  CommunicatorCache& cache;
  MessagePlayer player;
  // Callers name a group by the same memory each time: found there, it is compared and not hashed. Looked up only.
  std::unordered_map<const GpuId*, CommunicatorState*> found_at;
  std::vector<Operation> operations;
  std::vector<std::uint32_t> free_operations;
  std::map<std::pair<GpuId, GpuId>, Transfer> transfers;
  std::map<int, TrafficCount> counts;
  std::int64_t coupled_flows = 0;

  CommunicatorState& communicator_of(std::span<const GpuId> members) {
    CommunicatorState*& known = found_at[members.data()];
    if (known == nullptr || !std::equal(members.begin(), members.end(), known->members.begin(), known->members.end())) {
      known = &cache.find(members);
    }
    return *known;
  }

  std::uint32_t add_operation(Operation operation) {
    if (free_operations.empty()) {
      operations.push_back(operation);
      return static_cast<std::uint32_t>(operations.size() - 1);
    }
    const std::uint32_t index = free_operations.back();
    free_operations.pop_back();
    operations[index] = operation;
    return index;
  }

  void count(int kind, std::int64_t messages, std::int64_t bytes) {
    TrafficCount& total = counts[kind];
    total.messages += messages;
    total.bytes += bytes;
  }

  void wait(std::uint32_t index, Duration delay) { machine.after(delay, Owner::traffic, kOperationBit | index); }

  void move(std::uint32_t index, Bytes work, Rate cap, const std::vector<Crossing>& crossings) {
    ++coupled_flows;
    machine.start_flow(work, cap, crossings, Owner::traffic, kOperationBit | index);
  }

  void end(std::uint32_t index) {
    const std::uint64_t token = operations[index].token;
    free_operations.push_back(index);
    listener.operation_ended(token);
  }

  // The wait of an operation is over.
  void waited(std::uint32_t index) {
    const Operation& operation = operations[index];
    if (operation.tables != nullptr) {
      player.start(index, *operation.instance, *operation.tables);
    } else if (operation.instance != nullptr) {
      const PhaseCall& phase = operation.instance->phases[operation.stage];
      move(index, phase.work, operation.instance->cap, (*operation.crossings)[operation.stage]);
    } else if (operation.transfer.crossings != nullptr) {
      move(index, operation.transfer.work, operation.transfer.cap, *operation.transfer.crossings);
    } else {
      end(index);
    }
  }

  // What an operation moved as one activity has arrived.
  void moved(std::uint32_t index) {
    Operation& operation = operations[index];
    if (operation.instance == nullptr || ++operation.stage == operation.instance->phases.size()) {
      end(index);
    } else {
      wait(index, operation.instance->phases[operation.stage].chain);
    }
  }

  Transfer& transfer_between(GpuId from, GpuId to) {
    const auto [where, fresh] = transfers.try_emplace({from, to});
    if (fresh) where->second.route = transfer_route(machine.topology(), from, to, options.pxn);
    return where->second;
  }

  [[nodiscard]] Duration transfer_wait(Protocol protocol, const EdgePath& path) const {
    return base_latency(CostFamily::pairwise, protocol) + extra_base +
           software_latency(CostFamily::pairwise, protocol, path.hop) + path.latency;
  }

  const std::vector<Crossing>& transfer_crossings(Transfer& transfer, std::int64_t multiplicity) {
    const auto [where, fresh] = transfer.crossings.try_emplace(multiplicity);
    if (fresh) where->second = crossings_of(machine, transfer.route.uses, multiplicity);
    return where->second;
  }
};

Traffic::Traffic(Machine& machine, const TrafficOptions& options, TrafficListener& listener,
                 std::shared_ptr<CommunicatorCache> communicators)
    : impl_(std::make_unique<Impl>(machine, options, listener, std::move(communicators))) {}
Traffic::~Traffic() = default;

void Traffic::start_collective(std::span<const GpuId> members, const CollectiveCall& call, std::int64_t multiplicity,
                               int kind, std::uint64_t token) {
  ORRERY_CHECK(!members.empty() && multiplicity > 0, "a collective has members", members.size(), multiplicity);
  Impl::Operation operation;
  operation.token = token;
  if (members.size() == 1 || call.bytes.count() == 0) {
    impl_->wait(impl_->add_operation(operation), Duration::zero());
    return;
  }
  CommunicatorState& communicator = impl_->communicator_of(members);
  const CollectiveInstance& instance = impl_->cache.instance(communicator, call);
  Duration wait = instance.base;
  if (impl_->options.fidelity == TrafficFidelity::message) {
    operation.instance = &instance;
    operation.tables = &impl_->cache.messages(impl_->machine, communicator, instance.routed, multiplicity);
  } else if (instance.unnoticed) {
    wait = instance.alone;
    for (std::size_t i = 0; i < instance.phases.size(); ++i) {
      impl_->machine.carry(instance.routed->phase(i).uses, instance.phases[i].work, multiplicity);
    }
  } else {
    operation.instance = &instance;
    operation.crossings = &impl_->cache.crossings(impl_->machine, communicator, instance.routed, multiplicity);
    wait += instance.phases[0].chain;
  }
  impl_->count(kind, instance.totals.messages * multiplicity, instance.totals.bytes * multiplicity);
  impl_->wait(impl_->add_operation(operation), wait);
}

void Traffic::start_transfer(GpuId from, GpuId to, Bytes bytes, std::int64_t multiplicity, int kind,
                             std::uint64_t token) {
  Impl::Operation operation;
  operation.token = token;
  Duration wait{};
  if (from != to) {
    const Protocol protocol = transfer_protocol(bytes, impl_->options.protocol);
    Impl::Transfer& transfer = impl_->transfer_between(from, to);
    operation.transfer.work = wire_bytes(protocol, bytes);
    operation.transfer.crossings = &impl_->transfer_crossings(transfer, multiplicity);
    wait = impl_->transfer_wait(protocol, transfer.route.path);
    impl_->count(kind, multiplicity, bytes.count() * multiplicity);
  }
  impl_->wait(impl_->add_operation(operation), wait);
}

int Traffic::multiprocessors(std::span<const GpuId> members, const CollectiveCall& call) {
  if (members.size() == 1 || call.bytes.count() == 0) return 0;
  CommunicatorState& communicator = impl_->communicator_of(members);
  return impl_->cache.instance(communicator, call).choice.channels;
}

int Traffic::multiprocessors_of_transfer(GpuId from, GpuId to, Bytes bytes, int ranks) {
  if (from == to) return 0;
  const EdgePath& path = impl_->transfer_between(from, to).route.path;
  double slowest = impl_->machine.topology().link(path.links.front()).bandwidth.count();
  for (const LinkId link : path.links) {
    slowest = std::min(slowest, impl_->machine.topology().link(link).bandwidth.count());
  }
  return static_cast<int>(transfer_blocks(path.hop, slowest, bytes.count(), ranks));
}

Duration Traffic::latency(std::span<const GpuId> members, const CollectiveCall& call) {
  if (members.size() == 1 || call.bytes.count() == 0) return Duration::zero();
  const CollectiveInstance& instance = impl_->cache.instance(impl_->communicator_of(members), call);
  if (impl_->options.fidelity == TrafficFidelity::coupled && instance.unnoticed) return instance.alone;
  Duration sum = instance.base;
  for (const PhaseCall& phase : instance.phases) sum += phase.chain;
  return sum;
}

Duration Traffic::latency_of_transfer(GpuId from, GpuId to, Bytes bytes) {
  if (from == to) return Duration::zero();
  return impl_->transfer_wait(transfer_protocol(bytes, impl_->options.protocol),
                              impl_->transfer_between(from, to).route.path);
}

void Traffic::handle(std::uint32_t target) {
  if ((target & kOperationBit) != 0) {
    impl_->waited(target & ~kOperationBit);
    return;
  }
  const std::uint32_t ended = impl_->player.delivered(target);
  if (ended != MessagePlayer::kNone) impl_->end(ended);
}

void Traffic::flow_completed(std::uint32_t target) {
  if ((target & kOperationBit) != 0) {
    impl_->moved(target & ~kOperationBit);
    return;
  }
  impl_->player.flow_completed(target);
}

std::map<int, TrafficCount> Traffic::count_by_kind() const { return impl_->counts; }

// Sorted: the order of first use depends on who asks the cache first.
std::vector<std::string> Traffic::warnings() const {
  std::vector<std::string> lines = impl_->cache.substitutions();
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::int64_t Traffic::flows() const { return impl_->coupled_flows + impl_->player.flows(); }

}  // namespace orrery
