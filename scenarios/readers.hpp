// Readers of the schema's blocks: each fills one value from one node and reports to the Reader what is wrong with it.
// They return whether the value is good enough to go on with; all problems are in the Reader either way.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "scenarios/catalog.hpp"
#include "scenarios/field.hpp"
#include "scenarios/scenario.hpp"
#include "workloads/registry.hpp"

namespace orrery {

// Keys that every catalogue file may have beside those of its kind: `source`, `sources`.
inline constexpr std::string_view kSourceKeys[] = {"source", "sources"};

// One catalogue file as a whole. All required keys must be there.
void read_gpu_entry(Reader& reader, const YamlNode& root, GpuSpec& gpu);
void read_node_entry(Reader& reader, const YamlNode& root, NodeSpec& node);
void read_link_entry(Reader& reader, const YamlNode& root, LinkSpec& link);
void read_model_entry(Reader& reader, const YamlNode& root, ModelSpec& model);
void read_framework_entry(Reader& reader, const YamlNode& root, FrameworkSpec& framework);

// By catalogue name, as {base: name, ...} with changes, or inline.
bool read_gpu(Reader& reader, const YamlNode& node, const std::string& key, GpuSpec& gpu);
bool read_link(Reader& reader, const YamlNode& node, const std::string& key, LinkSpec& link);
bool read_node(Reader& reader, const YamlNode& node, const std::string& key, NodeSpec& out);
bool read_framework(Reader& reader, const YamlNode& node, const std::string& key, FrameworkSpec& framework);

// As above, or by path to a Hugging Face config.json. `sequence_length` is what a position table is sized for where
// the model does not say.
bool read_model(Reader& reader, const YamlNode& node, const std::string& key, std::int64_t sequence_length,
                ModelSpec& model);

// A Hugging Face config.json that has been parsed; see hugging_face.cpp for the families.
bool read_hugging_face(Reader& reader, const YamlNode& config, const std::string& key, ModelSpec& model);

// The shape of a GPT-like model with about `target` parameters; see model_size.cpp for the rule. Fields of `model` that
// are not zero are kept. False when no shape comes near.
bool choose_shape(std::int64_t target, ModelSpec& model);

void read_cluster(Reader& reader, const YamlNode& node, Scenario& scenario);
void read_training(Reader& reader, const YamlNode& node, TrainingSpec& training);
// Keys of `training` that say what is trained, and from whom.
inline constexpr std::string_view kTrainableKeys[] = {"trainable", "frozen", "lora", "distillation"};
void read_distillation(Reader& reader, const YamlNode& map, const std::string& key, std::int64_t sequence_length,
                       ModelSpec& teacher);
void read_trainable(Reader& reader, const YamlNode& map, const std::string& key, TrainableSpec& trainable);
void read_targets(Reader& reader, const YamlNode& node, const std::string& key, Targets& targets);
void read_parallelism(Reader& reader, const YamlNode& node, ParallelismSpec& parallelism);
void read_variation(Reader& reader, const YamlNode& node, VariationSpec& variation);
void read_simulation(Reader& reader, const YamlNode& node, SimulationSpec& simulation);
void read_collectives(Reader& reader, const YamlNode& node, CollectivesSpec& collectives);

// An axis of a sweep with its values as they stand in the file, each with its place.
struct LocatedAxis {
  SweepAxis axis;
  std::vector<YamlNode> values;
  YamlPlace key_place;
};
void read_sweep(Reader& reader, const YamlNode& node, std::vector<LocatedAxis>& axes);

// A variant of a comparison with its values as they stand in the file, each with the place of its key.
struct LocatedVariant {
  struct Setting {
    YamlPlace key_place;
    YamlNode value;
  };
  Variant variant;
  std::vector<Setting> settings;  // [variant.set]
};
void read_compare(Reader& reader, const YamlNode& node, std::string& base, std::vector<LocatedVariant>& variants);

// A registry row by name, or {kind: name, option: value, ...}. Only options that were given are set.
void read_choice(Reader& reader, const YamlNode& node, const std::string& key, std::span<const RegistryRow> rows,
                 Choice& choice);

// Documentation of each block's keys.
void append_gpu_docs(std::vector<KeyDoc>& docs, const std::string& prefix);
void append_node_docs(std::vector<KeyDoc>& docs, const std::string& prefix);
void append_link_docs(std::vector<KeyDoc>& docs, const std::string& prefix);
void append_model_docs(std::vector<KeyDoc>& docs, const std::string& prefix);
void append_framework_docs(std::vector<KeyDoc>& docs, const std::string& prefix);
void append_cluster_docs(std::vector<KeyDoc>& docs);
void append_training_docs(std::vector<KeyDoc>& docs);
void append_trainable_docs(std::vector<KeyDoc>& docs, const std::string& prefix);
void append_parallelism_docs(std::vector<KeyDoc>& docs);
void append_variation_docs(std::vector<KeyDoc>& docs);
void append_simulation_docs(std::vector<KeyDoc>& docs);
void append_collectives_docs(std::vector<KeyDoc>& docs);

// `source` and `sources` of a catalogue file as one text; one of them must be there.
void read_source(Reader& reader, const YamlNode& root, const std::string& key, std::string& source);

}  // namespace orrery
