#include "workloads/fp8.hpp"

#include <fmt/core.h>

#include <array>
#include <string>

#include "workloads/operators/tensor_overlap.hpp"
#include "workloads/options.hpp"
#include "workloads/sharding/strategy.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr std::array<std::string_view, 3> kAmaxGroups{"none", "tensor", "stage"};

constexpr OptionDoc kCacheWeights{"cache_weights",
                                  "boolean",
                                  "true",
                                  0,
                                  0,
                                  "quantise weights once a step and keep them; false: in each forward pass"};

constexpr OptionDoc kTransposes{
    "transposes", "boolean", "true", 0, 0, "operands are kept transposed as well: Hopper; false: Blackwell"};

constexpr std::array kDelayedOptions{
    kCacheWeights,
    kTransposes,
    OptionDoc{"amax_history", "integer", "1024", 1, 1e6, "earlier tensors whose largest values decide on a scale"},
    OptionDoc{"reduce_amax", "text", "stage", 0, 0, "over whom: none, tensor, or all ranks of a pipeline stage",
              kAmaxGroups},
};

constexpr std::array kCurrentOptions{kCacheWeights, kTransposes};
constexpr std::array kBlockOptions{kCacheWeights};

struct Fp8Row {
  RegistryRow row;
};

constexpr std::array kRows{
    Fp8Row{{"delayed", "a scale a tensor, from the largest values of earlier steps", kDelayedOptions}},
    Fp8Row{{"current", "a scale a tensor, from its own largest value", kCurrentOptions}},
    Fp8Row{{"block", "a scale for 1 x 128 activations and gradients and for 128 x 128 weights", kBlockOptions}},
};

constexpr auto kPublicRows = public_rows(kRows);

constexpr std::int64_t kBlock = 128;

// Multiples that TE asks of the dimensions of fp8 operands (assert_dim_for_fp8_exec).
constexpr std::int64_t kColumns = 16;
constexpr std::int64_t kTokens = 8;

bool delayed(const TrainingSpec& training) { return training.fp8.kind == "delayed"; }

class Fp8Check {
 public:
  Fp8Check(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism)
      : m_(model), t_(training), p_(parallelism) {}

  Problems run() && {
    if (t_.precision != PrecisionRecipe::fp8) {
      if (t_.fp8 != Choice{"delayed", {}}) {
        add("training.fp8", fmt::format("fp8 is not used with precision {}", name_of(t_.precision)),
            "set training.precision: fp8, or leave it out");
      }
      return std::move(problems_);
    }
    const std::int64_t t = p_.tensor;
    columns(m_.hidden, "the hidden size");
    columns(m_.heads * m_.head_dim / t, "the width of a tensor rank's heads");
    if (!m_.latent()) columns(m_.kv_heads * m_.head_dim / t, "the width of a tensor rank's keys");
    columns(m_.ffn_hidden / t, "the MLP of a tensor rank");
    const std::int64_t rows = t_.sequence_length * t_.micro_batch / p_.context;
    if (t_.micro_batch > 0 && rows % kTokens != 0) {
      add("training.sequence_length",
          fmt::format("fp8 needs rows of a micro-batch in multiples of {}, and there are {}", kTokens, rows));
    }
    if (overlaps_tensor(p_)) chunks(rows);
    return std::move(problems_);
  }

 private:
  void add(std::string key, std::string message, std::string note = {}) {
    problems_.push_back({std::move(key), std::move(message), std::move(note)});
  }

  // Of products that are cut up beside tensor-parallel communication.
  void chunks(std::int64_t rows) {
    if (t_.fp8.kind == "block") {
      add("parallelism.tp_comm_overlap", "Transformer Engine's user buffers know no fp8 with block scaling",
          "set training.fp8: delayed or current, or leave it out");
    }
    columns(m_.hidden / pipeline_splits(m_.hidden), "a pipelined part of the hidden size");
    if (t_.micro_batch > 0 && rows / p_.tensor % kTokens != 0) {
      add("training.sequence_length",
          fmt::format("fp8 needs rows of a tensor rank in multiples of {} to overlap their exchange, and there are {}",
                      kTokens, rows / p_.tensor));
    }
  }

  void columns(std::int64_t width, std::string_view what) {
    if (width % kColumns == 0) return;
    add("training.precision",
        fmt::format("fp8 needs dimensions in multiples of {}, and {} is {}", kColumns, what, width), "use bf16");
  }

  const ModelSpec& m_;
  const TrainingSpec& t_;
  const ParallelismSpec& p_;
  Problems problems_;
};

}  // namespace

std::span<const RegistryRow> fp8_rows() { return kPublicRows; }

Fp8Shape fp8_shape(const TrainingSpec& training) {
  Fp8Shape shape;
  shape.on = training.precision == PrecisionRecipe::fp8;
  if (!shape.on) return shape;
  const RegistryRow& row = *find_row(fp8_rows(), training.fp8.kind);
  shape.caches_weights = boolean_option(training.fp8, row, "cache_weights");
  shape.current = training.fp8.kind == "current";
  if (delayed(training) || shape.current) shape.transposes = boolean_option(training.fp8, row, "transposes");
  if (delayed(training)) {
    shape.amax_history = integer_option(training.fp8, row, "amax_history");
  } else if (!shape.current) {
    shape.block = kBlock;
    shape.weight_block = kBlock * kBlock;
  }
  return shape;
}

void fp8_of_shards(OperatorShape& shape, bool in_fp8) {
  shape.fp8.caches_weights = shape.fp8.keeps_weights = false;
  shape.fp8.gathered = in_fp8;
}

AmaxGroup amax_group(const TrainingSpec& training) {
  if (training.precision != PrecisionRecipe::fp8 || !delayed(training)) return AmaxGroup::none;
  const std::string_view over = text_option(training.fp8, *find_row(fp8_rows(), training.fp8.kind), "reduce_amax");
  return over == "none" ? AmaxGroup::none : over == "tensor" ? AmaxGroup::tensor : AmaxGroup::stage;
}

Problems check_fp8(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism) {
  return Fp8Check(model, training, parallelism).run();
}

}  // namespace orrery
