// The executor's communication and copies: posting, meeting, beginning and ending.
//
// SMs. A communication kernel is resident on a GPU from the moment that side has posted it until it ends: it spins
// while it waits for the others. It takes memory bandwidth only while bytes move. How many SMs its blocks take:
//  - A communicator has one kernel on a GPU at a time. NCCL launches the operations of a communicator in order (its
//    launches wait for one another, src/enqueue.cc), and a group of sends and receives is one kernel in which
//    operations share channels, a block each (addP2pToPlan). So of what is open on one communicator at the same time,
//    the operation with the most blocks counts, not the sum.
//  - The transfers of a rank to its peers of one name ("pipeline") go over one communicator, whose ranks are all that
//    such transfers join: Megatron-LM batches them on the pipeline's group (batch_isend_irecv), and PyTorch gives
//    single ones to the parent communicator where communicators are made eagerly (ProcessGroupNCCL::pointToPoint).
//  - Kernels of different communicators are resident side by side, an SM to each block, since the registers of one fill
//    an SM. But communication never has more than half of a GPU (kMostHeld): where compute fills the GPU, blocks get
//    SMs only as compute blocks end, and those that are already there are not pushed out. What is beyond that is taken
//    to run in what blocks it has.
// What is left out: without eager communicators PyTorch makes one of two ranks for each pair of peers, where a transfer
// over NVLink has four times the blocks that it has in a communicator of eight.
#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "sim/exec/collectives/routed_plan.hpp"
#include "sim/exec/copy_route.hpp"
#include "sim/exec/executor/executor.hpp"

