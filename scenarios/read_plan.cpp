// Blocks `training` and `parallelism`, and the registry rows that they choose.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "scenarios/named.hpp"
#include "scenarios/readers.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

constexpr std::string_view kDefaultFramework = "pytorch-eager";

constexpr std::array<std::string_view, 2> kAttentionNames{"flash", "plain"};

void read_precision(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  const int index = read_one_of(reader, node, key, kPrecisionRecipeNames);
  if (index >= 0) training.precision = static_cast<PrecisionRecipe>(index);
}

void read_recompute(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  const int index = read_one_of(reader, node, key, kRecomputeNames);
  if (index >= 0) training.recompute = static_cast<Recompute>(index);
}

void read_attention(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  const int index = read_one_of(reader, node, key, kAttentionNames);
  if (index >= 0) training.attention = static_cast<AttentionKind>(index);
}

void read_micro_batch(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  if (node.is_scalar() && node.text == "auto") {
    training.micro_batch = kLargestMicroBatch;
    return;
  }
  read_integer(reader, node, key, Range{1, 1e6}, training.micro_batch);
}

void read_fp8(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  read_choice(reader, node, key, fp8_rows(), training.fp8);
}

void read_sparsity(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  read_choice(reader, node, key, sparsity_rows(), training.sparsity);
}

void read_optimizer(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  read_choice(reader, node, key, optimizer_rows(), training.optimizer);
}

void read_routing(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  read_choice(reader, node, key, routing_rows(), training.routing);
}

using CurriculumRow = FieldRow<CurriculumStage>;
constexpr std::array kCurriculumRows{
    CurriculumRow{"until", &CurriculumStage::until, Range{0, 1}, "share of all steps at which the part ends", true,
                  Dimension::fraction},
    CurriculumRow{"sequence_length", &CurriculumStage::sequence_length, Range{1, 1e8}, "tokens of one sequence in it",
                  true},
};

void read_curriculum(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  constexpr const char* kExample = "sequence_curriculum: [{until: 10 %, sequence_length: 512}, ...]";
  if (!expect_list(reader, node, key, kExample)) return;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string path = child_key(key, i);
    reader.locate(path, node.items[i].place);
    if (!expect_map(reader, node.items[i], path, "{until: 10 %, sequence_length: 512}")) continue;
    CurriculumStage stage;
    read_fields<CurriculumStage>(reader, node.items[i], path, kCurriculumRows, stage);
    training.curriculum.push_back(stage);
  }
}

void read_training_framework(Reader& reader, const YamlNode& node, const std::string& key, TrainingSpec& training) {
  read_framework(reader, node, key, training.framework);
}

using TrainingRow = FieldRow<TrainingSpec>;
constexpr std::array kTrainingRows{
    TrainingRow{"sequence_length", &TrainingSpec::sequence_length, Range{1, 1e8},
                "tokens of one sequence; required, but for image models, which have their own"},
    TrainingRow{"global_batch", &TrainingSpec::global_batch, Range{1, 1e8}, "sequences per optimizer step", true},
    TrainingRow{"micro_batch",
                &read_micro_batch,
                {},
                "sequences per micro-batch and data-parallel replica; auto: the most that fit into memory; default: 1"},
    TrainingRow{"tokens", &TrainingSpec::tokens, Range{1, 1e18}, "of the whole training run", false, Dimension::tokens},
    TrainingRow{"images", &TrainingSpec::images, Range{1, 1e18}, "of the whole training run of an image model", false,
                Dimension::number},
    TrainingRow{"precision", &read_precision, {}, "fp32, tf32, fp16 (with loss scaling), bf16 or fp8; default: bf16"},
    TrainingRow{"fp8", &read_fp8, {}, "how fp8 operands are scaled: a name, or {kind: name, ...}; default: delayed"},
    TrainingRow{"sparsity", &read_sparsity, {}, "of weights: a name, or {kind: name, option: ...}; default: none"},
    TrainingRow{"sequence_curriculum",
                &read_curriculum,
                {},
                "parts of the training with shorter sequences: a list of {until, sequence_length}"},
    TrainingRow{"optimizer", &read_optimizer, {}, "a name, or {kind: name, option: ...}; default: adamw"},
    TrainingRow{"recompute", &read_recompute, {}, "of activations: none, selective (attention) or full; default: none"},
    TrainingRow{"attention", &read_attention, {}, "flash (fused) or plain; default: flash"},
    TrainingRow{"dropout", &TrainingSpec::dropout, Range{0, 0.999}, "probability; default: 0", false,
                Dimension::fraction},
    TrainingRow{
        "routing", &read_routing, {}, "how evenly tokens fall on experts: a name, or {kind: name, ...}; default: even"},
    TrainingRow{"framework", &read_training_framework, {}, "a catalogue name, or inline; default: pytorch-eager"},
};

