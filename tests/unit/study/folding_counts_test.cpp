// How far clusters of the size that folding is for do fold: classes of ranks and their sizes, worked out by hand.
//
// The plan of most cases: 16,384 GPUs, tensor 8, pipeline 16, data 128. A node of 8 GPUs with a NIC each holds one
// tensor group; a stage is 128 nodes in a row; data group t of a stage joins the GPUs number t of its nodes. What runs:
// tensor rings inside nodes, data rings (or trees) over the nodes of a stage, transfers between equal places of
// neighbouring stages, and a few collectives of some bytes (norm of the gradients), which are felt by nobody at coupled
// fidelity.
//
// So a rank is a stage, a node of it and a place in the node, and stages are always told apart by their programs. Of a
// stage's 1,024 ranks the cases below say which can be told apart; pipeline channels join equal places, so whatever
// divides one stage divides every other in the same way.
//
// A prototype of the method, of which only its counts are kept, had exactly twice as many classes for every variant of
// the coupled plan: 32, 128 with a slow GPU or NIC, 32 at 4:1 oversubscription, 1,024 with leaves out of step. The
// cases derive 16, 64, 16 and 512: it told two parts of each class apart that are symmetric here. What can do so is a
// collective that reaches over many nodes without treating all ranks alike (trees; a ring of all GPUs that is felt),
// and there are cases for these too. At message fidelity and for plain data parallelism the counts agree.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/load.hpp"
#include "scenarios/slow_parts.hpp"
#include "sim/exec/execute.hpp"
#include "sim/exec/folding/fold.hpp"
#include "topology/topology.hpp"
#include "workloads/build.hpp"

using namespace orrery;

namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::string_view kSlowGpu = "variation: {slow: [{gpu: 17, compute: 0.9}]}\n";  // node 2, place 1
constexpr std::string_view kSlowNic = "variation: {slow: [{link: node3.nic0, bandwidth: 0.5}]}\n";
// Optimizer states are sharded: gradients are reduce-scattered and parameters all-gathered, which is done over rings.
constexpr std::string_view kRings = "sharding: distributed-optimizer}\n";
// Gradients are all-reduced: the largest buckets (832 MiB) over rings, smaller ones over trees, as NCCL's model of both
// has it for 128 nodes.
constexpr std::string_view kTrees = "sharding: none}\n";

std::string leaves(int nodes, int oversubscription = 1) {
  return fmt::format("{{kind: leaf-spine, link: ndr-infiniband, nodes_per_leaf: {}, oversubscription: {}}}", nodes,
                     oversubscription);
}

std::string llama(std::string_view fabric, std::string_view gradients = kRings) {
  return fmt::format(
      "name: 16,384 GPUs\n"
      "cluster: {{node: dgx-h100, nodes: 2048, fabric: {}}}\n"
      "model: llama3-405b\n"
      "training: {{sequence_length: 8192, global_batch: 2048, micro_batch: 1, precision: bf16, optimizer: adamw}}\n"
      "simulation: {{fidelity: coupled}}\n"
      "parallelism: {{tensor: 8, pipeline: 16, data: 128, sequence_parallel: true, stage_layers: "
      "[7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7], {}",
      fabric, gradients);
}

std::string small(int tensor, int pipeline, int data, std::string_view fabric, std::string_view fidelity,
                  std::string_view algorithm, std::string_view sharding = "none") {
  return fmt::format(
      "name: a small model\n"
      "cluster: {{node: dgx-h100, nodes: {}, fabric: {}}}\n"
      "model: {{layers: 4, hidden: 1024, heads: 8, ffn_hidden: 4096, vocabulary: 32000, positions: 1024}}\n"
      "training: {{sequence_length: 1024, global_batch: {}, micro_batch: 1, precision: bf16, optimizer: adamw}}\n"
      "parallelism: {{tensor: {}, pipeline: {}, data: {}, sharding: {}}}\n"
      "collectives: {{algorithm: {}}}\n"
      "simulation: {{fidelity: {}}}\n",
      tensor * pipeline * data / 8, fabric, pipeline * data, tensor, pipeline, data, sharding, algorithm, fidelity);
}

// The rank classes of a scenario, none of it being run.
Partition classes_of(const std::string& text) {
  CAPTURE(text);
  const Result<Scenario> scenario = load_scenario_text(text, "case.yaml");
  REQUIRE(scenario.ok());
  const Result<Topology> topology = Topology::build(scenario->cluster, scenario->simulation.seed);
  REQUIRE(topology.ok());
  const Result<Workload> workload =
      build_workload(scenario->model, scenario->training, scenario->parallelism, scenario->gpus);
  REQUIRE(workload.ok());
  const Result<SlowParts> slow = find_slow_parts(scenario->variation, *topology, scenario->gpus);
  REQUIRE(slow.ok());
  std::vector<GpuSlowdown> slow_gpus;
  for (const auto& [gpu, factor] : slow->gpus) slow_gpus.push_back({gpu, factor});
  std::vector<LinkSlowdown> slow_links;
  for (const auto& [link, factor] : slow->links) slow_links.push_back({link, factor});
  const Hardware hardware(*topology, slow_gpus, slow_links);
  TrafficOptions traffic;
  traffic.algorithm = scenario->collectives.algorithm;
  traffic.fidelity =
      scenario->simulation.fidelity == Fidelity::message ? TrafficFidelity::message : TrafficFidelity::coupled;
  const std::shared_ptr<CommunicatorCache> communicators = communicator_cache(hardware, traffic);
  const Placement placement = place_in_order(*workload);
  return fold({*workload, placement.gpu_of, hardware, *communicators, traffic.fidelity}).partition;
}

