#include "scenarios/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/readers.hpp"

namespace orrery {

std::vector<KeyDoc> scenario_docs() {
  std::vector<KeyDoc> docs{
      {"name", "text", "", "of the scenario; default: the file's", false},
      {"description", "text", "", "for readers of the file; not used", false},
      {"include", "", "base.yaml", "a file, or a list of files, laid beneath this one", false},
  };
  append_cluster_docs(docs);
  append_node_docs(docs, "cluster.node");
  append_gpu_docs(docs, "cluster.node.gpu");
  append_link_docs(docs, "cluster.node.nic");
  docs.push_back({"model", "", "gpt3-175b", "a catalogue name, a path to a Hugging Face config.json, or inline", true});
  append_model_docs(docs, "model");
  append_training_docs(docs);
  append_framework_docs(docs, "training.framework");
  append_parallelism_docs(docs);
  append_variation_docs(docs);
  append_simulation_docs(docs);
  append_collectives_docs(docs);
  docs.push_back({"compare", "", "{base: tf32, half: {training.precision: bf16}}",
                  "named variants, each with the dotted keys that it sets; base: what the scenario itself is called",
                  false});
  docs.push_back({"sweep", "", "{cluster.nodes: [1, 2, 4]}", "axes: dotted keys and lists or ranges of values", false});
  return docs;
}

std::vector<KeyDoc> catalog_docs(CatalogKind kind) {
  std::vector<KeyDoc> docs;
  switch (kind) {
    case CatalogKind::gpu:
      append_gpu_docs(docs, "");
      break;
    case CatalogKind::node:
      append_node_docs(docs, "");
      break;
    case CatalogKind::link:
      append_link_docs(docs, "");
      break;
    case CatalogKind::model:
      append_model_docs(docs, "");
      break;
    case CatalogKind::framework:
      append_framework_docs(docs, "");
      break;
  }
  return docs;
}

std::string to_string(const std::vector<KeyDoc>& docs) {
  std::size_t widest = 0;
  for (const KeyDoc& doc : docs) widest = std::max(widest, doc.key.size());
  std::string text;
  for (const KeyDoc& doc : docs) {
    text += fmt::format("{:<{}}  {}{}{}\n", doc.key, widest, doc.doc,
                        doc.example.empty() ? "" : fmt::format(" (as in {})", doc.example),
                        doc.required ? "; required" : "");
  }
  return text;
}

}  // namespace orrery
