#include "scenarios/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "scenarios/readers.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;

struct KindInfo {
  CatalogKind kind;
  std::string_view name;
  std::string_view plural;
  std::string_view folder;
};

constexpr std::array<KindInfo, kCatalogKinds.size()> kKinds{{
    {CatalogKind::gpu, "gpu", "gpus", "topology/catalog/gpus"},
    {CatalogKind::node, "node", "nodes", "topology/catalog/nodes"},
    {CatalogKind::link, "link", "links", "topology/catalog/links"},
    {CatalogKind::model, "model", "models", "workloads/models"},
    {CatalogKind::framework, "framework", "frameworks", "workloads/frameworks"},
}};

const KindInfo& info_of(CatalogKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

// How each kind of entry is read, and a line about it.
void read_entry(Reader& reader, const YamlNode& root, GpuSpec& gpu) { read_gpu_entry(reader, root, gpu); }
void read_entry(Reader& reader, const YamlNode& root, NodeSpec& node) { read_node_entry(reader, root, node); }
void read_entry(Reader& reader, const YamlNode& root, LinkSpec& link) { read_link_entry(reader, root, link); }
void read_entry(Reader& reader, const YamlNode& root, ModelSpec& model) { read_model_entry(reader, root, model); }
void read_entry(Reader& reader, const YamlNode& root, FrameworkSpec& spec) { read_framework_entry(reader, root, spec); }

// Memory is built in powers of two, and sold by the power of ten: "79.1 GiB (84.9 GB)".
std::string both_powers(Bytes memory) {
  const auto bytes = static_cast<double>(memory.count());
  return fmt::format("{:.1f} GiB ({:.1f} GB)", bytes / 0x1p30, bytes / 1e9);
}

std::string line_about(const GpuSpec& gpu) {
  const FlopsPerSecond bf16 = gpu.peak_of(Precision::bf16);
  const bool has_bf16 = bf16.count() > 0;
  return fmt::format("{} {}, {}, {}, {} SMs",
                     format_quantity((has_bf16 ? bf16 : gpu.peak_of(Precision::fp16)).count(), Dimension::compute_rate),
                     has_bf16 ? "bf16" : "fp16", both_powers(gpu.memory),
                     format_quantity(gpu.memory_bandwidth.count(), Dimension::data_rate), gpu.multiprocessors);
}

std::string line_about(const NodeSpec& node) {
  constexpr std::array<std::string_view, 3> kWirings{"PCIe", "NVSwitch", "NVLink mesh"};
  return fmt::format("{} x {} over {}, {} x {}", node.gpus, node.gpu.name,
                     kWirings[static_cast<std::size_t>(node.wiring)], node.nics, node.nic.name);
}

std::string line_about(const LinkSpec& link) {
  return fmt::format("{} per direction, {}", format_quantity(link.bandwidth.count(), Dimension::data_rate),
                     format_quantity(static_cast<double>(link.latency.count()), Dimension::time));
}

std::string line_about(const ModelSpec& model) {
  const auto count = static_cast<double>(parameters(model));
  if (model.kind == ModelKind::resnet) {
    return fmt::format("{} blocks of convolutions, {} wide, {:.4g} parameters", model.layers, model.width, count);
  }
  return fmt::format("{} layers x {}, {} heads, {:.4g} parameters", model.layers, model.hidden, model.heads, count);
}

std::string line_about(const FrameworkSpec& framework) {
  return fmt::format("{} a launch{}{}", format_quantity(static_cast<double>(framework.launch.count()), Dimension::time),
                     framework.graphs ? ", CUDA graphs" : "", framework.fused_kernels ? ", fused kernels" : "");
}

}  // namespace

std::string_view name_of(CatalogKind kind) { return info_of(kind).name; }
std::string_view plural_of(CatalogKind kind) { return info_of(kind).plural; }

Catalog::Catalog(std::string root) : root_(std::move(root)) {}

