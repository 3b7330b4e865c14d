#include "workloads/stage_layers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

namespace orrery {

namespace {

constexpr const char* kFirst = "parallelism.decoder_first_pipeline_num_layers";
constexpr const char* kLast = "parallelism.decoder_last_pipeline_num_layers";

// The nearest numbers that divide `whole`, below and above `value`.
std::string nearest_divisors(std::int64_t value, std::int64_t whole) {
  std::string text;
  for (std::int64_t below = std::min(value - 1, whole); below >= 1 && text.empty(); --below) {
    if (whole % below == 0) text = fmt::format("{}", below);
  }
  for (std::int64_t above = value + 1; above <= whole; ++above) {
    if (whole % above != 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", above);
    break;
  }
  return text.empty() ? text : "nearest valid: " + text;
}

class Dealer {
 public:
  Dealer(std::int64_t layers, const ParallelismSpec& parallelism, const StageGrid& grid)
      : layers_(layers), p_(parallelism), grid_(grid) {}

  Result<std::vector<std::int64_t>> run() && {
    const bool counted = p_.account_for_embedding || p_.account_for_loss;
    const bool own_ends = p_.first_stage_layers > 0 || p_.last_stage_layers > 0;
    if (!p_.stage_layers.empty()) {
      if (counted || own_ends) add("parallelism.stage_layers", "stage_layers says how all layers are dealt out", "");
      by_list();
    } else if (own_ends) {
      if (counted) {
        add(p_.first_stage_layers > 0 ? kFirst : kLast,
            "an end with its own number of layers leaves nothing to account for", "give one or the other");
      } else {
        by_ends();
      }
    } else {
      evenly();
    }
    if (!problems_.empty()) return std::move(problems_);
    return std::move(dealt_);
  }

 private:
  void add(std::string key, std::string message, std::string note) {
    problems_.push_back({std::move(key), std::move(message), std::move(note)});
  }

  // An end of the pipeline may do with the embedding or the head alone.
  void by_list() {
    const std::vector<std::int64_t>& given = p_.stage_layers;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      sum += given[i];
      const bool end = i == 0 || i + 1 == given.size();
      if (given[i] >= (end ? 0 : 1)) continue;
      add(fmt::format("parallelism.stage_layers[{}]", i),
          fmt::format("{} layers leave the stage nothing to do", given[i]), "at least 1 between the ends");
    }
    if (static_cast<std::int64_t>(given.size()) != grid_.virtual_stages) {
      add("parallelism.stage_layers",
          fmt::format("{} numbers of layers for {} virtual stages", given.size(), grid_.virtual_stages),
          "one for each, in the order of the model");
    } else if (sum != layers_) {
      add("parallelism.stage_layers", fmt::format("the stages have {} layers, the model has {}", sum, layers_), "");
    }
    dealt_ = given;
  }

  void evenly() {
    const std::int64_t counted = (p_.account_for_embedding ? 1 : 0) + (p_.account_for_loss ? 1 : 0);
    const std::int64_t all = layers_ + counted;
    if (all % grid_.virtual_stages != 0) return uneven(all, counted);
    dealt_.assign(static_cast<std::size_t>(grid_.virtual_stages), all / grid_.virtual_stages);
    if (p_.account_for_embedding) --dealt_.front();
    if (p_.account_for_loss) --dealt_.back();
    if (dealt_.front() < 0 || (grid_.virtual_stages == 1 && layers_ < 1)) {
      add("parallelism.pipeline", fmt::format("{} layers are too few", layers_), "");
    }
  }

  void uneven(std::int64_t all, std::int64_t counted) {
    const std::int64_t p = grid_.stages;
    const std::int64_t v = grid_.chunks;
    const std::string with = counted == 0                                      ? ""
                             : p_.account_for_embedding && p_.account_for_loss ? ", embedding and head counted,"
                             : p_.account_for_embedding                        ? ", embedding counted,"
                                                                               : ", head counted,";
    if (all % p != 0 || v == 1) {
      std::string note = nearest_divisors(p, all / v * v == all ? all / v : 0);
      add("parallelism.pipeline",
          fmt::format("{} layers{} cannot be split evenly over {} stages{}", all, with, p,
                      v > 1 ? fmt::format(" of {} chunks", v) : std::string()),
          std::move(note));
      return;
    }
    add("parallelism.schedule.virtual_stages",
        fmt::format("{} layers per stage{} cannot be split evenly into {} chunks", all / p, with, v),
        nearest_divisors(v, all / p));
  }

  // Megatron-LM divides the layers of each stage by its chunks.
  void by_ends() {
    const std::int64_t first = p_.first_stage_layers;
    const std::int64_t last = p_.last_stage_layers;
    const char* key = first > 0 ? kFirst : kLast;
    const std::int64_t ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
    const std::int64_t others = grid_.stages - ends;
    if (!grid_.looped) {
      add(key, "the schedule's first and last stage are not the ends of the model alone", "use stage_layers");
      return;
    }
    if (others < 0 || (others == 0 && first + last != layers_) || first + last > layers_) {
      add(key, fmt::format("the ends have {} layers, the model has {}", first + last, layers_), "");
      return;
    }
    const std::int64_t rest = layers_ - first - last;
    if (others > 0 && (rest == 0 || rest % (others * grid_.chunks) != 0)) {
      add(key,
          fmt::format("{} layers between the ends cannot be split evenly over {} stages{}", rest, others,
                      grid_.chunks > 1 ? fmt::format(" of {} chunks", grid_.chunks) : std::string()),
          "");
      return;
    }
    for (const auto& [name, number] : {std::pair{kFirst, first}, std::pair{kLast, last}}) {
      if (number % grid_.chunks == 0) continue;
      add(name, fmt::format("{} layers cannot be split evenly into {} chunks", number, grid_.chunks), "");
    }
    const std::int64_t each = others > 0 ? rest / others : 0;
    for (std::int64_t v = 0; v < grid_.virtual_stages; ++v) {
      const std::int64_t stage = v % grid_.stages;
      const bool own_first = stage == 0 && first > 0;
      const bool own_last = stage == grid_.stages - 1 && last > 0;
      dealt_.push_back((own_first ? first : own_last ? last : each) / grid_.chunks);
    }
  }

  std::int64_t layers_;
  const ParallelismSpec& p_;
  const StageGrid& grid_;
  std::vector<std::int64_t> dealt_;
  Problems problems_;
};

}  // namespace

Result<std::vector<std::int64_t>> stage_layers(std::int64_t layers, const ParallelismSpec& parallelism,
                                               const StageGrid& grid) {
  return Dealer(layers, parallelism, grid).run();
}

}  // namespace orrery
