// The laws that need no look at links: schedule, times and memory. Written from the rules at the head of
// sim/graph/program.hpp, not from the executor.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/exec/collectives/transfer_route.hpp"
#include "sim/exec/kernel_time.hpp"
#include "sim/exec/machine.hpp"
#include "tests/fuzz/execution_laws.hpp"

namespace orrery::fuzz {

namespace {

// A kernel's time is put together from parts that are rounded to picoseconds when its conditions change.
constexpr Duration kRoundingPerKernel{8};
// A sequence does not become ten times faster, however large the jitter; factors are cut to 32 bits.
constexpr double kLeastJitter = 0.1 - 1e-9;

class ScheduleLaws {
 public:
  ScheduleLaws(const SmallCase& drawn, const RunResult& result)
      : drawn_(drawn), result_(result), machine_(drawn.topology, drawn.options.slow_gpus, drawn.options.slow_links) {}

  std::vector<std::string> broken() && {
    if (result_.ranks.size() != drawn_.workload.ranks()) {
      fail("{} ranks have results", result_.ranks.size());
      return std::move(broken_);
    }
    Instant last{};
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      last = std::max(last, check_rank(r));
      check_kernels_take_turns(r);
      check_times(r);
      check_memory(r);
    }
    if (last - Instant{} != result_.step_time) {
      fail("the last task ends at {}, the step at {}", (last - Instant{}).count(), result_.step_time.count());
    }
    check_communication();
    return std::move(broken_);
  }

 private:
  // The sides of a communication: rank and task.
  using Sides = std::vector<std::pair<std::size_t, std::size_t>>;

  template <class... Values>
  void fail(fmt::format_string<Values...> text, Values&&... values) {
    broken_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  [[nodiscard]] const Program& program(std::size_t r) const {
    return drawn_.workload.programs[drawn_.workload.role_of[r].index()];
  }
  [[nodiscard]] const TaskRecord& record(std::size_t r, std::size_t t) const { return result_.ranks[r].tasks[t]; }
  [[nodiscard]] GpuId gpu(std::size_t r) const { return drawn_.placement.gpu_of[r]; }

  // When the tasks that it depends on, and the one before it on its stream, have ended.
  [[nodiscard]] Instant ready(std::size_t r, std::size_t t) const {
    const Task& task = program(r).tasks()[t];
    Instant ready{};
    for (const TaskId before : program(r).dependencies(task)) ready = std::max(ready, record(r, before.index()).end);
    const std::uint32_t place = program(r).place_in_stream(TaskId(t));
    if (place == 0) return ready;
    return std::max(ready, record(r, program(r).on_stream(task.stream)[place - 1].index()).end);
  }

  // Follows the host through the program. Returns when the rank is done.
  Instant check_rank(std::size_t r) {
    Instant host{};
    Instant last{};
    for (std::size_t t = 0; t < program(r).tasks().size(); ++t) {
      const Task& task = program(r).tasks()[t];
      const TaskRecord& found = record(r, t);
      host = check_task(r, t, host);
      if (found.begin > found.active || found.active > found.end) {
        fail("rank {} task {} begins at {}, is active at {} and ends at {}", r, t,
             found.begin.time_since_epoch().count(), found.active.time_since_epoch().count(),
             found.end.time_since_epoch().count());
      }
      if (task.blocks_host) host = std::max(host, found.end);
      last = std::max(last, found.end);
      if (task.kind == TaskKind::collective) note_collective(r, t);
      if (task.kind == TaskKind::send || task.kind == TaskKind::receive) note_transfer(r, t);
    }
    return std::max(host, last);
  }

  // Checks one task whose issuing the host begins at `host`; returns when the host has issued it.
  Instant check_task(std::size_t r, std::size_t t, Instant host) {
    const Task& task = program(r).tasks()[t];
    const TaskRecord& found = record(r, t);
    const ExecutionOptions& options = drawn_.options;
    switch (task.kind) {
      case TaskKind::kernels:
        return check_sequence(r, t, host);
      case TaskKind::host:
        expect_begin(r, t, std::max(host, ready(r, t)));
        if (found.end - found.begin != program(r).host_work(task)) {
          fail("rank {} task {}: host work of {} takes {}", r, t, program(r).host_work(task).count(),
               (found.end - found.begin).count());
        }
        return found.end;
      case TaskKind::copy:
        expect_begin(r, t, std::max(host + options.launch, ready(r, t)));
        expect_no_shorter(r, t, copy_alone(r, program(r).copy(task)));
        return host + options.launch;
      case TaskKind::collective:
      case TaskKind::send:
      case TaskKind::receive:
        break;
    }
    const Duration cost = task.issue == Issue::opens_call ? options.launch
                          : task.issue == Issue::alone    ? options.collective_launch
                                                          : std::min(options.collective_launch, options.driver_launch);
    expect_begin(r, t, std::max(host + cost, ready(r, t)));
    return host + cost;
  }

  // What the host needs for the first `count` kernels of a sequence.
  Duration launches(const KernelSequence& sequence, std::size_t count) const {
    const ExecutionOptions& options = drawn_.options;
    Duration sum{};
    Duration most{};
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      const bool within = drawn_.workload.kernels[sequence[i].index()].within_call;
      const Duration cost = within && options.driver_launch < options.launch ? options.driver_launch : options.launch;
      most = std::max(most, cost);
      if (i < count) sum += cost;
    }
    return options.graphs ? most : sum;
  }

