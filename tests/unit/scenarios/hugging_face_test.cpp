// Shapes from Hugging Face config.json files, against parameter counts published with the models.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support.hpp"
#include "workloads/model.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;
namespace fs = std::filesystem;

struct Imported {
  ModelSpec model;
  std::vector<std::string> remarks;
};

Imported import_config(const std::string& config) {
  const fs::path folder = fs::temp_directory_path() / ("orrery_hf_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config;
  const auto scenario = load(kCluster + "model: " + folder.string() + "/config.json\n" + kTraining);
  fs::remove_all(folder);
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  return {scenario->model, scenario->remarks};
}

}  // namespace

TEST_CASE("llama: gated MLP, RMSNorm, no biases, separate head") {
  // config.json of meta-llama/Llama-2-7b-hf; 6,738,415,616 parameters (its model card).
  const auto [model, remarks] =
      import_config(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    "max_position_embeddings": 4096, "tie_word_embeddings": false, "torch_dtype": "float16", "rope_scaling": null})");
  CHECK(model.gated_mlp);
  CHECK(model.norm == NormKind::rms_norm);
  CHECK(parameters(model) == 6'738'415'616);
  REQUIRE(remarks.size() == 1);
  CHECK(remarks.front().find("ignored keys: torch_dtype, rope_scaling") != std::string::npos);
}

TEST_CASE("mistral: grouped-query attention") {
  // config.json of mistralai/Mistral-7B-v0.1; 7,241,732,096 parameters.
  const auto [model, remarks] =
      import_config(R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 32768, "sliding_window": 4096, "tie_word_embeddings": false})");
  CHECK(model.kv_heads == 8);
  CHECK(parameters(model) == 7'241'732'096);
}

TEST_CASE("gpt2: tied embeddings, learned positions, biases, four times as wide inside") {
  // config.json of openai-community/gpt2; 124,439,808 parameters.
  const auto [model, remarks] = import_config(R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12,
    "n_positions": 1024, "n_ctx": 1024, "n_inner": null, "vocab_size": 50257})");
  CHECK(model.position == PositionKind::learned);
  CHECK(model.positions == 1024);
  CHECK(model.ffn_hidden == 3072);
  CHECK(parameters(model) == 124'439'808);
}

TEST_CASE("gpt_neox: rotary positions with LayerNorm and biases") {
  // config.json of EleutherAI/pythia-160m; 162,322,944 parameters.
  const auto [model, remarks] = import_config(R"({"model_type": "gpt_neox", "num_hidden_layers": 12, "hidden_size": 768,
    "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 50304, "max_position_embeddings": 2048,
    "tie_word_embeddings": false})");
  CHECK(parameters(model) == 162'322'944);
}

TEST_CASE("bloom: ALiBi, a norm after the embedding") {
  // config.json of bigscience/bloom-560m; 559,214,592 parameters.
  const auto [model, remarks] = import_config(R"({"model_type": "bloom", "n_layer": 24, "n_embed": 1024,
    "num_attention_heads": 16, "vocab_size": 250880, "seq_length": 2048})");
  CHECK(model.position == PositionKind::alibi);
  CHECK(model.embedding_norm);
  CHECK(parameters(model) == 559'214'592);
}

TEST_CASE("mpt: no biases at all, ALiBi where the attention config says so") {
  // config.json of mosaicml/mpt-7b; 6,649,286,656 parameters.
  const auto [model, remarks] = import_config(R"({"model_type": "mpt", "n_layers": 32, "d_model": 4096, "n_heads": 32,
    "expansion_ratio": 4, "max_seq_len": 2048, "vocab_size": 50432, "no_bias": true, "attn_config": {"alibi": true}})");
  CHECK(model.position == PositionKind::alibi);
  CHECK_FALSE(model.norm_bias);
  CHECK(parameters(model) == 6'649'286'656);
}

TEST_CASE("the shipped Llama 2 config is the catalogue's model") {
  const auto scenario = load_scenario_text(kCluster + "model: models/llama-2-7b\n" + kTraining,
                                           kSource + "/scenarios/x.yaml", {{}, kCatalog});
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  CHECK(parameters(scenario->model) == 6'738'415'616);
  CHECK(scenario->model.name == "llama-2-7b");
}

TEST_CASE("mixtral: experts as wide as the MLP that they replace") {
  // config.json of mistralai/Mixtral-8x7B-v0.1; 46,702,792,704 parameters (its safetensors index).
  const auto [model, remarks] =
      import_config(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "num_experts_per_tok": 2, "vocab_size": 32000, "max_position_embeddings": 32768, "tie_word_embeddings": false})");
  CHECK(parameters(model) == 46'702'792'704);
  CHECK(active_parameters(model) == 12'879'925'248);
}

TEST_CASE("qwen3_moe: narrow experts, norms of queries and keys") {
  // config.json of Qwen/Qwen3-30B-A3B; 30,532,122,624 parameters.
  const auto [model, remarks] =
      import_config(R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "vocab_size": 151936, "max_position_embeddings": 40960, "attention_bias": false, "tie_word_embeddings": false})");
  CHECK(parameters(model) == 30'532'122'624);
}

TEST_CASE("deepseek_v2: latent attention, shared experts, a dense first layer") {
  // config.json of deepseek-ai/DeepSeek-V2-Lite; 15,706,484,224 parameters.
  const auto [model, remarks] =
      import_config(R"({"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
    "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "moe_layer_freq": 1,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "kv_lora_rank": 512, "q_lora_rank": null,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400,
    "max_position_embeddings": 163840, "attention_bias": false, "tie_word_embeddings": false})");
  CHECK(parameters(model) == 15'706'484'224);
}

}  // namespace orrery
