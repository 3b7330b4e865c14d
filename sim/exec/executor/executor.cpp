#include "sim/exec/executor/executor.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "sim/base/random.hpp"
#include "sim/exec/copy_route.hpp"
#include "sim/exec/executor/peer_groups.hpp"

namespace orrery {

namespace {

constexpr std::string_view kPipeline = "pipeline";

// Whether some task of the program copies state that is kept off the GPU.
bool offloads(const Program& program) {
  return std::any_of(program.tasks().begin(), program.tasks().end(),
                     [&](const Task& task) { return task.kind == TaskKind::copy && program.copy(task).offload; });
}

// What waiting for such a copy is called.
std::string_view offload_name(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::host_to_device:
    case CopyDirection::device_to_host:
      return "offload";
    case CopyDirection::in_host_memory:
      return kCpuWork;
    case CopyDirection::drive_to_host:
    case CopyDirection::host_to_drive:
      return "drive";
  }
  return {};
}

// Calls `use` with the number of each bit that is set, from the lowest.
template <class Use>
void for_each_bit(std::uint64_t bits, Use&& use) {
  for (; bits != 0; bits &= bits - 1) use(static_cast<std::uint32_t>(std::countr_zero(bits)));
}

std::uint64_t bit(std::uint32_t number) { return std::uint64_t{1} << number; }

// Whether the communicator has members with different programs.
bool joins_roles(const Communicator& communicator, const Workload& workload) {
  return std::any_of(communicator.ranks.begin(), communicator.ranks.end(), [&](RankId rank) {
    return workload.role_of[rank.index()] != workload.role_of[communicator.ranks.front().index()];
  });
}

}  // namespace

Executor::Executor(Machine& machine, const Workload& workload, const Partition& partition,
                   const ExecutionOptions& options)
    : machine_(machine),
      workload_(workload),
      partition_(partition),
      options_(options),
      costs_{options.launch, options.collective_launch, options.graphs, options.driver_launch},
      table_(workload, costs_),
      player_(machine, table_),
      matcher_(partition.groups.size(), partition.channels.size()) {
  ORRERY_CHECK(partition.ranks.size() < kMaxRanks, "too many rank classes", partition.ranks.size());
  prepare_programs();
  prepare_ranks();
  name_communication();
  account_.emplace(ranks_.size(), names_.size());
}

void Executor::prepare_programs() {
  calls_.resize(workload_.group_kinds.size());
  programs_.reserve(workload_.programs.size());
  ledgers_.reserve(workload_.programs.size());
  for (std::size_t role = 0; role < workload_.programs.size(); ++role) {
    const Program& program = workload_.programs[role];
    programs_.push_back(prepare(program, workload_.kernels, costs_, table_.first_sequence(RoleId(role)), calls_));
    mark_peak(ledgers_.emplace_back(program), programs_.back());
  }
  std::uint32_t entries = 0;
  for (const Partition::Group& group : partition_.groups) {
    group_calls_.push_back(entries);
    entries += static_cast<std::uint32_t>(calls_[group.kind.index()].size());
  }
  group_multiprocessors_.assign(entries, -1);
  channel_use_.resize(partition_.channels.size());
}

// The moment of the peak is the latest at which one of the operations up to it takes effect.
void Executor::mark_peak(const MemoryLedger& ledger, PlayProgram& program) {
  if (!ledger.peak_task().valid()) return;
  for (const MemoryLedger::Step& step : ledger.steps()) {
    if (step.task > ledger.peak_task().index()) return;
    PlayTask& task = program.tasks[step.task];
    task.dates_peak_at_begin = step.rises;
    task.dates_peak_at_end = step.falls && step.task < ledger.peak_task().index();
    if (task.kind == TaskKind::host) program.dated_host_tasks.push_back(step.task);
  }
}

void Executor::prepare_ranks() {
  std::vector<bool> recorded(partition_.ranks.size(), options_.record_all);
  for (const RankId wanted : options_.record) {
    if (wanted.valid() && wanted.index() < partition_.class_of.size()) {
      recorded[partition_.class_of[wanted.index()]] = true;
    }
  }
  for (std::size_t r = 0; r < partition_.ranks.size(); ++r) {
    const Partition::Rank& member = partition_.ranks[r];
    Rank rank;
    rank.program = &programs_[member.role.index()];
    rank.streams = static_cast<std::uint32_t>(streams_.size());
    rank.tasks_left = rank.program->gpu_tasks;
    rank.horizon = rank.program->horizon(0);
    rank.jitter_seed =
        RandomStream(options_.seed, "kernel_jitter", static_cast<std::uint64_t>(member.representative.index())).next();
    if (recorded[r]) {
      rank.record = static_cast<std::int32_t>(records_.size());
      auto& tasks = records_.emplace_back(rank.program->tasks.size());
      for (std::size_t t = 0; t < tasks.size(); ++t) tasks[t].task = TaskId(t);
    }
    streams_.resize(streams_.size() + rank.program->stream_tasks.size());
    player_.add_gpu(
        member.gpu,
        table_.gpu_kind(machine_.topology().gpu_spec(member.gpu), machine_.hardware().gpu_factor(member.gpu)),
        target(Cue::kernels, r, 0));
    ranks_.push_back(rank);
  }
}

