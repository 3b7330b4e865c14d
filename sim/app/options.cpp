#include "sim/app/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/base/check.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

// The whole text as a number in [least, most].
template <class T>
std::optional<T> whole_number(const std::string& text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
  return value;
}

std::optional<Problem> take_override(Arguments& arguments, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return Problem{"--set", fmt::format("'{}' is not key=value", text), "write it as in  --set parallelism.tensor=4"};
  }
  arguments.overrides.push_back({text.substr(0, equals), text.substr(equals + 1)});
  return std::nullopt;
}

std::optional<Problem> take_seed(Arguments& arguments, const std::string& text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (!whole_number<std::int64_t>(text, 0, kMost)) {
    return Problem{"--seed", fmt::format("'{}' is not a seed", text), "a whole number from 0"};
  }
  arguments.overrides.push_back({"simulation.seed", text});
  return std::nullopt;
}

std::optional<Problem> take_threads(Arguments& arguments, const std::string& text) {
  constexpr int kMost = 4096;
  const std::optional<int> threads = whole_number<int>(text, 1, kMost);
  if (!threads) {
    return Problem{"--threads", fmt::format("'{}' is not a number of threads", text),
                   fmt::format("a whole number from 1 to {}", kMost)};
  }
  arguments.threads = *threads;
  return std::nullopt;
}

std::optional<Problem> take_sample(Arguments& arguments, const std::string& text) {
  constexpr int kMost = 1'000'000;
  const std::optional<int> rows = whole_number<int>(text, 1, kMost);
  if (!rows) {
    return Problem{"--sample", fmt::format("'{}' is not a number of rows", text),
                   fmt::format("a whole number from 1 to {}", kMost)};
  }
  arguments.sample = *rows;
  return std::nullopt;
}

std::optional<Problem> take_bounds(Arguments& arguments, const std::string& text) {
  if (text.empty()) return Problem{"--bounds", "the name is empty", "a file, or none"};
  arguments.bounds = text;
  return std::nullopt;
}

std::optional<Problem> take_out(Arguments& arguments, const std::string& text) {
  if (text.empty()) return Problem{"--out", "the name is empty", ""};
  arguments.out = text;
  return std::nullopt;
}

std::optional<Problem> take_schedule(Arguments& arguments, const std::string& text) {
  if (text.empty()) return Problem{"--schedule", "the scenario's name is empty", ""};
  arguments.schedule = text;
  return std::nullopt;
}

std::optional<Problem> take_format(Arguments& arguments, const std::string& text) {
  arguments.format = text;
  return std::nullopt;
}

std::optional<Problem> take_model(Arguments& arguments, const std::string& text) {
  if (text.empty()) return Problem{"--model", "the name is empty", "write it as in  --model llama2-7b"};
  arguments.model = text;
  return std::nullopt;
}

std::optional<Problem> take_cluster(Arguments& arguments, const std::string& text) {
  if (text.empty()) return Problem{"--cluster", "the name is empty", "write it as in  --cluster dgx-a100-80gb x 4"};
  arguments.clusters.push_back(text);
  return std::nullopt;
}

// --cluster dgx-a100-80gb x 4
bool cluster_goes_on(const std::string& value, const std::string& next) {
  return next == "x" || (value.ends_with(" x") && whole_number<int>(next, 0, 1 << 30).has_value());
}

template <bool Arguments::*flag, bool value = true>
std::optional<Problem> set_flag(Arguments& arguments, const std::string&) {
  arguments.*flag = value;
  return std::nullopt;
}

