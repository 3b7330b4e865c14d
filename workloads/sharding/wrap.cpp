#include "workloads/sharding/wrap.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace orrery {

namespace {

// A node of the model's tree.
struct Node {
  WrapUnit::Level level = WrapUnit::Level::inner;
  std::vector<Node> children;
  std::vector<std::size_t> parameters;  // its own, of leaves
};

std::string_view leaf_name(const ParameterTensor& p) {
  const std::string_view name = p.name;
  return name.substr(0, name.rfind('.'));
}

// Groups neighbours with equal names under `to`.
template <class Name>
std::vector<Node> grouped(const std::vector<std::size_t>& parameters, Name&& name) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i == 0 || name(parameters[i]) != name(parameters[i - 1])) nodes.emplace_back();
    nodes.back().parameters.push_back(parameters[i]);
  }
  return nodes;
}

class Wrapper {
 public:
  Wrapper(const Stage& stage, Wrap wrap, std::int64_t least)
      : stage_(stage), wrap_(wrap), least_(least), taken_(stage.parameters.size(), false) {}

  std::vector<WrapUnit> run() && {
    for (std::int64_t chunk = 0; chunk < stage_.chunks; ++chunk) {
      const std::size_t first = units_.size();
      for (std::size_t u = 0; u < stage_.units.size(); ++u) {
        if (stage_.units[u].chunk == chunk) visit(u);
      }
      take_root(static_cast<std::int32_t>(chunk), first);
    }
    note_backward();
    return std::move(units_);
  }

 private:
  void visit(std::size_t stage_unit) {
    const Unit& unit = stage_.units[stage_unit];
    std::vector<std::size_t> parameters(unit.block->parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = unit.first_parameter + i;
    const bool layer = unit.layer >= 0;
    if (wrap_ == Wrap::size) {
      Node block = tree(parameters);
      block.level = layer ? WrapUnit::Level::block : WrapUnit::Level::inner;
      // Embedding and head are no modules of their own, but their leaves are.
      if (layer) {
        wrap_large(block, stage_unit);
      } else {
        for (const Node& child : block.children) wrap_large(child, stage_unit);
      }
    } else if (layer && wrap_ == Wrap::block) {
      make(parameters, WrapUnit::Level::block, stage_unit);
    } else if (layer) {
      for (const Node& part : grouped(parameters, [&](std::size_t p) { return stage_.parameters[p].module; })) {
        if (stage_.parameters[part.parameters.front()].module.empty()) continue;
        make(part.parameters, WrapUnit::Level::inner, stage_unit);
      }
    }
  }

  [[nodiscard]] Node tree(const std::vector<std::size_t>& parameters) const {
    Node block;
    block.children = grouped(parameters, [&](std::size_t p) { return stage_.parameters[p].module; });
    for (Node& part : block.children) {
      part.children = grouped(part.parameters, [&](std::size_t p) { return leaf_name(stage_.parameters[p]); });
      part.parameters.clear();
    }
    return block;
  }

  [[nodiscard]] std::vector<std::size_t> below(const Node& node) const {
    std::vector<std::size_t> all = node.parameters;
    for (const Node& child : node.children) {
      const std::vector<std::size_t> more = below(child);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  [[nodiscard]] std::int64_t elements(const std::vector<std::size_t>& parameters) const {
    std::int64_t sum = 0;
    for (const std::size_t p : parameters) sum += stage_.parameters[p].elements;
    return sum;
  }

  // torch/distributed/fsdp/wrap.py, _recursive_wrap with size_based_auto_wrap_policy. Returns the elements wrapped.
  std::int64_t wrap_large(const Node& node, std::size_t stage_unit) {
    const std::vector<std::size_t> all = below(node);
    const std::int64_t total = elements(all);
    if (total < least_) return 0;
    std::int64_t wrapped = 0;
    for (const Node& child : node.children) wrapped += wrap_large(child, stage_unit);
    if (total - wrapped < least_) return wrapped;
    make(all, node.level, stage_unit);
    return total;
  }

  // What of the units is trained, and which of them backward passes come to.
  void note_backward() {
    std::vector<bool> used(stage_.parameters.size(), false);
    for (const Unit& unit : stage_.units) {
      for (const Step& step : unit.block->backward) {
        for (const ParameterIndex i : step.needs) used[unit.first_parameter + static_cast<std::size_t>(i)] = true;
      }
    }
    for (WrapUnit& unit : units_) {
      for (const std::size_t p : unit.parameters) {
        if (stage_.parameters[p].trained) unit.trained += stage_.parameters[p].elements;
        unit.backward = unit.backward || used[p];
      }
    }
  }

  void make(const std::vector<std::size_t>& parameters, WrapUnit::Level level, std::size_t stage_unit) {
    for (const bool expert : {false, true}) {
      WrapUnit unit;
      unit.level = expert && level == WrapUnit::Level::block ? WrapUnit::Level::inner : level;
      unit.stage_unit = stage_unit;
      unit.chunk = stage_.units[stage_unit].chunk;
      unit.expert = expert;
      for (const std::size_t p : parameters) {
        if (taken_[p] || stage_.parameters[p].expert != expert) continue;
        taken_[p] = true;
        unit.parameters.push_back(p);
      }
      unit.elements = elements(unit.parameters);
      if (!unit.parameters.empty()) units_.push_back(std::move(unit));
    }
  }

  // What is left of the chunk whose units begin at `first`; then puts those in order of use.
  void take_root(std::int32_t chunk, std::size_t first) {
    const auto begin = units_.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, units_.end(),
              [](const WrapUnit& a, const WrapUnit& b) { return a.parameters.front() < b.parameters.front(); });
    // A teacher is a model of its own, with a root of its own.
    std::vector<WrapUnit> roots(3);  // dense, experts, teacher
    for (std::size_t p = 0; p < taken_.size(); ++p) {
      const ParameterTensor& parameter = stage_.parameters[p];
      if (taken_[p] || stage_.chunk_of_parameter[p] != chunk) continue;
      taken_[p] = true;
      WrapUnit& root = roots[parameter.teacher ? 2 : parameter.expert ? 1 : 0];
      root.parameters.push_back(p);
      root.elements += parameter.elements;
      root.expert = parameter.expert;
    }
    for (const std::size_t sort : std::array<std::size_t, 3>{1, 0, 2}) {
      WrapUnit& root = roots[sort];
      if (root.parameters.empty()) continue;
      root.chunk = chunk;
      units_.insert(units_.begin() + static_cast<std::ptrdiff_t>(first), std::move(root));
    }
  }

  const Stage& stage_;
  Wrap wrap_;
  std::int64_t least_;
  std::vector<bool> taken_;
  std::vector<WrapUnit> units_;
};

}  // namespace

std::vector<WrapUnit> wrap_units(const Stage& stage, Wrap wrap, std::int64_t least) {
  return Wrapper(stage, wrap, least).run();
}

}  // namespace orrery
