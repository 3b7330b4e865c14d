// load_scenario: text -> tree -> includes -> overrides -> blocks -> the plan as a whole. Every step collects its
// problems; a later step runs only where the earlier ones left something to work on.
#include "scenarios/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>
#include <tuple>
#include <utility>

#include "scenarios/catalog.hpp"
#include "scenarios/readers.hpp"
#include "scenarios/slow_parts.hpp"
#include "scenarios/tree.hpp"
#include "topology/topology.hpp"
#include "workloads/build.hpp"
#include "workloads/image_model.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kProblemsShown = 100;
constexpr std::size_t kSweepPointsChecked = 1'000;

constexpr std::string_view kKnownBlocks[] = {"name",        "description", "cluster",   "model",
                                             "training",    "parallelism", "variation", "simulation",
                                             "collectives", "sweep",       "compare"};

// Blocks of the format that this version cannot act on: to ignore them would be to answer another question.
struct LaterBlock {
  std::string_view name;
  std::string_view what;
};
constexpr LaterBlock kLaterBlocks[] = {
    {"campaign", "checkpoints and failures over a whole run"},
    {"cost", "costs"},
    {"power", "energy"},
    {"data", "the data pipeline"},
};

void read_top_key(Reader& reader, const YamlEntry& entry) {
  reader.locate(entry.key, entry.value.is_null() ? entry.key_place : entry.value.place);
  for (const LaterBlock& later : kLaterBlocks) {
    if (later.name != entry.key) continue;
    reader.problem(entry.key_place, entry.key,
                   fmt::format("{}: this version does not simulate {} yet", later.name, later.what),
                   "leave the block out");
    return;
  }
  const std::vector<std::string> known(std::begin(kKnownBlocks), std::end(kKnownBlocks));
  if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
    report_unknown_key(reader, entry, entry.key, known);
  }
}

const YamlNode* block(const YamlNode& root, std::string_view name) {
  const YamlEntry* entry = root.find(name);
  return entry == nullptr || entry->value.is_null() ? nullptr : &entry->value;
}

void check_algorithm(Reader& reader, const YamlNode& collectives, const std::vector<std::string>& known) {
  const YamlEntry* entry = collectives.find("algorithm");
  if (known.empty() || entry == nullptr || !entry->value.is_scalar() || entry->value.text.empty()) return;
  std::vector<std::string_view> names{"auto"};
  names.insert(names.end(), known.begin(), known.end());
  read_one_of(reader, entry->value, "collectives.algorithm", names);
}

// Tokens of an image, if the model works on images: their size says how many, so that the training need not. 0: it
// works on text, or is not sound, which is reported when it is read.
std::int64_t image_tokens(Reader& reader, const YamlNode& node) {
  Reader silent(reader.catalog());
  ModelSpec model;
  constexpr std::int64_t kAnyLength = 1;
  if (!read_model(silent, node, "model", kAnyLength, model) || !model.images() || !check(model).empty()) return 0;
  return tokens_per_image(model);
}