void Executor::name_communication() {
  const auto name = [this](std::string_view wanted) {
    const auto found = std::find(names_.begin(), names_.end(), wanted);
    const auto index = static_cast<std::uint16_t>(found - names_.begin());
    if (found == names_.end()) names_.emplace_back(wanted);
    return index;
  };
  for (const GroupKind& kind : workload_.group_kinds) group_name_.push_back(name(kind.name));
  for (const PeerKind& kind : workload_.peer_kinds) {
    peer_name_.push_back(name(direction_dropped(kind.name)));
    const bool pipeline = direction_dropped(kind.name) == kPipeline;
    peer_wait_.push_back(pipeline ? kBubble : kWaiting);
    if (pipeline) at_end_ = kBubble;
  }
  if (std::any_of(workload_.programs.begin(), workload_.programs.end(), offloads)) {
    for (const CopyDirection direction : kCopyDirections) {
      offload_name_[static_cast<std::size_t>(direction)] = name(offload_name(direction));
    }
  }
  group_wait_.assign(workload_.group_kinds.size(), kWaiting);
  for (const Communicator& communicator : workload_.communicators) {
    if (at_end_ == kBubble && joins_roles(communicator, workload_)) group_wait_[communicator.kind.index()] = kBubble;
  }
  transfer_ranks_ = transfer_communicator_sizes(workload_);
}

// Kernels in a precision that the GPU they are placed on does not compute in. One problem per GPU and kernel.
Problems Executor::unplayable() const {
  Problems problems;
  std::vector<std::pair<const GpuSpec*, RoleId>> seen;
  for (const Partition::Rank& member : partition_.ranks) {
    const GpuSpec& gpu = machine_.topology().gpu_spec(member.gpu);
    if (std::find(seen.begin(), seen.end(), std::pair(&gpu, member.role)) != seen.end()) continue;
    seen.emplace_back(&gpu, member.role);
    for (const KernelSequence& sequence : workload_.programs[member.role.index()].sequences()) {
      for (const KernelId id : sequence) {
        const Kernel& kernel = workload_.kernels[id.index()];
        if (can_run(kernel, gpu)) continue;
        problems.push_back(
            {"training.precision",
             fmt::format("{} does not compute {} in {}", gpu.name, kernel.name, name_of(kernel.precision)),
             "",
             {}});
        return problems;
      }
    }
  }
  return problems;
}

// Offload to nodes of which the catalogue does not know what they have beside their GPUs.
std::optional<Problem> Executor::nothing_to_offload_to() const {
  std::vector<std::array<bool, kCopyDirections.size()>> wanted;  // [roles][directions]
  for (const Program& program : workload_.programs) {
    auto& directions = wanted.emplace_back();
    for (const Task& task : program.tasks()) {
      if (task.kind != TaskKind::copy || !program.copy(task).offload) continue;
      directions[static_cast<std::size_t>(program.copy(task).direction)] = true;
    }
  }
  const Topology& topology = machine_.topology();
  for (const Partition::Rank& member : partition_.ranks) {
    for (const CopyDirection direction : kCopyDirections) {
      if (!wanted[member.role.index()][static_cast<std::size_t>(direction)]) continue;
      const std::int32_t rank = member.representative.value();
      if (topology.host_memory(member.gpu).links.empty()) {
        return Problem{"cluster.node.memory_link",
                       fmt::format("the plan offloads to the host of rank {}, whose memory is not known", rank),
                       "such as memory_link: ddr4-3200-8ch, of one socket",
                       {}};
      }
      if (!copy_route(topology, member.gpu, direction, true).links.empty()) continue;
      return Problem{"cluster.node.drives",
                     fmt::format("the plan offloads to drives, and the node of rank {} has none", rank),
                     "such as drives: 8, drive_read: nvme-gen4-read, drive_write: nvme-gen4-write",
                     {}};
    }
  }
  return std::nullopt;
}

// A host thread that needs longer than the longest step for its own work and launches.
Problems Executor::host_too_slow() const {
  for (const PlayProgram& program : programs_) {
    if (program.host_total <= kLongestStep) continue;
    return {{"training.framework", std::string(kTooLongMessage), "the host's launches alone take longer", {}}};
  }
  return {};
}

