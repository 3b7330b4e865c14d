#include "sim/results/difference_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/results/quantities.hpp"

namespace orrery {

namespace {

constexpr double kTold = 0.02;          // of the largest difference: smaller ones are told together
constexpr double kToldOfPhases = 0.05;  // of the phase that differs most: phases that differ by less are not named
constexpr double kRest = 0.005;         // the same, of what is left
constexpr double kToldOfStep = 0.001;   // the same, of the step
constexpr std::size_t kToldMost = 6;    // differences
constexpr double kTimesAsFast = 1.2;    // from here on, how many times as fast is said too
constexpr double kSameWork = 0.05;      // a phase this many times as fast, or as slow, does other work
constexpr double kSameTime = 0.0001;    // of a step
constexpr double kSameBytes = 0.005;    // traffic that differs by less is not worth a sentence
constexpr double kSameMemory = 0.001;   // of the peak
constexpr std::size_t kTagsMost = 4;    // in a sentence
constexpr double kWorthAPart = 0.01;    // of the step
constexpr double kTera = 1e12;

std::string_view operation_word(const std::string& operation) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kWords{{
      {"all_reduce", "all-reduce"},
      {"reduce_scatter", "reduce-scatter"},
      {"all_gather", "all-gather"},
      {"all_to_all", "all-to-all"},
      {"broadcast", "broadcast"},
      {"reduce", "reduce"},
      {"transfer", "transfers"},
  }};
  const auto* const found =
      std::find_if(kWords.begin(), kWords.end(), [&](const auto& row) { return row.first == operation; });
  return found == kWords.end() ? std::string_view(operation) : found->second;
}

// Where the label says it already, nothing.
std::string_view phase_words(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return " in the forward pass";
    case Phase::backward:
    case Phase::weight_gradient:
      return " in the backward pass";
    case Phase::recompute:
      return " in recomputation";
    case Phase::optimizer:
      return " in the optimizer";
    case Phase::gradient_reduction:
    case Phase::parameter_gather:
    case Phase::other:
      return "";
  }
  return "";
}

std::string traffic(double bytes) { return human_traffic(std::llround(bytes)); }

// "1.21 GB a GPU", or with both sides "1.21 instead of 1.1 GB a GPU".
std::string instead(const std::string& one, const std::string& other) {
  return one == other ? one : fmt::format("{} instead of {}", one, other);
}

std::string bytes_of(const Difference& d) {
  return fmt::format("{} a GPU", instead(traffic(d.variant.bytes), traffic(d.base.bytes)));
}

double hidden(const DifferenceSide& side) { return std::max(0.0, side.busy_s - side.seconds); }

std::string busy_of(const Difference& d) {
  return instead(human_seconds(d.variant.busy_s), human_seconds(d.base.busy_s));
}

std::string count_of(double count) { return count < 1e4 ? with_separators(std::llround(count)) : human_count(count); }

// A kind of communication that only one of the runs has.
std::string alone(const DifferenceSide& side, const std::string& name) {
  return fmt::format("{} has it, {} a GPU in {} operations, {} of whose {} {} hidden behind compute", name,
                     traffic(side.bytes), count_of(side.count), human_seconds(hidden(side)), human_seconds(side.busy_s),
                     hidden(side) > 0 ? "are" : "is");
}

std::string words_of_waits(const Difference& d, const ComparedRun& base, const ComparedRun& variant) {
  const bool longer = d.seconds() > 0;
  std::string reason;
  switch (d.cause) {
    case Cause::variant_only:
      reason = "only " + alone(d.variant, variant.name);
      break;
    case Cause::base_only:
      reason = "only " + alone(d.base, base.name);
      break;
    case Cause::traffic:
      reason = fmt::format("{}, which take {}", bytes_of(d), busy_of(d));
      break;
    case Cause::pieces:
      reason = fmt::format("{} in {} operations, which take {}", bytes_of(d),
                           instead(count_of(d.variant.count), count_of(d.base.count)), busy_of(d));
      break;
    case Cause::rate:
      reason = fmt::format("{}, which take {}", bytes_of(d), busy_of(d));
      break;
    case Cause::bubble:
      reason = fmt::format("the chain through the stages has {} of it",
                           instead(human_seconds(d.variant.seconds), human_seconds(d.base.seconds)));
      break;
    default:  // overlap
      reason = fmt::format("{}, {} hides {} of their {} behind compute, {} {} of {}", bytes_of(d), variant.name,
                           human_seconds(hidden(d.variant)), human_seconds(d.variant.busy_s), base.name,
                           human_seconds(hidden(d.base)), human_seconds(d.base.busy_s));
  }
  return fmt::format("{} waits for {}: {}", longer ? "longer" : "shorter", d.subject, reason);
}

