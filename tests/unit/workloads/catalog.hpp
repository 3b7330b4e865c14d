// The shipped model files, read without a YAML library: they are flat lists of `key: value`.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/model.hpp"

namespace orrery::testing {

inline std::map<std::string, std::string> flat_yaml(const std::string& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path);
  std::map<std::string, std::string> values;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && line[0] != ' ' && line[0] != '#') {
      values[line.substr(0, colon)] = line.substr(colon + 2);
    }
  }
  return values;
}

// What scenarios/read_model.cpp makes of an image model's file.
inline ModelSpec image_model(const std::string& name, const std::map<std::string, std::string>& values) {
  const auto number = [&](const char* key) { return std::stoll(values.at(key)); };
  ModelSpec m;
  if (values.at("kind") == "vit") {
    m = vit(number("layers"), number("hidden"), number("heads"), number("image_size"), number("patch"));
    m.ffn_hidden = number("ffn_hidden");
  } else {
    std::vector<std::int64_t> blocks;
    std::istringstream list(values.at("blocks").substr(1));
    for (std::string item; std::getline(list, item, ',');) blocks.push_back(std::stoll(item));
    m = resnet(std::move(blocks), number("width"), number("image_size"));
  }
  m.name = name;
  m.source = values.at("source");
  m.classes = number("classes");
  return m;
}

inline ModelSpec catalog_model(const std::string& name) {
  const auto values = flat_yaml(std::string(ORRERY_SOURCE_DIR) + "/workloads/models/" + name + ".yaml");
  const auto number = [&](const char* key) { return std::stoll(values.at(key)); };
  const auto flag = [&](const char* key) { return values.count(key) != 0 && values.at(key) == "true"; };
  ModelSpec m;
  m.name = name;
  m.source = values.at("source");
  if (values.count("kind") != 0) return image_model(name, values);
  m.layers = number("layers");
  m.hidden = number("hidden");
  m.heads = number("heads");
  m.kv_heads = number("kv_heads");
  m.head_dim = number("head_dim");
  m.ffn_hidden = number("ffn_hidden");
  m.gated_mlp = flag("gated_mlp");
  m.vocabulary = number("vocabulary");
  m.positions = number("positions");
  const std::string& position = values.at("position");
  m.position = position == "learned"  ? PositionKind::learned
               : position == "rotary" ? PositionKind::rotary
               : position == "alibi"  ? PositionKind::alibi
                                      : PositionKind::none;
  m.norm = values.at("norm") == "layer_norm" ? NormKind::layer_norm : NormKind::rms_norm;
  m.norm_bias = values.count("norm_bias") == 0 || flag("norm_bias");
  m.tied_embeddings = flag("tied_embeddings");
  m.attention_bias = flag("attention_bias");
  m.mlp_bias = flag("mlp_bias");
  m.embedding_norm = flag("embedding_norm");
  m.qk_norm = flag("qk_norm");
  m.router_fp32 = flag("router_fp32");
  const std::pair<const char*, std::int64_t ModelSpec::*> optional[] = {
      {"experts", &ModelSpec::experts},
      {"top_k", &ModelSpec::top_k},
      {"expert_ffn_hidden", &ModelSpec::expert_ffn_hidden},
      {"shared_experts", &ModelSpec::shared_experts},
      {"dense_layers", &ModelSpec::dense_layers},
      {"expert_groups", &ModelSpec::expert_groups},
      {"groups_per_token", &ModelSpec::groups_per_token},
      {"kv_lora_rank", &ModelSpec::kv_lora_rank},
      {"q_lora_rank", &ModelSpec::q_lora_rank},
      {"qk_nope_head_dim", &ModelSpec::qk_nope_head_dim},
      {"qk_rope_head_dim", &ModelSpec::qk_rope_head_dim},
      {"v_head_dim", &ModelSpec::v_head_dim},
  };
  for (const auto& entry : optional) {
    if (values.count(entry.first) != 0) m.*entry.second = number(entry.first);
  }
  return m;
}

}  // namespace orrery::testing
