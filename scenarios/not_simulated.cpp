#include "scenarios/not_simulated.hpp"

namespace orrery {

namespace {

constexpr std::string_view kDecoders = "decoder transformers are, such as llama3-70b or mixtral-8x7b";

constexpr NotSimulated kValues[] = {
    {"training.precision", "mxfp8", "fp8 is, with delayed or block scaling (training.fp8)"},
    {"training.precision", "fp4", ""},
    {"training.optimizer", "muon", ""},
    {"cluster.fabric", "dragonfly*", ""},
    {"cluster.fabric", "torus*", ""},
    {"cluster.fabric", "2dtorus", ""},
    {"cluster.fabric", "3dtorus", ""},
    {"model", "bert*", kDecoders},  // encoders, and encoders with decoders
    {"model", "t5*", kDecoders},
    {"model", "mamba*", kDecoders},
};

constexpr NotSimulated kKeys[] = {
    {"model", "slidingwindow*", "attention is over the whole sequence"},
    {"model", "convolution*", "resnet-50 is an image model, or write kind: resnet"},
};

std::string plain(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (c == '-' || c == '_' || c == ' ') continue;
    letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return letters;
}

bool matches(std::string_view pattern, std::string_view letters) {
  if (!pattern.ends_with('*')) return pattern == letters;
  return letters.starts_with(pattern.substr(0, pattern.size() - 1));
}

template <std::size_t N>
const NotSimulated* find(const NotSimulated (&rows)[N], std::string_view key, std::string_view name) {
  constexpr std::size_t kLettersMost = 64;  // of any name here
  if (name.size() > kLettersMost) return nullptr;
  const std::string letters = plain(name);
  for (const NotSimulated& row : rows) {
    if (row.key == key && matches(row.name, letters)) return &row;
  }
  return nullptr;
}

}  // namespace

const NotSimulated* find_not_simulated(std::string_view key, std::string_view value) {
  for (const std::string_view part : {".kind", ".base"}) {
    if (key.ends_with(part)) key.remove_suffix(part.size());
  }
  return find(kValues, key, value);
}

const NotSimulated* find_key_not_simulated(std::string_view map_key, std::string_view name) {
  return find(kKeys, map_key, name);
}

}  // namespace orrery