  void expect_begin(std::size_t r, std::size_t t, Instant expected) {
    if (record(r, t).begin == expected) return;
    fail("rank {} task {} begins at {}, and could at {}", r, t, record(r, t).begin.time_since_epoch().count(),
         expected.time_since_epoch().count());
  }
  void expect_no_shorter(std::size_t r, std::size_t t, Duration least) {
    const Duration found = record(r, t).end - record(r, t).active;
    if (found < least) fail("rank {} task {} takes {} ps, alone it needs {}", r, t, found.count(), least.count());
  }

  Instant check_sequence(std::size_t r, std::size_t t, Instant host) {
    const KernelSequence& sequence = program(r).sequence(program(r).tasks()[t]);
    const Instant launched = host + launches(sequence, 1);
    const Instant issued = host + launches(sequence, sequence.size());
    const Instant begin = std::max(ready(r, t), launched);
    // What delays it further is kernels of other streams that have begun.
    if (record(r, t).begin < begin || busy(r, t, begin, record(r, t).begin) < record(r, t).begin - begin) {
      expect_begin(r, t, begin);
    }
    check_beside_communication(r, t, sequence);
    Duration alone = sequence_alone(r, sequence, 1);
    if (drawn_.options.kernel_jitter > 0) {
      alone = Duration(static_cast<std::int64_t>(kLeastJitter * static_cast<double>(alone.count())));
    }
    expect_no_shorter(r, t, alone - kRoundingPerKernel * static_cast<std::int64_t>(sequence.size()));
    return issued;
  }

  // Kernels take what they take alone where no communication of the GPU is posted, and where some is but nothing moves,
  // no more than on the half of the SMs that they always have. Each communication may round them twice.
  void check_beside_communication(std::size_t r, std::size_t t, const KernelSequence& sequence) {
    if (drawn_.options.kernel_jitter > 0) return;
    const TaskRecord& found = record(r, t);
    std::int64_t posted = 0;
    bool moving = false;
    for (std::size_t other = 0; other < program(r).tasks().size(); ++other) {
      const TaskKind kind = program(r).tasks()[other].kind;
      if (kind != TaskKind::collective && kind != TaskKind::send && kind != TaskKind::receive) continue;
      const TaskRecord& beside = record(r, other);
      if (beside.begin < found.end && beside.end > found.begin) ++posted;
      if (beside.active < found.end && beside.end > found.begin) moving = true;
    }
    const Duration took = found.end - found.begin - found.gaps;
    const Duration alone = sequence_alone(r, sequence, 1);
    if (posted == 0 && took != alone) {
      fail("rank {} task {}: kernels without communication take {} ps, alone {}", r, t, took.count(), alone.count());
    }
    if (!moving && took > sequence_alone(r, sequence, 2) + Duration(2 * posted)) {
      fail("rank {} task {}: kernels beside posted communication take {} ps, on half of the SMs {}", r, t, took.count(),
           sequence_alone(r, sequence, 2).count());
    }
  }

