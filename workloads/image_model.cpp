#include "workloads/image_model.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace orrery {

namespace {

// Of a bottleneck's last convolution to its middle one (torchvision: Bottleneck.expansion).
constexpr std::int64_t kExpansion = 4;

std::int64_t with_norm(const Convolution& c) { return c.weights() + 2 * c.out; }

template <class Visit>
void for_each_convolution(const Bottleneck& block, Visit&& visit) {
  visit(block.reduce);
  visit(block.middle);
  visit(block.expand);
  if (block.shortcut) visit(*block.shortcut);
}

// What `of` comes to over all convolutions of a resnet.
template <class Of>
std::int64_t over_convolutions(const ModelSpec& m, Of&& of) {
  std::int64_t sum = of(stem_convolution(m));
  const std::vector<Bottleneck> sorts = bottleneck_sorts(m);
  for (std::size_t stage = 0; stage < m.blocks.size(); ++stage) {
    for_each_convolution(sorts[2 * stage], [&](const Convolution& c) { sum += of(c); });
    for_each_convolution(sorts[2 * stage + 1], [&](const Convolution& c) { sum += (m.blocks[stage] - 1) * of(c); });
  }
  return sum;
}

}  // namespace

std::int64_t Convolution::read_pixels() const { return std::min(in_pixels(), out_pixels() * kernel * kernel); }

Convolution stem_convolution(const ModelSpec& m) { return {"stem", m.channels, m.width, 7, 2, m.image_size}; }

std::int64_t stem_size(const ModelSpec& m) { return (stem_convolution(m).out_size() + 1) / 2; }

std::vector<Bottleneck> bottleneck_sorts(const ModelSpec& m) {
  std::vector<Bottleneck> sorts;
  std::int64_t size = stem_size(m);
  std::int64_t in = m.width;
  std::int64_t width = m.width;
  for (std::size_t stage = 0; stage < m.blocks.size(); ++stage) {
    const std::int64_t stride = stage == 0 ? 1 : 2;
    const std::int64_t out = kExpansion * width;
    Bottleneck first;
    first.reduce = {"reduce", in, width, 1, 1, size};
    first.middle = {"middle", width, width, 3, stride, size};
    first.shortcut = Convolution{"shortcut", in, out, 1, stride, size};
    size = first.middle.out_size();
    first.expand = {"expand", width, out, 1, 1, size};
    Bottleneck other;
    other.reduce = {"reduce", out, width, 1, 1, size};
    other.middle = {"middle", width, width, 3, 1, size};
    other.expand = first.expand;
    sorts.push_back(std::move(first));
    sorts.push_back(std::move(other));
    in = out;
    width *= 2;
  }
  return sorts;
}

std::size_t bottleneck_sort(const ModelSpec& m, std::int64_t layer) {
  std::size_t stage = 0;
  while (layer >= m.blocks[stage]) layer -= m.blocks[stage++];
  return 2 * stage + (layer > 0 ? 1 : 0);
}

std::int64_t final_channels(const ModelSpec& m) {
  return kExpansion * (m.width << (static_cast<std::int64_t>(m.blocks.size()) - 1));
}

std::int64_t final_size(const ModelSpec& m) { return bottleneck_sorts(m).back().expand.out_size(); }

std::int64_t patches(const ModelSpec& m) {
  const std::int64_t side = m.image_size / m.patch;
  return side * side;
}

std::int64_t tokens_per_image(const ModelSpec& m) {
  return m.kind == ModelKind::vit ? patches(m) + (m.class_token ? 1 : 0) : 1;
}

std::int64_t image_values(const ModelSpec& m) { return m.channels * m.image_size * m.image_size; }

std::int64_t convolution_parameters(const ModelSpec& m) {
  return over_convolutions(m, with_norm) + (final_channels(m) + 1) * m.classes;
}

std::int64_t image_end_parameters(const ModelSpec& m) {
  const std::int64_t embedding = (m.channels * m.patch * m.patch + 1) * m.hidden;
  const std::int64_t tokens = (tokens_per_image(m) + (m.class_token ? 1 : 0)) * m.hidden;  // positions, class token
  return embedding + tokens + (m.hidden + 1) * m.classes;
}

std::int64_t image_multiply_adds(const ModelSpec& m) {
  if (m.kind == ModelKind::resnet) {
    return over_convolutions(m, [](const Convolution& c) { return c.multiply_adds(); }) + final_channels(m) * m.classes;
  }
  const std::int64_t s = tokens_per_image(m);
  const std::int64_t layer =
      s * (attention_matrices(m) + mlp_matrices(m, m.ffn_hidden)) + 2 * s * s * m.heads * m.head_dim;
  return image_values(m) * m.hidden + m.layers * layer + m.hidden * m.classes;
}

Problems check_images(const ModelSpec& m) {
  Problems problems;
  const auto wrong = [&](std::string key, std::string message, std::string note) {
    problems.push_back({"model." + std::move(key), std::move(message), std::move(note)});
  };
  for (const auto& [key, value] :
       {std::pair{"image_size", m.image_size}, std::pair{"channels", m.channels}, std::pair{"classes", m.classes},
        std::pair{"patch", m.patch}, std::pair{"width", m.width}}) {
    if (value < 1) wrong(key, fmt::format("{} is {}", key, value), "at least 1");
  }
  if (!problems.empty()) return problems;
  if (m.kind == ModelKind::vit) {
    if (m.image_size % m.patch != 0) {
      wrong("patch",
            fmt::format("an image of {} pixels a side has no whole number of patches of {}", m.image_size, m.patch),
            fmt::format("nearest valid image_size: {}, {}", std::max(m.patch, m.image_size / m.patch * m.patch),
                        (m.image_size / m.patch + 1) * m.patch));
    }
    return problems;
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < m.blocks.size(); ++i) {
    sum += m.blocks[i];
    if (m.blocks[i] < 1) wrong(fmt::format("blocks[{}]", i), "a stage has no blocks", "at least 1");
  }
  constexpr std::size_t kStagesMost = 8;
  if (m.blocks.empty() || m.blocks.size() > kStagesMost) {
    wrong("blocks", fmt::format("{} stages", m.blocks.size()), fmt::format("from 1 to {}", kStagesMost));
  } else if (m.layers != sum) {
    wrong("layers", fmt::format("the stages have {} blocks, not {}", sum, m.layers), "leave it out");
  }
  return problems;
}

}  // namespace orrery