// The sizes of the classes of each role, ascending; with a count of the roles that have them.
std::map<Sizes, int> sizes_by_role(const Partition& partition) {
  std::map<RoleId, Sizes> of_role;
  for (const Partition::Rank& rank : partition.ranks) of_role[rank.role].push_back(rank.multiplicity);
  std::map<Sizes, int> roles;
  for (auto& [role, sizes] : of_role) {
    std::sort(sizes.begin(), sizes.end());
    ++roles[sizes];
  }
  return roles;
}

// That each of the 16 stages has classes of these sizes.
void check_stages(const std::string& text, const Sizes& sizes) {
  CHECK(sizes_by_role(classes_of(text)) == std::map<Sizes, int>{{sizes, 16}});
}

// That a cluster with one role has classes of these sizes.
void check_sizes(const std::string& text, const Sizes& sizes) {
  CHECK(sizes_by_role(classes_of(text)) == std::map<Sizes, int>{{sizes, 1}});
}

}  // namespace

// Another node of the stage, or another place in the node, is a symmetry of everything: a ring crosses the ports of all
// its members equally often, whatever its order, and at full bandwidth the links above the leaves never decide a rate
// and are not in the partition. Sixteen programs are sixteen classes, and there cannot be fewer.
TEST_CASE("16384 GPUs: one class a stage where everything is regular") { check_stages(llama(leaves(32)), {1024}); }

// A slow GPU is told from others by its colour, its 7 tensor neighbours by their group, its 127 data neighbours by
// theirs; the rest of the stage, 7 x 127, belongs to a regular tensor group and a regular data group. 64 classes.
TEST_CASE("16384 GPUs: a slow GPU marks its two groups, in every stage") {
  check_stages(llama(leaves(32)) + std::string(kSlowGpu), {1, 7, 127, 889});
}

// A port is crossed by the data group of its GPU and by the GPU's own transfers, so a slow port marks the same ranks.
TEST_CASE("16384 GPUs: a slow NIC divides as a slow GPU does") {
  check_stages(llama(leaves(32)) + std::string(kSlowNic), {1, 7, 127, 889});
}

// Leaves may decide rates now, so they are in the partition. But a stage fills four leaves, each data ring enters and
// leaves each of the four once, and transfers go from all of a leaf to all of another: all leaves of a stage are alike.
TEST_CASE("16384 GPUs: oversubscription alone tells nobody apart") { check_stages(llama(leaves(32, 4)), {1024}); }

// The slow GPU's leaf is now told from the other three: nodes are the slow one, 31 beside it, 96 elsewhere; and places
// in a node the slow one's and the other 7. 96 classes: 1, 7, 31, 31 x 7, 96, 96 x 7.
TEST_CASE("16384 GPUs: with oversubscribed leaves a slow GPU also marks its leaf") {
  check_stages(llama(leaves(32, 4)) + std::string(kSlowGpu), {1, 7, 31, 96, 217, 672});
}

// Full bandwidth: leaves are not in the partition, so it does not matter that 20 nodes do not divide 128.
TEST_CASE("16384 GPUs: leaves out of step with stages do not matter at full bandwidth") {
  check_stages(llama(leaves(20)), {1024});
}

// At 4:1 they do. Leaves begin at multiples of 20 nodes, stages at multiples of 128, so no boundary falls within a
// block of 4 = gcd(20, 128) nodes, and the 4 x 8 ranks of a block cannot be told apart. Blocks can: a stage is 32
// blocks, a leaf 5, and since 32 = 2 (mod 5) the cuts move by two blocks from stage to stage: of five stages in a row,
// one has a cut between any two neighbouring blocks, and transfers carry that through all stages; and leaves at the
// ends of a stage, which they share with the next, are unlike those inside. 16 x 32 = 512 classes of 32 ranks.
TEST_CASE("16384 GPUs: oversubscribed leaves out of step with stages leave blocks of four nodes") {
  const Partition partition = classes_of(llama(leaves(20, 4)));
  CHECK(sizes_by_role(partition) == std::map<Sizes, int>{{Sizes(32, 32), 16}});
  for (std::size_t rank = 0; rank < partition.class_of.size(); ++rank) {
    REQUIRE(partition.class_of[rank] == partition.class_of[rank / 32 * 32]);
  }
}

