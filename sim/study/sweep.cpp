#include "sim/study/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>

#include "sim/base/fingerprint.hpp"
#include "sim/results/files.hpp"
#include "sim/study/inputs.hpp"
#include "sim/study/parallel.hpp"
#include "sim/study/simulate.hpp"
#include "sim/study/sweep_files.hpp"

namespace orrery {

namespace {

using Clock = std::chrono::steady_clock;

// Result files are rewritten at most this often while a sweep runs, so that a thousand quick points do not spend their
// time on writing.
constexpr std::chrono::milliseconds kFlushInterval{500};

// "gpus" for "cluster.gpus", "sharding" for "parallelism.sharding.kind".
std::string last_word(const std::string& key) {
  constexpr std::string_view kKind = ".kind";
  const bool kind = key.size() > kKind.size() && key.ends_with(kKind);
  const std::string named = kind ? key.substr(0, key.size() - kKind.size()) : key;
  return named.substr(named.rfind('.') + 1);
}

// The last word of an axis, or its whole key where two axes end alike.
std::string short_name(std::span<const SweepAxis> axes, std::size_t axis) {
  const std::string word = last_word(axes[axis].key);
  const auto same = [&](const SweepAxis& other) { return last_word(other.key) == word; };
  return std::count_if(axes.begin(), axes.end(), same) > 1 ? axes[axis].key : word;
}

// [dimensions]: the axes that advance together.
std::vector<std::vector<std::size_t>> dimensions_of(std::span<const SweepAxis> axes) {
  std::vector<std::vector<std::size_t>> dimensions;
  std::map<int, std::size_t> dimension_of;  // by zip group
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const int group = axes[axis].zip_group;
    const auto found = group < 0 ? dimension_of.end() : dimension_of.find(group);
    if (found != dimension_of.end()) {
      dimensions[found->second].push_back(axis);
      continue;
    }
    if (group >= 0) dimension_of[group] = dimensions.size();
    dimensions.push_back({axis});
  }
  return dimensions;
}

std::size_t length_of(std::span<const SweepAxis> axes, const std::vector<std::size_t>& dimension) {
  std::size_t length = axes[dimension.front()].values.size();
  for (const std::size_t axis : dimension) length = std::min(length, axes[axis].values.size());
  return length;
}

std::string key_of(const SweepPoint& point, const std::string& inputs) {
  Fingerprint fingerprint;
  fingerprint.add(std::string_view(inputs));
  for (const Override& setting : point.set) {
    fingerprint.add(std::string_view(setting.key)).add(std::string_view(setting.value));
  }
  return fingerprint.to_string();
}

std::string json_path(const SweepOptions& options) { return options.out + "/results.json"; }
std::string csv_path(const SweepOptions& options) { return options.out + "/results.csv"; }

// Runs in grid order, with what an earlier sweep into the same folder has finished already.
SweepResult prepare(std::span<const SweepPoint> points, const SweepOptions& options) {
  SweepResult result;
  std::map<std::string, Summary> earlier;
  if (!options.out.empty() && std::filesystem::exists(json_path(options))) {
    const Result<std::string> text = read_file(json_path(options));
    Result<std::map<std::string, Summary>> parsed =
        text ? parse_results_json(*text) : Result<std::map<std::string, Summary>>(text.problems());
    if (parsed) {
      earlier = std::move(parsed).value();
    } else {
      for (Problem& problem : parsed.problems()) {
        problem.note = "every point is simulated anew";
        result.file_problems.push_back(std::move(problem));
      }
    }
  }
  for (const SweepPoint& point : points) {
    SweepRun run{.point = point, .key = key_of(point, options.inputs), .summary = {}, .error = {}, .reused = false};
    if (const auto found = earlier.find(run.key); found != earlier.end()) {
      run.summary = found->second;
      run.reused = true;
    }
    result.runs.push_back(std::move(run));
  }
  return result;
}

// What the worker threads share: the runs, which are written under the lock, and the files.
class Pool {
 public:
  Pool(SweepResult& result, const PointSimulator& simulate_point, const SweepOptions& options)
      : result_(result), simulate_point_(simulate_point), options_(options), started_(Clock::now()) {
    for (std::size_t i = 0; i < result.runs.size(); ++i) {
      if (!result.runs[i].summary.has_value()) pending_.push_back(i);
    }
  }

