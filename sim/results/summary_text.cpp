#include "sim/results/summary_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/results/quantities.hpp"

namespace orrery {

namespace {

constexpr double kBarCells = 32;          // of a bar that is the whole step
constexpr std::size_t kLargestTags = 3;   // in an out-of-memory report
constexpr std::size_t kBusiestLinks = 3;  // of the ten that the summary holds
constexpr double kFewer = 0.999;          // of the model's FLOPs: executed ones below this are worth a remark
constexpr double kWorthALine = 0.0005;    // smaller shares of the step are not shown unless they are compute

using Out = std::back_insert_iterator<std::string>;

// A horizontal bar with half-cell resolution.
std::string bar(double fraction) {
  const int halves = static_cast<int>(std::lround(fraction * kBarCells * 2));
  std::string cells;
  for (int i = 0; i < halves / 2; ++i) cells += "█";
  if (halves % 2 != 0) cells += "▌";
  return cells;
}

// GPU-hours: whole ones, and of few the tenths too.
std::string human_hours(double hours) {
  constexpr double kMany = 100;
  return hours < kMany ? fmt::format("{:.1f}", hours) : with_separators(std::llround(hours));
}

// "tensor 8 x pipeline 8 x data 16, interleaved-1f1b, distributed-optimizer, bf16, recompute selective, megatron-lm".
void plan(Out out, const PlanFacts& p) {
  if (p.framework.empty()) return;
  fmt::format_to(out, "tensor {} x pipeline {} x data {}, micro-batch {}", p.tensor, p.pipeline, p.data, p.micro_batch);
  if (!p.schedule.empty()) fmt::format_to(out, ", {}", p.schedule);
  fmt::format_to(out, ", sharding {}, {}, recompute {}, {}\n", p.sharding, p.precision, p.recompute, p.framework);
}

void headline(Out out, const Summary& s) {
  fmt::format_to(out, "{}\n", s.scenario);
  fmt::format_to(out, "{} x {}", with_separators(s.cluster.gpus), s.cluster.gpu);
  if (s.cluster.nodes > 1) fmt::format_to(out, " on {} nodes", with_separators(s.cluster.nodes));
  fmt::format_to(out, ", ");
  if (!s.model.name.empty()) fmt::format_to(out, "{}: ", s.model.name);
  fmt::format_to(out, "{} parameters", human_count(static_cast<double>(s.model.parameters)));
  if (s.model.active_parameters != s.model.parameters) {
    fmt::format_to(out, " ({} active)", human_count(static_cast<double>(s.model.active_parameters)));
  }
  const Throughput work = throughput_of(s.step);
  fmt::format_to(out, ", {} {} a step\n", human_count(static_cast<double>(work.per_step)), work.unit);
  plan(out, s.plan);
  fmt::format_to(out, "\n");
}

void out_of_memory(Out out, const Summary::Memory& m) {
  if (m.fits.value_or(true)) return;
  fmt::format_to(out, "OUT OF MEMORY: rank {} needs {}, its GPU has {}\n", m.rank, human_memory(m.peak_bytes),
                 human_memory(m.limit_bytes.value_or(0)));
  if (m.runs_out_at.empty()) {
    fmt::format_to(out, "  runs out before the step begins\n");
  } else {
    fmt::format_to(out, "  runs out in the {}\n", m.runs_out_at);
  }
  if (!m.task.empty()) fmt::format_to(out, "  needs most {} into the step, at {}\n", human_seconds(m.when_s), m.task);
  fmt::format_to(out, "  largest then:");
  for (std::size_t i = 0; i < std::min(kLargestTags, m.by_tag.size()); ++i) {
    fmt::format_to(out, "{} {} {}", i == 0 ? "" : ",", m.by_tag[i].first, human_memory(m.by_tag[i].second));
  }
  fmt::format_to(out, "\n  What follows is what the step would do if it fitted.\n\n");
}

void off_device_store(Out out, std::string_view name, const OffDeviceUse::Store& store, std::int64_t node) {
  if (store.needed_bytes == 0) return;
  fmt::format_to(out, "  {:<13} {}", name, human_memory(store.needed_bytes));
  if (store.present_bytes) {
    fmt::format_to(out, " of {}, {}", human_memory(*store.present_bytes), store.fits() ? "fits" : "DOES NOT FIT");
  }
  fmt::format_to(out, " (node {})\n", node);
}

void expectation(Out out, const Summary::Expectation& e) {
  fmt::format_to(out, "  in reality    {} to {} {}\n", human_seconds(e.low_s), human_seconds(e.high_s),
                 e.covered ? "by nine in ten of steps like it" : "perhaps: not measured");
}

void answers(Out out, const Summary& s) {
  fmt::format_to(out, "  step time     {}\n", human_seconds(s.step.time_s));
  if (s.expectation) expectation(out, *s.expectation);
  const Throughput work = throughput_of(s.step);
  fmt::format_to(out, "  throughput    {} {}/s, {} per GPU\n", with_separators(std::llround(work.per_s)), work.unit,
                 with_separators(std::llround(work.per_s_per_gpu)));
  fmt::format_to(out, "  model FLOPs   {:.1f} TFLOP/s per GPU", s.step.model_tflops_per_gpu);
  if (s.step.mfu.has_value()) fmt::format_to(out, ", MFU {}", human_percent(*s.step.mfu));
  if (s.step.hardware_tflops_per_gpu > s.step.model_tflops_per_gpu) {
    fmt::format_to(out, " ({} {:.1f}", s.plan.recompute == "none" ? "executed" : "with recomputation",
                   s.step.hardware_tflops_per_gpu);
    if (s.step.hfu.has_value()) fmt::format_to(out, ", HFU {}", human_percent(*s.step.hfu));
    fmt::format_to(out, ")");
  } else if (s.step.hfu.has_value() && s.step.hardware_tflops_per_gpu < kFewer * s.step.model_tflops_per_gpu) {
    fmt::format_to(out, " (executed {:.1f}, HFU {}: MFU counts the full attention square)",
                   s.step.hardware_tflops_per_gpu, human_percent(*s.step.hfu));
  }
  fmt::format_to(out, "\n  memory        {}", human_memory(s.memory.peak_bytes));
  if (s.memory.limit_bytes.has_value()) {
    fmt::format_to(out, " of {}, {}", human_memory(*s.memory.limit_bytes),
                   s.memory.fits.value_or(true) ? "fits" : "DOES NOT FIT");
  }
  fmt::format_to(out, " (rank {})\n", s.memory.rank);
  if (s.off_device) {
    off_device_store(out, "host memory", s.off_device->host_memory, s.off_device->node);
    off_device_store(out, "drives", s.off_device->drives, s.off_device->node);
  }
  if (s.slow_parts) {
    // Ranks that come later may also find less traffic in their way, so that nothing is lost.
    const double share = s.slow_parts->lost_s / s.step.time_s;
    const std::string percent = share >= kWorthALine ? human_percent(share) : fmt::format("{:.1g} %", share * 100);
    fmt::format_to(
        out, "  slow parts    cost {}: without them the step takes {}\n",
        share > 0 ? fmt::format("{} of the step, {}", human_seconds(s.slow_parts->lost_s), percent) : "nothing",
        human_seconds(s.slow_parts->step_without_s));
  }
  if (s.training.has_value()) {
    fmt::format_to(out, "  whole run     {} in {} steps, {} GPU-hours", human_seconds(s.training->time_s),
                   with_separators(s.training->steps), human_hours(s.training->gpu_hours));
    if (s.training->ideal_time_s.has_value()) {
      fmt::format_to(out, " ({} P T / (n X): {})", s.training->ideal_operations,
                     human_seconds(*s.training->ideal_time_s));
    }
    fmt::format_to(out, "\n");
  }
}

void time_row(Out out, const std::string& name, double seconds, double step_s) {
  fmt::format_to(out, "    {:<28} {:>9} {:>8}  {}\n", name, human_seconds(seconds), human_percent(seconds / step_s),
                 bar(seconds / step_s));
}

void breakdown(Out out, const Summary& s) {
  const Summary::Breakdown& b = s.breakdown;
  fmt::format_to(out, "\n  where the step goes (mean over GPUs)\n");
  time_row(out, "compute", b.compute_s, s.step.time_s);
  const auto row = [&](const std::string& name, double seconds) {
    if (seconds >= kWorthALine * s.step.time_s) time_row(out, name, seconds, s.step.time_s);
  };
  for (const auto& [kind, seconds] : b.exposed_communication_s)
    row(kind == "cpu" ? "update on the CPU" : kind + " communication", seconds);
  row("pipeline bubble", b.bubble_s - b.waiting_s);
  row("waiting for late ranks", b.waiting_s);
  row("waiting for input", b.data_stall_s);
  row("host and launches", b.other_s);
}

void communication(Out out, const Summary::Communication& c) {
  if (c.messages == 0) return;
  fmt::format_to(out, "\n  communication: {} in {} messages a step\n", human_traffic(c.bytes),
                 with_separators(c.messages));
  for (const auto& [kind, count] : c.by_kind) {
    if (count.messages == 0) continue;
    fmt::format_to(out, "    {:<28} {:>9} in {} messages\n", kind, human_traffic(count.bytes),
                   with_separators(count.messages));
  }
  for (std::size_t i = 0; i < std::min(kBusiestLinks, c.busiest_links.size()); ++i) {
    const LinkUse& link = c.busiest_links[i];
    if (link.bytes == 0) break;
    fmt::format_to(out, "{}{:<28} {:>9} {:>8} of its capacity\n", i == 0 ? "  busiest links\n    " : "    ", link.name,
                   human_traffic(link.bytes), human_percent(link.utilization));
  }
}

void memory(Out out, const Summary::Memory& m) {
  if (m.by_tag.empty()) return;
  fmt::format_to(out, "\n  memory at the peak of rank {}\n", m.rank);
  for (const auto& [tag, bytes] : m.by_tag) {
    const double share = static_cast<double>(bytes) / static_cast<double>(m.peak_bytes);
    fmt::format_to(out, "    {:<28} {:>9} {:>8}  {}\n", tag, human_memory(bytes), human_percent(share), bar(share));
  }
}

// "8 classes for 1,024 ranks".
std::string played_ranks(const Summary::Simulation& simulation) {
  if (simulation.rank_classes == simulation.ranks) return with_separators(simulation.ranks) + " ranks";
  return fmt::format("{} {} for {} ranks", with_separators(simulation.rank_classes),
                     simulation.rank_classes == 1 ? "class" : "classes", with_separators(simulation.ranks));
}

void closing(Out out, const Summary& s) {
  fmt::format_to(out, "\n  {} events, {} flows, {}", with_separators(s.simulation.events),
                 with_separators(s.simulation.flows), played_ranks(s.simulation));
  if (!s.simulation.fidelity.empty()) fmt::format_to(out, ", {} traffic", s.simulation.fidelity);
  fmt::format_to(out, ", fingerprint {}\n", s.fingerprint);
  if (!s.simulation.unfolded_because.empty()) {
    fmt::format_to(out, "  note: hardly any ranks are alike: {}\n", s.simulation.unfolded_because);
  }
  if (s.expectation) {
    fmt::format_to(out, "  note: in reality: by {}{}\n",
                   s.expectation->covered ? "the errors of " : "guess: ", s.expectation->basis);
  }
  for (const std::string& remark : s.remarks) fmt::format_to(out, "  note: {}\n", remark);
  for (const std::string& warning : s.warnings) fmt::format_to(out, "  warning: {}\n", warning);
}

}  // namespace

std::string summary_text(const Summary& summary) {
  std::string text;
  const Out out = std::back_inserter(text);
  headline(out, summary);
  out_of_memory(out, summary.memory);
  answers(out, summary);
  breakdown(out, summary);
  communication(out, summary.communication);
  memory(out, summary.memory);
  closing(out, summary);
  // No line ends in blanks: bars may be empty.
  std::string trimmed;
  for (const char c : text) {
    while (c == '\n' && !trimmed.empty() && trimmed.back() == ' ') trimmed.pop_back();
    trimmed += c;
  }
  return trimmed;
}

}  // namespace orrery
