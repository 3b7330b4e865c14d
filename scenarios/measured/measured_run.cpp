#include "scenarios/measured/measured_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "scenarios/csv_cells.hpp"

namespace orrery {

namespace {

// Which node of the catalogue a table means. Empty: whatever the table says, or nothing.
struct NodeRow {
  std::string_view gpu;
  std::string_view gpus_per_node;
  std::string_view network;
  std::string_view nic_gbps;
  std::string_view node;
};
constexpr std::array kNodes{
    NodeRow{"a100-80gb-sxm", "8", "omni-path-100", "", "jean-zay-a100-80gb"},
    NodeRow{"a100-80gb-sxm", "8", "roce", "1600", "hgx-a100-80gb-roce"},
    NodeRow{"a100-80gb-sxm", "8", "", "800", "hgx-a100-80gb-4nic"},
    NodeRow{"a100-80gb-sxm", "8", "", "", "dgx-a100-80gb"},
    NodeRow{"v100-32gb-sxm", "4", "", "", "jean-zay-v100-32gb"},
    NodeRow{"h100-96gb-hbm2e-500w", "8", "", "", "hgx-h100-96gb-roce"},
    NodeRow{"h100-sxm", "8", "roce", "", "hgx-h100-roce"},
    NodeRow{"h100-sxm", "8", "", "", "dgx-h100"},
    NodeRow{"b200-sxm", "8", "", "", "dgx-b200"},
    NodeRow{"b300-sxm", "8", "", "", "dgx-b300"},
    NodeRow{"gb200", "", "", "", "gb200-nvl72"},
    NodeRow{"gb300", "", "", "", "gb300-nvl72"},
};

// What a framework does where a table says nothing.
constexpr std::string_view kDistributedOptimizer = "distributed-optimizer";
struct FrameworkRow {
  std::string_view name;
  std::string_view catalogue;
  std::string_view zero1;  // what `zero1` means there
  bool dropout = false;    // 0.1 by default (Megatron-LM's arguments, GPT)
  bool learned_positions = false;
};
constexpr std::array kFrameworks{
    FrameworkRow{"megatron-deepspeed", "megatron-deepspeed", "zero1", true, true},
    FrameworkRow{"megatron-lm", "megatron-lm", kDistributedOptimizer, true, true},
    FrameworkRow{"megatron-core", "megatron-lm", kDistributedOptimizer, false, false},
    FrameworkRow{"pytorch-fsdp", "llm-foundry", "", false, false},
    FrameworkRow{"torchtitan", "torchtitan", "", false, false},
};

// Columns in which plans for one model, cluster and batch differ.
bool is_plan(std::string_view column) {
  constexpr std::array<std::string_view, 11> kPlan{
      "tp", "sequence_parallel", "pp", "vpp", "cp", "ep", "dp", "sharding", "shard_group", "micro_batch", "recompute"};
  return std::find(kPlan.begin(), kPlan.end(), column) != kPlan.end();
}

class RowReader : private CsvCells {
 public:
  RowReader(const CsvTable& table, const CsvRow& row, Problems& problems)
      : CsvCells(table, row, problems), table_(table), row_(row) {}

  MeasuredRun run() && {
    run_.id = text("id");
    run_.source = text("source");
    run_.model = text("model");
    run_.suspect = text("suspect");
    run_.line = line();
    run_.step_time_s = number("step_time_s", 1e-9);
    if (!text("peak_memory_gib").empty()) run_.peak_memory_gib = number("peak_memory_gib", 0);
    run_.cluster =
        fmt::format("{} x {}, batch {} x {}", text("gpus"), text("gpu"), text("global_batch"), text("seq_len"));
    find_group();
    cluster();
    model();
    training();
    parallelism();
    if (run_.cannot.empty()) run_.scenario = fmt::format("name: {}\n{}", run_.id, yaml_);
    return std::move(run_);
  }

 private:
  [[nodiscard]] bool flagged(std::string_view flag) const { return text("flags").find(flag) != std::string::npos; }
  void cannot(std::string why) {
    if (run_.cannot.empty()) run_.cannot = std::move(why);
  }
  void assume(std::string what) { run_.assumptions.push_back(std::move(what)); }
  void other(std::string what, std::vector<Override> set) { run_.others.push_back({std::move(what), std::move(set)}); }