  void run() {
    report();
    on_threads(pending_.size(), threads_for(options_.threads), [this](std::size_t i) { work(pending_[i]); });
  }

  // Writes both files. Call with no worker running, or under the lock.
  void flush() {
    if (options_.out.empty()) return;
    const std::vector<Growth> growth = growth_of(result_.runs);
    Problems problems = write_file(json_path(options_), results_json(result_.runs, growth));
    const Problems more = write_file(csv_path(options_), results_csv(result_.runs));
    problems.insert(problems.end(), more.begin(), more.end());
    // A full disk is one problem, not one per point.
    if (!problems.empty() && !write_failed_) {
      result_.file_problems.insert(result_.file_problems.end(), problems.begin(), problems.end());
      write_failed_ = true;
    }
    flushed_ = Clock::now();
  }

 private:
  void work(std::size_t index) {
    SweepRun& run = result_.runs[index];
    const SweepPoint point = run.point;
    Result<Summary> summary = simulated(point);
    const std::lock_guard lock(mutex_);
    if (summary) {
      run.summary = std::move(summary).value();
    } else {
      run.error = to_string(summary.problems());
      ++failed_;
    }
    ++simulated_;
    if (Clock::now() - flushed_ >= kFlushInterval) flush();
    report();
  }

  // Memory that runs out ends one point, not the sweep.
  Result<Summary> simulated(const SweepPoint& point) const {
    try {
      return simulate_point_(point);
    } catch (const std::bad_alloc&) {
      return Problem{"", "out of memory", "fewer --threads need less"};
    }
  }

  void report() {
    if (!options_.progress) return;
    SweepProgress progress{.finished = result_.runs.size() - pending_.size() + simulated_,
                           .total = result_.runs.size(),
                           .failed = failed_,
                           .remaining_s = std::nullopt};
    if (simulated_ > 0) {
      const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
      const std::size_t left = pending_.size() - simulated_;
      progress.remaining_s = elapsed / static_cast<double>(simulated_) * static_cast<double>(left);
    }
    options_.progress(progress);
  }

  SweepResult& result_;
  const PointSimulator& simulate_point_;
  const SweepOptions& options_;
  std::vector<std::size_t> pending_;  // runs to simulate, in grid order
  std::mutex mutex_;
  std::size_t simulated_ = 0;
  std::size_t failed_ = 0;
  bool write_failed_ = false;
  Clock::time_point started_;
  Clock::time_point flushed_ = started_;
};

struct GrowingFigure {
  std::string_view name;
  double (*of)(const Summary&);
};

// The figures whose growth is reported.
constexpr GrowingFigure kGrowing[] = {
    {"messages", [](const Summary& s) { return static_cast<double>(s.communication.messages); }},
    {"bytes", [](const Summary& s) { return static_cast<double>(s.communication.bytes); }},
    {"exposed_communication_s", [](const Summary& s) { return s.breakdown.exposed_total_s(); }},
};

std::string spoken(const std::string& quantity) {
  return quantity == "exposed_communication_s" ? "exposed communication grows" : quantity + " grow";
}

// The settings of a point without one dimension.
std::vector<Override> without(const SweepPoint& point, std::size_t dimension) {
  std::vector<Override> others;
  for (std::size_t i = 0; i < point.set.size(); ++i) {
    if (point.dimensions[i] != dimension) others.push_back(point.set[i]);
  }
  return others;
}

std::vector<std::string> keys_of(const SweepPoint& point, std::size_t dimension) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < point.set.size(); ++i) {
    if (point.dimensions[i] == dimension) keys.push_back(point.set[i].key);
  }
  return keys;
}

