#include "sim/results/summary_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace orrery {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
void put(Json& object, const char* key, const std::optional<T>& value) {
  if (value.has_value()) object[key] = *value;
}

// Leaves out empty text.
void put_text(Json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

template <class T>
void get(const Json& object, const char* key, std::optional<T>& value) {
  if (object.contains(key)) value = object.at(key).get<T>();
}

template <class T>
void get(const Json& object, const char* key, T& value) {
  object.at(key).get_to(value);
}

// What a step's work is counted in stands there alone: tokens, or images.
template <class T>
void get_unit(const Json& object, const char* key, T& value) {
  if (object.contains(key)) object.at(key).get_to(value);
}

void get_text(const Json& object, const char* key, std::string& value) {
  if (object.contains(key)) object.at(key).get_to(value);
}

template <class Map>
Json object_of(const Map& map) {
  Json object = Json::object();
  for (const auto& [key, value] : map) object[key] = value;
  return object;
}

template <class T>
std::map<std::string, T> map_of(const Json& object) {
  std::map<std::string, T> map;
  for (const auto& [key, value] : object.items()) map[key] = value.template get<T>();
  return map;
}

Json json_of(const Summary::Step& step) {
  Json json;
  json["time_s"] = step.time_s;
  const Throughput work = throughput_of(step);
  json[std::string(work.unit)] = work.per_step;
  json[fmt::format("{}_per_s", work.unit)] = work.per_s;
  json[fmt::format("{}_per_s_per_gpu", work.unit)] = work.per_s_per_gpu;
  json["model_tflops_per_gpu"] = step.model_tflops_per_gpu;
  json["hardware_tflops_per_gpu"] = step.hardware_tflops_per_gpu;
  put(json, "mfu", step.mfu);
  put(json, "hfu", step.hfu);
  return json;
}

void read(const Json& json, Summary::Step& step) {
  get(json, "time_s", step.time_s);
  get_unit(json, "tokens", step.tokens);
  get_unit(json, "tokens_per_s", step.tokens_per_s);
  get_unit(json, "tokens_per_s_per_gpu", step.tokens_per_s_per_gpu);
  get_unit(json, "images", step.images);
  get_unit(json, "images_per_s", step.images_per_s);
  get_unit(json, "images_per_s_per_gpu", step.images_per_s_per_gpu);
  get(json, "model_tflops_per_gpu", step.model_tflops_per_gpu);
  get(json, "hardware_tflops_per_gpu", step.hardware_tflops_per_gpu);
  get(json, "mfu", step.mfu);
  get(json, "hfu", step.hfu);
}

Json json_of(const PlanFacts& plan) {
  Json json;
  json["tensor"] = plan.tensor;
  json["pipeline"] = plan.pipeline;
  json["data"] = plan.data;
  json["global_batch"] = plan.global_batch;
  json["micro_batch"] = plan.micro_batch;
  json["sequence_length"] = plan.sequence_length;
  put_text(json, "schedule", plan.schedule);
  put_text(json, "sharding", plan.sharding);
  put_text(json, "precision", plan.precision);
  put_text(json, "recompute", plan.recompute);
  put_text(json, "framework", plan.framework);
  return json;
}

void read(const Json& json, PlanFacts& plan) {
  get(json, "tensor", plan.tensor);
  get(json, "pipeline", plan.pipeline);
  get(json, "data", plan.data);
  get(json, "global_batch", plan.global_batch);
  get(json, "micro_batch", plan.micro_batch);
  get(json, "sequence_length", plan.sequence_length);
  get_text(json, "schedule", plan.schedule);
  get_text(json, "sharding", plan.sharding);
  get_text(json, "precision", plan.precision);
  get_text(json, "recompute", plan.recompute);
  get_text(json, "framework", plan.framework);
}

Json json_of(const Summary::Breakdown& breakdown) {
  Json json;
  json["compute_s"] = breakdown.compute_s;
  json["exposed_communication_s"] = object_of(breakdown.exposed_communication_s);
  json["bubble_s"] = breakdown.bubble_s;
  json["data_stall_s"] = breakdown.data_stall_s;
  json["other_s"] = breakdown.other_s;
  return json;
}

void read(const Json& json, Summary::Breakdown& breakdown) {
  get(json, "compute_s", breakdown.compute_s);
  breakdown.exposed_communication_s = map_of<double>(json.at("exposed_communication_s"));
  get(json, "bubble_s", breakdown.bubble_s);
  get(json, "data_stall_s", breakdown.data_stall_s);
  get(json, "other_s", breakdown.other_s);
}

Json json_of(const Summary::Communication& communication) {
  Json json;
  json["messages"] = communication.messages;
  json["bytes"] = communication.bytes;
  json["by_kind"] = Json::object();
  for (const auto& [kind, count] : communication.by_kind) {
    json["by_kind"][kind] = {{"messages", count.messages}, {"bytes", count.bytes}};
  }
  json["by_link_kind"] = object_of(communication.by_link_kind);
  json["utilization_by_link_kind"] = object_of(communication.utilization_by_link_kind);
  json["busiest_links"] = Json::array();
  for (const LinkUse& link : communication.busiest_links) {
    json["busiest_links"].push_back(
        {{"name", link.name}, {"kind", link.kind}, {"bytes", link.bytes}, {"utilization", link.utilization}});
  }
  return json;
}

void read(const Json& json, Summary::Communication& communication) {
  get(json, "messages", communication.messages);
  get(json, "bytes", communication.bytes);
  for (const auto& [kind, count] : json.at("by_kind").items()) {
    get(count, "messages", communication.by_kind[kind].messages);
    get(count, "bytes", communication.by_kind[kind].bytes);
  }
  communication.by_link_kind = map_of<std::int64_t>(json.at("by_link_kind"));
  communication.utilization_by_link_kind = map_of<double>(json.at("utilization_by_link_kind"));
  for (const Json& entry : json.at("busiest_links")) {
    LinkUse& link = communication.busiest_links.emplace_back();
    get(entry, "name", link.name);
    get(entry, "kind", link.kind);
    get(entry, "bytes", link.bytes);
    get(entry, "utilization", link.utilization);
  }
}

Json json_of(const Summary::Memory& memory) {
  Json json;
  json["peak_bytes"] = memory.peak_bytes;
  put(json, "limit_bytes", memory.limit_bytes);
  put(json, "fits", memory.fits);
  json["by_tag"] = object_of(memory.by_tag);
  json["rank"] = memory.rank;
  json["when_s"] = memory.when_s;
  put_text(json, "task", memory.task);
  return json;
}

void read(const Json& json, Summary::Memory& memory) {
  get(json, "peak_bytes", memory.peak_bytes);
  get(json, "limit_bytes", memory.limit_bytes);
  get(json, "fits", memory.fits);
  for (const auto& [tag, bytes] : json.at("by_tag").items()) {
    memory.by_tag.emplace_back(tag, bytes.template get<std::int64_t>());
  }
  get(json, "rank", memory.rank);
  get(json, "when_s", memory.when_s);
  get_text(json, "task", memory.task);
}

Json json_of(const OffDeviceUse::Store& store) {
  Json json;
  json["needed_bytes"] = store.needed_bytes;
  put(json, "present_bytes", store.present_bytes);
  return json;
}

void read(const Json& json, OffDeviceUse::Store& store) {
  get(json, "needed_bytes", store.needed_bytes);
  get(json, "present_bytes", store.present_bytes);
}

Json json_of(const OffDeviceUse& use) {
  Json json;
  json["node"] = use.node;
  json["fits"] = use.fits();
  json["host_memory"] = json_of(use.host_memory);
  json["drives"] = json_of(use.drives);
  return json;
}

void read(const Json& json, OffDeviceUse& use) {
  get(json, "node", use.node);
  read(json.at("host_memory"), use.host_memory);
  read(json.at("drives"), use.drives);
}

Json json_of(const Summary::Training& training) {
  Json json;
  json["steps"] = training.steps;
  if (training.images > 0) {
    json["images"] = training.images;
  } else {
    json["tokens"] = training.tokens;
  }
  json["time_s"] = training.time_s;
  put(json, "ideal_time_s", training.ideal_time_s);
  if (training.images == 0) json["ideal_operations_per_parameter"] = training.ideal_operations;
  json["gpu_hours"] = training.gpu_hours;
  return json;
}

void read(const Json& json, Summary::Training& training) {
  get(json, "steps", training.steps);
  get_unit(json, "tokens", training.tokens);
  get_unit(json, "images", training.images);
  get(json, "time_s", training.time_s);
  get(json, "ideal_time_s", training.ideal_time_s);
  get_unit(json, "ideal_operations_per_parameter", training.ideal_operations);
  get(json, "gpu_hours", training.gpu_hours);
}

Json json_of(const Summary::Simulation& simulation) {
  Json json;
  json["events"] = simulation.events;
  json["flows"] = simulation.flows;
  json["ranks"] = simulation.ranks;
  json["rank_classes"] = simulation.rank_classes;
  put_text(json, "unfolded_because", simulation.unfolded_because);
  put_text(json, "fidelity", simulation.fidelity);
  json["algorithms"] = object_of(simulation.algorithms);
  put(json, "wall_s", simulation.wall_s);
  return json;
}

void read(const Json& json, Summary::Simulation& simulation) {
  get(json, "events", simulation.events);
  get(json, "flows", simulation.flows);
  get(json, "ranks", simulation.ranks);
  get(json, "rank_classes", simulation.rank_classes);
  get_text(json, "unfolded_because", simulation.unfolded_because);
  get_text(json, "fidelity", simulation.fidelity);
  if (json.contains("algorithms")) simulation.algorithms = map_of<std::string>(json.at("algorithms"));
  get(json, "wall_s", simulation.wall_s);
}

void read(const Json& json, Summary& summary) {
  get(json, "scenario", summary.scenario);
  get(json, "fingerprint", summary.fingerprint);
  const Json& cluster = json.at("cluster");
  get(cluster, "gpus", summary.cluster.gpus);
  get(cluster, "nodes", summary.cluster.nodes);
  get(cluster, "gpu", summary.cluster.gpu);
  get(cluster, "peak_tflops_per_gpu", summary.cluster.peak_tflops_per_gpu);
  const Json& model = json.at("model");
  get_text(model, "name", summary.model.name);
  get(model, "parameters", summary.model.parameters);
  get(model, "active_parameters", summary.model.active_parameters);
  if (json.contains("plan")) read(json.at("plan"), summary.plan);
  read(json.at("step"), summary.step);
  read(json.at("breakdown"), summary.breakdown);
  if (json.contains("imbalance")) get(json.at("imbalance"), "waiting_s", summary.breakdown.waiting_s);
  read(json.at("communication"), summary.communication);
  read(json.at("memory"), summary.memory);
  if (json.contains("off_device")) read(json.at("off_device"), summary.off_device.emplace());
  if (json.contains("training")) {
    Summary::Training training;
    read(json.at("training"), training);
    summary.training = training;
  }
  if (json.contains("slow_parts")) {
    Summary::SlowParts slow;
    get(json.at("slow_parts"), "step_without_s", slow.step_without_s);
    get(json.at("slow_parts"), "lost_s", slow.lost_s);
    summary.slow_parts = slow;
  }
  if (json.contains("expectation")) {
    const Json& of = json.at("expectation");
    Summary::Expectation expectation;
    get(of, "low_s", expectation.low_s);
    get(of, "typical_s", expectation.typical_s);
    get(of, "high_s", expectation.high_s);
    get(of, "covered", expectation.covered);
    get(of, "basis", expectation.basis);
    summary.expectation = expectation;
  }
  read(json.at("simulation"), summary.simulation);
  if (json.contains("remarks")) get(json, "remarks", summary.remarks);
  if (json.contains("warnings")) get(json, "warnings", summary.warnings);
}

}  // namespace

