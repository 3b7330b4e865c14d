#include "sim/exec/executor/peer_groups.hpp"

#include <cstddef>
#include <numeric>

namespace orrery {

namespace {

std::vector<int> joined_ranks(const std::vector<const PeerKind*>& kinds, std::size_t ranks) {
  std::vector<std::size_t> root(ranks);  // union-find, by halving of paths
  std::iota(root.begin(), root.end(), std::size_t{0});
  const auto find = [&](std::size_t rank) {
    while (root[rank] != rank) rank = root[rank] = root[root[rank]];
    return rank;
  };
  for (const PeerKind* kind : kinds) {
    for (std::size_t rank = 0; rank < kind->of.size(); ++rank) {
      if (kind->of[rank].valid()) root[find(rank)] = find(kind->of[rank].index());
    }
  }
  std::vector<int> size(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) ++size[find(rank)];
  std::vector<int> joined(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) joined[rank] = size[find(rank)];
  return joined;
}

}  // namespace

std::vector<std::vector<int>> transfer_communicator_sizes(const Workload& workload) {
  const auto name = [&](std::size_t kind) { return direction_dropped(workload.peer_kinds[kind].name); };
  std::vector<std::vector<int>> sizes;
  for (std::size_t k = 0; k < workload.peer_kinds.size(); ++k) {
    std::vector<const PeerKind*> alike;
    for (std::size_t other = 0; other < workload.peer_kinds.size(); ++other) {
      if (name(other) == name(k)) alike.push_back(&workload.peer_kinds[other]);
    }
    sizes.push_back(joined_ranks(alike, workload.ranks()));
  }
  return sizes;
}

}  // namespace orrery