Result<RunResult> Executor::run(TrafficPort& traffic) {
  if (Problems problems = unplayable(); !problems.empty()) return problems;
  if (std::optional<Problem> problem = nothing_to_offload_to()) return Problems{std::move(*problem)};
  if (Problems problems = host_too_slow(); !problems.empty()) return problems;
  traffic_ = &traffic;
  begin();
  after_event();
  machine_.run(*this, traffic);
  if (!problems_.empty()) return problems_;
  if (machine_.ran_too_long()) return too_long();
  if (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.done; })) return deadlock();
  return result(traffic);
}

void Executor::begin() {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    move_horizon(r, 0);
    look_at_host(r);
    for (std::uint32_t s = 0; s < ranks_[r].program->stream_tasks.size(); ++s) look_at_head(r, s);
    touch(r);
    finish_if_done(r);
  }
}

void Executor::handle(std::uint32_t event) {
  const auto cue = static_cast<Cue>(event & 7);
  const std::uint32_t s = (event >> 3) & 63;
  const std::uint32_t r = event >> 9;
  switch (cue) {
    case Cue::refresh:
      refresh_all();
      break;
    case Cue::kernels:
      if (player_.timer(r)) kernels_ended(r);
      break;
    case Cue::issued:
      begin_head(r, s, head_task(ranks_[r], s));
      break;
    case Cue::copied:
      complete(r, s);
      break;
    case Cue::host_done:
      finish_if_done(r);
      break;
  }
}

void Executor::flow_completed(std::uint32_t event) {
  const std::uint32_t s = (event >> 3) & 63;
  const std::uint32_t r = event >> 9;
  if (static_cast<Cue>(event & 7) == Cue::kernels) {
    if (player_.flow_completed(r)) kernels_ended(r);
    return;
  }
  const Program& program = *ranks_[r].program->program;
  const CopyCall& call = program.copy(program.tasks()[head_task(ranks_[r], s)]);
  const Duration latency =
      copy_route(machine_.topology(), partition_.ranks[r].gpu, call.direction, call.offload).latency;
  machine_.after(latency, Owner::executor, target(Cue::copied, r, s));
}

// Ends of operations are taken up here, not in operation_ended(): the traffic layer may be in the middle of something.
void Executor::after_event() {
  for (std::size_t i = 0; i < ended_.size(); ++i) end_operation(ended_[i]);
  ended_.clear();
}

// The first stream on which a dependency of the task has not ended.
std::optional<std::uint32_t> Executor::blocking_stream(const Rank& rank, const PlayTask& task) const {
  for (const Dependency& dependency : rank.program->dependencies_of(task)) {
    if (stream(rank, dependency.stream).position <= dependency.place) return dependency.stream;
  }
  return std::nullopt;
}

// Finds out what the head of a stream can do now. Called when something that it may wait for has changed.
void Executor::look_at_head(std::uint32_t r, std::uint32_t s) {
  Rank& rank = ranks_[r];
  Stream& mine = stream(rank, s);
  const auto& tasks = rank.program->stream_tasks[s];
  if (mine.position == tasks.size()) {
    mine.head = Head::exhausted;
    return;
  }
  const std::uint32_t t = tasks[mine.position];
  if (const auto other = blocking_stream(rank, rank.program->tasks[t])) {
    mine.head = Head::waits;
    mine.waits_for = static_cast<std::uint8_t>(*other);
    stream(rank, *other).waiting |= bit(s);
    return;
  }
  if (t >= rank.horizon) {
    mine.head = Head::not_issued;
    rank.waiting_for_host |= bit(s);
    return;
  }
  issue_head(r, s, t);
}

// Nothing but the host's pace can hold the task up now. Kernels need no event for that: their launches are part of
// what the player computes.
void Executor::issue_head(std::uint32_t r, std::uint32_t s, std::uint32_t t) {
  Rank& rank = ranks_[r];
  const PlayTask& task = rank.program->tasks[t];
  if (task.kind == TaskKind::kernels) {
    stream(rank, s).head = Head::ready;
    rank.ready |= bit(s);
    touch(r);
    return;
  }
  const Instant issued = rank.host_base + task.issued;
  if (issued > machine_.now()) {
    stream(rank, s).head = Head::issue_known;
    machine_.at(issued, Owner::executor, target(Cue::issued, r, s));
    return;
  }
  begin_head(r, s, t);
}

