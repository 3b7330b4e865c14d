// Image models in scenarios: their keys, and what follows from them.
#include <doctest/doctest.h>

#include "support.hpp"
#include "workloads/image_model.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;

const std::string kImages = "training: {global_batch: 64, images: 1.28e6}\n";

Result<Scenario> with(const std::string& model, const std::string& training = kImages) {
  return load(kCluster + "model: " + model + "\n" + training);
}

}  // namespace

TEST_CASE("an image model by its keys, and the length of its sequences") {
  const auto vit = with("{kind: vit, layers: 2, hidden: 64, heads: 4}");
  CAPTURE(errors(vit));
  REQUIRE(vit.ok());
  CHECK(vit->model.kind == ModelKind::vit);
  CHECK(vit->model.attention_bias);
  CHECK(vit->model.norm == NormKind::layer_norm);
  CHECK(vit->model.ffn_hidden == 256);
  CHECK(vit->training.sequence_length == 197);  // 14 x 14 patches and the class token
  CHECK(vit->training.images == 1.28e6);
  const auto mean = with("{kind: vit, layers: 2, hidden: 64, heads: 4, image_size: 384, class_token: false}");
  REQUIRE(mean.ok());
  CHECK(mean->training.sequence_length == 576);
  const auto net = with("{kind: resnet, blocks: [3, 4, 6, 3]}");
  CAPTURE(errors(net));
  REQUIRE(net.ok());
  CHECK(net->model.layers == 16);
  CHECK(parameters(net->model) == 25'557'032);
}

TEST_CASE("the shipped image models are what their files say, and can be changed") {
  const auto real = [](const std::string& text) { return load_scenario_text(text, "test.yaml", {{}, kSource}); };
  const std::string cluster = "cluster: {node: dgx-a100-80gb, nodes: 1}\n";
  const auto resnet = real(cluster + "model: resnet-50\n" + kImages);
  CAPTURE(errors(resnet));
  REQUIRE(resnet.ok());
  CHECK(parameters(resnet->model) == 25'557'032);
  const auto vit = real(cluster + "model: vit-b-16\n" + kImages);
  REQUIRE(vit.ok());
  CHECK(parameters(vit->model) == 86'567'656);
  const auto deeper = real(cluster + "model: {base: resnet-50, blocks: [3, 4, 23, 3]}\n" + kImages);
  CAPTURE(errors(deeper));
  REQUIRE(deeper.ok());
  CHECK(parameters(deeper->model) == 44'549'160);
  const auto larger = real(cluster + "model: {base: vit-b-16, image_size: 384}\n" + kImages);
  REQUIRE(larger.ok());
  CHECK(larger->training.sequence_length == 577);
}

TEST_CASE("a length of sequences may be given where it is the images' own") {
  CHECK(with("{kind: vit, layers: 2, hidden: 64, heads: 4}", "training: {global_batch: 64, sequence_length: 197}\n")
            .ok());
  CHECK_FALSE(
      with("{kind: vit, layers: 2, hidden: 64, heads: 4}", "training: {global_batch: 64, sequence_length: 196}\n")
          .ok());
  CHECK_FALSE(with("small", "training: {global_batch: 64}\n").ok());
}

}  // namespace orrery
