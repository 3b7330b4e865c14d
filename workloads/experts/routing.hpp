// Which experts tokens go to.
//
// Every rank of an expert-parallel group routes its own rows by one distribution over experts, so that a popular expert
// is popular with all of them. Rows are counted in whole numbers: those of an expert are its share of the rows by
// largest remainder, no expert gets more than one from each row (a row goes to top_k different ones), and with a
// capacity factor what is beyond factor x average is dropped, on each rank by itself, as Megatron-LM does it
// (megatron/core/transformer/moe/moe_utils.py: get_capacity, topk_routing_with_score_function).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/problem.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"
#include "workloads/registry.hpp"

namespace orrery {

struct RoutingRow {
  RegistryRow row;
  // [experts] how popular each is, up to a common factor; empty: all alike.
  std::vector<double> (*popularity)(const Choice& choice, const RegistryRow& row, std::int64_t experts) = nullptr;
};

[[nodiscard]] const RoutingRow* find_routing(std::string_view name);

// What is wrong with the options beyond their types and ranges.
[[nodiscard]] Problems check_routing(const Choice& choice, const ModelSpec& model);

// [experts] rows that one rank with `rows` rows sends to each. Empty: as many to each, `rows_sent` in all.
struct Routing {
  std::vector<std::int64_t> to_expert;
  std::int64_t sent = 0;
};
[[nodiscard]] Routing route_tokens(const Choice& choice, const ModelSpec& model, std::int64_t rows);

// How many of `places` equal parts of the experts a token reaches, on average over tokens that choose at random within
// the model's limit on groups; never more than top_k.
[[nodiscard]] double places_reached(const ModelSpec& model, std::int64_t places);

}  // namespace orrery
