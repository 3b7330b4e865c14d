// Sharding choices that property tests loop over: each row of the table, and the options that change what is issued.
#pragma once

#include <fmt/core.h>

#include <map>
#include <string>
#include <vector>

#include "workloads/plan.hpp"
#include "workloads/registry.hpp"

namespace orrery::testing {

inline std::vector<Choice> sharding_choices() {
  std::vector<Choice> choices;
  for (const RegistryRow& row : sharding_rows()) choices.push_back({std::string(row.name), {}});
  const auto add = [&](const char* kind, std::map<std::string, OptionValue> options) {
    choices.push_back({kind, std::move(options)});
  };
  const std::int64_t two = 2;
  for (const std::int64_t version : {1, 2}) {
    for (const char* strategy : {"full-shard", "shard-grad-op", "hybrid-shard", "hybrid-shard-zero2"}) {
      add("fsdp", {{"version", version}, {"strategy", std::string(strategy)}, {"shard_size", two}});
    }
    for (const char* wrap : {"module", "size"}) {
      add("fsdp", {{"version", version}, {"wrap", std::string(wrap)}, {"min_elements", std::int64_t{5000}}});
    }
    add("fsdp", {{"version", version}, {"no_sync", true}});
    add("fsdp", {{"version", version}, {"no_sync", true}, {"reduce_dtype", std::string("fp32")}});
    add("fsdp", {{"version", version}, {"forward_prefetch", true}, {"backward_prefetch", std::string("none")}});
    add("fsdp", {{"version", version}, {"param_dtype", std::string("fp32")}});
  }
  add("fsdp", {{"version", std::int64_t{1}}, {"strategy", std::string("no-shard")}});
  add("fsdp", {{"version", std::int64_t{1}}, {"backward_prefetch", std::string("post")}});
  add("fsdp", {{"version", std::int64_t{1}}, {"limit_all_gathers", false}});
  add("fsdp", {{"reshard_after_forward", two}});
  add("fsdp", {{"reshard_after_forward", false}});
  add("fsdp", {{"float8_all_gather", true}});
  for (const char* stage : {"zero1", "zero2"}) {
    add(stage, {{"overlap_comm", true}, {"reduce_bucket_size", std::int64_t{20'000}}});
    add(stage, {{"reduce_scatter", false}, {"contiguous_gradients", false}});
  }
  const std::map<std::string, OptionValue> small{{"stage3_param_persistence_threshold", std::int64_t{100}},
                                                 {"stage3_prefetch_bucket_size", std::int64_t{20'000}},
                                                 {"stage3_max_reuse_distance", std::int64_t{30'000}},
                                                 {"reduce_bucket_size", std::int64_t{30'000}}};
  const auto three = [&](std::map<std::string, OptionValue> options) {
    options.insert(small.begin(), small.end());
    add("zero3", std::move(options));
  };
  three({});
  three({{"overlap_comm", false}});
  three({{"contiguous_gradients", false}, {"reduce_scatter", false}});
  three({{"stage3_max_live_parameters", std::int64_t{1000}}});
  three({{"stage3_prefetch_bucket_size", std::int64_t{0}}, {"stage3_max_reuse_distance", std::int64_t{0}}});
  three({{"zero_quantized_weights", true}, {"zero_hpz_partition_size", two}});
  three({{"mics_shard_size", two}});
  three({{"zero_quantized_gradients", true}});
  return choices;
}

// Choices that keep something off the GPU, small enough to be cut into sub-groups and buckets.
inline std::vector<Choice> offload_choices() {
  std::vector<Choice> choices;
  const auto text = [](const char* value) { return std::string(value); };
  for (const std::int64_t version : {1, 2}) {
    for (const char* strategy : {"full-shard", "shard-grad-op", "hybrid-shard"}) {
      choices.push_back({"fsdp",
                         {{"version", version},
                          {"strategy", text(strategy)},
                          {"shard_size", std::int64_t{2}},
                          {"cpu_offload", true},
                          {"no_sync", version == 1}}});
    }
    choices.push_back(
        {"fsdp", {{"version", version}, {"cpu_offload", true}, {"no_sync", true}, {"param_dtype", text("fp32")}}});
  }
  choices.push_back({"fsdp", {{"cpu_offload", true}, {"reshard_after_forward", std::int64_t{2}}}});
  for (const char* stage : {"zero1", "zero2"}) {
    for (const bool overlap : {false, true}) {
      choices.push_back({stage,
                         {{"offload_optimizer", text("cpu")},
                          {"overlap_comm", overlap},
                          {"reduce_bucket_size", std::int64_t{20'000}}}});
    }
  }
  const auto three = [&](std::map<std::string, OptionValue> options) {
    options.insert({{"stage3_param_persistence_threshold", std::int64_t{100}},
                    {"stage3_prefetch_bucket_size", std::int64_t{20'000}},
                    {"reduce_bucket_size", std::int64_t{30'000}},
                    {"sub_group_size", std::int64_t{20'000}}});
    choices.push_back({"zero3", std::move(options)});
  };
  for (const char* optimizer : {"none", "cpu", "nvme"}) {
    for (const char* parameters : {"none", "cpu", "nvme"}) {
      if (text(optimizer) == "none" && text(parameters) == "none") continue;
      three({{"offload_optimizer", text(optimizer)},
             {"offload_param", text(parameters)},
             {"offload_param_max_in_cpu", std::int64_t{30'000}}});
    }
  }
  three({{"offload_optimizer", text("cpu")}, {"offload_param", text("cpu")}, {"overlap_comm", false}});
  three({{"offload_optimizer", text("nvme")},
         {"offload_optimizer_pipeline_read", true},
         {"offload_optimizer_pipeline_write", true}});
  three({{"offload_optimizer", text("cpu")}, {"offload_param", text("cpu")}, {"mics_shard_size", std::int64_t{2}}});
  three({{"offload_param", text("cpu")},
         {"offload_optimizer", text("cpu")},
         {"zero_quantized_weights", true},
         {"zero_hpz_partition_size", std::int64_t{2}}});
  return choices;
}

inline std::string name_of(const Choice& choice) {
  std::string name = choice.kind;
  for (const auto& [option, value] : choice.options) {
    if (const auto* text = std::get_if<std::string>(&value)) name.append(fmt::format(" {}={}", option, *text));
    if (const auto* number = std::get_if<std::int64_t>(&value)) name.append(fmt::format(" {}={}", option, *number));
    if (const auto* flag = std::get_if<bool>(&value)) name.append(fmt::format(" {}={}", option, *flag));
  }
  return name;
}

// Whether nothing is wrong but that a strategy's framework refuses the combination.
inline bool only_sharding(const Problems& problems) {
  for (const Problem& p : problems) {
    if (p.key.rfind("parallelism.sharding", 0) != 0) return false;
  }
  return !problems.empty();
}

}  // namespace orrery::testing
