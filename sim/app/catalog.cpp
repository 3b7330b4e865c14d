// `orrery catalog`: what scenarios can name. Hardware, models and frameworks are files; fabrics, strategies, schedules,
// optimizers and collective algorithms are rows of tables in the program.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>

#include "scenarios/catalog.hpp"
#include "scenarios/fitted.hpp"
#include "scenarios/schema.hpp"
#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/base/text.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "sim/results/files.hpp"
#include "topology/registry.hpp"
#include "workloads/registry.hpp"

namespace orrery {

namespace {

struct Entry {
  std::string name;
  std::string doc;      // one line
  std::string details;  // all that is known, several lines
};

struct Kind {
  std::string_view name;
  std::string_view where;  // the scenario key that takes it
  std::function<Result<std::vector<Entry>>()> entries;
  bool dotted = false;  // names such as training.tokens: their beginnings name blocks
};

Result<std::vector<Entry>> files_of(CatalogKind kind) {
  Catalog catalog(find_catalog_root());
  const Result<std::vector<CatalogEntry>> found = catalog.entries(kind);
  if (!found) return found.problems();
  std::vector<Entry> entries;
  for (const CatalogEntry& entry : *found) {
    const Result<std::string> text = read_file(entry.file);
    entries.push_back({entry.name, entry.description, text ? fmt::format("# {}\n{}", entry.file, *text) : ""});
  }
  return entries;
}

Entry entry_of(const RegistryRow& row) {
  Entry entry{std::string(row.name), std::string(row.doc), fmt::format("{}: {}\n", row.name, row.doc)};
  for (const OptionDoc& option : row.options) {
    entry.details +=
        fmt::format("  {:<28} {} ({}, default {})\n", option.name, option.doc, option.type, option.default_value);
  }
  return entry;
}

Result<std::vector<Entry>> rows_of(std::span<const RegistryRow> rows) {
  std::vector<Entry> entries;
  for (const RegistryRow& row : rows) entries.push_back(entry_of(row));
  return entries;
}

Result<std::vector<Entry>> fabrics() {
  std::vector<Entry> entries;
  for (const FabricInfo& row : kFabrics) {
    Entry entry{std::string(row.name), std::string(row.doc), fmt::format("{}: {}\n", row.name, row.doc)};
    for (const FabricParameter& parameter : row.parameters) {
      entry.details += fmt::format("  {:<28} {} (default {})\n", parameter.name, parameter.doc, parameter.default_text);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<Entry>> algorithms() {
  std::vector<Entry> entries;
  for (const CollectiveAlgorithm& row : collective_algorithm_rows()) {
    std::vector<std::string> ops;
    for (std::size_t op = 0; op < kCollectiveOps; ++op) {
      if (row.has(static_cast<CollectiveOp>(op))) ops.emplace_back(kCollectiveOpNames[op]);
    }
    entries.push_back({std::string(row.name), std::string(row.doc),
                       fmt::format("{}: {}\n  operations: {}\n", row.name, row.doc, join(ops))});
  }
  return entries;
}

std::string with_article(const std::string& word) {
  const bool vowel = std::string_view("aeiou").find(word.front()) != std::string_view::npos;
  return (vowel ? "an " : "a ") + word;
}

Result<std::vector<Entry>> keys() {
  std::vector<Entry> entries;
  for (const KeyDoc& doc : scenario_docs()) {
    std::string details = fmt::format("{}: {}\n", doc.key, doc.doc);
    if (!doc.kind.empty()) details += fmt::format("  {}{}\n", with_article(doc.kind), doc.required ? ", required" : "");
    if (!doc.example.empty()) details += fmt::format("  such as {}\n", doc.example);
    entries.push_back({doc.key, doc.doc, std::move(details)});
  }
  return entries;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"gpus", "cluster.node.gpu", [] { return files_of(CatalogKind::gpu); }},
      {"nodes", "cluster.node", [] { return files_of(CatalogKind::node); }},
      {"links", "cluster.fabric.link", [] { return files_of(CatalogKind::link); }},
      {"models", "model", [] { return files_of(CatalogKind::model); }},
      {"frameworks", "training.framework", [] { return files_of(CatalogKind::framework); }},
      {"fabrics", "cluster.fabric.kind", fabrics},
      {"strategies", "parallelism.sharding.kind", [] { return rows_of(sharding_rows()); }},
      {"schedules", "parallelism.schedule.kind", [] { return rows_of(schedule_rows()); }},
      {"optimizers", "training.optimizer", [] { return rows_of(optimizer_rows()); }},
      {"contexts", "parallelism.context_kind", [] { return rows_of(context_rows()); }},
      {"dispatches", "parallelism.dispatch", [] { return rows_of(dispatch_rows()); }},
      {"routings", "training.routing", [] { return rows_of(routing_rows()); }},
      {"fp8-recipes", "training.fp8", [] { return rows_of(fp8_rows()); }},
      {"sparsities", "training.sparsity", [] { return rows_of(sparsity_rows()); }},
      {"algorithms", "collectives.algorithm", algorithms},
      {"keys", "all that a scenario can say", keys, true},
  };
  return all;
}

// "hardware" stands for what clusters are made of; a singular for its plural.
std::vector<const Kind*> kinds_named(const std::string& word) {
  std::vector<const Kind*> found;
  for (const Kind& kind : kinds()) {
    const bool hardware = kind.name == "gpus" || kind.name == "nodes" || kind.name == "links";
    const std::string_view singular = kind.name.substr(0, kind.name.size() - 1);
    if (word == kind.name || word == singular || (hardware && word == "hardware") ||
        (kind.name == "strategies" && (word == "strategy" || word == "sharding"))) {
      found.push_back(&kind);
    }
  }
  return found;
}

void print_entries(std::ostream& out, const std::vector<Entry>& entries) {
  std::size_t width = 0;
  for (const Entry& entry : entries) width = std::max(width, entry.name.size());
  for (const Entry& entry : entries) out << fmt::format("  {:<{}}  {}\n", entry.name, width, entry.doc);
}

void print_list(std::ostream& out, const Kind& kind, const std::vector<Entry>& entries) {
  out << fmt::format("{} ({})\n", kind.name, kind.where);
  print_entries(out, entries);
}

// Those in the block of that name: training.tokens in training, variation.slow[].gpu in variation.slow.
std::vector<Entry> entries_in(const std::string& block, const std::vector<Entry>& entries) {
  std::vector<Entry> found;
  for (const Entry& entry : entries) {
    const bool begins = entry.name.compare(0, block.size(), block) == 0 && entry.name.size() > block.size();
    if (begins && (entry.name[block.size()] == '.' || entry.name[block.size()] == '[')) found.push_back(entry);
  }
  return found;
}

int print_kinds(std::ostream& out) {
  for (const Kind& kind : kinds()) {
    const Result<std::vector<Entry>> entries = kind.entries();
    out << fmt::format("{:<12} {:>3}  {}\n", kind.name, entries ? entries->size() : 0, kind.where);
  }
  return kOk;
}

int print_entry(const std::vector<const Kind*>& wanted, const std::string& name, const Console& console) {
  std::vector<std::string> names;
  for (const Kind* kind : wanted) {
    const Result<std::vector<Entry>> entries = kind->entries();
    if (!entries) return report(entries.problems(), console, kBadInput);
    bool known = false;
    for (const Entry& entry : *entries) {
      names.push_back(entry.name);
      if (entry.name != name) continue;
      console.out << entry.details;
      known = true;
      if (!kind->dotted) break;  // a key of several fabrics is one of each
    }
    const std::vector<Entry> within = kind->dotted ? entries_in(name, *entries) : std::vector<Entry>{};
    print_entries(console.out, within);
    if (known || !within.empty()) return kOk;
  }
  const std::string nearest = nearest_name(name, names);
  return report({Problem{"", fmt::format("no '{}' among {}", name, wanted.front()->name),
                         nearest.empty() ? "known: " + join(names) : fmt::format("did you mean '{}'?", nearest)}},
                console, kBadInput);
}

// Every fit, by the file that has it, and how many there are by what they were fitted on.
int list_fitted(const Console& console) {
  const Result<std::vector<FittedConstant>> constants = fitted_constants(find_catalog_root());
  if (!constants) return report(constants.problems(), console, kBadInput);
  std::string file;
  std::map<std::string, int> counts;
  for (const FittedConstant& constant : *constants) {
    ++counts[constant.measured];
    if (constant.file != file) console.out << constant.file << "\n";
    file = constant.file;
    console.out << fmt::format("  {:<34} {:<8} {}: {}\n", constant.key, constant.value, constant.measured, constant.on);
  }
  console.out << fmt::format("\n{} fitted constants", constants->size());
  for (const auto& [measured, count] : counts) console.out << fmt::format(", {} on {}", count, measured);
  console.out << "\n";
  return kOk;
}

}  // namespace

int show_catalog(const Arguments& arguments, const Console& console) {
  const std::vector<std::string>& words = arguments.positional;
  if (arguments.fitted && !words.empty()) {
    return report({Problem{"--fitted", "lists the whole catalogue", "leave the kind out"}}, console, kBadInput);
  }
  if (arguments.fitted) return list_fitted(console);
  if (words.empty()) return print_kinds(console.out);
  const std::vector<const Kind*> wanted = kinds_named(words[0]);
  if (wanted.empty()) {
    std::vector<std::string> names{"hardware"};
    for (const Kind& kind : kinds()) names.emplace_back(kind.name);
    const std::string nearest = nearest_name(words[0], names);
    return report({Problem{"", fmt::format("no kind '{}' in the catalogue", words[0]),
                           nearest.empty() ? "known: " + join(names) : fmt::format("did you mean '{}'?", nearest)}},
                  console, kBadInput);
  }
  if (words.size() > 1) return print_entry(wanted, words[1], console);
  for (const Kind* kind : wanted) {
    const Result<std::vector<Entry>> entries = kind->entries();
    if (!entries) return report(entries.problems(), console, kBadInput);
    print_list(console.out, *kind, *entries);
  }
  return kOk;
}

}  // namespace orrery