void read_schedule(Reader& reader, const YamlNode& node, const std::string& key, ParallelismSpec& parallelism) {
  read_choice(reader, node, key, schedule_rows(), parallelism.schedule);
}

void read_sharding(Reader& reader, const YamlNode& node, const std::string& key, ParallelismSpec& parallelism) {
  read_choice(reader, node, key, sharding_rows(), parallelism.sharding);
}

void read_context_kind(Reader& reader, const YamlNode& node, const std::string& key, ParallelismSpec& parallelism) {
  read_choice(reader, node, key, context_rows(), parallelism.context_kind);
}

void read_dispatch(Reader& reader, const YamlNode& node, const std::string& key, ParallelismSpec& parallelism) {
  read_choice(reader, node, key, dispatch_rows(), parallelism.dispatch);
}

void read_stage_layers(Reader& reader, const YamlNode& node, const std::string& key, ParallelismSpec& parallelism) {
  if (!expect_list(reader, node, key, "stage_layers: [7, 8, 8, 7]")) return;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string path = child_key(key, i);
    reader.locate(path, node.items[i].place);
    std::int64_t layers = 0;
    if (read_integer(reader, node.items[i], path, kCountOrZero, layers)) parallelism.stage_layers.push_back(layers);
  }
}

constexpr Range kDegree{1, 1e7};
using ParallelismRow = FieldRow<ParallelismSpec>;
constexpr std::array kParallelismRows{
    ParallelismRow{"tensor", &ParallelismSpec::tensor, kDegree, "tensor-parallel degree; default: 1"},
    ParallelismRow{"pipeline", &ParallelismSpec::pipeline, kDegree, "pipeline stages; default: 1"},
    ParallelismRow{"data", &ParallelismSpec::data, kDegree, "data-parallel replicas; default: all GPUs left"},
    ParallelismRow{"context", &ParallelismSpec::context, kDegree, "context-parallel degree; default: 1"},
    ParallelismRow{"context_kind",
                   &read_context_kind,
                   {},
                   "how attention reaches the rest of a split sequence: a name, or {kind: name, ...}; default: ring"},
    ParallelismRow{"expert", &ParallelismSpec::expert, kDegree, "expert-parallel degree; default: 1"},
    ParallelismRow{"expert_tensor", &ParallelismSpec::expert_tensor, kDegree,
                   "tensor-parallel degree of each expert; default: that of `tensor`"},
    ParallelismRow{"dispatch",
                   &read_dispatch,
                   {},
                   "how tokens get to their experts: a name, or {kind: name, ...}; default: all-to-all"},
    ParallelismRow{"sequence_parallel",
                   &ParallelismSpec::sequence_parallel,
                   {},
                   "shard norms and dropout along the sequence, within the tensor group; default: false"},
    ParallelismRow{"tp_comm_overlap",
                   &ParallelismSpec::tp_comm_overlap,
                   {},
                   "tensor-parallel communication runs in chunks beside its products (Transformer Engine's user "
                   "buffers; needs sequence_parallel); default: false"},
    ParallelismRow{"tp_comm_overlap_ag",
                   &ParallelismSpec::tp_comm_overlap_ag,
                   {},
                   "of these: gathers, as a ring exchange of chunks; default: true"},
    ParallelismRow{"tp_comm_overlap_rs",
                   &ParallelismSpec::tp_comm_overlap_rs,
                   {},
                   "and reduce-scatters of the forward pass, in chunks; default: true"},
    ParallelismRow{"tp_comm_overlap_rs_dgrad",
                   &ParallelismSpec::tp_comm_overlap_rs_dgrad,
                   {},
                   "and reduce-scatters of input gradients, which otherwise run beside the weight gradient's product; "
                   "default: false"},
    ParallelismRow{"stage_layers",
                   &read_stage_layers,
                   {},
                   "layers of each virtual stage, in the order of the model; default: as many in each"},
    ParallelismRow{"account_for_embedding_in_pipeline_split",
                   &ParallelismSpec::account_for_embedding,
                   {},
                   "the embedding counts as a layer when layers are divided among virtual stages; default: false"},
    ParallelismRow{"account_for_loss_in_pipeline_split",
                   &ParallelismSpec::account_for_loss,
                   {},
                   "the head and the loss count as a layer when layers are divided; default: false"},
    ParallelismRow{"decoder_first_pipeline_num_layers", &ParallelismSpec::first_stage_layers, kAnyCount,
                   "layers of the first pipeline stage; the others share the rest"},
    ParallelismRow{"decoder_last_pipeline_num_layers", &ParallelismSpec::last_stage_layers, kAnyCount,
                   "layers of the last pipeline stage; the others share the rest"},
    ParallelismRow{
        "schedule", &read_schedule, {}, "of the pipeline: a name, or {kind: name, option: ...}; default: 1f1b"},
    ParallelismRow{"sharding", &read_sharding, {}, "of the model's state: a name, or {kind: name, ...}; default: none"},
};