bool same(const std::vector<Override>& a, const std::vector<Override>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Override& x, const Override& y) { return x.key == y.key && x.value == y.value; });
}

// Runs that differ along one dimension alone.
struct Line {
  std::vector<Override> others;
  std::vector<const Summary*> points;
};

std::vector<Line> lines_along(std::span<const SweepRun> runs, std::size_t dimension) {
  std::vector<Line> lines;
  for (const SweepRun& run : runs) {
    if (!run.summary.has_value()) continue;
    const std::vector<Override> others = without(run.point, dimension);
    auto found = std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return same(line.others, others); });
    if (found == lines.end()) found = lines.insert(lines.end(), {others, {}});
    found->points.push_back(&*run.summary);
  }
  return lines;
}

// What must be alike for two points to lie on one law.
std::string way_of(const Summary& summary) {
  std::string way = summary.simulation.fidelity;
  for (const auto& [call, algorithm] : summary.simulation.algorithms) way += fmt::format(", {} {}", call, algorithm);
  return way;
}

// The points that are played out alike: the largest such group, of equally large ones that with the most GPUs.
std::vector<const Summary*> most_alike(const std::vector<const Summary*>& points) {
  std::map<std::string, std::vector<const Summary*>> groups;
  for (const Summary* point : points) groups[way_of(*point)].push_back(point);
  const auto size = [](const auto& group) {
    std::int64_t largest = 0;
    for (const Summary* point : group.second) largest = std::max(largest, point->cluster.gpus);
    return std::pair(group.second.size(), largest);
  };
  const auto found =
      std::max_element(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return size(a) < size(b); });
  return found->second;
}

std::vector<std::pair<double, double>> points_of(const std::vector<const Summary*>& summaries,
                                                 const GrowingFigure& quantity) {
  std::vector<std::pair<double, double>> points;
  for (const Summary* summary : summaries) {
    points.emplace_back(static_cast<double>(summary->cluster.gpus), quantity.of(*summary));
  }
  return points;
}

// Without its axes. Nothing where the number of GPUs does not change, or where there is nothing that grows.
std::optional<Growth> growth_along(const Line& line, const GrowingFigure& quantity) {
  if (sizes_with_logarithm(points_of(line.points, quantity)) < 2) return std::nullopt;
  const std::vector<const Summary*> alike = most_alike(line.points);
  Growth growth;
  growth.quantity = quantity.name;
  growth.others = line.others;
  growth.law = fit_power_law(points_of(alike, quantity));
  growth.unlike = static_cast<int>(line.points.size() - alike.size());
  if (growth.unlike > 0) growth.played = way_of(*alike.front());
  for (const Summary* summary : alike) growth.gpus.push_back(summary->cluster.gpus);
  return growth;
}

}  // namespace

std::vector<SweepPoint> grid(std::span<const SweepAxis> axes) {
  std::vector<SweepPoint> points(1);
  const std::vector<std::vector<std::size_t>> dimensions = dimensions_of(axes);
  for (std::size_t dimension = 0; dimension < dimensions.size(); ++dimension) {
    std::vector<SweepPoint> longer;
    for (const SweepPoint& point : points) {
      for (std::size_t value = 0; value < length_of(axes, dimensions[dimension]); ++value) {
        SweepPoint next = point;
        for (const std::size_t axis : dimensions[dimension]) {
          const std::string& text = axes[axis].values[value];
          next.name += fmt::format("{}{}={}", next.name.empty() ? "" : ", ", short_name(axes, axis), text);
          next.set.push_back({axes[axis].key, text});
          next.dimensions.push_back(dimension);
        }
        longer.push_back(std::move(next));
      }
    }
    points = std::move(longer);
  }
  return points;
}