// Reads every block that is there, and reports those that must be.
Scenario read_blocks(Reader& reader, const YamlNode& root, const std::string& file, const LoadOptions& options) {
  Scenario scenario;
  scenario.file = file;
  scenario.name = fs::path(file).stem().string();
  reader.locate("", root.place);
  for (const YamlEntry& entry : root.entries) read_top_key(reader, entry);
  if (const YamlNode* node = block(root, "name")) read_text(reader, *node, "name", scenario.name);
  const auto required = [&](std::string_view name, std::string_view doc,
                            const std::function<void(const YamlNode&)>& read) {
    if (const YamlNode* node = block(root, name)) {
      read(*node);
    } else {
      report_missing_key(reader, root, "", name, doc);
    }
  };
  required("cluster", "such as cluster: {node: dgx-a100-80gb, nodes: 4}",
           [&](const YamlNode& node) { read_cluster(reader, node, scenario); });
  if (const YamlNode* node = block(root, "model")) {
    scenario.training.sequence_length = image_tokens(reader, *node);
  }
  required("training", "such as training: {sequence_length: 2048, global_batch: 1536}",
           [&](const YamlNode& node) { read_training(reader, node, scenario.training); });
  required("model", "such as model: gpt3-175b", [&](const YamlNode& node) {
    read_model(reader, node, "model", scenario.training.sequence_length, scenario.model);
  });
  if (const YamlNode* node = block(root, "parallelism")) read_parallelism(reader, *node, scenario.parallelism);
  if (const YamlNode* node = block(root, "variation")) read_variation(reader, *node, scenario.variation);
  if (const YamlNode* node = block(root, "simulation")) read_simulation(reader, *node, scenario.simulation);
  if (const YamlNode* node = block(root, "collectives")) {
    read_collectives(reader, *node, scenario.collectives);
    if (node->is_map()) check_algorithm(reader, *node, options.collective_algorithms);
  }
  return scenario;
}

// Problems of layers that know keys only get the places of those keys; those in a file that the scenario names have
// theirs.
void add_located(Reader& reader, const Problems& problems) {
  for (const Problem& problem : problems) {
    if (problem.where.file.empty()) {
      reader.problem(reader.place_of(problem.key), problem.key, problem.message, problem.note);
    } else {
      reader.add({problem});
    }
  }
}

// GPUs that have no rate for what the step computes in. Each kind once.
Problems precisions_missing(const Scenario& scenario) {
  const Precision wanted = compute_precision(scenario.training.precision);
  Problems problems;
  std::vector<std::string> seen;
  for (const NodeGroup& group : scenario.cluster.groups) {
    const GpuSpec& gpu = group.node.gpu;
    if (gpu.peak_of(wanted).count() > 0 || std::find(seen.begin(), seen.end(), gpu.name) != seen.end()) continue;
    seen.push_back(gpu.name);
    std::string has;
    for (std::size_t p = 0; p < kPrecisions; ++p) {
      if (gpu.peak[p].count() > 0) has += fmt::format("{}{}", has.empty() ? "" : ", ", kPrecisionNames[p]);
    }
    problems.push_back(
        {"training.precision", fmt::format("{} does not compute in {}", gpu.name, name_of(wanted)), "it has " + has});
  }
  return problems;
}

// GPUs without sparse tensor cores: those of before Ampere, which are those without bf16.
Problems sparsity_missing(const Scenario& scenario) {
  Problems problems;
  if (scenario.training.sparsity.kind == "none") return problems;
  for (const NodeGroup& group : scenario.cluster.groups) {
    const GpuSpec& gpu = group.node.gpu;
    if (gpu.peak_of(Precision::bf16).count() > 0) continue;
    problems.push_back(
        {"training.sparsity", fmt::format("{} has no sparse tensor cores", gpu.name), "Ampere and later have"});
    break;
  }
  return problems;
}

// What users of formats beyond 16 bits should know about what is assumed.
void remark_formats(Reader& reader, const TrainingSpec& training) {
  if (training.precision == PrecisionRecipe::fp8) {
    reader.remark(
        "fp8: products of the layers' linear operators; attention, embedding and head in bf16. MFU is of the fp8 peak");
    reader.remark("fp8 products run at one rate, however they are scaled; the GPU's entry says on what it was fitted");
  }
  if (training.sparsity.kind != "none") {
    reader.remark(
        fmt::format("{} sparsity: half of the operations of sparse products are left out, and not counted as executed; "
                    "their gain is one figure for all GPUs and shapes (training.sparsity.gain)",
                    training.sparsity.kind));
  }
}