  // How much of the time between two instants the GPU spends on kernels of other tasks.
  [[nodiscard]] Duration busy(std::size_t r, std::size_t t, Instant from, Instant to) const {
    Duration sum{};
    for (std::size_t other = 0; other < program(r).tasks().size(); ++other) {
      if (other == t || program(r).tasks()[other].kind != TaskKind::kernels) continue;
      const TaskRecord& found = record(r, other);
      sum += std::max(Duration{}, std::min(to, found.end) - std::max(from, found.begin));
    }
    return sum;
  }

  // On one in `part` of the SMs, rounded up.
  [[nodiscard]] Duration sequence_alone(std::size_t r, const KernelSequence& sequence, int part) const {
    GpuSpec spec = drawn_.topology.gpu_spec(gpu(r));
    const double factor = machine_.hardware().gpu_factor(gpu(r));
    for (FlopsPerSecond& peak : spec.peak) peak = peak * factor;
    spec.vector_peak = spec.vector_peak * factor;
    spec.memory_bandwidth = spec.memory_bandwidth * factor;
    Duration alone{};
    for (const KernelId kernel : sequence) {
      alone += kernel_cost(drawn_.workload.kernels[kernel.index()], spec)
                   .alone((spec.multiprocessors + part - 1) / part, spec.usable_memory_bandwidth());
    }
    return alone;
  }

  // Time that the bytes need on the slowest link of the route, with its latency; less a picosecond for the rounding of
  // the quotient here.
  [[nodiscard]] Duration on_route(const Route& route, Bytes bytes) const {
    Duration slowest{};
    for (const LinkId link : route.links)
      slowest = std::max(slowest, transfer_time(bytes, machine_.hardware().link_bandwidth(link)));
    return std::max(Duration{}, slowest + route.latency - Duration(1));
  }
  [[nodiscard]] Duration copy_alone(std::size_t r, const CopyCall& call) const {
    if (call.bytes == Bytes(0)) return {};
    return on_route(call.direction == CopyDirection::host_to_device ? drawn_.topology.host_to_device(gpu(r))
                                                                    : drawn_.topology.device_to_host(gpu(r)),
                    call.bytes);
  }

  void check_kernels_take_turns(std::size_t r) {
    std::vector<std::pair<Instant, Instant>> runs;
    for (std::size_t t = 0; t < program(r).tasks().size(); ++t) {
      if (program(r).tasks()[t].kind == TaskKind::kernels) runs.emplace_back(record(r, t).begin, record(r, t).end);
    }
    std::sort(runs.begin(), runs.end());
    Duration busy{};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      busy += runs[i].second - runs[i].first;
      if (i > 0 && runs[i].first < runs[i - 1].second) {
        fail("rank {}: kernels begin at {} while others run until {}", r, runs[i].first.time_since_epoch().count(),
             runs[i - 1].second.time_since_epoch().count());
      }
    }
    for (const TaskRecord& found : result_.ranks[r].tasks) {
      busy -= found.gaps;
      if (found.gaps < Duration{} || found.gaps > found.end - found.begin) {
        fail("rank {} task {}: gaps of {}", r, found.task.index(), found.gaps.count());
      }
    }
    if (result_.ranks[r].times.compute != busy) {
      fail("rank {} computes for {}, its kernels last {}", r, result_.ranks[r].times.compute.count(), busy.count());
    }
  }