// All-reduce over trees, beside rings: NCCL's two trees are mirror images, in which every node is a leaf of one and an
// inner node of the other, with four neighbours in all; but the two roots, the first and the last of the stage's nodes,
// have no parent and only one child in their tree, which makes two. So two classes a stage, 2 x 8 ranks and 126 x 8; 32
// in all. A slow GPU marks its groups as above: nodes are the slow one, the roots, 125 others; places the slow one's
// and 7. 96.
TEST_CASE("16384 GPUs: trees tell their two roots from the other nodes") {
  check_stages(llama(leaves(32), kTrees), {16, 1008});
  check_stages(llama(leaves(32), kTrees) + std::string(kSlowGpu), {1, 2, 7, 14, 125, 875});
}

// A forced ring also carries the norm of the gradients, over all 16,384 GPUs: 4 bytes, but at least one in each of its
// 2 x 16,383 steps, which is more over an edge than goes unfelt (4 KiB). Its one channel goes into and out of every
// node over one NIC, that of the node's first GPU: places are the first and 7 others. 32 classes.
TEST_CASE("16384 GPUs: a ring of all GPUs that is felt marks the NIC that it takes") {
  check_stages(llama(leaves(32)) + "collectives: {algorithm: ring}\n", {128, 896});
}

// Two of a stage's four leaves hold a root: 2 roots, 62 nodes beside one, 64 in the two leaves between. 48 classes.
TEST_CASE("16384 GPUs: with oversubscribed leaves trees also mark the leaves of their roots") {
  check_stages(llama(leaves(32, 4), kTrees), {16, 496, 512});
}

// One ring of all GPUs, and one communicator that all belong to: a rank sees nothing of where it is. FSDP and ZeRO-3
// gather and scatter over rings. A straggler differs itself, and slows the others all alike; a slow port is in
// the one communicator that all share, and a rank knows of no ports of its own.
TEST_CASE("data parallelism over rings, sharded or not: one class, and two with a straggler") {
  for (const char* sharding : {"none", "fsdp", "zero3", "distributed-optimizer"}) {
    CAPTURE(sharding);
    const std::string text = small(1, 1, 1024, leaves(32), "coupled", "ring", sharding);
    check_sizes(text, {1024});
    check_sizes(text + std::string(kSlowGpu), {1, 1023});
    check_sizes(text + std::string(kSlowNic), {1024});
  }
  // As NCCL chooses, too: rings for gathers and scatters, and the few bytes of the norm are felt by nobody.
  check_sizes(small(1, 1, 1024, leaves(32), "coupled", "auto", "fsdp"), {1024});
  check_sizes(small(1, 1, 1024, leaves(32), "coupled", "auto", "fsdp") + std::string(kSlowGpu), {1, 1023});
}

// As above, of 128 nodes two are roots.
TEST_CASE("plain data parallelism over trees: two classes, and three with a straggler") {
  const std::string text = small(1, 1, 1024, leaves(32), "coupled", "tree");
  check_sizes(text, {16, 1008});
  check_sizes(text + std::string(kSlowGpu), {1, 16, 1007});
}

// Message by message an edge waits for the edge before it, so a member knows its distance from every irregularity
// upstream. A data ring of 32 nodes over leaves of 4 is irregular at each leaf's boundary (longer latency): a class for
// each place in a leaf, 4, of 8 places in a node x 8 leaves. (The prototype: 16 stages x 32 places = 512.) On one
// switch there is no irregularity, and no place.
TEST_CASE("message by message: one class for each place in a leaf") {
  check_sizes(small(8, 1, 32, leaves(4), "message", "ring"), Sizes(4, 64));
  check_sizes(small(8, 1, 32, "{kind: single-switch}", "message", "ring"), {256});
}

// With two stages there is also the ring over a replica (the norm of the gradients): 8 ranks of each of two nodes. It
// leaves the node at one place, from which each place in the node has its distance: 2 stages x 4 x 8 classes, of the 4
// leaves that a stage fills. At coupled fidelity so few bytes are felt by nobody: 2.
TEST_CASE("message by message: a ring over several nodes also tells the places in a node apart") {
  CHECK(sizes_by_role(classes_of(small(8, 2, 16, leaves(4), "message", "ring"))) ==
        std::map<Sizes, int>{{Sizes(32, 4), 2}});
  CHECK(sizes_by_role(classes_of(small(8, 2, 16, leaves(4), "coupled", "ring"))) == std::map<Sizes, int>{{{128}, 2}});
}

// Every member of the slow GPU's rings is at another distance from it, and so are the rings that these members are in.
TEST_CASE("message by message: a slow GPU leaves nothing to fold") {
  CHECK(classes_of(small(8, 2, 16, "{kind: single-switch}", "message", "ring") + std::string(kSlowGpu)).ranks.size() ==
        256);
}

TEST_CASE("the step of Llama 3 405B on 16,384 GPUs that is shipped folds into a class for each stage") {
  std::ifstream file(std::string(ORRERY_SOURCE_DIR) + "/scenarios/llama3-405b-16384xh100.yaml");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(classes_of(text).ranks.size() == 16);
}
