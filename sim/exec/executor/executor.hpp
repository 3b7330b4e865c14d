// The executor: plays the programs of all rank classes out on a machine.
//
// State. Programs are shared; a rank keeps positions in them: per stream how many tasks have ended, and what its head
// (the first that has not) is doing; for the host a base time and how many synchronisations are over; what its GPU's
// kernels are doing; and how many SMs communication holds.
//
// What moves things on. A head is looked at when the task before it ends, when the stream that it waits for gets on,
// and when the host's horizon moves: never by polling. Each stream has a word with a bit for each stream that waits for
// it. Kernels, and the booking of time, are brought up to date once per rank and instant (refresh), after everything
// that ends in this instant has ended: what happens within an instant is thus independent of the order in which its
// events are handled, which is also what folding needs.
//
// Phases of an instant: complete (tasks end, heads move on, communication meets), start (refresh), settle (the fluid
// network shares bandwidth anew).
//
// Cost: one event per kernel sequence and per communication, plus one per issue that a communication has to wait for;
// about 110 bytes a rank and 24 a stream of each rank.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/problem.hpp"
#include "sim/exec/execute.hpp"
#include "sim/exec/executor/kernel_player.hpp"
#include "sim/exec/executor/matching.hpp"
#include "sim/exec/executor/memory_ledger.hpp"
#include "sim/exec/executor/partition.hpp"
#include "sim/exec/executor/play_program.hpp"
#include "sim/exec/executor/sequence_times.hpp"
#include "sim/exec/executor/time_account.hpp"
#include "sim/exec/machine.hpp"
#include "sim/exec/traffic_port.hpp"
#include "sim/results/run_result.hpp"

namespace orrery {

// What a rank waits for while the CPUs of its host work on what it has offloaded.
inline constexpr std::string_view kCpuWork = "cpu";

// kLongestStep is 26 days.
inline constexpr std::string_view kTooLongMessage = "a step longer than 26 days cannot be simulated";

class Executor final : public TrafficListener {
 public:
  // All must outlive the executor.
  Executor(Machine& machine, const Workload& workload, const Partition& partition, const ExecutionOptions& options);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Plays from the beginning to the end. Once.
  [[nodiscard]] Result<RunResult> run(TrafficPort& traffic);

  // Called by Machine::run and by the traffic layer.
  void handle(std::uint32_t target);
  void flow_completed(std::uint32_t target);
  void after_event();
  void operation_ended(std::uint64_t token) override { ended_.push_back(static_cast<std::uint32_t>(token)); }

 private:
  // What the head of a stream is doing.
  enum class Head : std::uint8_t {
    exhausted,    // there is none
    waits,        // for another stream to get on: Stream::waits_for
    not_issued,   // lies behind the host's horizon
    issue_known,  // an event will come when the host issues it
    ready,        // kernels: next when the GPU is free
    posted,       // communication: waits for the other side
    active,       // runs
  };

  struct Stream {
    std::uint64_t waiting = 0;   // bits of the streams (and kHost) that wait for this one to get on
    std::uint32_t position = 0;  // tasks that have ended
    Head head = Head::exhausted;
    std::uint8_t waits_for = 0;
    std::uint16_t blocks = 0;        // of the communication at its head, while that is posted or active: SMs
    std::uint16_t communicator = 0;  // that those blocks work for: a group kind, or beyond them a name of peers
  };
  static constexpr std::uint32_t kHost = 63;  // the host's bit beside those of the streams

  struct Rank {
    const PlayProgram* program = nullptr;
    std::uint64_t waiting_for_host = 0;  // bits of streams whose heads are not issued
    std::uint64_t ready = 0;             // bits of streams whose heads are kernels that may start
    std::uint64_t resident = 0;          // bits of streams whose heads are communication kernels on the GPU
    Instant host_base{};
    Instant finished{};
    Instant memory_peak_at{};  // the latest so far of the moments that date the peak
    std::uint64_t jitter_seed = 0;
    std::uint32_t streams = 0;       // index of the first of its streams
    std::uint32_t synchronised = 0;  // synchronisations that are over
    std::uint32_t horizon = 0;
    std::uint32_t tasks_left = 0;
    std::int32_t record = -1;  // index in records_
    std::uint16_t held = 0;    // SMs that communication holds
    std::uint16_t moving = 0;  // communications that move bytes to or from this GPU
    std::uint8_t host_waits_for = 0;
    std::uint8_t kernel_stream = 0;  // of the running sequence
    bool dirty = false;              // is on the list for refresh
    bool done = false;
  };