std::string flop_rate(const DifferenceSide& side) {
  return fmt::format("{:.0f}", side.busy_s > 0 ? side.flops / side.busy_s / kTera : 0);
}

double hidden_communication(const StepProfile& profile) {
  double sum = 0;
  for (const auto& [kind, share] : profile) {
    if (kind.work == Work::communication) sum += std::max(0.0, share.busy_s - to_seconds(share.path));
  }
  return sum;
}

std::string machine_of(const ComparedRun& base, const ComparedRun& variant) {
  std::string words;
  const auto add = [&](const std::string& mine, const std::string& other) {
    if (mine != other) words += fmt::format("{}{} instead of {}", words.empty() ? "" : ", ", mine, other);
  };
  add(variant.summary->cluster.gpu, base.summary->cluster.gpu);
  add(variant.summary->plan.precision, base.summary->plan.precision);
  return words;
}

std::string amount_with_sign(double seconds) {
  return fmt::format("{}{}", seconds < 0 ? "-" : "+", human_seconds(std::abs(seconds)));
}

std::string_view spoken_phase(Phase phase) {
  constexpr std::array<std::string_view, kPhaseNames.size()> kWords{
      "forward",           "backward",      "recomputation", "gradient reduction",
      "parameter gathers", "the optimizer", "other work",    "weight gradients"};
  return kWords[static_cast<std::size_t>(phase)];
}

// "forward", or of several with their amounts, largest first: "backward +50.0 ms, the optimizer +2.00 ms". Between
// machines, with how many times as fast each is.
std::string phases_of(const Difference& d) {
  std::vector<PhaseTimes> phases = d.phases;
  const auto size = [](const PhaseTimes& p) { return std::abs(p.variant_s - p.base_s); };
  std::stable_sort(phases.begin(), phases.end(),
                   [&](const PhaseTimes& a, const PhaseTimes& b) { return size(a) > size(b); });
  std::string text;
  for (const PhaseTimes& p : phases) {
    if (size(p) < kToldOfPhases * size(phases.front())) break;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", spoken_phase(p.phase));
    if (phases.size() == 1) break;
    const double times = p.variant_s > 0 ? p.base_s / p.variant_s : 0;
    const bool same_work = times > kSameWork && times < 1 / kSameWork;
    text += d.cause == Cause::machine && same_work ? fmt::format(" {:.2f} times as fast", times)
                                                   : fmt::format(" {}", amount_with_sign(p.variant_s - p.base_s));
  }
  return text;
}

// Only what differs.
std::string amounts_of_work(const Difference& d) {
  const auto digits = [](double flops) { return fmt::format("{:.4g}", flops / kTera); };
  std::string text;
  const std::string flops = digits(d.variant.flops);
  if (flops != digits(d.base.flops)) text = fmt::format("{} instead of {} TFLOP", flops, digits(d.base.flops));
  if (traffic(d.variant.bytes) != traffic(d.base.bytes)) {
    text += fmt::format("{}{} instead of {} of memory traffic", text.empty() ? "" : " and ", traffic(d.variant.bytes),
                        traffic(d.base.bytes));
  }
  return text.empty() ? "slightly different work" : text + " a GPU";
}

std::string words_of_compute(const Difference& d, const ComparedRun& base, const ComparedRun& variant) {
  std::string reason;
  switch (d.cause) {
    case Cause::variant_only:
      reason = fmt::format("{} has no such work", base.name);
      break;
    case Cause::base_only:
      reason = fmt::format("{} has no such work", variant.name);
      break;
    case Cause::machine:
      reason = fmt::format("{} TFLOP/s per GPU while kernels run ({})",
                           instead(flop_rate(d.variant), flop_rate(d.base)), machine_of(base, variant));
      break;
    case Cause::work:
      reason = amounts_of_work(d);
      break;
    case Cause::pieces:
      reason =
          fmt::format("the same operations in {} kernels", instead(count_of(d.variant.count), count_of(d.base.count)));
      break;
    default: {
      const double mine = hidden_communication(*variant.profile);
      const double other = hidden_communication(*base.profile);
      reason = "the same kernels";
      // Where less runs beside them and they are slower all the same, it is not that.
      if ((mine > other) == (d.seconds() > 0)) {
        reason += fmt::format(", with {} of communication beside them, which takes SMs and memory bandwidth",
                              instead(human_seconds(mine), human_seconds(other)));
      }
    }
  }
  return fmt::format("{} compute ({}): {}", d.seconds() > 0 ? "more" : "less", phases_of(d), reason);
}

