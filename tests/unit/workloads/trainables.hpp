// What may be trained, for tests that loop over it.
#pragma once

#include <string>
#include <vector>

#include "workloads/plan.hpp"
#include "workloads/trainable.hpp"

namespace orrery::testing {

struct NamedTrainable {
  std::string name;
  TrainableSpec spec;
};

inline TrainableSpec only(std::initializer_list<Part> parts) {
  TrainableSpec spec;
  spec.parts = TrainedParts::none();
  for (const Part part : parts) spec.parts.set(part, true);
  return spec;
}

inline Targets targets(std::initializer_list<Target> all) {
  Targets targets;
  for (const Target target : all) targets.add(target);
  return targets;
}

inline Targets all_linear() {
  return targets({Target::q, Target::k, Target::v, Target::o, Target::gate, Target::up, Target::down});
}

inline TrainableSpec lora(std::int64_t rank, Targets which, double dropout = 0) {
  TrainableSpec spec = only({});
  spec.lora = {rank, which, dropout, false};
  return spec;
}

// For models whose head has a table of its own and whose first two of at least three layers are frozen in some.
inline std::vector<NamedTrainable> trainables() {
  std::vector<NamedTrainable> all{{"all", {}}};
  all.push_back({"attention", only({Part::attention})});
  all.push_back({"mlp", only({Part::mlp})});
  all.push_back({"norms", only({Part::norms})});
  all.push_back({"head", only({Part::head})});
  all.push_back({"embedding", only({Part::embedding})});
  TrainableSpec upper = only({Part::attention, Part::mlp, Part::norms, Part::head});
  upper.frozen_layers = {{0, 1}};
  all.push_back({"upper layers", upper});
  all.push_back({"lora q v", lora(4, targets({Target::q, Target::v}))});
  all.push_back({"lora o", lora(4, targets({Target::o}), 0.1)});
  all.push_back({"lora all", lora(4, all_linear(), 0.05)});
  TrainableSpec upper_lora = lora(4, all_linear());
  upper_lora.frozen_layers = {{0, 1}};
  upper_lora.parts.set(Part::norms, true);
  all.push_back({"lora of upper layers, and norms", upper_lora});
  return all;
}

}  // namespace orrery::testing