namespace orrery {

int Executor::multiprocessors_of_transfer(std::uint32_t channel, Bytes bytes, int ranks) {
  ChannelUse& use = channel_use_[channel];
  if (use.bytes != bytes || use.ranks != ranks) {
    const Partition::Channel& sides = partition_.channels[channel];
    use.bytes = bytes;
    use.ranks = ranks;
    use.multiprocessors = traffic_->multiprocessors_of_transfer(sides.from, sides.to, bytes, ranks);
  }
  return use.multiprocessors;
}

int Executor::multiprocessors_of(const Operation& operation) {
  std::int16_t& known = group_multiprocessors_[group_calls_[operation.place] + operation.call];
  if (known < 0) {
    const Partition::Group& group = partition_.groups[operation.place];
    known = static_cast<std::int16_t>(
        traffic_->multiprocessors(partition_.gpus_of(group), calls_[group.kind.index()][operation.call]));
  }
  return known;
}

void Executor::post_collective(std::uint32_t r, std::uint32_t t) {
  const PlayTask& task = ranks_[r].program->tasks[t];
  const std::uint32_t g = partition_.group_of[task.group_kind][r];
  ORRERY_CHECK(g != Partition::kNone, "a collective needs a communicator", r, t);
  const Partition::Group& group = partition_.groups[g];
  const auto members = partition_.members_of(group);
  std::uint32_t count = 1;
  if (members.size() != group.gpus_end - group.gpus_begin) {  // folded: some classes have several members here
    for (const Partition::Member& member : members) {
      if (member.rank == r) count = member.count;
    }
  }
  const std::uint32_t id = matcher_.arrive(g, task.ordinal, task.payload, count);
  Operation& operation = matcher_[id];
  if (operation.call != task.payload) {
    const CollectiveCall& expected = calls_[task.group_kind][operation.call];
    const CollectiveCall& found = calls_[task.group_kind][task.payload];
    problems_.push_back(
        {"parallelism",
         fmt::format("rank {} issues {} of {} bytes as its collective {} over group '{}', where others issue {} of {}",
                     partition_.ranks[r].representative.value(), name_of(found.op), found.bytes.count(), task.ordinal,
                     workload_.group_kinds[task.group_kind].name, name_of(expected.op), expected.bytes.count()),
         "",
         {}});
    return;
  }
  occupy(r, task.stream, task.group_kind, multiprocessors_of(operation));
  if (operation.arrived < group.gpus_end - group.gpus_begin) return;

  operation.active = true;
  Duration latency{};
  if (!records_.empty()) {
    latency = traffic_->latency(partition_.gpus_of(group), calls_[task.group_kind][task.payload]);
  }
  for (const Partition::Member& member : members) {
    activate(member.rank, ranks_[member.rank].program->collective_tasks[task.group_kind][task.ordinal], latency);
  }
  if (group.gpus_end - group.gpus_begin == 1) {
    ended_.push_back(id);
    return;
  }
  traffic_->start_collective(partition_.gpus_of(group), calls_[task.group_kind][task.payload], group.multiplicity,
                             group_name_[task.group_kind], id);
}

std::uint32_t Executor::channel_of(std::uint32_t r, std::uint32_t t) const {
  const Program& program = *ranks_[r].program->program;
  const TransferCall& call = program.transfer(program.tasks()[t]);
  const Partition::Channels& channels = partition_.channels_of[call.peer.index()][r];
  return program.tasks()[t].kind == TaskKind::send ? channels.outgoing : channels.incoming;
}

void Executor::post_transfer(std::uint32_t r, std::uint32_t t) {
  const Program& program = *ranks_[r].program->program;
  const TransferCall& call = program.transfer(program.tasks()[t]);
  const bool send = program.tasks()[t].kind == TaskKind::send;
  const std::uint32_t c = channel_of(r, t);
  ORRERY_CHECK(c != Partition::kNone, "a transfer needs a peer", r, t);
  const std::uint32_t id = matcher_.post(c, send, t, call.tag, call.bytes);
  Operation& operation = matcher_[id];
  if (operation.bytes != call.bytes) {
    problems_.push_back({"parallelism",
                         fmt::format("rank {} {} {} bytes with tag {}, where its peer has {}",
                                     partition_.ranks[r].representative.value(), send ? "sends" : "receives",
                                     call.bytes.count(), call.tag, operation.bytes.count()),
                         "",
                         {}});
    return;
  }
  const std::uint16_t name = peer_name_[call.peer.index()];
  const int ranks = transfer_ranks_[call.peer.index()][partition_.ranks[r].representative.index()];
  occupy(r, ranks_[r].program->tasks[t].stream, workload_.group_kinds.size() + name,
         multiprocessors_of_transfer(c, call.bytes, ranks));
  if (operation.send_task == Operation::kNone || operation.receive_task == Operation::kNone) return;

  operation.active = true;
  const Partition::Channel& channel = partition_.channels[c];
  Duration latency{};
  if (!records_.empty()) latency = traffic_->latency_of_transfer(channel.from, channel.to, call.bytes);
  activate(channel.sender, operation.send_task, latency);
  activate(channel.receiver, operation.receive_task, latency);
  traffic_->start_transfer(channel.from, channel.to, call.bytes, channel.multiplicity, name, id);
}

// Bytes begin to move for this side.
void Executor::activate(std::uint32_t r, std::uint32_t t, Duration latency) {
  Rank& rank = ranks_[r];
  stream(rank, rank.program->tasks[t].stream).head = Head::active;
  ++rank.moving;
  if (rank.record >= 0) {
    TaskRecord& record = records_[static_cast<std::size_t>(rank.record)][t];
    record.active = machine_.now();
    record.latency = latency;
  }
  touch(r);
}

void Executor::end_operation(std::uint32_t id) {
  const Operation operation = matcher_[id];
  ORRERY_CHECK(operation.active, "an operation ends once, after it has begun", id);
  matcher_.close(id);
  if (!operation.collective) {
    const Partition::Channel& channel = partition_.channels[operation.place];
    end_communication(channel.sender, operation.send_task);
    end_communication(channel.receiver, operation.receive_task);
    return;
  }
  const Partition::Group& group = partition_.groups[operation.place];
  for (const Partition::Member& member : partition_.members_of(group)) {
    end_communication(member.rank,
                      ranks_[member.rank].program->collective_tasks[group.kind.index()][operation.ordinal]);
  }
}

void Executor::end_communication(std::uint32_t r, std::uint32_t t) {
  Rank& rank = ranks_[r];
  const std::uint32_t s = rank.program->tasks[t].stream;
  occupy(r, s, 0, 0);
  --rank.moving;
  complete(r, s);
}

// The communication at the head of a stream has its kernel on the GPU from now on; no blocks: no longer.
void Executor::occupy(std::uint32_t r, std::uint32_t s, std::size_t communicator, int blocks) {
  Rank& rank = ranks_[r];
  Stream& mine = stream(rank, s);
  mine.blocks = static_cast<std::uint16_t>(blocks);
  mine.communicator = static_cast<std::uint16_t>(communicator);
  const std::uint64_t bit = std::uint64_t{1} << s;
  rank.resident = blocks > 0 ? rank.resident | bit : rank.resident & ~bit;
  count_held(rank);
}

// Adds up, over communicators, the most blocks that one of its operations has: streams are looked at in order, and what
// a later one has beyond the earlier ones of its communicator is added.
void Executor::count_held(Rank& rank) const {
  int held = 0;
  for (std::uint64_t bits = rank.resident; bits != 0; bits &= bits - 1) {
    const Stream& mine = stream(rank, static_cast<std::uint32_t>(std::countr_zero(bits)));
    int counted = 0;
    for (std::uint64_t before = rank.resident & ((bits & -bits) - 1); before != 0; before &= before - 1) {
      const Stream& other = stream(rank, static_cast<std::uint32_t>(std::countr_zero(before)));
      if (other.communicator == mine.communicator) counted = std::max<int>(counted, other.blocks);
    }
    held += std::max(0, mine.blocks - counted);
  }
  rank.held = static_cast<std::uint16_t>(held);
}

// A copy is one flow over the PCIe path and the host's memory, then the path's latency. It takes no memory bandwidth
// from kernels: a PCIe link carries about a hundredth of it. Work of the CPUs and of drives is played likewise.
void Executor::start_copy(std::uint32_t r, std::uint32_t t) {
  Rank& rank = ranks_[r];
  const Program& program = *rank.program->program;
  const CopyCall& call = program.copy(program.tasks()[t]);
  const std::uint32_t s = rank.program->tasks[t].stream;
  stream(rank, s).head = Head::active;
  if (call.bytes <= Bytes(0)) {
    machine_.after(Duration{}, Owner::executor, target(Cue::copied, r, s));
    return;
  }
  UseCounter uses;
  for (const LinkId link : copy_route(machine_.topology(), partition_.ranks[r].gpu, call.direction, call.offload).links)
    uses.add_link(link);
  machine_.start_flow(call.bytes, kUncapped, crossings_of(machine_, uses.take(), partition_.ranks[r].multiplicity),
                      Owner::executor, target(Cue::copied, r, s));
}

}  // namespace orrery