std::string memory_with_sign(std::int64_t bytes) {
  return fmt::format("{}{}", bytes < 0 ? "-" : "+", human_memory(std::abs(bytes)));
}

std::string spoken_tag(std::string tag) {
  std::replace(tag.begin(), tag.end(), '_', ' ');
  return tag;
}

std::string headline(const Explanation& e, const Summary& base, const Summary& variant) {
  const double gap = e.variant_s - e.base_s;
  if (base.fingerprint == variant.fingerprint && !base.fingerprint.empty()) {
    return fmt::format("{} is the same step as {}, to the picosecond: {}.", e.variant, e.base,
                       human_seconds(e.variant_s));
  }
  if (std::abs(gap) < kSameTime * e.base_s) {
    return fmt::format("{} takes as long as {}: {} a step.", e.variant, e.base, human_seconds(e.variant_s));
  }
  std::string text =
      fmt::format("{} takes {} ({}) {} than {}: {} a step instead of {}.", e.variant, human_seconds(std::abs(gap)),
                  human_percent(std::abs(gap) / e.base_s), gap > 0 ? "longer" : "less", e.base,
                  human_seconds(e.variant_s), human_seconds(e.base_s));
  const Throughput before = throughput_of(base.step);
  const Throughput after = throughput_of(variant.step);
  if (const double ratio = e.base_s / e.variant_s; ratio > kTimesAsFast && before.per_step == after.per_step) {
    text.insert(text.size() - 1, fmt::format(", {:.2f} times as fast", ratio));
  }
  if (before.per_step != after.per_step || before.unit != after.unit) {
    text += fmt::format(
        " Its step has {} {} instead of {}{}: {} {}/s instead of {}.", with_separators(after.per_step), after.unit,
        with_separators(before.per_step), before.unit == after.unit ? "" : fmt::format(" {}", before.unit),
        with_separators(std::llround(after.per_s)), after.unit, with_separators(std::llround(before.per_s)));
  }
  return text;
}

std::string told_differences(const Explanation& e) {
  if (e.differences.empty()) return "";
  const double least = std::max(kTold * std::abs(e.differences.front().seconds()), kToldOfStep * e.base_s);
  std::string text;
  double rest = e.variant_s - e.base_s;
  std::size_t told = 0;
  for (const Difference& d : e.differences) {
    if (told == kToldMost || std::abs(d.seconds()) < least) break;
    text += fmt::format(" {}: {}.", amount_with_sign(d.seconds()), d.text);
    rest -= d.seconds();
    ++told;
  }
  if (told > 0 && std::abs(rest) >= kRest * std::abs(e.differences.front().seconds()))
    text += fmt::format(" {}: all else.", amount_with_sign(rest));
  return text;
}

std::string told_traffic(const Summary& base, const Summary& variant) {
  const auto& mine = variant.communication;
  const auto& other = base.communication;
  const auto differs = [](std::int64_t a, std::int64_t b) {
    return std::abs(static_cast<double>(a - b)) > kSameBytes * static_cast<double>(std::max(a, b));
  };
  if (!differs(mine.bytes, other.bytes)) return "";
  std::string text = fmt::format(" It sends {}", instead(human_traffic(mine.bytes), human_traffic(other.bytes)));
  std::string kinds;
  const auto bytes_of_kind = [](const Summary::Communication& c, const std::string& kind) {
    const auto found = c.by_kind.find(kind);
    return found == c.by_kind.end() ? std::int64_t{0} : found->second.bytes;
  };
  std::vector<std::string> names;
  for (const auto& [kind, count] : mine.by_kind) names.push_back(kind);
  for (const auto& [kind, count] : other.by_kind) names.push_back(kind);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& kind : names) {
    const std::int64_t more = bytes_of_kind(mine, kind) - bytes_of_kind(other, kind);
    if (!differs(bytes_of_kind(mine, kind), bytes_of_kind(other, kind)) ||
        std::abs(static_cast<double>(more)) < kSameBytes * static_cast<double>(std::max(mine.bytes, other.bytes))) {
      continue;
    }
    kinds +=
        fmt::format("{}{} {}{}", kinds.empty() ? "" : ", ", kind, more < 0 ? "-" : "+", human_traffic(std::abs(more)));
  }
  // Many kinds may differ by a little each.
  return kinds.empty() ? text + " a step." : fmt::format("{} a step ({}).", text, kinds);
}

