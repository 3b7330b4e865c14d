// import_plan: text -> entries -> rows and what only several keys say together -> tree -> loader -> text.
//
// The tree's nodes keep the places that the plan's values stand at, so that whatever the loader finds wrong with the
// scenario is shown where the plan says it.
#include "scenarios/import/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>

#include "scenarios/catalog.hpp"
#include "scenarios/import/formats.hpp"
#include "scenarios/import/write_scenario.hpp"
#include "scenarios/readers.hpp"
#include "scenarios/tree.hpp"
#include "sim/base/check.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;

YamlPlace option_place(const std::string& option) {
  return {std::make_shared<const YamlOrigin>(YamlOrigin{option, ""}), 0, 0};
}

struct NodeCount {
  std::string node;
  std::int64_t nodes = 0;  // 0: not said
};

// "dgx-h100 x 8", "dgx-h100x8", "dgx-h100". A name that the catalogue has is never taken apart.
std::optional<NodeCount> parse_cluster(const std::string& text, Catalog& catalog) {
  constexpr std::size_t kDigitsMost = 7;
  if (text.empty()) return std::nullopt;
  if (catalog.has(CatalogKind::node, text)) return NodeCount{text, 0};
  const std::size_t x = text.find_last_of('x');
  const std::string digits =
      x == std::string::npos ? "" : text.substr(std::min(text.size(), text.find_first_not_of(' ', x + 1)));
  const bool counts = !digits.empty() && digits.size() <= kDigitsMost &&
                      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!counts) return NodeCount{text, 0};
  std::string node = text.substr(0, x);
  node.erase(node.find_last_not_of(' ') + 1);
  if (node.empty()) return std::nullopt;
  return NodeCount{node, std::stoll(digits)};
}

// What stands at an option: {node: dgx-h100, nodes: 8}.
YamlNode cluster_node(const NodeCount& count, const YamlPlace& place, std::int64_t gpus_of_plan) {
  YamlNode map;
  map.kind = YamlNode::Kind::map;
  map.place = place;
  map.entries.push_back({"node", place, scalar_node(count.node, place)});
  const bool by_plan = count.nodes == 0 && gpus_of_plan > 0;
  const std::int64_t number = by_plan ? gpus_of_plan : count.nodes;
  if (number > 0)
    map.entries.push_back({by_plan ? "gpus" : "nodes", place, scalar_node(std::to_string(number), place)});
  return map;
}

class Importer {
 public:
  Importer(const ImportFormat& format, const std::string& name, const ImportOptions& options)
      : format_(format),
        name_(name),
        options_(options),
        catalog_(options.load.catalog_root.empty() ? find_catalog_root() : options.load.catalog_root),
        reader_(catalog_) {}

  Result<ImportedPlan> run(const std::vector<PlanEntry>& entries, const YamlPlace& file) {
    YamlNode root;
    root.kind = YamlNode::Kind::map;
    root.place = file;
    std::vector<std::string> keys = apply_options(root);
    Draft draft(reader_, entries, std::move(root), keys);
    settle_cluster(draft);
    format_.prepare(draft);
    for (const PlanEntry& entry : entries) apply_row(draft, entry);
    format_.finish(draft);
    for (const PlanEntry& entry : entries) {
      if (!draft.reported(entry)) draft.ignore(entry, Fate::no_influence, "none here");
    }
    if (!draft.has_target("name")) draft.root().entries.push_back(name_entry(file));
    check_complete(draft);
    if (reader_.problems().empty()) return finished(draft);
    add_problems_of_loader(draft);
    return distinct(reader_.problems());
  }

 private:
  // --set, --model: returns the keys that they set.
  std::vector<std::string> apply_options(YamlNode& root) {
    std::vector<std::string> keys;
    if (!options_.model.empty()) {
      const YamlPlace place = option_place(fmt::format("--model {}", options_.model));
      reader_.add(set_value(root, "model", scalar_node(options_.model, place), place));
      keys.emplace_back("model");
    }
    reader_.add(apply_overrides(root, options_.load.overrides, ""));
    for (const Override& override_ : options_.load.overrides) keys.push_back(override_.key);
    if (!options_.clusters.empty()) keys.emplace_back("cluster");
    return keys;
  }

