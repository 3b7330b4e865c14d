#include "sim/exec/folding/fold.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

class Folding {
 public:
  explicit Folding(const FoldingInput& input)
      : input_(input), cluster_(cluster_incidence(input)), classes_(refine(cluster_.incidence)) {
    // Elements of one row of the table are numbered together, and so are their classes.
    ranks_ = count_classes(0, cluster_.first_communicator);
    first_group_ = ranks_;
    groups_ = count_classes(cluster_.first_communicator, cluster_.first_channel);
    first_channel_ = first_group_ + groups_;
    channels_ = count_classes(cluster_.first_channel,
                              static_cast<std::uint32_t>(cluster_.first_channel + cluster_.channels.size()));
  }

  Folded run() && {
    add_ranks();
    add_groups();
    add_channels();
    add_resources();
    mark_edges();
    return std::move(folded_);
  }

 private:
  [[nodiscard]] std::uint32_t count_classes(std::uint32_t begin, std::uint32_t end) const {
    const auto& first = classes_.representative;
    return static_cast<std::uint32_t>(std::lower_bound(first.begin(), first.end(), end) -
                                      std::lower_bound(first.begin(), first.end(), begin));
  }
  [[nodiscard]] std::uint32_t rank_class(RankId rank) const { return classes_.class_of[rank.index()]; }

  void add_ranks() {
    Partition& partition = folded_.partition;
    for (std::uint32_t c = 0; c < ranks_; ++c) {
      const RankId rank(std::size_t{classes_.representative[c]});
      partition.ranks.push_back(
          {rank, classes_.size[c], input_.workload.role_of[rank.index()], input_.gpu_of[rank.index()]});
    }
    partition.class_of.assign(classes_.class_of.begin(),
                              classes_.class_of.begin() + static_cast<std::ptrdiff_t>(input_.workload.ranks()));
  }

  void add_groups() {
    Partition& partition = folded_.partition;
    for (std::uint32_t g = first_group_; g < first_group_ + groups_; ++g) {
      const Communicator& communicator =
          input_.workload.communicators[classes_.representative[g] - cluster_.first_communicator];
      Partition::Group group{.kind = communicator.kind, .multiplicity = classes_.size[g]};
      group.members_begin = static_cast<std::uint32_t>(partition.members.size());
      group.gpus_begin = static_cast<std::uint32_t>(partition.gpus.size());
      std::vector<std::uint32_t> members;
      for (const RankId rank : communicator.ranks) {
        members.push_back(rank_class(rank));
        partition.gpus.push_back(input_.gpu_of[rank.index()]);
      }
      std::sort(members.begin(), members.end());
      for (std::size_t i = 0; i < members.size();) {
        const std::size_t begin = i;
        while (i < members.size() && members[i] == members[begin]) ++i;
        partition.members.push_back({members[begin], static_cast<std::uint32_t>(i - begin)});
      }
      group.members_end = static_cast<std::uint32_t>(partition.members.size());
      group.gpus_end = static_cast<std::uint32_t>(partition.gpus.size());
      partition.groups.push_back(group);
    }
    for (const auto& of_kind : input_.workload.communicator_of) {
      auto& row = partition.group_of.emplace_back();
      for (std::uint32_t c = 0; c < ranks_; ++c) {
        const CommunicatorId id = of_kind[classes_.representative[c]];
        row.push_back(id.valid() ? classes_.class_of[cluster_.first_communicator + id.index()] - first_group_
                                 : Partition::kNone);
      }
    }
  }

  void add_channels() {
    // A channel that both ends use joins their classes one to one: each end names the other by a kind of peer, of which
    // it has one, and the channel's label at that end says so. (Where one end only knows the other, as where two ranks
    // have the same next, nothing is ever sent.)
    Partition& partition = folded_.partition;
    for (std::uint32_t c = first_channel_; c < first_channel_ + channels_; ++c) {
      const auto [sender, receiver] = cluster_.channels[classes_.representative[c] - cluster_.first_channel];
      partition.channels.push_back({rank_class(sender), rank_class(receiver), classes_.size[c],
                                    input_.gpu_of[sender.index()], input_.gpu_of[receiver.index()]});
    }
    const auto channel_class = [&](RankId sender, RankId receiver) {
      return classes_.class_of[cluster_.first_channel + cluster_.channel(sender, receiver)] - first_channel_;
    };
    for (const PeerKind& kind : input_.workload.peer_kinds) {
      auto& row = partition.channels_of.emplace_back(ranks_);
      for (std::uint32_t c = 0; c < ranks_; ++c) {
        const RankId rank = partition.ranks[c].representative;
        const RankId peer = kind.of[rank.index()];
        if (peer.valid()) row[c] = {channel_class(rank, peer), channel_class(peer, rank)};
      }
    }
  }

  void add_resources() {
    ResourceClasses& resources = folded_.resources;
    const Topology& topology = input_.hardware.topology();
    resources.class_of_link.assign(static_cast<std::size_t>(topology.links()), ResourceClasses::kNone);
    resources.class_of_memory.assign(static_cast<std::size_t>(topology.gpus()), ResourceClasses::kNone);
    std::vector<std::uint32_t> number(classes_.representative.size(), ResourceClasses::kNone);
    for (std::size_t link = 0; link < resources.class_of_link.size(); ++link) {
      const std::uint32_t element = cluster_.element_of_link[link];
      if (element == ClusterIncidence::kNone) continue;
      const std::uint32_t c = classes_.class_of[element];
      if (number[c] == ResourceClasses::kNone) {
        number[c] = static_cast<std::uint32_t>(resources.links.size());
        resources.links.push_back({LinkId(link), classes_.size[c]});
      }
      resources.class_of_link[link] = number[c];
    }
    resources.add_pools(input_.hardware);
    for (std::size_t rank = 0; rank < input_.workload.ranks(); ++rank) {
      resources.class_of_memory[input_.gpu_of[rank].index()] = classes_.class_of[rank];
    }
    for (std::uint32_t c = 0; c < ranks_; ++c) {
      resources.memories.push_back({folded_.partition.ranks[c].gpu, classes_.size[c]});
    }
  }

  void mark_edges() {
    for (const ClusterIncidence::PlanEdges& made : cluster_.plans) {
      std::vector<std::uint32_t> alike;
      for (const std::uint32_t edge : made.elements) alike.push_back(classes_.class_of[edge]);
      made.state->routed_of(made.plan).alike = std::move(alike);
    }
  }

  const FoldingInput& input_;
  ClusterIncidence cluster_;
  ElementClasses classes_;
  std::uint32_t ranks_ = 0;  // classes of each row
  std::uint32_t first_group_ = 0;
  std::uint32_t groups_ = 0;
  std::uint32_t first_channel_ = 0;
  std::uint32_t channels_ = 0;
  Folded folded_;
};

}  // namespace

Folded fold(const FoldingInput& input) { return Folding(input).run(); }

}  // namespace orrery