constexpr std::array kOptions{
    OptionRow{"--set", "", "KEY=VALUE", "override a key of the scenario; may be repeated", take_override},
    OptionRow{"--schedule", "", "FILE", "draw the pipeline schedule of this scenario", take_schedule},
    OptionRow{"--out", "-o", "DIR", "write result files into this folder (import: the scenario into this file)",
              take_out},
    OptionRow{"--format", "", "NAME", "of the plan: deepspeed, megatron or torchtitan; else by its name and contents",
              take_format},
    OptionRow{"--model", "", "NAME", "what is trained: a catalogue name, or a path to a Hugging Face config.json",
              take_model},
    OptionRow{"--cluster", "", "NODE x N", "what it runs on: N of a catalogue's nodes; again for other kinds of nodes",
              take_cluster, cluster_goes_on},
    OptionRow{"--json", "", "", "print the result as JSON to standard output", set_flag<&Arguments::json>},
    OptionRow{"--seed", "", "N", "the same as --set simulation.seed=N", take_seed},
    OptionRow{"--threads", "-j", "N", "simulations at a time (all cores); one simulation has one", take_threads},
    OptionRow{"--no-fold", "", "", "play every rank, also those that behave alike: slower, the same result",
              set_flag<&Arguments::fold, false>},
    OptionRow{"--rows", "", "", "a line for each row, too", set_flag<&Arguments::rows>},
    OptionRow{"--sample", "", "N", "so many rows of each source, always the same ones", take_sample},
    OptionRow{"--bounds", "", "FILE", "how large errors may be; none: any (that of the repository, for its own rows)",
              take_bounds},
    OptionRow{"--bands", "", "", "simulate also what else rows may mean whose source leaves settings open",
              set_flag<&Arguments::bands>},
    OptionRow{"--collectives", "", "", "the tables are of collectives, as nccl-tests times them",
              set_flag<&Arguments::collectives>},
    OptionRow{"--kernels", "", "", "the tables are of kernels: products, fused attention, memory-bound ones",
              set_flag<&Arguments::kernels>},
    OptionRow{"--fitted", "", "", "list the constants that are fits, and what each was fitted on",
              set_flag<&Arguments::fitted>},
    OptionRow{"--quiet", "-q", "", "print results and errors only", set_flag<&Arguments::quiet>},
    OptionRow{"--verbose", "-v", "", "log what each pass makes", set_flag<&Arguments::verbose>},
    OptionRow{"--help", "-h", "", "show this help", set_flag<&Arguments::help>},
    OptionRow{"--version", "", "", "print the version", set_flag<&Arguments::version>},
};

class Parser {
 public:
  Parser(std::span<const std::string> words, std::span<const std::string_view> options) : words_(words) {
    for (const OptionRow& row : kOptions) {
      const bool always = row.name == "--help" || row.name == "--version";
      if (always || std::find(options.begin(), options.end(), row.name) != options.end()) known_.push_back(&row);
    }
  }

  Result<Arguments> parse() && {
    bool options_over = false;
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (options_over || word.size() < 2 || word[0] != '-') {
        arguments_.positional.push_back(word);
      } else if (word == "--") {
        options_over = true;
      } else {
        option(word);
      }
    }
    if (!problems_.empty()) return std::move(problems_);
    return std::move(arguments_);
  }

 private:
  void option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto found = std::find_if(known_.begin(), known_.end(),
                                    [&](const OptionRow* row) { return row->name == name || row->brief == name; });
    if (found == known_.end()) return unknown(name);
    const OptionRow& row = **found;
    std::string value;
    if (row.value.empty()) {
      if (equals != std::string::npos) return problem(name, "takes no value", "");
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (at_ < words_.size()) {
      value = words_[at_++];
    } else {
      return problem(name, "needs a value", fmt::format("write it as in  {} {}", row.name, row.value));
    }
    while (row.goes_on != nullptr && at_ < words_.size() && row.goes_on(value, words_[at_])) {
      value += " " + words_[at_++];
    }
    if (std::optional<Problem> wrong = row.apply(arguments_, value)) problems_.push_back(std::move(*wrong));
  }

  void unknown(const std::string& name) {
    std::vector<std::string> names;
    for (const OptionRow* row : known_) names.emplace_back(row->name);
    const std::string nearest = nearest_name(name, names);
    problem(name, "no such option",
            nearest.empty() ? "known: " + join(names) : fmt::format("did you mean {}?", nearest));
  }

  void problem(const std::string& key, std::string message, std::string note) {
    problems_.push_back({key, std::move(message), std::move(note)});
  }

  std::span<const std::string> words_;
  std::vector<const OptionRow*> known_;
  std::size_t at_ = 0;
  Arguments arguments_;
  Problems problems_;
};

}  // namespace

std::span<const OptionRow> option_rows() { return kOptions; }

const OptionRow& option_row(std::string_view name) {
  const auto* const found =
      std::find_if(kOptions.begin(), kOptions.end(), [&](const OptionRow& row) { return row.name == name; });
  ORRERY_CHECK(found != kOptions.end(), "commands name options that exist", name);
  return *found;
}

Result<Arguments> parse_arguments(std::span<const std::string> words, std::span<const std::string_view> options) {
  return Parser(words, options).parse();
}

}  // namespace orrery
