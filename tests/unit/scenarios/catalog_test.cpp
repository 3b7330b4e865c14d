// The real catalogue, whatever it holds: every file is read, so a new entry is tested unasked. And how names are found.
#include "scenarios/catalog.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "scenarios/schema.hpp"
#include "support.hpp"
#include "topology/topology.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;

// Where an entry says its numbers come from; every kind that can keep it does.
const std::string& source_of(const NodeSpec& node) { return node.source; }
const std::string& source_of(const ModelSpec& model) { return model.source; }
const std::string& source_of(const FrameworkSpec& framework) { return framework.source; }

}  // namespace

TEST_CASE("every entry of the catalogue is sound, described and sourced") {
  Catalog catalog(kSource);
  for (const CatalogKind kind : kCatalogKinds) {
    CAPTURE(std::string(name_of(kind)));
    const auto entries = catalog.entries(kind);
    CAPTURE(to_string(entries.problems()));
    REQUIRE(entries.ok());
    CHECK(!entries->empty());
    for (const CatalogEntry& entry : *entries) {
      CAPTURE(entry.name);
      CHECK(!entry.description.empty());
      CHECK(entry.description.find('\n') == std::string::npos);
      CHECK(std::filesystem::exists(entry.file));
    }
  }
  for (const std::string& name : catalog.names(CatalogKind::node)) CHECK(!source_of(*catalog.node(name)).empty());
  for (const std::string& name : catalog.names(CatalogKind::model)) CHECK(!source_of(*catalog.model(name)).empty());
  for (const std::string& name : catalog.names(CatalogKind::framework)) {
    CHECK(!source_of(*catalog.framework(name)).empty());
  }
}

TEST_CASE("every node of the catalogue can be built into a cluster") {
  Catalog catalog(kSource);
  for (const std::string& name : catalog.names(CatalogKind::node)) {
    CAPTURE(name);
    const NodeSpec& node = *catalog.node(name);
    ClusterSpec cluster;
    cluster.groups = {{node, node.nics > 0 ? 2 : 1}};
    cluster.fabric.link = node.nic;
    const auto topology = Topology::build(cluster);
    CAPTURE(to_string(topology.problems()));
    CHECK(topology.ok());
  }
}

TEST_CASE("a GPU of the catalogue computes in some precision and has every size") {
  Catalog catalog(kSource);
  for (const std::string& name : catalog.names(CatalogKind::gpu)) {
    CAPTURE(name);
    const GpuSpec& gpu = *catalog.gpu(name);
    CHECK(gpu.name == name);
    CHECK(gpu.peak_of(Precision::fp32).count() > 0);
    CHECK(gpu.vector_peak.count() > 0);
    CHECK(gpu.memory.count() > 0);
    CHECK(gpu.memory_bandwidth.count() > 0);
    CHECK(gpu.multiprocessors > 0);
    CHECK(!gpu.kernels.source.empty());
  }
}

TEST_CASE("a name that is not there is answered with the nearest, or with all") {
  Catalog catalog(kCatalog);
  const auto& near = catalog.gpu("gadgt");
  REQUIRE_FALSE(near.ok());
  CHECK(near.problems().front().message == "no gpu \"gadgt\" in the catalogue");
  CHECK(near.problems().front().note == "did you mean gadget?");
  CHECK(catalog.gpu("zzz").problems().front().note == "the catalogue has: broken, broken-syntax, gadget");
  CHECK_FALSE(catalog.gpu("../links/ether").ok());
  CHECK_FALSE(catalog.gpu("").ok());
  CHECK_FALSE(Catalog("/nowhere").gpu("gadget").ok());
}

TEST_CASE("an entry is read once and keeps its answer") {
  Catalog catalog(kCatalog);
  const Result<NodeSpec>* first = &catalog.node("box");
  CHECK(&catalog.node("box") == first);
  CHECK(catalog.node("box")->nvlink.name == "nvl");
}

TEST_CASE("every key of the schema is documented in one line, once") {
  const std::vector<KeyDoc> docs = scenario_docs();
  CHECK(docs.size() > 80);
  for (const KeyDoc& doc : docs) {
    CAPTURE(doc.key);
    CHECK(!doc.doc.empty());
    CHECK(doc.doc.find('\n') == std::string::npos);
  }
  for (const CatalogKind kind : kCatalogKinds) CHECK(!catalog_docs(kind).empty());
  CHECK(to_string(docs).find("training.global_batch") != std::string::npos);
}

}  // namespace orrery
