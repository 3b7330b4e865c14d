#include "sim/fluid/redundancy.hpp"

#include <algorithm>

namespace orrery {

namespace {

struct Place {
  std::size_t route;
  std::int32_t count;
};

bool dominates(const Crossing& candidate, ResourceId resource, std::int32_t count, std::span<const Rate> capacities) {
  return candidate.resource != resource && candidate.count >= count &&
         capacities[candidate.resource.index()] <= capacities[resource.index()];
}

// The resources that all users of `resource` cross as often, and that are no wider.
std::vector<ResourceId> candidates_of(ResourceId resource, std::span<const Place> places,
                                      std::span<const Rate> capacities, std::span<const std::vector<Crossing>> routes) {
  std::vector<ResourceId> candidates;
  for (std::size_t i = 0; i < places.size() && (i == 0 || !candidates.empty()); ++i) {
    std::vector<ResourceId> kept;
    for (const Crossing& crossing : routes[places[i].route]) {
      if (!dominates(crossing, resource, places[i].count, capacities)) continue;
      const bool so_far = std::find(candidates.begin(), candidates.end(), crossing.resource) != candidates.end();
      if (i == 0 || so_far) kept.push_back(crossing.resource);
    }
    candidates = std::move(kept);
  }
  return candidates;
}

}  // namespace

std::vector<std::optional<ResourceId>> find_dominators(std::span<const Rate> capacities,
                                                       std::span<const std::vector<Crossing>> routes) {
  std::vector<std::vector<Place>> places(capacities.size());
  for (std::size_t i = 0; i < routes.size(); ++i) {
    for (const Crossing& crossing : routes[i]) places[crossing.resource.index()].push_back({i, crossing.count});
  }
  std::vector<std::optional<ResourceId>> dominators(capacities.size());
  for (std::size_t r = 0; r < capacities.size(); ++r) {
    for (const ResourceId candidate : candidates_of(ResourceId(r), places[r], capacities, routes)) {
      if (!dominators[candidate.index()]) dominators[r] = candidate;
    }
  }
  // A dominator may have turned out to be redundant later: its own dominator does as well, as domination is transitive.
  for (std::optional<ResourceId>& dominator : dominators) {
    while (dominator && dominators[dominator->index()]) dominator = dominators[dominator->index()];
  }
  return dominators;
}

}  // namespace orrery