  void check_times(std::size_t r) {
    const RankTimes& times = result_.ranks[r].times;
    Duration sum = times.compute + times.bubble + times.waiting + times.data_stall + times.other;
    bool negative = std::min({times.compute, times.bubble, times.waiting, times.data_stall, times.other}) < Duration{};
    Duration all_exposed{};
    for (const auto& [name, exposed] : times.exposed_communication) {
      sum += exposed;
      all_exposed += exposed;
      negative = negative || exposed < Duration{};
    }
    if (sum != result_.step_time || negative) {
      fail("rank {}: the parts of its time add up to {}, the step takes {}{}", r, sum.count(),
           result_.step_time.count(), negative ? "; one is negative" : "");
    }
    if (all_exposed > under_way(r)) {
      fail("rank {}: {} of communication is exposed, {} is under way", r, all_exposed.count(), under_way(r).count());
    }
  }

  // How long at least one communication of the rank is under way: all sides are there, and it has not ended.
  [[nodiscard]] Duration under_way(std::size_t r) const {
    std::vector<std::pair<Instant, Instant>> intervals;
    for (std::size_t t = 0; t < program(r).tasks().size(); ++t) {
      const TaskKind kind = program(r).tasks()[t].kind;
      if (kind != TaskKind::collective && kind != TaskKind::send && kind != TaskKind::receive) continue;
      intervals.emplace_back(record(r, t).active, record(r, t).end);
    }
    std::sort(intervals.begin(), intervals.end());
    Duration sum{};
    Instant until{};
    for (const auto& [begin, end] : intervals) {
      sum += std::max(Duration{}, end - std::max(begin, until));
      until = std::max(until, end);
    }
    return sum;
  }