  // What an event's target says: what for (3 bits), a stream (6), a rank (23).
  enum class Cue : std::uint32_t { refresh, kernels, issued, copied, host_done };
  static constexpr std::uint32_t kMaxRanks = 1U << 23;
  static std::uint32_t target(Cue cue, std::size_t rank, std::uint32_t stream) {
    return static_cast<std::uint32_t>(rank) << 9 | stream << 3 | static_cast<std::uint32_t>(cue);
  }

  // Set-up (executor.cpp).
  void prepare_programs();
  static void mark_peak(const MemoryLedger& ledger, PlayProgram& program);
  void prepare_ranks();
  void name_communication();
  [[nodiscard]] Problems unplayable() const;
  [[nodiscard]] Problems host_too_slow() const;
  void begin();

  // Streams (executor.cpp).
  Stream& stream(const Rank& rank, std::uint32_t s) { return streams_[rank.streams + s]; }
  [[nodiscard]] const Stream& stream(const Rank& rank, std::uint32_t s) const { return streams_[rank.streams + s]; }
  [[nodiscard]] std::uint32_t head_task(const Rank& rank, std::uint32_t s) const {
    return rank.program->stream_tasks[s][stream(rank, s).position];
  }
  void look_at_head(std::uint32_t r, std::uint32_t s);
  std::optional<std::uint32_t> blocking_stream(const Rank& rank, const PlayTask& task) const;
  void issue_head(std::uint32_t r, std::uint32_t s, std::uint32_t t);
  void begin_head(std::uint32_t r, std::uint32_t s, std::uint32_t t);
  void complete(std::uint32_t r, std::uint32_t s);
  void look_at_host(std::uint32_t r);
  void host_passed(std::uint32_t r);
  void move_horizon(std::uint32_t r, std::uint32_t begin);
  static void date_peak(Rank& rank, Instant when) { rank.memory_peak_at = std::max(rank.memory_peak_at, when); }
  void finish_if_done(std::uint32_t r);

  // Communication and copies (communication.cpp).
  void post_collective(std::uint32_t r, std::uint32_t t);
  void post_transfer(std::uint32_t r, std::uint32_t t);
  void activate(std::uint32_t r, std::uint32_t t, Duration latency);
  void end_operation(std::uint32_t id);
  void end_communication(std::uint32_t r, std::uint32_t t);
  void occupy(std::uint32_t r, std::uint32_t s, std::size_t communicator, int blocks);
  void count_held(Rank& rank) const;
  void start_copy(std::uint32_t r, std::uint32_t t);
  [[nodiscard]] std::optional<Problem> nothing_to_offload_to() const;
  int multiprocessors_of(const Operation& operation);
  int multiprocessors_of_transfer(std::uint32_t channel, Bytes bytes, int ranks);
  [[nodiscard]] std::uint32_t channel_of(std::uint32_t r, std::uint32_t t) const;

  // Kernels and booking of time (refresh.cpp).
  void touch(std::uint32_t r);
  void refresh_all();
  void refresh(std::uint32_t r);
  void start_kernels(std::uint32_t r);
  void yield_to_earlier(std::uint32_t r);
  void kernels_ended(std::uint32_t r);
  [[nodiscard]] Scale scale_of(const Rank& rank, std::uint32_t task) const;
  [[nodiscard]] KernelPlayer::Conditions conditions(std::uint32_t r) const;
  [[nodiscard]] std::uint16_t cause_of_idleness(const Rank& rank) const;
  [[nodiscard]] std::optional<std::uint32_t> unfinished_stream(const Rank& rank) const;