  // The cluster of the options, with the plan's own number of GPUs where they leave it open.
  void settle_cluster(Draft& draft) {
    const std::int64_t named = format_.gpus(draft);
    std::vector<NodeCount> counts;
    for (const std::string& text : options_.clusters) {
      const auto count = parse_cluster(text, catalog_);
      const bool enough = count && (count->nodes > 0 || (named > 0 && options_.clusters.size() == 1));
      if (!enough) {
        reader_.problem(option_place(fmt::format("--cluster {}", text)), "", "how many of these nodes?",
                        "write it as in  --cluster 'dgx-a100-80gb x 4'");
        continue;
      }
      counts.push_back(*count);
    }
    if (counts.size() == 1) {
      const YamlPlace place = option_place(fmt::format("--cluster {}", options_.clusters.front()));
      reader_.add(set_value(draft.root(), "cluster", cluster_node(counts.front(), place, named), place));
    } else if (!counts.empty()) {
      const YamlPlace place = option_place(fmt::format("--cluster {}", join(options_.clusters)));
      YamlNode groups;
      groups.kind = YamlNode::Kind::sequence;
      groups.place = place;
      for (const NodeCount& count : counts) groups.items.push_back(cluster_node(count, place, 0));
      reader_.add(set_value(draft.root(), "cluster.groups", groups, place));
    }
    draft.gpus = gpus_of_cluster(draft, named);
    named_gpus_ = named;
  }

  // What is wrong with the cluster is for the loader to say.
  std::int64_t gpus_of_cluster(const Draft& draft, std::int64_t named) {
    const YamlNode* cluster = find_value(draft.root(), "cluster");
    if (cluster == nullptr) return named;
    Reader quiet(catalog_);
    Scenario scratch;
    read_cluster(quiet, *cluster, scratch);
    return quiet.problems().empty() ? scratch.gpus : 0;
  }

  void apply_row(Draft& draft, const PlanEntry& entry) {
    const PlanEntry* last = draft.find(entry.key);
    if (last != &entry) {
      draft.ignore(entry, Fate::no_influence, fmt::format("given again in line {}", last->place.line));
      return;
    }
    const ImportRow* row = find_import_row(format_.rows, entry.key);
    if (row == nullptr) {
      draft.ignore(entry, Fate::unknown, unknown_key(entry.key));
    } else {
      row->apply(draft, entry, *row);
    }
  }

  [[nodiscard]] std::string unknown_key(const std::string& key) const {
    constexpr std::size_t kLettersMost = 64;  // the search is quadratic in letters
    std::vector<std::string> known;
    for (const ImportRow& row : format_.rows) {
      if (!row.key.ends_with('*')) known.emplace_back(row.key);
    }
    const std::string nearest = key.size() > kLettersMost ? "" : nearest_name(key, known);
    return nearest.empty() ? "" : fmt::format("did you mean {}?", nearest);
  }

  [[nodiscard]] YamlEntry name_entry(const YamlPlace& file) const {
    std::string stem = fs::path(name_).stem().string();
    if (stem.empty()) stem = "imported plan";
    return {"name", file, scalar_node(stem, file)};
  }

  // The plan has a key for the target, whatever is wrong with it.
  [[nodiscard]] bool says(const Draft& draft, std::string_view target) const {
    return std::any_of(draft.entries().begin(), draft.entries().end(), [&](const PlanEntry& entry) {
      const ImportRow* row = find_import_row(format_.rows, entry.key);
      return row != nullptr && row->target == target;
    });
  }

  // What a scenario needs and the plan does not say, each with the option that says it.
  void check_complete(Draft& draft) {
    const bool sound = reader_.problems().empty();
    const auto require = [&](const std::string& target, const std::string& what, const std::string& how) {
      if (draft.has_target(target) || (!sound && says(draft, target))) return;
      reader_.problem(draft.root().place, "", fmt::format("{} does not say {}", name_, what), how);
    };
    const std::string example = named_gpus_ > 0 ? "--cluster dgx-a100-80gb" : "--cluster 'dgx-a100-80gb x 4'";
    const std::string count = named_gpus_ > 0 ? fmt::format("; how many follows from its {} GPUs", named_gpus_) : "";
    if (options_.clusters.empty()) {
      require("cluster", "on which machines it runs",
              fmt::format("add  {}  (`orrery catalog nodes` lists what there is{})", example, count));
    }
    require("model", "which model it trains",
            "add  --model llama2-7b  or  --model path/to/config.json  (`orrery catalog models` lists what there is)");
    require("training.sequence_length", "how long a sequence is", "add  --set training.sequence_length=4096");
    // A batch per GPU says it, once there are GPUs.
    const bool per_gpu = (draft.gpus == 0 || !sound) && says(draft, "training.micro_batch");
    if (!per_gpu) {
      require("training.global_batch", "how many sequences a step has", "add  --set training.global_batch=256");
    }
  }

