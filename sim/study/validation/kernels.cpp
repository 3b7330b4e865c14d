#include "sim/study/validation/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "scenarios/catalog.hpp"
#include "scenarios/csv_cells.hpp"
#include "scenarios/load.hpp"
#include "sim/exec/kernel_time.hpp"
#include "sim/results/quantities.hpp"
#include "sim/study/validation/errors.hpp"

namespace orrery {

namespace {

// A row as a kernel, and how it is reported. An absent kernel has a reason.
struct KernelRow {
  ComparedKernel compared;
  std::optional<Kernel> kernel;
  std::string library = "auto";  // of fused attention
};

// As the tables' implementations are called.
std::string library_of(std::string_view implementation) {
  if (implementation == "fa2") return "flash-2";
  if (implementation == "fa3") return "flash-3";
  return implementation == "cudnn" ? "cudnn" : "auto";
}

constexpr std::array<std::string_view, 9> kGemmColumns{"gpu", "set", "precision",    "batch", "m",
                                                       "n",   "k",   "output_bytes", "tflops"};
constexpr std::array<std::string_view, 9> kAttentionColumns{
    "gpu", "implementation", "direction", "causal", "heads_x_batch", "sequence", "head_dim", "value_dim", "time_us"};
constexpr std::array<std::string_view, 8> kMemoryColumns{"gpu",  "kind",    "operation", "implementation",
                                                         "rows", "columns", "bytes",     "time_us"};

KernelRow gemm_of(CsvCells& cells) {
  KernelRow row;
  row.compared.table = "gemm";
  row.compared.group = cells.text("set") + " " + cells.text("precision");
  Kernel kernel{.name = "gemm", .kind = KernelKind::gemm};
  kernel.batch = std::max<std::int64_t>(1, cells.count("batch"));
  kernel.m = static_cast<std::int64_t>(cells.number("m", 1));
  kernel.n = static_cast<std::int64_t>(cells.number("n", 1));
  kernel.k = static_cast<std::int64_t>(cells.number("k", 1));
  row.compared.shape = fmt::format("{} x {} x {} x {}", kernel.batch, kernel.m, kernel.n, kernel.k);
  kernel.flops = Flops(2.0 * static_cast<double>(kernel.batch * kernel.m * kernel.n) * static_cast<double>(kernel.k));
  row.compared.measured_s = kernel.flops.count() / cells.number("tflops", 1e-9) / 1e12;
  const std::optional<Precision> precision = precision_from_name(cells.text("precision"));
  if (!precision) {
    row.compared.error = "precision " + cells.text("precision");
    return row;
  }
  kernel.precision = *precision;
  // The benchmarks pad or choose aligned shapes, but for batched ones of odd depth.
  kernel.row_multiple = *precision == Precision::fp8 ? 16 : 8;
  if (kernel.batch > 1 && kernel.k % 8 != 0) kernel.row_multiple = 4;
  const std::int64_t element = bytes_per_element(*precision);
  kernel.bytes = Bytes(kernel.batch * (element * (kernel.m * kernel.k + kernel.k * kernel.n) +
                                       cells.count("output_bytes") * kernel.m * kernel.n));
  row.kernel = kernel;
  return row;
}

KernelRow attention_of(CsvCells& cells) {
  KernelRow row;
  const bool backward = cells.text("direction") == "backward";
  const bool causal = cells.text("causal") == "1";
  const std::int64_t sequence = cells.count("sequence");
  const std::int64_t heads = cells.count("heads_x_batch");
  const std::int64_t depth = cells.count("head_dim");
  const std::int64_t value_depth = cells.count("value_dim");
  row.compared.table = "attention";
  row.compared.group = cells.text("implementation") + " " + cells.text("direction");
  row.library = library_of(cells.text("implementation"));
  row.compared.shape =
      fmt::format("{} heads, {} tokens, {}/{}{}", heads, sequence, depth, value_depth, causal ? ", causal" : "");
  row.compared.measured_s = cells.number("time_us", 1e-6) * 1e-6;
  // FlashAttention-2, which A100 runs, pads value heads to the size of query heads.
  const bool padded = cells.text("gpu").starts_with("a100");
  const double flops = 2.0 * static_cast<double>(sequence * sequence) * static_cast<double>(heads) *
                       static_cast<double>(depth + (padded ? depth : value_depth)) * (backward ? 2.5 : 1);
  row.kernel = Kernel{.name = "attention",
                      .kind = backward ? KernelKind::attention_backward : KernelKind::attention_forward,
                      .m = sequence,
                      .n = sequence,
                      .k = depth,
                      .batch = heads,
                      .causal = causal,
                      .flops = Flops(causal ? flops / 2 : flops),
                      .bytes = Bytes(4 * sequence * heads * (depth + value_depth))};
  return row;
}

KernelRow memory_of(CsvCells& cells) {
  KernelRow row;
  row.compared.table = "memory";
  row.compared.group = cells.text("operation") + ", " + cells.text("implementation");
  const std::int64_t lines = cells.count("rows");
  const std::int64_t columns = cells.count("columns");
  row.compared.shape = fmt::format("{} x {}", lines, columns);
  row.compared.measured_s = cells.number("time_us", 1e-6) * 1e-6;
  const auto* const kind = std::find(kKernelKindNames.begin(), kKernelKindNames.end(), cells.text("kind"));
  if (kind == kKernelKindNames.end()) {
    row.compared.error = "kind " + cells.text("kind");
    return row;
  }
  row.kernel = Kernel{.name = cells.text("operation"),
                      .kind = static_cast<KernelKind>(kind - kKernelKindNames.begin()),
                      .m = lines,
                      .n = columns,
                      .bytes = Bytes(cells.count("bytes"))};
  return row;
}

struct TableKind {
  std::string_view name;
  std::span<const std::string_view> columns;
  KernelRow (*read)(CsvCells&);
};
const std::array<TableKind, 3> kTables{TableKind{"products", kGemmColumns, gemm_of},
                                       TableKind{"attention kernels", kAttentionColumns, attention_of},
                                       TableKind{"memory-bound kernels", kMemoryColumns, memory_of}};

// The kind whose columns the table has most of; what is missing of them is a problem.
const TableKind& kind_of(const CsvTable& table) {
  const auto missing = [&](const TableKind& kind) {
    return static_cast<double>(missing_columns(table, kind.columns, kind.name).size()) /
           static_cast<double>(kind.columns.size());
  };
  return *std::min_element(kTables.begin(), kTables.end(),
                           [&](const TableKind& a, const TableKind& b) { return missing(a) < missing(b); });
}

void simulate(KernelRow& row, Catalog& catalog) {
  ComparedKernel& compared = row.compared;
  if (!row.kernel) return;
  if (!catalog.has(CatalogKind::gpu, compared.gpu)) {
    compared.error = fmt::format("no GPU {} in the catalogue", compared.gpu);
    return;
  }
  const Result<GpuSpec>& gpu = catalog.gpu(compared.gpu);
  if (!gpu) {
    compared.error = gpu.problems().front().message;
  } else if (row.kernel->m < 1 || row.kernel->n < 1) {
    compared.error = "a shape without elements";
  } else if (!can_run(*row.kernel, *gpu)) {
    compared.error = fmt::format("{} does not compute in {}", compared.gpu, name_of(row.kernel->precision));
  } else {
    GpuSpec own = *gpu;
    own.kernels.use_attention_library(row.library);
    compared.simulated_s = to_seconds(time_alone(*row.kernel, own));
  }
}

using Rows = std::vector<const ComparedKernel*>;

KernelErrors errors_of(const ComparedKernel& first, const std::string& group, const Rows& rows, double factor) {
  KernelErrors errors{.table = first.table, .gpu = first.gpu, .group = group};
  for (const ComparedKernel* row : rows) {
    if (!row->simulated_s) {
      ++errors.failed;
      continue;
    }
    const double ratio = *row->simulated_s / row->measured_s;
    ++errors.rows;
    errors.mean += std::abs(ratio - 1);
    errors.bias += ratio - 1;
    errors.shape += std::abs(ratio / factor - 1);
  }
  if (errors.rows == 0) return errors;
  errors.mean /= errors.rows;
  errors.bias /= errors.rows;
  errors.shape /= errors.rows;
  return errors;
}

double median_ratio(const Rows& rows) {
  std::vector<double> ratios;
  for (const ComparedKernel* row : rows) {
    if (row->simulated_s) ratios.push_back(*row->simulated_s / row->measured_s);
  }
  if (ratios.empty()) return 1;
  std::sort(ratios.begin(), ratios.end());
  return quantile(ratios, 0.5);
}

}  // namespace

Result<std::vector<ComparedKernel>> validate_kernels(std::span<const std::string> files) {
  Problems problems;
  std::vector<KernelRow> rows;
  for (const std::string& file : files) {
    const Result<CsvTable> table = read_csv_table(file);
    if (!table) {
      for (const Problem& problem : table.problems()) problems.push_back(problem);
      continue;
    }
    const TableKind& kind = kind_of(*table);
    Problems wrong = missing_columns(*table, kind.columns, kind.name);
    if (wrong.empty()) {
      for (const CsvRow& line : table->rows) {
        CsvCells cells(*table, line, wrong);
        rows.push_back(kind.read(cells));
        rows.back().compared.gpu = cells.text("gpu");
      }
    }
    problems.insert(problems.end(), wrong.begin(), wrong.end());
  }
  if (!problems.empty()) return problems;
  Catalog catalog(find_catalog_root());
  std::vector<ComparedKernel> compared;
  for (KernelRow& row : rows) {
    simulate(row, catalog);
    compared.push_back(std::move(row.compared));
  }
  return compared;
}

std::vector<KernelErrors> kernel_errors(std::span<const ComparedKernel> rows) {
  std::map<std::pair<std::string, std::string>, std::map<std::string, Rows>> tables;
  for (const ComparedKernel& row : rows) tables[{row.table, row.gpu}][row.group].push_back(&row);
  std::vector<KernelErrors> all;
  for (const auto& [table, groups] : tables) {
    std::vector<KernelErrors> of_groups;
    Rows together;
    double shape = 0;
    for (const auto& [group, of_group] : groups) {
      of_groups.push_back(errors_of(*of_group.front(), group, of_group, median_ratio(of_group)));
      shape += of_groups.back().shape * of_groups.back().rows;
      together.insert(together.end(), of_group.begin(), of_group.end());
    }
    KernelErrors sum = errors_of(*together.front(), "", together, 1);
    sum.shape = sum.rows > 0 ? shape / sum.rows : 0;
    all.push_back(std::move(sum));
    all.insert(all.end(), of_groups.begin(), of_groups.end());
  }
  return all;
}

std::string kernels_text(std::span<const ComparedKernel> rows, bool each) {
  std::string text;
  for (const ComparedKernel& row : rows) {
    if (!each) break;
    text += fmt::format("{:<9} {:<16} {:<34.34} {:<34} {:>9} ", row.table, row.gpu, row.group, row.shape,
                        human_seconds(row.measured_s));
    text += row.simulated_s ? fmt::format("{:>9} {:>+6.1f} %\n", human_seconds(*row.simulated_s),
                                          (*row.simulated_s / row.measured_s - 1) * 100)
                            : row.error + "\n";
  }
  if (each) text += "\n";
  text += fmt::format("{:<9} {:<16} {:<52} {:>5} {:>8} {:>9} {:>8}\n", "kernels", "GPU", "", "rows", "mean", "bias",
                      "shape");
  for (const KernelErrors& sum : kernel_errors(rows)) {
    if (sum.rows == 0) continue;
    const bool group = !sum.group.empty();
    text += fmt::format("{:<9} {:<16} {:<52.52} {:>5} {:>8} {:>+7.1f} % {:>8}\n", group ? "" : sum.table,
                        group ? "" : sum.gpu, sum.group, sum.rows, human_percent(sum.mean), sum.bias * 100,
                        human_percent(sum.shape));
  }
  std::map<std::string, int> reasons;
  for (const ComparedKernel& row : rows) {
    if (!row.error.empty()) ++reasons[row.table + ": " + row.error];
  }
  if (!reasons.empty()) text += "\nnot simulated\n";
  for (const auto& [reason, count] : reasons) text += fmt::format("  {:>4}  {}\n", count, reason);
  return text;
}

std::string kernels_csv(std::span<const ComparedKernel> rows) {
  std::string text = "table,gpu,group,shape,measured_s,simulated_s,error\n";
  for (const ComparedKernel& row : rows) {
    text += fmt::format("{},{},\"{}\",\"{}\",{},{},{}\n", row.table, row.gpu, row.group, row.shape, row.measured_s,
                        row.simulated_s ? fmt::format("{}", *row.simulated_s) : "",
                        row.simulated_s ? fmt::format("{}", *row.simulated_s / row.measured_s - 1) : "");
  }
  return text;
}

}  // namespace orrery