void read_attention_library(Reader& reader, const YamlNode& node, const std::string& key, FrameworkSpec& framework) {
  const int index = read_one_of(reader, node, key, kAttentionLibraries);
  if (index >= 0) framework.attention_library = kAttentionLibraries[static_cast<std::size_t>(index)];
}

void read_loss(Reader& reader, const YamlNode& node, const std::string& key, FrameworkSpec& framework) {
  const int index = read_one_of(reader, node, key, kLossNames);
  if (index >= 0) framework.loss = static_cast<LossKind>(index);
}

using FrameworkRow = FieldRow<FrameworkSpec>;
constexpr Range kMemory{0, 1e12};
constexpr std::array kFrameworkRows{
    FrameworkRow{"launch", &FrameworkSpec::launch, kTime, "host time to issue one kernel", true},
    FrameworkRow{"collective_launch", &FrameworkSpec::collective_launch, kTime, "host time to issue one collective",
                 true},
    FrameworkRow{"driver_launch", &FrameworkSpec::driver_launch, kTime,
                 "host time to issue one more kernel, send or receive within one call; default: as for the first"},
    FrameworkRow{"step_overhead", &FrameworkSpec::step_overhead, kTime, "host time per optimizer step outside kernels"},
    FrameworkRow{"graphs", &FrameworkSpec::graphs, {}, "CUDA graphs: one launch per kernel sequence"},
    FrameworkRow{"fused_kernels", &FrameworkSpec::fused_kernels, {}, "pointwise chains, norm and softmax run fused"},
    FrameworkRow{"attention_library",
                 &read_attention_library,
                 {},
                 "whose fused attention: cudnn, flash-2, flash-3, triton; auto: what the GPU's figures are of"},
    FrameworkRow{"loss", &read_loss, {}, "whose cross-entropy: vocab-parallel (Megatron), pytorch, in-place (fused)"},
    FrameworkRow{"autocast", &FrameworkSpec::autocast, {}, "16-bit recipes as torch.autocast: weights cast each pass"},
    FrameworkRow{"transfers_block_host",
                 &FrameworkSpec::transfers_block_host,
                 {},
                 "the host waits for the GPU after every pipeline transfer"},
    FrameworkRow{"vocabulary_multiple", &FrameworkSpec::vocabulary_multiple, Range{1, 1e6},
                 "the vocabulary is padded to a multiple of this times the tensor degree"},
    FrameworkRow{"context", &FrameworkSpec::context, kMemory, "GPU memory of framework, CUDA context and libraries"},
    FrameworkRow{"communicator", &FrameworkSpec::communicator, kMemory, "GPU memory per communicator"},
};

