// The contradictions that a workload can have without any hardware in sight:
//
// - members of a communicator that issue different collectives (in kind, size or order), which on a cluster hangs or
//   corrupts; a collective on a communicator that a rank is not in; one communicator used from two streams, whose
//   relative order nothing fixes;
// - sends and receives between two ranks that do not pair up one to one, in order, with equal sizes, per tag;
// - memory that is freed and not allocated, or allocated and never freed within the step.
//
// Ranks of one role issue the same sequences, so each distinct sequence is made once per role and compared by
// reference: O(tasks + ranks x kinds) where roles agree.
#include "sim/graph/workload.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace orrery {

namespace {

using Messages = std::vector<std::string>;

// What ranks of one role issue: collectives by kind of group, transfers by (peer, tag, direction).
struct Issued {
  std::vector<std::vector<CollectiveCall>> collectives;                                  // [group kinds]
  std::map<std::tuple<std::int32_t, std::int32_t, bool>, std::vector<Bytes>> transfers;  // (peer, tag, is a send)
};

bool known(const Workload& w, const Task& task, const Program& program, std::size_t role, Messages& messages) {
  if (task.kind == TaskKind::collective) {
    const GroupKindId group = program.collective(task).group;
    if (group.valid() && group.index() < w.group_kinds.size()) return true;
    messages.push_back(fmt::format("role {}: '{}' names no group", role, program.label(task)));
    return false;
  }
  const PeerKindId peer = program.transfer(task).peer;
  if (peer.valid() && peer.index() < w.peer_kinds.size()) return true;
  messages.push_back(fmt::format("role {}: '{}' names no peer", role, program.label(task)));
  return false;
}

Issued issued_by(const Workload& w, std::size_t role, Messages& messages) {
  const Program& program = w.programs[role];
  Issued issued;
  issued.collectives.resize(w.group_kinds.size());
  std::vector<StreamId> stream_of(w.group_kinds.size());
  for (const Task& task : program.tasks()) {
    const bool transfer = task.kind == TaskKind::send || task.kind == TaskKind::receive;
    if (!transfer && task.kind != TaskKind::collective) continue;
    if (!known(w, task, program, role, messages)) continue;
    if (transfer) {
      const TransferCall& call = program.transfer(task);
      issued.transfers[{call.peer.value(), call.tag, task.kind == TaskKind::send}].push_back(call.bytes);
      continue;
    }
    const CollectiveCall& call = program.collective(task);
    issued.collectives[call.group.index()].push_back(call);
    StreamId& stream = stream_of[call.group.index()];
    if (stream.valid() && stream != task.stream) {
      messages.push_back(fmt::format("role {}: collectives of '{}' are on more than one stream", role,
                                     w.group_kinds[call.group.index()].name));
    }
    stream = task.stream;
  }
  return issued;
}

std::string describe(const CollectiveCall& call) {
  return fmt::format("{} of {} B", name_of(call.op), call.bytes.count());
}

void compare_collectives(const Workload& w, const std::vector<Issued>& issued, Messages& messages) {
  for (std::size_t c = 0; c < w.communicators.size(); ++c) {
    const Communicator& communicator = w.communicators[c];
    const RankId first = communicator.ranks.front();
    const auto& expected = issued[w.role_of[first.index()].index()].collectives[communicator.kind.index()];
    for (const RankId rank : communicator.ranks) {
      const auto& actual = issued[w.role_of[rank.index()].index()].collectives[communicator.kind.index()];
      if (&actual == &expected || actual == expected) continue;
      const auto [a, b] = std::mismatch(expected.begin(), expected.end(), actual.begin(), actual.end());
      messages.push_back(fmt::format("communicator {} ({}): collective {} of rank {} is {}, of rank {} {}", c,
                                     w.group_kinds[communicator.kind.index()].name, a - expected.begin(), first.value(),
                                     a == expected.end() ? "missing" : describe(*a), rank.value(),
                                     b == actual.end() ? "missing" : describe(*b)));
    }
  }
}

// Shares belong to all-to-alls, and there are as many as members.
void check_shares(const Workload& w, const std::vector<Issued>& issued, Messages& messages) {
  for (std::size_t c = 0; c < w.communicators.size(); ++c) {
    const Communicator& communicator = w.communicators[c];
    const RankId first = communicator.ranks.front();
    for (const CollectiveCall& call : issued[w.role_of[first.index()].index()].collectives[communicator.kind.index()]) {
      if (!call.shares.valid()) continue;
      const bool known_shares = call.shares.index() < w.shares.size();
      if (call.op == CollectiveOp::all_to_all && known_shares &&
          w.shares[call.shares.index()].weights.size() == communicator.ranks.size()) {
        continue;
      }
      messages.push_back(fmt::format("communicator {}: {} has shares that are not those of an all-to-all of {} members",
                                     c, describe(call), communicator.ranks.size()));
      break;
    }
  }
}

void check_membership(const Workload& w, const std::vector<Issued>& issued, Messages& messages) {
  for (std::size_t rank = 0; rank < w.ranks(); ++rank) {
    const Issued& mine = issued[w.role_of[rank].index()];
    for (std::size_t kind = 0; kind < w.group_kinds.size(); ++kind) {
      if (mine.collectives[kind].empty() || w.communicator_of[kind][rank].valid()) continue;
      messages.push_back(
          fmt::format("rank {} issues collectives of '{}' and belongs to none", rank, w.group_kinds[kind].name));
    }
  }
}

// What each pair of ranks says to one another, per tag.
struct Conversation {
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
};

void compare_transfers(const Workload& w, const std::vector<Issued>& issued, Messages& messages) {
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Conversation> conversations;  // (from, to, tag)
  for (std::size_t rank = 0; rank < w.ranks(); ++rank) {
    const auto me = static_cast<std::int32_t>(rank);
    for (const auto& [key, sizes] : issued[w.role_of[rank].index()].transfers) {
      const auto& [peer, tag, is_send] = key;
      const RankId other = w.peer_kinds[static_cast<std::size_t>(peer)].of[rank];
      if (!other.valid()) {
        messages.push_back(fmt::format("rank {} has no '{}' to exchange tag {} with", rank,
                                       w.peer_kinds[static_cast<std::size_t>(peer)].name, tag));
        continue;
      }
      Conversation& conversation =
          conversations[is_send ? std::tuple{me, other.value(), tag} : std::tuple{other.value(), me, tag}];
      auto& to = is_send ? conversation.sent : conversation.received;
      to.insert(to.end(), sizes.begin(), sizes.end());
    }
  }
  for (const auto& [key, conversation] : conversations) {
    if (conversation.sent == conversation.received) continue;
    const auto& [from, to, tag] = key;
    messages.push_back(fmt::format("rank {} sends {} messages with tag {} to rank {}, which receives {}{}", from,
                                   conversation.sent.size(), tag, to, conversation.received.size(),
                                   conversation.sent.size() == conversation.received.size() ? " of other sizes" : ""));
  }
}

void check_memory(const Program& program, std::size_t role, Messages& messages) {
  std::array<std::int64_t, kMemoryTags> held{};
  for (const MemoryOperation& operation : program.resident_memory()) {
    if (operation.bytes.count() < 0) {
      messages.push_back(fmt::format("role {}: resident memory is freed ({})", role, name_of(operation.tag)));
    }
  }
  std::array<bool, kMemoryTags> told{};
  for (const Task& task : program.tasks()) {
    for (const MemoryOperation& operation : program.memory(task)) {
      const auto tag = static_cast<std::size_t>(operation.tag);
      held[tag] += operation.bytes.count();
      if (held[tag] < 0 && !told[tag]) {
        told[tag] = true;
        messages.push_back(fmt::format("role {}: more {} is freed than was allocated", role, name_of(operation.tag)));
      }
    }
  }
  for (std::size_t tag = 0; tag < kMemoryTags; ++tag) {
    if (held[tag] <= 0) continue;
    messages.push_back(
        fmt::format("role {}: {} B of {} are not freed by the end of the step", role, held[tag], kMemoryTagNames[tag]));
  }
}

}  // namespace

std::vector<std::string> inconsistencies(const Workload& w) {
  Messages messages;
  std::vector<Issued> issued;
  for (std::size_t role = 0; role < w.programs.size(); ++role) {
    issued.push_back(issued_by(w, role, messages));
    check_memory(w.programs[role], role, messages);
  }
  compare_collectives(w, issued, messages);
  check_shares(w, issued, messages);
  check_membership(w, issued, messages);
  compare_transfers(w, issued, messages);
  return messages;
}

}  // namespace orrery