void Executor::begin_head(std::uint32_t r, std::uint32_t s, std::uint32_t t) {
  Rank& rank = ranks_[r];
  if (rank.record >= 0) {
    TaskRecord& record = records_[static_cast<std::size_t>(rank.record)][t];
    record.begin = record.active = machine_.now();
  }
  if (rank.program->tasks[t].dates_peak_at_begin) date_peak(rank, machine_.now());
  stream(rank, s).head = Head::posted;
  touch(r);
  switch (rank.program->tasks[t].kind) {
    case TaskKind::collective:
      post_collective(r, t);
      break;
    case TaskKind::send:
    case TaskKind::receive:
      post_transfer(r, t);
      break;
    case TaskKind::copy:
      start_copy(r, t);
      break;
    case TaskKind::kernels:
    case TaskKind::host:
      ORRERY_CHECK(false, "kernels and host work are not begun here", t);
  }
}

// The head of a stream has ended now.
void Executor::complete(std::uint32_t r, std::uint32_t s) {
  Rank& rank = ranks_[r];
  Stream& mine = stream(rank, s);
  const std::uint32_t t = head_task(rank, s);
  if (rank.record >= 0) records_[static_cast<std::size_t>(rank.record)][t].end = machine_.now();
  if (rank.program->tasks[t].dates_peak_at_end) date_peak(rank, machine_.now());
  ++mine.position;
  --rank.tasks_left;
  touch(r);
  const std::uint64_t woken = std::exchange(mine.waiting, 0);
  look_at_head(r, s);
  if (rank.program->tasks[t].blocks_host) {
    rank.host_base = machine_.now() - rank.program->tasks[t].issued;
    host_passed(r);
  }
  for_each_bit(woken, [&](std::uint32_t other) {
    if (other == kHost) {
      look_at_host(r);
    } else {
      look_at_head(r, other);
    }
  });
  finish_if_done(r);
}

// If the next synchronisation is host work that depends on the GPU: begins it when that has ended.
void Executor::look_at_host(std::uint32_t r) {
  Rank& rank = ranks_[r];
  const auto& synchronisations = rank.program->synchronisations;
  if (rank.synchronised == synchronisations.size() || !synchronisations[rank.synchronised].host_work) return;
  const PlayTask& task = rank.program->tasks[synchronisations[rank.synchronised].task];
  if (const auto other = blocking_stream(rank, task)) {
    rank.host_waits_for = static_cast<std::uint8_t>(*other);
    stream(rank, *other).waiting |= bit(kHost);
    return;
  }
  rank.host_base = std::max(rank.host_base, machine_.now() - task.issue_begin);
  host_passed(r);
}

// A synchronisation is over: the host goes on, up to the next.
void Executor::host_passed(std::uint32_t r) {
  Rank& rank = ranks_[r];
  const std::uint32_t begin = rank.horizon;
  ++rank.synchronised;
  rank.horizon = rank.program->horizon(rank.synchronised);
  move_horizon(r, begin);
  for_each_bit(std::exchange(rank.waiting_for_host, 0), [&](std::uint32_t s) { look_at_head(r, s); });
  touch(r);
  look_at_host(r);
}

// The host's times for the tasks from `begin` to the horizon are known now: notes those that somebody wants.
void Executor::move_horizon(std::uint32_t r, std::uint32_t begin) {
  Rank& rank = ranks_[r];
  const auto& tasks = rank.program->tasks;
  for (const std::uint32_t t : rank.program->dated_host_tasks) {
    if (t < begin || t >= rank.horizon) continue;
    if (tasks[t].dates_peak_at_begin) date_peak(rank, rank.host_base + tasks[t].issue_begin);
    if (tasks[t].dates_peak_at_end) date_peak(rank, rank.host_base + tasks[t].issued);
  }
  if (rank.record < 0) return;
  std::vector<TaskRecord>& records = records_[static_cast<std::size_t>(rank.record)];
  for (std::uint32_t t = begin; t < rank.horizon; ++t) {
    TaskRecord& record = records[t];
    record.issue_begin = rank.host_base + tasks[t].issue_begin;
    record.issued = rank.host_base + tasks[t].issued;
    if (tasks[t].kind != TaskKind::host) continue;
    record.begin = record.active = record.issue_begin;
    record.end = record.issued;
  }
}

void Executor::finish_if_done(std::uint32_t r) {
  Rank& rank = ranks_[r];
  if (rank.done || rank.tasks_left > 0 || rank.synchronised < rank.program->synchronisations.size()) return;
  const Instant host_end = rank.host_base + rank.program->host_total;
  if (host_end > machine_.now()) {
    machine_.at(host_end, Owner::executor, target(Cue::host_done, r, 0));
    return;
  }
  rank.done = true;
  rank.finished = machine_.now();
  touch(r);
}

}  // namespace orrery