// The framework's own attention, on each kind of GPU that has figures of it.
void choose_attention(Reader& reader, Scenario& scenario) {
  const std::string& library = scenario.training.framework.attention_library;
  std::vector<std::string> seen;
  for (NodeGroup& group : scenario.cluster.groups) {
    GpuSpec& gpu = group.node.gpu;
    if (gpu.kernels.use_attention_library(library) || scenario.training.attention != AttentionKind::flash) continue;
    if (std::find(seen.begin(), seen.end(), gpu.name) != seen.end()) continue;
    seen.push_back(gpu.name);
    const std::string& own = gpu.kernels.attention_library;
    reader.remark(fmt::format("{}: no figures of {} attention are known; {} are used", gpu.name, library,
                              own.empty() ? "those of a GPU that nobody has measured" : "those of " + own));
  }
}

// What only all blocks together show. Runs on blocks that are sound by themselves.
void check_whole(Reader& reader, const Scenario& scenario) {
  const Problems shape = check(scenario.model);
  add_located(reader, shape);
  const Result<Topology> topology = Topology::build(scenario.cluster, scenario.simulation.seed);
  if (topology) {
    add_located(reader, find_slow_parts(scenario.variation, *topology, scenario.gpus).problems());
  } else {
    add_located(reader, topology.problems());
  }
  add_located(reader, precisions_missing(scenario));
  add_located(reader, sparsity_missing(scenario));
  remark_formats(reader, scenario.training);
  if (shape.empty()) {
    add_located(reader, check_plan(scenario.model, scenario.training, scenario.parallelism, scenario.gpus));
  }
}

bool same(const Problem& a, const Problem& b) { return a.where == b.where && a.message == b.message; }

// Sorted by place, without repetitions, and not endlessly many.
Problems in_order(Problems problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.where.file, a.where.line, a.where.column) < std::tie(b.where.file, b.where.line, b.where.column);
  });
  problems.erase(std::unique(problems.begin(), problems.end(), same), problems.end());
  if (problems.size() > kProblemsShown) {
    const std::size_t more = problems.size() - kProblemsShown;
    problems.resize(kProblemsShown);
    problems.push_back({"", fmt::format("{} more problems are not shown", more), "", problems.back().where});
  }
  return problems;
}

// The values that axes at `index` (of one zip group, or one axis alone) give the tree.
void set_axis_values(Reader& reader, YamlNode& root, std::span<const LocatedAxis> axes, std::size_t index) {
  for (const LocatedAxis& axis : axes) {
    if (index >= axis.values.size()) continue;
    reader.add(set_value(root, axis.axis.key, axis.values[index], axis.key_place));
  }
}

// Reads the scenario at every value of every axis, the other axes left alone, so that a value of the wrong type or
// range is found before hours of simulation. What only combinations can show is found when they are run.
void check_sweep(Reader& reader, const YamlNode& root, const std::string& file, const LoadOptions& options,
                 std::span<const LocatedAxis> axes) {
  std::size_t points = 0;
  for (std::size_t first = 0; first < axes.size();) {
    std::size_t end = first + 1;
    const int group = axes[first].axis.zip_group;
    while (group >= 0 && end < axes.size() && axes[end].axis.zip_group == group) ++end;
    const auto together = axes.subspan(first, end - first);
    for (std::size_t i = 0; i < axes[first].values.size() && points < kSweepPointsChecked; ++i, ++points) {
      Reader point_reader(reader.catalog());
      YamlNode point = root;
      set_axis_values(point_reader, point, together, i);
      read_blocks(point_reader, point, file, options);
      reader.add(point_reader.problems());
    }
    first = end;
  }
}

// Reads the scenario with the settings of every variant, for the same reason. A variant whose plan as a whole cannot be
// run is an answer of the comparison, and found when it is run.
void check_variants(Reader& reader, const YamlNode& root, const std::string& file, const LoadOptions& options,
                    std::span<const LocatedVariant> variants) {
  for (const LocatedVariant& variant : variants) {
    Reader variant_reader(reader.catalog());
    YamlNode changed = root;
    for (std::size_t i = 0; i < variant.settings.size(); ++i) {
      const LocatedVariant::Setting& setting = variant.settings[i];
      variant_reader.add(set_value(changed, variant.variant.set[i].key, setting.value, setting.key_place));
    }
    read_blocks(variant_reader, changed, file, options);
    reader.add(variant_reader.problems());
  }
}