const std::vector<std::string>& Catalog::names(CatalogKind kind) {
  const auto known = names_.find(kind);
  if (known != names_.end()) return known->second;
  std::vector<std::string>& names = names_[kind];
  std::error_code error;
  fs::directory_iterator files(fs::path(root_) / info_of(kind).folder, error);
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    if (files->path().extension() == ".yaml") names.push_back(files->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Catalog::has(CatalogKind kind, const std::string& name) {
  const std::vector<std::string>& known = names(kind);
  return std::binary_search(known.begin(), known.end(), name);
}

std::string Catalog::file_of(CatalogKind kind, const std::string& name) const {
  return (fs::path(root_) / info_of(kind).folder / (name + ".yaml")).lexically_normal().string();
}

template <class T>
const Result<T>& Catalog::cached(Cache<T>& cache, CatalogKind kind, const std::string& name) {
  const auto known = cache.find(name);
  if (known != cache.end()) return known->second;
  const auto remember = [&](Result<T> result) -> const Result<T>& {
    return cache.insert_or_assign(name, std::move(result)).first->second;
  };
  const KindInfo& info = info_of(kind);
  if (!has(kind, name)) {
    const std::string nearest = name.size() > 64 ? "" : nearest_name(name, names(kind));
    const std::string list = names(kind).empty() ? "" : fmt::format("the catalogue has: {}", join(names(kind)));
    return remember(Problem{"", fmt::format("no {} {} in the catalogue", info.name, in_quotes(name)),
                            nearest.empty() ? list : fmt::format("did you mean {}?", nearest)});
  }
  const std::string file = file_of(kind, name);
  if (!reading_.insert(file).second) {
    return remember(Problem{"", fmt::format("catalogue entry {} refers to itself", name), "", {file, 1, 1}});
  }
  const auto text = read_text_file(file);
  if (!text) {
    reading_.erase(file);
    return remember(text.problems());
  }
  const auto origin = std::make_shared<const YamlOrigin>(YamlOrigin{file, fs::path(file).parent_path().string()});
  const auto tree = parse_yaml(*text, origin);
  Reader reader(*this);
  T value;
  value.name = name;
  if (!tree) {
    reader.add(tree.problems());
  } else if (expect_map(reader, *tree, "entry", "source: ...")) {
    read_entry(reader, *tree, value);
    if constexpr (requires { value.source; }) {
      read_source(reader, *tree, "", value.source);
    } else {
      std::string source;
      read_source(reader, *tree, "", source);
    }
  }
  reading_.erase(file);
  if (!reader.problems().empty()) return remember(reader.problems());
  return remember(std::move(value));
}

const Result<GpuSpec>& Catalog::gpu(const std::string& name) { return cached(gpus_, CatalogKind::gpu, name); }
const Result<NodeSpec>& Catalog::node(const std::string& name) { return cached(nodes_, CatalogKind::node, name); }
const Result<LinkSpec>& Catalog::link(const std::string& name) { return cached(links_, CatalogKind::link, name); }
const Result<ModelSpec>& Catalog::model(const std::string& name) { return cached(models_, CatalogKind::model, name); }
const Result<FrameworkSpec>& Catalog::framework(const std::string& name) {
  return cached(frameworks_, CatalogKind::framework, name);
}

Result<std::vector<CatalogEntry>> Catalog::entries(CatalogKind kind) {
  std::vector<CatalogEntry> entries;
  Problems problems;
  const auto add = [&](const std::string& name, const auto& entry) {
    if (!entry) {
      for (const Problem& problem : entry.problems()) {
        const auto same = [&](const Problem& p) { return p.where == problem.where && p.message == problem.message; };
        if (std::none_of(problems.begin(), problems.end(), same)) problems.push_back(problem);
      }
      return;
    }
    entries.push_back({kind, name, line_about(entry.value()), file_of(kind, name)});
  };
  for (const std::string& name : names(kind)) {
    switch (kind) {
      case CatalogKind::gpu:
        add(name, gpu(name));
        break;
      case CatalogKind::node:
        add(name, node(name));
        break;
      case CatalogKind::link:
        add(name, link(name));
        break;
      case CatalogKind::model:
        add(name, model(name));
        break;
      case CatalogKind::framework:
        add(name, framework(name));
        break;
    }
  }
  if (!problems.empty()) return problems;
  return entries;
}

void read_source(Reader& reader, const YamlNode& root, const std::string& key, std::string& source) {
  const YamlEntry* whole = root.find("source");
  const YamlEntry* parts = root.find("sources");
  if (whole == nullptr && parts == nullptr) {
    report_missing_key(reader, root, key, "source", "where this file's figures come from; or sources: key by key");
    return;
  }
  if (whole != nullptr) read_text(reader, whole->value, child_key(key, "source"), source);
  if (parts == nullptr) return;
  if (!expect_map(reader, parts->value, child_key(key, "sources"), "sources: {memory: the driver}")) return;
  for (const YamlEntry& part : parts->value.entries) {
    std::string text;
    if (read_text(reader, part.value, child_key(child_key(key, "sources"), part.key), text)) {
      source += fmt::format("{}{}: {}", source.empty() ? "" : "; ", part.key, text);
    }
  }
}

}  // namespace orrery