std::string told_memory(const Explanation& e, const Summary& base, const Summary& variant) {
  const std::int64_t gap = variant.memory.peak_bytes - base.memory.peak_bytes;
  std::string text;
  if (std::abs(static_cast<double>(gap)) > kSameMemory * static_cast<double>(base.memory.peak_bytes)) {
    text = fmt::format(" Its peak memory is {} ({}) {}, {} instead of {}:", human_memory(std::abs(gap)),
                       human_percent(static_cast<double>(std::abs(gap)) / static_cast<double>(base.memory.peak_bytes)),
                       gap > 0 ? "higher" : "lower", human_memory(variant.memory.peak_bytes),
                       human_memory(base.memory.peak_bytes));
    std::int64_t rest = gap;
    for (std::size_t i = 0; i < std::min(kTagsMost, e.memory.size()); ++i) {
      const std::int64_t bytes = e.memory[i].variant_bytes - e.memory[i].base_bytes;
      text += fmt::format("{} {} {}", i == 0 ? "" : ",", spoken_tag(e.memory[i].tag), memory_with_sign(bytes));
      rest -= bytes;
    }
    text += rest == 0 ? "." : fmt::format(", all else {}.", memory_with_sign(rest));
  }
  const bool fits = variant.fits();
  if (fits != base.fits()) {
    text += fits ? fmt::format(" It fits, and {} does not.", e.base)
                 : fmt::format(" It does not fit, and {} does.", e.base);
  }
  return text;
}

}  // namespace

std::string subject_of(const std::string& among, const std::string& operation, Phase phase, const std::string& label) {
  std::string subject = fmt::format("{} {}", among, operation_word(operation));
  if (!label.empty()) subject += fmt::format(" \"{}\"", label);
  return subject + std::string(phase_words(phase));
}

std::string words_of(const Difference& d, const ComparedRun& base, const ComparedRun& variant) {
  const bool more = d.seconds() > 0;
  if (d.work == Work::communication) return words_of_waits(d, base, variant);
  switch (d.cause) {
    case Cause::bubble:
      return fmt::format(
          "a {} pipeline bubble (fill, drain, stages that wait for one another): {} a GPU", more ? "longer" : "shorter",
          instead(human_seconds(variant.summary->breakdown.bubble_s - variant.summary->breakdown.waiting_s),
                  human_seconds(base.summary->breakdown.bubble_s - base.summary->breakdown.waiting_s)));
    case Cause::imbalance:
      return fmt::format("{} waiting for ranks that come late: {} a GPU", more ? "more" : "less",
                         instead(human_seconds(variant.summary->breakdown.waiting_s),
                                 human_seconds(base.summary->breakdown.waiting_s)));
    case Cause::host:
      if (d.work == Work::launching) {
        return fmt::format("{} waiting for the host's launches, which take it {}", more ? "more" : "less", busy_of(d));
      }
      return fmt::format("{} waiting for the host's own work ({})", more ? "more" : "less", d.subject);
    case Cause::copying:
      return fmt::format("{} waiting for copies ({}): {}, which take {}", more ? "more" : "less", d.subject,
                         bytes_of(d), busy_of(d));
    default:
      return words_of_compute(d, base, variant);
  }
}

std::string paragraph_of(const Explanation& e, const ComparedRun& base, const ComparedRun& variant) {
  std::string text = headline(e, *base.summary, *variant.summary) + told_differences(e) +
                     told_traffic(*base.summary, *variant.summary) + told_memory(e, *base.summary, *variant.summary);
  return text;
}

std::string parts_of_step(const Summary& summary) {
  const Summary::Breakdown& b = summary.breakdown;
  std::vector<std::pair<std::string, double>> parts{{"compute", b.compute_s}};
  for (const auto& [kind, seconds] : b.exposed_communication_s) {
    parts.emplace_back(
        kind == "cpu" ? std::string("the update on the CPU") : fmt::format("exposed {} communication", kind), seconds);
  }
  parts.emplace_back("pipeline bubble", b.bubble_s - b.waiting_s);
  parts.emplace_back("waiting for late ranks", b.waiting_s);
  parts.emplace_back("waiting for input", b.data_stall_s);
  parts.emplace_back("waiting for the host", b.other_s);
  std::erase_if(parts, [&](const auto& part) { return part.second < kWorthAPart * summary.step.time_s; });
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& c) { return a.second > c.second; });
  std::string text;
  for (const auto& [name, seconds] : parts) {
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", human_percent(seconds / summary.step.time_s),
                        text.empty() ? " is" : "", name);
  }
  return text;
}

}  // namespace orrery