// Axes whose key the file does not set: the scenario itself is at their first values, and with them the axes that
// advance together with them, as only together their values need fit.
void set_missing_values(Reader& reader, YamlNode& root, std::span<const LocatedAxis> axes) {
  std::vector<bool> missing;
  for (const LocatedAxis& axis : axes) missing.push_back(find_value(root, axis.axis.key) == nullptr);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    bool set = missing[i];
    for (std::size_t j = 0; j < axes.size() && axes[i].axis.zip_group >= 0; ++j) {
      set = set || (missing[j] && axes[j].axis.zip_group == axes[i].axis.zip_group);
    }
    if (set) set_axis_values(reader, root, axes.subspan(i, 1), 0);
  }
}

Result<Scenario> read_tree(YamlNode root, const std::string& file, const LoadOptions& options, Catalog& catalog) {
  Reader reader(catalog);
  std::vector<LocatedAxis> axes;
  if (const YamlNode* sweep = block(root, "sweep")) read_sweep(reader, *sweep, axes);
  std::vector<LocatedVariant> variants;
  CompareSpec compare;
  if (const YamlNode* node = block(root, "compare")) read_compare(reader, *node, compare.base, variants);
  set_missing_values(reader, root, axes);
  Scenario scenario = read_blocks(reader, root, file, options);
  check_sweep(reader, root, file, options, axes);
  check_variants(reader, root, file, options, variants);
  for (LocatedVariant& variant : variants) compare.variants.push_back(std::move(variant.variant));
  scenario.compare = std::move(compare);
  for (LocatedAxis& axis : axes) scenario.sweep.push_back(std::move(axis.axis));
  if (reader.problems().empty()) choose_attention(reader, scenario);
  if (reader.problems().empty()) check_whole(reader, scenario);
  if (!reader.problems().empty()) return in_order(reader.problems());
  scenario.remarks = std::move(reader.remarks());
  return scenario;
}

}  // namespace

std::string find_catalog_root() {
  const char* root = std::getenv("ORRERY_ROOT");
  return root != nullptr && *root != '\0' ? root : ORRERY_SOURCE_DIR;
}

Result<Scenario> load_scenario(const std::string& path, const LoadOptions& options) {
  const auto text = read_text_file(path);
  if (!text) return text.problems();
  return load_scenario_text(*text, path, options);
}

Result<Scenario> load_scenario_text(std::string_view text, const std::string& name, const LoadOptions& options) {
  const std::string folder = fs::path(name).parent_path().string();
  const auto origin = std::make_shared<const YamlOrigin>(YamlOrigin{name, folder});
  auto tree = parse_yaml(text, origin);
  if (!tree) return in_order(tree.problems());
  if (tree->is_null()) return Problem{"", "the file is empty", "", SourceLocation{name, 1, 1}};
  return load_scenario_tree(std::move(tree).value(), name, options);
}

Result<Scenario> load_scenario_tree(YamlNode tree, const std::string& name, const LoadOptions& options) {
  if (!tree.is_map()) {
    return Problem{"", fmt::format("a scenario must be a map, not {}", describe(tree)),
                   "its keys are cluster, model, training, parallelism, ...", tree.place.location()};
  }
  auto resolved = resolve_includes(std::move(tree));
  if (!resolved) return in_order(resolved.problems());
  YamlNode root = std::move(resolved).value();
  const Problems wrong = apply_overrides(root, options.overrides, fs::path(name).parent_path().string());
  if (!wrong.empty()) return in_order(wrong);
  Catalog catalog(options.catalog_root.empty() ? find_catalog_root() : options.catalog_root);
  return read_tree(std::move(root), name, options, catalog);
}

}  // namespace orrery