  // The letters before the number of an id name the source.
  void find_group() {
    run_.group = run_.id.substr(0, run_.id.find('-'));
    if (run_.group == "VT") run_.group += count("gpus") > count("gpus_per_node") ? " several nodes" : " one node";
    for (std::size_t c = 0; c < table_.columns.size(); ++c) {
      const std::string& column = table_.columns[c];
      if (column == "id" || column == "source" || column == "notes" || column == "suspect" ||
          column.starts_with("step_time") || column == "peak_memory_gib") {
        continue;
      }
      run_.plan += row_.cells[c] + ",";
      if (!is_plan(column)) run_.setting += row_.cells[c] + ",";
    }
  }

  void cluster() {
    const auto fits = [&](std::string_view wanted, std::string_view column) {
      return wanted.empty() || wanted == text(column);
    };
    const auto* const node = std::find_if(kNodes.begin(), kNodes.end(), [&](const NodeRow& r) {
      return r.gpu == text("gpu") && fits(r.gpus_per_node, "gpus_per_node") && fits(r.network, "network") &&
             fits(r.nic_gbps, "nic_gbps_per_node");
    });
    if (node == kNodes.end()) {
      return cannot(fmt::format("no node of the catalogue has {} x {} and {} {} Gb/s", text("gpus_per_node"),
                                text("gpu"), text("network"), text("nic_gbps_per_node")));
    }
    yaml_ += fmt::format("cluster: {{node: {}, gpus: {}}}\n", node->node, count("gpus"));
  }

  void model() {
    const std::string& kind = text("architecture");
    const bool gpt = kind == "gpt";
    std::string map = fmt::format(
        "layers: {}, hidden: {}, heads: {}, kv_heads: {}, ffn_hidden: {}, gated_mlp: {}, vocabulary: {}, positions: {}",
        count("layers"), count("hidden"), count("heads"), count("kv_heads"), count("ffn_hidden"), yes("gated_mlp"),
        count("vocab"), count("seq_len"));
    if (count("head_dim") > 0) map += fmt::format(", head_dim: {}", count("head_dim"));
    // LLM Foundry's MPT has ALiBi and no biases.
    const bool mpt = text("framework") == "pytorch-fsdp";
    map += fmt::format(", position: {}, norm: {}, tied_embeddings: {}, attention_bias: {}, mlp_bias: {}",
                       !gpt  ? "rotary"
                       : mpt ? "alibi"
                             : "learned",
                       gpt ? "layer_norm" : "rms_norm", gpt, gpt && !mpt, gpt && !mpt);
    if (mpt) map += ", norm_bias: false";
    if (kind == "moe") {
      map += fmt::format(", experts: {}, top_k: {}, expert_ffn_hidden: {}, shared_experts: {}, dense_layers: {}",
                         count("experts"), count("experts_per_token"), count("moe_ffn_hidden"), count("shared_experts"),
                         count("dense_layers"));
    }
    yaml_ += fmt::format("model: {{{}}}\n", map);
    if (text("trainable") == "lora") {
      // Rank 16 beside the fused query, key and value, as NeMo's recipes for Llama 3 have it (nemo/collections/llm/
      // recipes/llama3_70b.py and its performance scripts: target_modules = ['linear_qkv']).
      assume("lora: rank 16 beside q, k, v");
      trainable_ = ", lora: {rank: 16, targets: [q, k, v]}";
    } else if (text("trainable") != "all") {
      cannot(fmt::format("training of {} parts only", text("trainable")));
    }
  }

  // TorchTitan (torchao's tensorwise recipe) and Megatron-Bridge (fp8_cs) scale by the values at hand, NeMo's recipes
  // before it by those of earlier steps. Blackwell multiplies without transposed copies (Transformer Engine,
  // is_non_tn_fp8_gemm_supported).
  void fp8() {
    const bool current =
        text("framework") == "torchtitan" || text("source").find("Megatron-Bridge") != std::string::npos;
    const std::string& gpu = text("gpu");
    const bool blackwell = gpu.starts_with("b2") || gpu.starts_with("b3") || gpu.starts_with("gb");
    assume(current ? "fp8: current" : "fp8: delayed");
    fp8_ = fmt::format(", fp8: {{kind: {}, transposes: {}}}", current ? "current" : "delayed", !blackwell);
  }