  void check_memory(std::size_t r) {
    const RankResult& rank = result_.ranks[r];
    const std::vector<MemorySample>& samples = rank.memory_over_time;
    if (samples.empty()) return fail("rank {} has no memory samples", r);
    const auto earlier = [](const MemorySample& a, const MemorySample& b) { return a.when < b.when; };
    if (!std::is_sorted(samples.begin(), samples.end(), earlier)) fail("rank {}: memory samples out of order", r);
    if (samples.back().allocated != samples.front().allocated) {
      fail("rank {} begins with {} B and ends with {}", r, samples.front().allocated.count(),
           samples.back().allocated.count());
    }
    const Bytes most = std::max_element(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
                         return a.allocated < b.allocated;
                       })->allocated;
    Bytes by_tag{};
    for (const Bytes bytes : rank.memory.by_tag) by_tag += bytes;
    if (rank.memory.when != peak_reached(samples, most)) {
      fail("rank {}: the peak is said to be at {}", r, rank.memory.when.time_since_epoch().count());
    }
    if (rank.memory.peak != most || by_tag != most || most < most_held(r)) {
      fail("rank {}: peak {} B, by tag {}, samples up to {}, the program holds {}", r, rank.memory.peak.count(),
           by_tag.count(), most.count(), most_held(r).count());
    }
  }

  // The first sample that reaches the peak.
  [[nodiscard]] static Instant peak_reached(const std::vector<MemorySample>& samples, Bytes peak) {
    const auto found =
        std::find_if(samples.begin(), samples.end(), [&](const MemorySample& s) { return s.allocated == peak; });
    return found == samples.end() ? kNever : found->when;
  }

  // What the program has asked for and not given back, at most.
  [[nodiscard]] Bytes most_held(std::size_t r) const {
    Bytes held{};
    for (const MemoryOperation& operation : program(r).resident_memory()) held += operation.bytes;
    Bytes most = held;
    for (const Task& task : program(r).tasks()) {
      for (const MemoryOperation& operation : program(r).memory(task)) {
        held += operation.bytes;
        most = std::max(most, held);
      }
    }
    return most;
  }

  void note_collective(std::size_t r, std::size_t t) {
    const GroupKindId kind = program(r).collective(program(r).tasks()[t]).group;
    const CommunicatorId on = drawn_.workload.communicator_of[kind.index()][r];
    collectives_[{on, ordinals_[{r, kind}]++}].emplace_back(r, t);
  }
  void note_transfer(std::size_t r, std::size_t t) {
    const Task& task = program(r).tasks()[t];
    const TransferCall& call = program(r).transfer(task);
    const RankId peer = drawn_.workload.peer_kinds[call.peer.index()].of[r];
    const bool send = task.kind == TaskKind::send;
    const RankId from = send ? RankId(r) : peer;
    const RankId to = send ? peer : RankId(r);
    const std::uint32_t order = transfer_ordinals_[{from, to, call.tag, send}]++;
    transfers_[{from, to, call.tag, order}].emplace_back(r, t);
  }

  void check_communication() {
    for (const auto& [key, sides] : collectives_) {
      const auto& [r, t] = sides.front();
      const CollectiveCall& call = program(r).collective(program(r).tasks()[t]);
      const std::size_t members = drawn_.workload.communicators[key.first.index()].ranks.size();
      check_together(sides, members);
      for (std::size_t i = 0; i < sides.size() && members > 1; ++i) {
        expect_no_shorter(sides[i].first, sides[i].second,
                          transfer_time(least_received(call, members), into(gpu(sides[i].first))) - Duration(1));
      }
    }
    for (const auto& [key, sides] : transfers_) {
      check_together(sides, 2);
      const auto& [from, to, tag, order] = key;
      if (from == to) continue;
      const auto& [r, t] = sides.front();
      const TransferRoute way =
          transfer_route(drawn_.topology, gpu(from.index()), gpu(to.index()), drawn_.options.traffic.pxn);
      expect_no_shorter(r, t,
                        on_route({way.path.links, way.path.latency}, program(r).transfer(program(r).tasks()[t]).bytes));
    }
  }

  // All sides are active from the moment when the last of them is there, and end together.
  void check_together(const Sides& sides, std::size_t expected) {
    if (sides.size() != expected) return fail("{} sides where there should be {}", sides.size(), expected);
    Instant there{};
    for (const auto& [r, t] : sides) there = std::max(there, record(r, t).begin);
    for (const auto& [r, t] : sides) {
      if (record(r, t).active == there && record(r, t).end == record(sides.front().first, sides.front().second).end) {
        continue;
      }
      fail("rank {} task {} is active at {} and ends at {}, the last side is there at {}", r, t,
           record(r, t).active.time_since_epoch().count(), record(r, t).end.time_since_epoch().count(),
           there.time_since_epoch().count());
    }
  }

  // Bytes that some member cannot do without receiving, and (for the least of the members) any member.
  static Bytes least_received(const CollectiveCall& call, std::size_t members) {
    const auto n = static_cast<std::int64_t>(members);
    switch (call.op) {
      case CollectiveOp::all_reduce:
        return call.bytes;
      case CollectiveOp::reduce_scatter:
        return call.bytes / n;
      case CollectiveOp::all_gather:
      case CollectiveOp::all_to_all:
        return call.bytes - Bytes(divide_up(call.bytes.count(), n));
      case CollectiveOp::broadcast:
      case CollectiveOp::reduce:
        break;  // the root of the one receives nothing, nor do the others of the other
    }
    return Bytes(0);
  }
  // What all links into a GPU carry together.
  [[nodiscard]] BytesPerSecond into(GpuId gpu) const {
    const std::string name =
        fmt::format("node{}.gpu{}", drawn_.topology.node_of(gpu).value(), drawn_.topology.local_index(gpu));
    BytesPerSecond sum{};
    for (const LinkId link : drawn_.topology.find_links(name)) sum += machine_.hardware().link_bandwidth(link);
    return sum;
  }

  const SmallCase& drawn_;
  const RunResult& result_;
  Machine machine_;
  std::map<std::pair<CommunicatorId, std::uint32_t>, Sides> collectives_;
  std::map<std::pair<std::size_t, GroupKindId>, std::uint32_t> ordinals_;
  std::map<std::tuple<RankId, RankId, std::int32_t, std::uint32_t>, Sides> transfers_;
  std::map<std::tuple<RankId, RankId, std::int32_t, bool>, std::uint32_t> transfer_ordinals_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> broken_schedule_laws(const SmallCase& drawn, const RunResult& result) {
  return ScheduleLaws(drawn, result).broken();
}

}  // namespace orrery::fuzz
