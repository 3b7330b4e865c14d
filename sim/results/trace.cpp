#include "sim/results/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/int128.hpp"

namespace orrery {

namespace {

// A JSON string, quotes included.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Picoseconds as microseconds, exactly.
std::string microseconds(Duration d) {
  constexpr std::int64_t kPicosecondsPerMicrosecond = 1'000'000;
  return fmt::format("{}.{:06}", d.count() / kPicosecondsPerMicrosecond, d.count() % kPicosecondsPerMicrosecond);
}

// What a screen can show of memory over time: of each stretch of the step the least and the most that was allocated, in
// their order. The peak is always there.
constexpr std::int64_t kMemoryStretches = 4096;

std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples) {
  std::vector<MemorySample> kept;
  if (samples.empty()) return kept;
  const std::int64_t span = std::max<std::int64_t>(1, (samples.back().when - samples.front().when).count());
  const auto stretch_of = [&](const MemorySample& sample) {
    return static_cast<std::int64_t>(static_cast<Int128>((sample.when - samples.front().when).count()) *
                                     kMemoryStretches / span);
  };
  const auto less = [](const MemorySample& a, const MemorySample& b) { return a.allocated < b.allocated; };
  for (auto begin = samples.begin(); begin != samples.end();) {
    const auto end = std::find_if(begin, samples.end(),
                                  [&](const MemorySample& sample) { return stretch_of(sample) != stretch_of(*begin); });
    auto [first, second] = std::minmax_element(begin, end, less);
    if (second < first) std::swap(first, second);
    kept.push_back(*first);
    if (second != first) kept.push_back(*second);
    begin = end;
  }
  if (kept.back().allocated != samples.back().allocated) kept.push_back(samples.back());
  return kept;
}

class TraceWriter {
 public:
  explicit TraceWriter(const Workload& workload) : workload_(workload) {}

  void rank(const RankResult& rank) {
    const Program& program = workload_.programs[rank.role.index()];
    const int pid = rank.rank.value();
    metadata(pid, 0, "process_name", fmt::format("rank {} (role {})", pid, rank.role.value()));
    sort_index(pid, 0, "process_sort_index", pid);
    for (std::size_t i = 0; i < program.streams().size(); ++i) {
      const int tid = static_cast<int>(i);
      metadata(pid, tid, "thread_name", program.streams()[i].name);
      sort_index(pid, tid, "thread_sort_index", tid);
    }
    for (const TaskRecord& record : rank.tasks) task(pid, program, record);
    for (const MemorySample& sample : thinned(rank.memory_over_time)) {
      event(R"({{"ph":"C","pid":{},"name":"memory","ts":{},"args":{{"bytes":{}}}}})", pid,
            microseconds(sample.when.time_since_epoch()), sample.allocated.count());
    }
  }

  [[nodiscard]] std::string finish() && {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n";
  }

 private:
  template <class... Values>
  void event(fmt::format_string<Values...> format, Values&&... values) {
    if (!events_.empty()) events_ += ",\n";
    fmt::format_to(std::back_inserter(events_), format, std::forward<Values>(values)...);
  }

  void metadata(int pid, int tid, std::string_view what, std::string_view name) {
    event(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})", pid, tid, what, json_text(name));
  }

  void sort_index(int pid, int tid, std::string_view what, int index) {
    event(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"sort_index":{}}}}})", pid, tid, what, index);
  }

  void slice(int pid, const Task& task, std::string_view name, std::string_view category, Instant begin, Instant end,
             std::string_view arguments) {
    event(R"({{"ph":"X","pid":{},"tid":{},"name":{},"cat":"{}","ts":{},"dur":{},"args":{{{}}}}})", pid,
          task.stream.value(), json_text(name), category, microseconds(begin.time_since_epoch()),
          microseconds(end - begin), arguments);
  }

  void task(int pid, const Program& program, const TaskRecord& record) {
    const Task& task = program.tasks()[record.task.index()];
    const std::string_view label = program.label(task);
    const std::string arguments = describe(program, task, record.task);
    if (record.active > record.begin) {
      slice(pid, task, fmt::format("wait: {}", label), "wait", record.begin, record.active, arguments);
    }
    slice(pid, task, label, name_of(task.phase), record.active, record.end, arguments);
  }

  // The members of an event's "args".
  [[nodiscard]] std::string describe(const Program& program, const Task& task, TaskId id) const {
    std::string text = fmt::format("\"task\":{}", id.value());
    const Out out = std::back_inserter(text);
    if (task.micro_batch >= 0) fmt::format_to(out, ",\"micro_batch\":{}", task.micro_batch);
    if (task.layer >= 0) fmt::format_to(out, ",\"layer\":{}", task.layer);
    switch (task.kind) {
      case TaskKind::kernels:
        fmt::format_to(out, ",\"kernels\":{}", program.sequence(task).size());
        break;
      case TaskKind::collective: {
        const CollectiveCall& call = program.collective(task);
        fmt::format_to(out, ",\"op\":\"{}\",\"group\":{},\"bytes\":{}", name_of(call.op),
                       json_text(workload_.group_kinds[call.group.index()].name), call.bytes.count());
        break;
      }
      case TaskKind::send:
      case TaskKind::receive: {
        const TransferCall& call = program.transfer(task);
        fmt::format_to(out, ",\"op\":\"{}\",\"peer\":{},\"bytes\":{}", task.kind == TaskKind::send ? "send" : "receive",
                       json_text(workload_.peer_kinds[call.peer.index()].name), call.bytes.count());
        break;
      }
      case TaskKind::copy:
        fmt::format_to(out, ",\"bytes\":{}", program.copy(task).bytes.count());
        break;
      case TaskKind::host:
        break;
    }
    return text;
  }

  using Out = std::back_insert_iterator<std::string>;
  const Workload& workload_;
  std::string events_;
};

}  // namespace

std::string trace_json(const RunResult& run, const Workload& workload) {
  TraceWriter writer(workload);
  for (const RankResult& rank : run.ranks) {
    if (!rank.tasks.empty()) writer.rank(rank);
  }
  return std::move(writer).finish();
}

}  // namespace orrery