Range range_of(const OptionDoc& option) { return {option.least, option.most}; }

// `true`, `false` or a number.
void read_switch_or_size(Reader& reader, const YamlNode& node, const std::string& key, const OptionDoc& option,
                         Choice& choice) {
  const bool number =
      node.is_scalar() && !node.text.empty() && node.text.find_first_not_of("0123456789_") == std::string::npos;
  std::int64_t size = 0;
  bool on = false;
  if (number) {
    if (read_integer(reader, node, key, range_of(option), size)) {
      choice.options.insert_or_assign(std::string(option.name), size);
    }
  } else if (read_boolean(reader, node, key, on)) {
    choice.options.insert_or_assign(std::string(option.name), on);
  }
}

// The file that a text names, relative to the file it stands in.
bool read_file_option(Reader& reader, const YamlNode& node, const std::string& key, FileText& file) {
  if (!read_text(reader, node, key, file.path)) return false;
  if (!std::filesystem::path(file.path).is_absolute()) {
    file.path = (std::filesystem::path(node.place.folder()) / file.path).string();
  }
  Result<std::string> text = read_text_file(file.path, node.place.location());
  if (!text) {
    reader.add(text.problems());
    return false;
  }
  file.text = std::move(text).value();
  return true;
}

// The value of an option, by the type that its row names. Not set when it was wrong.
void read_option(Reader& reader, const YamlNode& node, const std::string& key, const OptionDoc& option,
                 Choice& choice) {
  const auto set = [&](OptionValue value) {
    choice.options.insert_or_assign(std::string(option.name), std::move(value));
  };
  if (option.type == "integer") {
    std::int64_t value = 0;
    if (read_integer(reader, node, key, range_of(option), value)) set(value);
  } else if (option.type == "number") {
    double value = 0;
    if (read_number(reader, node, key, Dimension::fraction, range_of(option), value)) set(value);
  } else if (option.type == "boolean") {
    bool value = false;
    if (read_boolean(reader, node, key, value)) set(value);
  } else if (option.type == "bytes") {
    const Range range = range_of(option);
    double value = 0;
    const Range sane = range.least == range.most ? Range{0, 1e18} : range;
    if (read_number(reader, node, key, Dimension::size, sane, value)) set(static_cast<std::int64_t>(value + 0.5));
  } else if (option.type == "boolean or integer") {
    read_switch_or_size(reader, node, key, option, choice);
  } else if (!option.values.empty()) {
    const int index = read_one_of(reader, node, key, option.values);
    if (index >= 0) set(std::string(option.values[static_cast<std::size_t>(index)]));
  } else if (option.type == "file") {
    FileText file;
    if (read_file_option(reader, node, key, file)) set(std::move(file));
  } else {
    std::string value;
    if (read_text(reader, node, key, value)) set(std::move(value));
  }
}

const RegistryRow* find_kind(Reader& reader, const YamlNode& node, const std::string& key,
                             std::span<const RegistryRow> rows) {
  std::vector<std::string_view> names;
  for (const RegistryRow& row : rows) names.push_back(row.name);
  const int index = read_one_of(reader, node, key, names);
  return index < 0 ? nullptr : &rows[static_cast<std::size_t>(index)];
}

}  // namespace