std::string summary_json(const Summary& summary) {
  Json json;
  json["scenario"] = summary.scenario;
  json["fingerprint"] = summary.fingerprint;
  json["cluster"] = {{"gpus", summary.cluster.gpus}, {"nodes", summary.cluster.nodes}, {"gpu", summary.cluster.gpu}};
  put(json["cluster"], "peak_tflops_per_gpu", summary.cluster.peak_tflops_per_gpu);
  json["model"] = Json::object();
  put_text(json["model"], "name", summary.model.name);
  json["model"]["parameters"] = summary.model.parameters;
  json["model"]["active_parameters"] = summary.model.active_parameters;
  json["plan"] = json_of(summary.plan);
  json["step"] = json_of(summary.step);
  json["breakdown"] = json_of(summary.breakdown);
  json["imbalance"] = {{"waiting_s", summary.breakdown.waiting_s}};
  json["communication"] = json_of(summary.communication);
  json["memory"] = json_of(summary.memory);
  if (summary.off_device) json["off_device"] = json_of(*summary.off_device);
  if (summary.training.has_value()) json["training"] = json_of(*summary.training);
  if (summary.slow_parts) {
    json["slow_parts"] = {{"step_without_s", summary.slow_parts->step_without_s},
                          {"lost_s", summary.slow_parts->lost_s}};
  }
  if (summary.expectation) {
    const Summary::Expectation& of = *summary.expectation;
    json["expectation"] = {{"low_s", of.low_s},
                           {"typical_s", of.typical_s},
                           {"high_s", of.high_s},
                           {"covered", of.covered},
                           {"basis", of.basis}};
  }
  json["simulation"] = json_of(summary.simulation);
  if (!summary.remarks.empty()) json["remarks"] = summary.remarks;
  if (!summary.warnings.empty()) json["warnings"] = summary.warnings;
  // Names may come from anywhere: bytes that are not UTF-8 are replaced rather than refused.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Summary> parse_summary_json(std::string_view text) {
  // The library reports a missing key or wrong type by exception: caught here, at the border.
  try {
    Summary summary;
    read(Json::parse(text), summary);
    return summary;
  } catch (const Json::exception& error) {
    return Problem{.key = "", .message = std::string("not a summary: ") + error.what(), .note = ""};
  }
}

}  // namespace orrery