  // What the loader finds wrong with as much of a scenario as there is.
  void add_problems_of_loader(const Draft& draft) {
    for (const Problem& problem : load_scenario_tree(draft.root(), name_, loading()).problems()) {
      if (!problem.message.ends_with(" is missing")) reader_.add({problem});
    }
  }

  // Overrides are in the tree.
  [[nodiscard]] LoadOptions loading() const {
    LoadOptions load = options_.load;
    load.overrides.clear();
    return load;
  }

  static Problems distinct(const Problems& problems) {
    Problems kept;
    for (const Problem& problem : problems) {
      const bool known = std::any_of(kept.begin(), kept.end(), [&](const Problem& other) {
        return other.where == problem.where && other.message == problem.message;
      });
      if (!known) kept.push_back(problem);
    }
    std::stable_sort(kept.begin(), kept.end(), [](const Problem& a, const Problem& b) {
      return std::tie(a.where.line, a.where.column) < std::tie(b.where.line, b.where.column);
    });
    return kept;
  }

  Result<ImportedPlan> finished(Draft& draft) {
    Result<Scenario> scenario = load_scenario_tree(draft.root(), name_, loading());
    if (!scenario) return scenario.problems();
    ImportedPlan plan;
    plan.format = format_.name;
    plan.lines = draft.lines();
    plan.scenario = std::move(scenario).value();
    move_paths(draft.root());
    plan.text =
        write_scenario(draft.root(), head(plan.lines), [&](const std::string& key) { return draft.origin_of(key); });
    return plan;
  }

  // A path was relative to where it was written; it is to be relative to where the scenario will lie.
  void move_paths(YamlNode& root) const {
    for (const char* key : {"model", "model.base", "parallelism.schedule.file"}) {
      const YamlNode* found = find_value(root, key);
      if (found == nullptr || !found->is_scalar() || fs::path(found->text).is_absolute()) continue;
      std::error_code error;
      const fs::path path = fs::path(found->place.folder()) / found->text;
      // A model's name is one of the catalogue unless it looks like a path (read_model.cpp).
      const std::string& text = found->text;
      const bool looks = text.find('/') != std::string::npos || text.ends_with(".json") || text.starts_with(".");
      if ((!looks && std::string_view(key).starts_with("model")) || !fs::exists(path, error)) continue;
      const fs::path moved =
          fs::proximate(path, options_.scenario_folder.empty() ? "." : options_.scenario_folder, error);
      if (error) continue;
      const YamlPlace place = found->place;
      const Problems wrong = set_value(root, key, scalar_node(moved.string(), place), place);
      ORRERY_CHECK(wrong.empty(), "what was found can be set", key);
    }
  }

  [[nodiscard]] std::string head(const std::vector<ImportLine>& lines) const {
    std::string text =
        fmt::format("Imported from {}, a plan of {}, by orrery import. At each line: the key that it comes from.",
                    shown(scalar_node(fs::path(name_).filename().string(), {})), format_.framework);
    std::string missing;
    for (const ImportLine& line : lines) {
      if (line.fate == Fate::not_simulated) {
        missing += fmt::format("\n  {}{}{}{}{}", line.key, line.value.empty() ? "" : " ", line.value,
                               line.why.empty() ? "" : ": ", line.why);
      }
    }
    if (!missing.empty()) text += "\nThe plan also says, and this is not simulated:" + missing;
    return text;
  }

  const ImportFormat& format_;
  const std::string& name_;
  const ImportOptions& options_;
  Catalog catalog_;
  Reader reader_;
  std::int64_t named_gpus_ = 0;
};

}  // namespace

Result<ImportedPlan> import_plan(const std::string& path, const ImportOptions& options) {
  const auto text = read_text_file(path);
  if (!text) return text.problems();
  return import_plan_text(*text, path, options);
}

Result<ImportedPlan> import_plan_text(std::string_view text, const std::string& name, const ImportOptions& options) {
  const auto format = find_format(options.format, text, name);
  if (!format) return format.problems();
  const auto origin = std::make_shared<const YamlOrigin>(YamlOrigin{name, fs::path(name).parent_path().string()});
  const auto entries = (*format)->read(text, origin);
  if (!entries) return entries.problems();
  return Importer(**format, name, options).run(*entries, YamlPlace{origin, 1, 1});
}

}  // namespace orrery