  void training() {
    const std::string& precision = text("precision");
    const bool low = precision == "fp8";
    if (!low && precision != "fp16" && precision != "bf16") cannot(fmt::format("precision {}", precision));
    if (low) fp8();
    std::string recompute = text("recompute");
    if (recompute.empty()) {
      recompute = "none";
      assume("recompute: none");
      other("recompute: full", {{"training.recompute", "full"}});
    }
    if (recompute != "none" && recompute != "full" && recompute != "selective") {
      cannot(fmt::format("recomputation {}", recompute));
    }
    const auto* const framework = std::find_if(kFrameworks.begin(), kFrameworks.end(),
                                               [&](const FrameworkRow& r) { return r.name == text("framework"); });
    if (framework == kFrameworks.end()) return cannot(fmt::format("framework {}", text("framework")));
    framework_ = framework;
    std::string name(framework->catalogue);
    if (name == "torchtitan" && flagged("torch.compile")) name = "torchtitan-compile";
    const bool drops = framework->dropout && text("architecture") == "gpt";
    if (drops) assume("dropout: 0.1");
    yaml_ += fmt::format(
        "training: {{sequence_length: {}, global_batch: {}, micro_batch: {}, precision: {}{}, recompute: {}, "
        "attention: {}, dropout: {}, framework: {}{}}}\n",
        count("seq_len"), count("global_batch"), count("micro_batch"), precision, fp8_, recompute, text("attention"),
        drops ? 0.1 : 0.0, name, trainable_);
  }

  // Whoever reduces gradients beside the backward pass does it in buckets. Megatron-LM learned that in 2023
  // (--overlap-grad-reduce, off by default), DeepSpeed without ZeRO reduces at the end of the step
  // (runtime/engine.py, allreduce_gradients).
  std::string plain_data_parallel() {
    if (count("dp") > 1) assume("gradients: reduced after the backward pass");
    return "{kind: none, overlap_gradient_reduction: false}";
  }

  // NeMo and Megatron Bridge, whose recipes the published steps ran, overlap both (overlap_grad_reduce and
  // overlap_param_gather of their DDP configuration); bare Megatron-LM neither, unless it is told to.
  std::string distributed_optimizer() {
    if (count("dp") > 1) {
      assume("gradients and parameters: overlapped");
      other("gradients and parameters: not overlapped", {{"parallelism.sharding.overlap_gradient_reduction", "false"},
                                                         {"parallelism.sharding.overlap_parameter_gather", "false"}});
    }
    return "{kind: distributed-optimizer, overlap_gradient_reduction: true, overlap_parameter_gather: true}";
  }

  // Off by default in Megatron-Core (model_parallel_config.py); recipes turn it on for large models.
  std::string tensor_overlap() {
    if (text("framework") != "megatron-core" || count("tp") <= 1 || !yes("sequence_parallel")) return "";
    if (flagged("TP_COMM_OVERLAP=True")) return ", tp_comm_overlap: true";
    if (!flagged("TP_COMM_OVERLAP=")) {
      assume("tp_comm_overlap: false");
      other("tp_comm_overlap: true", {{"parallelism.tp_comm_overlap", "true"}});
    }
    return "";
  }

  std::string sharding() {
    const std::string& said = text("sharding");
    const std::int64_t group = count("shard_group");
    if (said == "none") return plain_data_parallel();
    // BigScience's ds_config for bf16: stage 0, since BF16_Optimizer splits state itself.
    if (said == "zero1" && text("framework") == "megatron-deepspeed" && text("precision") == "bf16") {
      assume("sharding: bf16-optimizer");
      return "bf16-optimizer";
    }
    if (said == "zero1" && framework_ != nullptr && framework_->zero1 == kDistributedOptimizer) {
      return distributed_optimizer();
    }
    if (said == "zero1" && framework_ != nullptr && !framework_->zero1.empty()) return std::string(framework_->zero1);
    if (said == "zero2") return "zero2";
    const bool first = said.starts_with("fsdp-");
    if (!first && !said.starts_with("fsdp2-")) {
      cannot(fmt::format("sharding {}", said));
      return "none";
    }
    const std::string strategy = said.substr(said.find('-') + 1);
    const bool hybrid = strategy == "hybrid" || (group > 0 && group < count("dp"));
    return fmt::format("{{kind: fsdp, version: {}, strategy: {}{}}}", first ? 1 : 2,
                       hybrid                  ? "hybrid-shard"
                       : strategy == "grad-op" ? "shard-grad-op"
                                               : "full-shard",
                       hybrid && group > 0 ? fmt::format(", shard_size: {}", group) : "");
  }

