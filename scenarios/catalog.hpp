// The catalogue: hardware, models and frameworks by name, one YAML file each. The file's stem is the entry's name.
//
//   topology/catalog/gpus, topology/catalog/nodes, topology/catalog/links, workloads/models, workloads/frameworks
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/problem.hpp"
#include "topology/cluster.hpp"
#include "topology/gpu.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery {

enum class CatalogKind : std::uint8_t { gpu, node, link, model, framework };
inline constexpr std::array kCatalogKinds{CatalogKind::gpu, CatalogKind::node, CatalogKind::link, CatalogKind::model,
                                          CatalogKind::framework};

// "gpu", and its plural "gpus".
[[nodiscard]] std::string_view name_of(CatalogKind kind);
[[nodiscard]] std::string_view plural_of(CatalogKind kind);

struct CatalogEntry {
  CatalogKind kind = CatalogKind::gpu;
  std::string name;
  std::string description;  // one line
  std::string file;
};

// Reads entries on demand and remembers them: each file is read once. Not safe to share between threads.
class Catalog {
 public:
  // `root` holds the folders topology/catalog and workloads.
  explicit Catalog(std::string root);

  // All names of a kind, sorted. Empty where the folder is missing. O(files).
  [[nodiscard]] const std::vector<std::string>& names(CatalogKind kind);

  // All entries of a kind with a line on each, sorted by name. Entries that cannot be read are problems, located in
  // their files.
  [[nodiscard]] Result<std::vector<CatalogEntry>> entries(CatalogKind kind);

  // An entry by name. Problems: no such entry (key empty, note with the nearest name), or those of its file.
  [[nodiscard]] const Result<GpuSpec>& gpu(const std::string& name);
  [[nodiscard]] const Result<NodeSpec>& node(const std::string& name);
  [[nodiscard]] const Result<LinkSpec>& link(const std::string& name);
  [[nodiscard]] const Result<ModelSpec>& model(const std::string& name);
  [[nodiscard]] const Result<FrameworkSpec>& framework(const std::string& name);

  [[nodiscard]] bool has(CatalogKind kind, const std::string& name);
  [[nodiscard]] std::string file_of(CatalogKind kind, const std::string& name) const;

 private:
  template <class T>
  using Cache = std::map<std::string, Result<T>, std::less<>>;

  template <class T>
  const Result<T>& cached(Cache<T>& cache, CatalogKind kind, const std::string& name);

  std::string root_;
  std::map<CatalogKind, std::vector<std::string>> names_;
  std::set<std::string, std::less<>> reading_;  // entries being read, against entries that refer to themselves
  Cache<GpuSpec> gpus_;
  Cache<NodeSpec> nodes_;
  Cache<LinkSpec> links_;
  Cache<ModelSpec> models_;
  Cache<FrameworkSpec> frameworks_;
};

}  // namespace orrery