void read_choice(Reader& reader, const YamlNode& node, const std::string& key, std::span<const RegistryRow> rows,
                 Choice& choice) {
  if (!node.is_map()) {
    if (const RegistryRow* row = find_kind(reader, node, key, rows)) choice = {std::string(row->name), {}};
    return;
  }
  const YamlEntry* kind = node.find("kind");
  if (kind == nullptr) {
    report_missing_key(reader, node, key, "kind", "which one it is");
    return;
  }
  reader.locate(child_key(key, "kind"), kind->value.place);
  const RegistryRow* row = find_kind(reader, kind->value, child_key(key, "kind"), rows);
  if (row == nullptr) return;
  choice = {std::string(row->name), {}};
  for (const YamlEntry& entry : node.entries) {
    if (entry.key == "kind" || entry.value.is_null()) continue;
    const std::string path = child_key(key, entry.key);
    reader.locate(path, entry.value.place);
    const auto option = std::find_if(row->options.begin(), row->options.end(),
                                     [&](const OptionDoc& doc) { return doc.name == entry.key; });
    if (option == row->options.end()) {
      std::vector<std::string> known{"kind"};
      for (const OptionDoc& doc : row->options) known.emplace_back(doc.name);
      report_unknown_key(reader, entry, path, known);
    } else {
      read_option(reader, entry.value, path, *option, choice);
    }
  }
}

void read_training(Reader& reader, const YamlNode& node, TrainingSpec& training) {
  if (!expect_map(reader, node, "training", "training: {sequence_length: 2048, global_batch: 1536}")) return;
  const YamlEntry* length = node.find("sequence_length");
  if (training.sequence_length == 0 && (length == nullptr || length->value.is_null())) {
    report_missing_key(reader, node, "training", "sequence_length", "tokens of one sequence");
  }
  read_fields<TrainingSpec>(reader, node, "training", kTrainingRows, training, true, kTrainableKeys);
  read_trainable(reader, node, "training", training.trainable);
  read_distillation(reader, node, "training", training.sequence_length, training.teacher);
  const YamlEntry* framework = node.find("framework");
  if (framework != nullptr && !framework->value.is_null()) return;
  YamlNode name;
  name.kind = YamlNode::Kind::scalar;
  name.text = kDefaultFramework;
  name.place = node.place;
  read_framework(reader, name, "training.framework", training.framework);
}

void read_parallelism(Reader& reader, const YamlNode& node, ParallelismSpec& parallelism) {
  if (!expect_map(reader, node, "parallelism", "parallelism: {tensor: 8}")) return;
  read_fields<ParallelismSpec>(reader, node, "parallelism", kParallelismRows, parallelism);
}

void read_framework_entry(Reader& reader, const YamlNode& root, FrameworkSpec& framework) {
  read_fields<FrameworkSpec>(reader, root, "", kFrameworkRows, framework, true, kSourceKeys);
}

bool read_framework(Reader& reader, const YamlNode& node, const std::string& key, FrameworkSpec& framework) {
  constexpr std::string_view kOwn[] = {kBaseKey, "name"};
  const Given given = read_base<FrameworkSpec>(reader, node, key, &Catalog::framework, framework);
  if (given == Given::wrong) return false;
  if (given == Given::name) return true;
  const std::size_t before = reader.problems().size();
  read_fields<FrameworkSpec>(reader, node, key, kFrameworkRows, framework, given == Given::inline_map, kOwn);
  if (const YamlEntry* name = node.find("name")) read_text(reader, name->value, child_key(key, "name"), framework.name);
  if (framework.name.empty()) framework.name = "inline";
  return reader.problems().size() == before;
}

void append_framework_docs(std::vector<KeyDoc>& docs, const std::string& prefix) {
  append_docs<FrameworkSpec>(docs, prefix, kFrameworkRows);
}

void append_training_docs(std::vector<KeyDoc>& docs) {
  append_docs<TrainingSpec>(docs, "training", kTrainingRows);
  append_docs<CurriculumStage>(docs, "training.sequence_curriculum[]", kCurriculumRows);
  append_trainable_docs(docs, "training");
}

void append_parallelism_docs(std::vector<KeyDoc>& docs) {
  append_docs<ParallelismSpec>(docs, "parallelism", kParallelismRows);
}

}  // namespace orrery