  // Where layers do not divide evenly: as Megatron-LM and DeepSpeed (type:transformer|embedding) count embedding and
  // head as layers, if that comes out even, and otherwise one more on each of the first stages (partition_uniform).
  std::string uneven_stages(std::int64_t stages) {
    const std::int64_t layers = count("layers");
    const bool counts = flagged("type:transformer|embedding") && stages > 1;
    if (!counts && (layers % stages == 0 || layers < stages)) return "";
    if (counts || (layers + 2) % stages == 0) {
      if (!counts) assume("embedding and head count as layers");
      if ((layers + 2) % stages == 0) {
        return ", account_for_embedding_in_pipeline_split: true, account_for_loss_in_pipeline_split: true";
      }
    }
    assume("layers as even as they go");
    std::vector<std::int64_t> of(static_cast<std::size_t>(stages), layers / stages);
    for (std::int64_t s = 0; s < layers % stages; ++s) ++of[static_cast<std::size_t>(s)];
    return fmt::format(", stage_layers: [{}]", fmt::join(of, ", "));
  }

  void parallelism() {
    const auto degree = [&](std::string_view column) { return std::max<std::int64_t>(1, count(column)); };
    std::string map = fmt::format("tensor: {}, pipeline: {}, context: {}, expert: {}", degree("tp"), degree("pp"),
                                  degree("cp"), degree("ep"));
    // TorchTitan knows tensor parallelism with sequence parallelism only (parallelize_llama).
    const bool always = text("framework") == "torchtitan" && degree("tp") > 1;
    if (always && !yes("sequence_parallel")) assume("sequence_parallel: true");
    map += fmt::format(", sequence_parallel: {}", (yes("sequence_parallel") || always) && degree("tp") > 1);
    if (degree("pp") > 1) {
      map += degree("vpp") > 1
                 ? fmt::format(", schedule: {{kind: interleaved-1f1b, virtual_stages: {}}}", degree("vpp"))
                 : ", schedule: 1f1b";
    }
    if (text("architecture") == "moe" && flagged("ETP=1")) map += ", expert_tensor: 1";
    map += tensor_overlap();
    map += uneven_stages(degree("pp") * degree("vpp"));
    yaml_ += fmt::format("parallelism: {{{}, sharding: {}}}\n", map, sharding());
  }

  const CsvTable& table_;
  const CsvRow& row_;
  MeasuredRun run_;
  std::string yaml_;
  const FrameworkRow* framework_ = nullptr;
  std::string trainable_;  // what follows in `training`
  std::string fp8_;        // the same
};

constexpr std::array<std::string_view, 45> kColumns{"id",
                                                    "source",
                                                    "model",
                                                    "architecture",
                                                    "layers",
                                                    "hidden",
                                                    "heads",
                                                    "kv_heads",
                                                    "head_dim",
                                                    "ffn_hidden",
                                                    "gated_mlp",
                                                    "vocab",
                                                    "seq_len",
                                                    "experts",
                                                    "experts_per_token",
                                                    "moe_ffn_hidden",
                                                    "shared_experts",
                                                    "dense_layers",
                                                    "trainable",
                                                    "gpu",
                                                    "gpus",
                                                    "gpus_per_node",
                                                    "network",
                                                    "nic_gbps_per_node",
                                                    "precision",
                                                    "framework",
                                                    "release",
                                                    "moe_dispatch",
                                                    "tp",
                                                    "sequence_parallel",
                                                    "pp",
                                                    "vpp",
                                                    "cp",
                                                    "ep",
                                                    "dp",
                                                    "sharding",
                                                    "shard_group",
                                                    "micro_batch",
                                                    "global_batch",
                                                    "recompute",
                                                    "attention",
                                                    "flags",
                                                    "step_time_s",
                                                    "peak_memory_gib",
                                                    "suspect"};

}  // namespace

Result<std::vector<MeasuredRun>> measured_runs(const CsvTable& table) {
  Problems problems = missing_columns(table, kColumns, "measured steps");
  if (!problems.empty()) return problems;
  std::vector<MeasuredRun> runs;
  for (const CsvRow& row : table.rows) runs.push_back(RowReader(table, row, problems).run());
  if (!problems.empty()) return problems;
  return runs;
}

}  // namespace orrery