std::vector<Growth> growth_of(std::span<const SweepRun> runs) {
  std::vector<Growth> growth;
  if (runs.empty() || runs.front().point.dimensions.empty()) return growth;
  const SweepPoint& any = runs.front().point;
  for (std::size_t dimension = 0; dimension <= any.dimensions.back(); ++dimension) {
    for (const Line& line : lines_along(runs, dimension)) {
      for (const GrowingFigure& quantity : kGrowing) {
        std::optional<Growth> found = growth_along(line, quantity);
        if (!found.has_value()) continue;
        found->axes = keys_of(any, dimension);
        growth.push_back(std::move(*found));
      }
    }
  }
  return growth;
}

std::size_t SweepResult::failures() const {
  return static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [](const SweepRun& run) { return !run.error.empty(); }));
}

SweepResult run_sweep(std::span<const SweepPoint> points, const PointSimulator& simulate_point,
                      const SweepOptions& options) {
  if (!options.out.empty()) {
    if (Problems problems = prepare_folder(options.out); !problems.empty()) return {{}, {}, std::move(problems)};
  }
  SweepResult result = prepare(points, options);
  Pool pool(result, simulate_point, options);
  pool.run();
  pool.flush();
  result.growth = growth_of(result.runs);
  return result;
}

Result<SweepResult> sweep_file(const std::string& path, const LoadOptions& options_of_load, SweepOptions options) {
  const LoadOptions load = for_running(options_of_load);
  const Result<Scenario> base = load_scenario(path, load);
  if (!base) return base.problems();
  if (base->sweep.empty()) {
    return Problem{"sweep", fmt::format("{} has no axes to sweep over", path),
                   "add a block such as  sweep: {cluster.gpus: [8, 16, 32]}, or use  orrery run"};
  }
  options.inputs = digest_of_inputs(path, load);
  const auto simulate_point = [&](const SweepPoint& point) -> Result<Summary> {
    LoadOptions settings = load;
    settings.overrides.insert(settings.overrides.end(), point.set.begin(), point.set.end());
    const Result<Scenario> scenario = load_scenario(path, settings);
    if (!scenario) return scenario.problems();
    Result<Simulation> simulation = simulate(*scenario, {.fold = options.fold});
    if (!simulation) return simulation.problems();
    return std::move(simulation).value().summary;
  };
  return run_sweep(grid(base->sweep), simulate_point, options);
}

namespace {

std::string line_about(const Growth& growth) {
  std::string text = growth.law.has_value() ? fmt::format("{} as n^{:.2f} with the number of GPUs",
                                                          spoken(growth.quantity), growth.law->exponent)
                                            : fmt::format("{} with the number of GPUs", spoken(growth.quantity));
  for (std::size_t i = 0; i < growth.others.size(); ++i) {
    text += fmt::format("{} {} = {}", i == 0 ? " at" : ",", growth.others[i].key, growth.others[i].value);
  }
  text += growth.law.has_value() ? fmt::format(" ({} points, R2 {:.4f})\n", growth.law->points, growth.law->r_squared)
                                 : ": not fitted, a law needs three sizes that run alike\n";
  return text;
}

std::string line_about_left_out(const Growth& growth) {
  return fmt::format("  fitted over {} of {} points; {} ran with another fidelity or algorithm and {} left out\n",
                     growth.gpus.size(), growth.gpus.size() + static_cast<std::size_t>(growth.unlike), growth.unlike,
                     growth.unlike == 1 ? "is" : "are");
}

}  // namespace

std::string explain(std::span<const Growth> growth) {
  std::string text;
  bool fitted = false;  // any law of the same points
  for (std::size_t i = 0; i < growth.size(); ++i) {
    const Growth& law = growth[i];
    text += line_about(law);
    fitted = fitted || law.law.has_value();
    const bool last =
        i + 1 == growth.size() || growth[i + 1].axes != law.axes || !same(growth[i + 1].others, law.others);
    if (!last) continue;
    // Once: the laws of one line of points leave out the same ones.
    if (fitted && law.unlike > 0) text += line_about_left_out(law);
    fitted = false;
  }
  return text;
}

}  // namespace orrery
