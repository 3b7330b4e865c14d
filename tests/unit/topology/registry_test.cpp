// The tables that others read: complete, without doubles, and true to the defaults of the specs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "topology/registry.hpp"

namespace orrery {
namespace {

TEST_CASE("Every kind of fabric has one row, with a name and documentation") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kFabrics.size(); ++i) {
    CHECK(kFabrics[i].kind == static_cast<FabricKind>(i));
    CHECK(names.insert(kFabrics[i].name).second);
    CHECK_FALSE(kFabrics[i].doc.empty());
    CHECK(static_cast<bool>(kFabrics[i].build));
    CHECK(&fabric_info(kFabrics[i].kind) == &kFabrics[i]);
  }
}

TEST_CASE("Parameters of a fabric have names of their own, and defaults that are those of FabricSpec") {
  const FabricSpec defaults;
  for (const FabricInfo& fabric : kFabrics) {
    std::set<std::string_view> names;
    for (const FabricParameter& parameter : fabric.parameters) {
      CAPTURE(parameter.name);
      CHECK(names.insert(parameter.name).second);
      CHECK_FALSE(parameter.doc.empty());
      if (const auto* count = std::get_if<int FabricSpec::*>(&parameter.field)) {
        CHECK(parameter.default_text == fmt::format("{}", defaults.**count));
        CHECK(defaults.**count >= parameter.least);
        CHECK(defaults.**count <= parameter.most);
      }
      if (const auto* number = std::get_if<double FabricSpec::*>(&parameter.field)) {
        CHECK(parameter.default_text == fmt::format("{:g}", defaults.**number));
      }
      if (const auto* routing = std::get_if<Routing FabricSpec::*>(&parameter.field)) {
        CHECK(parameter.default_text == kRoutings[static_cast<std::size_t>(defaults.**routing)].name);
      }
    }
  }
}

TEST_CASE("Rows of routings and wirings stand at the place of their value") {
  for (std::size_t i = 0; i < kRoutings.size(); ++i) CHECK(kRoutings[i].routing == static_cast<Routing>(i));
  for (std::size_t i = 0; i < kWirings.size(); ++i) CHECK(kWirings[i].wiring == static_cast<GpuWiring>(i));
}

}  // namespace
}  // namespace orrery
