// Once per rank and instant: kernels are started or adapted to what communication leaves them, and the rank's time is
// booked under the cause that holds from now on.
#include <algorithm>
#include <bit>

#include "sim/base/random.hpp"
#include "sim/exec/executor/executor.hpp"

namespace orrery {

// Puts the rank on the list for this instant's refresh.
void Executor::touch(std::uint32_t r) {
  if (ranks_[r].dirty) return;
  ranks_[r].dirty = true;
  dirty_.push_back(r);
  if (refresh_scheduled_) return;
  refresh_scheduled_ = true;
  machine_.at(machine_.now(), Owner::executor, target(Cue::refresh, 0, 0), EventPhase::start);
}

void Executor::refresh_all() {
  refresh_scheduled_ = false;
  std::swap(dirty_, refreshing_);
  for (const std::uint32_t r : refreshing_) refresh(r);
  refreshing_.clear();
}

void Executor::refresh(std::uint32_t r) {
  Rank& rank = ranks_[r];
  rank.dirty = false;
  if (rank.ready != 0 && player_.waits_for_launch(r)) yield_to_earlier(r);
  if (player_.running(r)) {
    player_.adapt(r, conditions(r));
  } else if (rank.ready != 0) {
    start_kernels(r);
  }
  account_->set(r, cause_now(r), machine_.now());
}

std::uint16_t Executor::cause_now(std::uint32_t r) const {
  return player_.running(r) ? std::uint16_t{kCompute} : cause_of_idleness(ranks_[r]);
}

// Kernels have what communication leaves them: at least 1 / kMostHeld of the SMs (communication.cpp says why).
KernelPlayer::Conditions Executor::conditions(std::uint32_t r) const {
  constexpr int kMostHeld = 2;  // communication holds at most one SM in this many
  const Rank& rank = ranks_[r];
  const int all = player_.multiprocessors(r);
  return {all - std::min<int>(rank.held, all / kMostHeld), rank.moving > 0};
}

// Kernels fill the GPU, so sequences of different streams take turns: the one that comes first in the program, among
// those of urgent streams that have been launched where there are any.
void Executor::start_kernels(std::uint32_t r) {
  Rank& rank = ranks_[r];
  std::uint64_t urgent = 0;
  for (std::uint64_t bits = rank.ready & rank.program->urgent_streams; bits != 0; bits &= bits - 1) {
    const auto s = static_cast<std::uint32_t>(std::countr_zero(bits));
    const Duration launched = rank.program->tasks[head_task(rank, s)].first_issued;
    if (rank.host_base + launched <= machine_.now()) urgent |= std::uint64_t{1} << s;
  }
  std::uint32_t chosen = 0;
  std::uint32_t task = 0xffffffff;
  for (std::uint64_t bits = urgent != 0 ? urgent : rank.ready; bits != 0; bits &= bits - 1) {
    const auto s = static_cast<std::uint32_t>(std::countr_zero(bits));
    if (head_task(rank, s) >= task) continue;
    chosen = s;
    task = head_task(rank, s);
  }
  rank.ready &= ~(std::uint64_t{1} << chosen);
  rank.kernel_stream = static_cast<std::uint8_t>(chosen);
  stream(rank, chosen).head = Head::active;
  const PlayTask& play = rank.program->tasks[task];
  player_.start(r, play.payload, rank.host_base + play.issue_begin, scale_of(rank, task), conditions(r));
  if (rank.record >= 0) {
    TaskRecord& record = records_[static_cast<std::size_t>(rank.record)][task];
    record.begin = record.active = player_.first_start(r);
  }
  // Should it be withdrawn again, it starts later still.
  if (play.dates_peak_at_begin) date_peak(rank, player_.first_start(r));
}

// What has the GPU still waits for the host to launch it. Something that comes first in the program, and so is launched
// no later, may have become ready since.
void Executor::yield_to_earlier(std::uint32_t r) {
  Rank& rank = ranks_[r];
  const std::uint32_t task = head_task(rank, rank.kernel_stream);
  bool earlier = false;
  for (std::uint64_t bits = rank.ready; bits != 0; bits &= bits - 1) {
    earlier = earlier || head_task(rank, static_cast<std::uint32_t>(std::countr_zero(bits))) < task;
  }
  if (!earlier) return;
  account_->settle(r, machine_.now());
  account_->move(r, kCompute, kOther, player_.withdraw(r));
  stream(rank, rank.kernel_stream).head = Head::ready;
  rank.ready |= std::uint64_t{1} << rank.kernel_stream;
}

void Executor::kernels_ended(std::uint32_t r) {
  Rank& rank = ranks_[r];
  // The whole sequence has been booked as computing; what its kernels did not need was waiting for launches.
  account_->settle(r, machine_.now());
  account_->move(r, kCompute, kOther, player_.waited(r));
  if (rank.record >= 0) {
    TaskRecord& record = records_[static_cast<std::size_t>(rank.record)][head_task(rank, rank.kernel_stream)];
    record.gaps = player_.gaps(r);
    record.late_launch = player_.late_launch(r);
  }
  complete(r, rank.kernel_stream);
}

// The jitter of one occurrence of a sequence: from the rank's own stream of random numbers and the task, whatever
// the order of events.
Scale Executor::scale_of(const Rank& rank, std::uint32_t task) const {
  if (options_.kernel_jitter == 0) return kUnscaled;
  constexpr double kLeast = 0.1;  // a sequence does not become ten times faster, however large the jitter
  const double normal = RandomStream(splitmix64(rank.jitter_seed ^ task)).normal();
  const double factor = std::max(kLeast, 1 + options_.kernel_jitter * normal);
  return static_cast<Scale>(factor * static_cast<double>(kUnscaled));
}

// The stream whose getting on the rank waits for: the compute stream, or, when that has nothing left, the one with the
// earliest task left.
std::optional<std::uint32_t> Executor::unfinished_stream(const Rank& rank) const {
  const std::uint32_t compute = rank.program->compute_stream;
  const auto unfinished = [&](std::uint32_t s) {
    return stream(rank, s).position < rank.program->stream_tasks[s].size();
  };
  if (compute != PlayProgram::kNoStream && unfinished(compute)) return compute;
  std::optional<std::uint32_t> first;
  for (std::uint32_t s = 0; s < rank.program->stream_tasks.size(); ++s) {
    if (unfinished(s) && (!first || head_task(rank, s) < head_task(rank, *first))) first = s;
  }
  return first;
}

// Follows what waits for what to whatever is really being waited for. It ends: each step leads to an earlier task of
// the program, or from a task to the synchronisation before it. Streams come before the host: a task that is neither
// issued nor ready is booked under what its streams wait for.
std::uint16_t Executor::cause_of_idleness(const Rank& rank) const {
  const std::optional<std::uint32_t> first = unfinished_stream(rank);
  std::uint32_t s = 0;
  if (first) {
    s = *first;
  } else if (rank.synchronised < rank.program->synchronisations.size()) {
    s = rank.host_waits_for;
  } else {
    return rank.done ? at_end_ : std::uint16_t{kOther};
  }
  for (;;) {
    const Stream& waited = stream(rank, s);
    switch (waited.head) {
      case Head::waits:
        s = waited.waits_for;
        continue;
      case Head::not_issued: {
        const Synchronisation& open = rank.program->synchronisations[rank.synchronised];
        s = open.host_work ? rank.host_waits_for : rank.program->tasks[open.task].stream;
        continue;
      }
      case Head::posted:
      case Head::active:
        break;
      case Head::exhausted:
      case Head::issue_known:
      case Head::ready:
        return kOther;
    }
    const std::uint32_t t = head_task(rank, s);
    const PlayTask& task = rank.program->tasks[t];
    const Program& program = *rank.program->program;
    const bool posted = waited.head == Head::posted;
    if (task.kind == TaskKind::collective) {
      return posted ? group_wait_[task.group_kind]
                    : static_cast<std::uint16_t>(kExposed + group_name_[task.group_kind]);
    }
    if (task.kind == TaskKind::copy) {
      const CopyCall& call = program.copy(program.tasks()[t]);
      if (call.offload) {
        return static_cast<std::uint16_t>(kExposed + offload_name_[static_cast<std::size_t>(call.direction)]);
      }
      return call.direction == CopyDirection::host_to_device ? kDataStall : kOther;
    }
    if (task.kind == TaskKind::kernels) return kCompute;
    const PeerKindId peer = program.transfer(program.tasks()[t]).peer;
    return posted ? peer_wait_[peer.index()] : static_cast<std::uint16_t>(kExposed + peer_name_[peer.index()]);
  }
}

}  // namespace orrery