  // Results (report.cpp).
  [[nodiscard]] RunResult result(const TrafficPort& traffic);
  [[nodiscard]] RankResult rank_result(std::uint32_t r, Instant end);
  [[nodiscard]] std::vector<MemorySample> memory_over_time(const MemoryLedger& ledger,
                                                           const std::vector<TaskRecord>& tasks) const;
  void warn_of_unmeasured_gpus(RunResult& result) const;
  [[nodiscard]] std::string fingerprint(const RunResult& result) const;
  [[nodiscard]] Problem deadlock() const;
  [[nodiscard]] Problem too_long() const;
  [[nodiscard]] std::uint16_t cause_now(std::uint32_t r) const;
  [[nodiscard]] std::string what_blocks(const Rank& rank) const;
  [[nodiscard]] std::string describe(const Rank& rank, std::uint32_t s) const;

  Machine& machine_;
  const Workload& workload_;
  const Partition& partition_;
  const ExecutionOptions& options_;
  HostCosts costs_;
  SequenceTable table_;
  KernelPlayer player_;
  TrafficPort* traffic_ = nullptr;

  std::vector<PlayProgram> programs_;                // [roles]
  std::vector<MemoryLedger> ledgers_;                // [roles]
  CallTable calls_;                                  // [group kinds][distinct calls]
  std::vector<std::string> names_;                   // of communication, as reports have them
  std::vector<std::uint16_t> group_name_;            // [group kinds] index in names_
  std::vector<std::uint16_t> peer_name_;             // [peer kinds]
  std::vector<std::uint16_t> group_wait_;            // [group kinds] cause of waiting for its members
  std::vector<std::uint16_t> peer_wait_;             // [peer kinds] the same for the peer
  std::array<std::uint16_t, kCopyDirections.size()> offload_name_{};  // by direction
  std::uint16_t at_end_ = kWaiting;                  // cause of having nothing left to do
  std::vector<std::vector<int>> transfer_ranks_;     // [peer kinds][ranks] size of the communicator of its transfers
  std::vector<std::int16_t> group_multiprocessors_;  // [groups x calls of their kind]; -1 until asked for
  std::vector<std::uint32_t> group_calls_;           // [groups] first entry in the above
  struct ChannelUse {
    Bytes bytes{-1};
    int ranks = 0;
    int multiprocessors = 0;
  };
  std::vector<ChannelUse> channel_use_;  // [channels] the last answer

  std::vector<Rank> ranks_;                       // [rank classes]
  std::vector<Stream> streams_;                   // of all ranks
  std::vector<std::vector<TaskRecord>> records_;  // [recorded ranks][tasks]
  Matcher matcher_;
  std::optional<TimeAccount> account_;
  std::vector<std::uint32_t> dirty_;
  std::vector<std::uint32_t> refreshing_;
  std::vector<std::uint32_t> ended_;  // operations whose end has been told and not taken up
  Problems problems_;                 // found while playing
  bool refresh_scheduled_ = false;
};

// Makes the traffic layer of one run.
using TrafficFactory = std::function<std::unique_ptr<TrafficPort>(Machine&, TrafficListener&)>;

// What makes a placement or options impossible on a cluster.
[[nodiscard]] Problems unplayable(const Topology& topology, const Workload& workload, const Placement& placement,
                                  const ExecutionOptions& options);

// One run of classes of ranks on classes of resources, with slowdowns as `hardware` has them.
[[nodiscard]] Result<RunResult> play(const Workload& workload, const Hardware& hardware, const Partition& partition,
                                     ResourceClasses resources, const ExecutionOptions& options,
                                     const TrafficFactory& make_traffic);

// One unfolded run: a machine, the traffic layer that `make_traffic` builds on it, and an executor.
[[nodiscard]] Result<RunResult> play(const Topology& topology, const Workload& workload, const Placement& placement,
                                     const ExecutionOptions& options, const TrafficFactory& make_traffic);

}  // namespace orrery
