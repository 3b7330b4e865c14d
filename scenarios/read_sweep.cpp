// Block `sweep`: dotted keys and the values that they take.
//
//   sweep:
//     cluster.nodes: [1, 2, 4]                      # axes on their own are crossed with one another
//     training.global_batch: {from: 256, to: 1024, factor: 2}
//     zip:                                           # the axes of one map advance together
//       - {parallelism.tensor: [1, 2], parallelism.pipeline: [4, 2]}
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "scenarios/readers.hpp"

namespace orrery {

namespace {

constexpr std::size_t kValuesMax = 10'000;  // of one axis

// {from: 10, to: 40, step: 2}; numbers only, as many as there are from `from` to `to`, both included.
struct RangeSpec {
  double from = 0;
  double to = 0;
  double step = 0;
  double factor = 0;
};
constexpr Range kAnything{-1e18, 1e18};
using RangeRow = FieldRow<RangeSpec>;
constexpr std::array kRangeRows{
    RangeRow{"from", &RangeSpec::from, kAnything, "the first value", true},
    RangeRow{"to", &RangeSpec::to, kAnything, "the last value, at most", true},
    RangeRow{"step", &RangeSpec::step, Range{1e-18, 1e18}, "what is added each time"},
    RangeRow{"factor", &RangeSpec::factor, Range{1.000001, 1e9},
             "what each value is multiplied with, in place of step"},
};

// As short as reads back the same: 12, 0.25, 1e+20.
std::string number_text(double value) {
  const double whole = std::round(value);
  if (std::abs(value) < 1e15 && std::abs(value - whole) < 1e-9 * std::max(1.0, std::abs(value))) {
    return fmt::format("{}", static_cast<std::int64_t>(whole));
  }
  return fmt::format("{:.12g}", value);
}

void read_range(Reader& reader, const YamlNode& node, const std::string& key, std::vector<std::string>& values) {
  const std::size_t before = reader.problems().size();
  RangeSpec range;
  read_fields<RangeSpec>(reader, node, key, kRangeRows, range);
  if (reader.problems().size() != before) return;
  const auto wrong = [&](std::string message, std::string note) {
    reader.problem(node.place, key, std::move(message), std::move(note));
  };
  if ((range.step > 0) == (range.factor > 0)) {
    wrong("a range needs either step or factor", "write it as in {from: 10, to: 40, step: 2}");
    return;
  }
  if (range.to < range.from) {
    wrong(fmt::format("a range from {} to {} has no values", number_text(range.from), number_text(range.to)), "");
    return;
  }
  if (range.factor > 0 && range.from <= 0) {
    wrong("a range by factor must begin above zero", "");
    return;
  }
  const double slack = range.step > 0 ? range.step * 1e-9 : range.to * 1e-9;
  double value = range.from;
  for (std::size_t i = 1; value <= range.to + slack; ++i) {
    if (values.size() >= kValuesMax) {
      wrong(fmt::format("a range of more than {} values", kValuesMax), "");
      values.clear();
      return;
    }
    values.push_back(number_text(value));
    value = range.step > 0 ? range.from + static_cast<double>(i) * range.step : value * range.factor;
  }
}

YamlNode scalar_at(const YamlPlace& place, std::string text) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = std::move(text);
  node.place = place;
  return node;
}

void read_axis(Reader& reader, const YamlEntry& entry, int zip_group, std::vector<LocatedAxis>& axes) {
  const std::string key = child_key("sweep", entry.key);
  reader.locate(key, entry.value.place);
  if (entry.key.empty() || entry.key == "sweep" || entry.key.starts_with("sweep.")) {
    reader.problem(entry.key_place, key, fmt::format("{} is no key that a sweep can vary", in_quotes(entry.key)),
                   "write it as in parallelism.tensor: [1, 2, 4]");
    return;
  }
  LocatedAxis axis{{entry.key, {}, zip_group}, {}, entry.key_place};
  if (entry.value.is_sequence() && !entry.value.items.empty() && entry.value.items.size() <= kValuesMax) {
    axis.values = entry.value.items;
  } else if (entry.value.is_map()) {
    std::vector<std::string> numbers;
    read_range(reader, entry.value, key, numbers);
    for (std::string& number : numbers) axis.values.push_back(scalar_at(entry.value.place, std::move(number)));
  } else {
    reader.problem(entry.value.place, key,
                   fmt::format("{} must be a list of 1 to {} values, or a range", key, kValuesMax),
                   "write it as in [1, 2, 4] or {from: 10, to: 40, step: 2}");
  }
  if (axis.values.empty()) return;
  for (const YamlNode& value : axis.values) axis.axis.values.push_back(to_yaml_text(value));
  axes.push_back(std::move(axis));
}

void read_zip(Reader& reader, const YamlNode& node, int group, std::vector<LocatedAxis>& axes) {
  if (!expect_map(reader, node, "sweep.zip", "zip: {parallelism.tensor: [1, 2], parallelism.pipeline: [4, 2]}")) return;
  const std::size_t first = axes.size();
  for (const YamlEntry& entry : node.entries) read_axis(reader, entry, group, axes);
  for (std::size_t i = first + 1; i < axes.size(); ++i) {
    const SweepAxis& one = axes[first].axis;
    const SweepAxis& other = axes[i].axis;
    if (other.values.size() == one.values.size()) continue;
    reader.problem(
        axes[i].key_place, child_key("sweep", other.key),
        fmt::format("{} has {} values, but {} has {}", other.key, other.values.size(), one.key, one.values.size()),
        "axes that advance together have equally many values");
  }
}

}  // namespace

void read_sweep(Reader& reader, const YamlNode& node, std::vector<LocatedAxis>& axes) {
  if (!expect_map(reader, node, "sweep", "sweep: {cluster.nodes: [1, 2, 4]}")) return;
  int groups = 0;
  for (const YamlEntry& entry : node.entries) {
    if (entry.key != "zip") {
      read_axis(reader, entry, -1, axes);
    } else if (entry.value.is_sequence()) {
      for (const YamlNode& item : entry.value.items) read_zip(reader, item, groups++, axes);
    } else {
      read_zip(reader, entry.value, groups++, axes);
    }
  }
}

}  // namespace orrery
