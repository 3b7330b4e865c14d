// Image models: published parameter and operation counts, the kernels of convolutions, what blocks keep.
#include "workloads/image_model.hpp"

#include <doctest/doctest.h>

#include "tests/unit/workloads/catalog.hpp"
#include "tests/unit/workloads/plans.hpp"
#include "workloads/flops.hpp"
#include "workloads/image_layer.hpp"
#include "workloads/layer.hpp"
#include "workloads/operators/convolution.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

OperatorShape shape_of(const ModelSpec& model, std::int64_t images) {
  OperatorShape shape;
  shape.model = model;
  shape.sequence = tokens_per_image(model);
  shape.micro_batch = images;
  shape.storage = storage_format(PrecisionRecipe::bf16, false);
  return shape;
}

const Step* step_named(const KernelPool& pool, const std::vector<Step>& steps, const char* name) {
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::kernel && pool[step.kernel].name == name) return &step;
  }
  return nullptr;
}

double flops_of(const KernelPool& pool, const std::vector<Step>& steps, KernelKind kind) {
  double sum = 0;
  for (const Step& step : steps) {
    if (step.kind != Step::Kind::kernel || pool[step.kernel].kind != kind) continue;
    sum += pool[step.kernel].flops.count();
  }
  return sum;
}

}  // namespace

TEST_CASE("parameters of image models equal the published ones") {
  // torchvision's tables of weights (num_params), exactly. ResNet-101 and -152 have ResNet-50's stages with other
  // numbers of blocks.
  ModelSpec deeper = catalog_model("resnet-50");
  CHECK(parameters(deeper) == 25'557'032);
  deeper.blocks = {3, 4, 23, 3};
  deeper.layers = 33;
  CHECK(parameters(deeper) == 44'549'160);
  deeper.blocks = {3, 8, 36, 3};
  deeper.layers = 50;
  CHECK(parameters(deeper) == 60'192'808);
  CHECK(parameters(catalog_model("vit-b-16")) == 86'567'656);
  CHECK(parameters(catalog_model("vit-l-16")) == 304'326'632);
  ModelSpec huge = catalog_model("vit-500m");  // and with all its layers it is ViT-H/14
  huge.layers = 32;
  CHECK(static_cast<double>(parameters(huge)) == doctest::Approx(632e6).epsilon(0.001));
  CHECK(static_cast<double>(parameters(catalog_model("vit-500m"))) == doctest::Approx(5e8).epsilon(0.02));
  for (const char* name : {"resnet-50", "resnet-152-x3", "vit-b-16", "vit-l-16", "vit-500m"}) {
    CAPTURE(name);
    CHECK(check(catalog_model(name)).empty());
    CHECK(active_parameters(catalog_model(name)) == parameters(catalog_model(name)));
  }
}

TEST_CASE("ViT-B/16's parameters, part by part") {
  // Patches (3 x 16^2 + 1) h, class token h, positions 197 h, layers 12 (12 h^2 + 13 h), norm 2 h, head 1001 terms.
  const std::int64_t h = 768;
  CHECK(parameters(catalog_model("vit-b-16")) ==
        769 * h + h + 197 * h + 12 * (12 * h * h + 13 * h) + 2 * h + 1000 * (h + 1));
}

TEST_CASE("multiply-adds of image models are the published ones") {
  // ResNet-50 at 224: stem 112^2 x 64 x 147 = 118,013,952. Stage 1 at 56^2 = 3,136 pixels: 4,096 + 36,864 + 16,384 +
  // 16,384 and twice 16,384 + 36,864 + 16,384 make 212,992 a pixel. Each later stage's first block 372,506,624, its
  // others 218,365,952: 3, 5 and 2 of them. Classes 2,048,000. Together 4,089,184,256: the published 4.09 G.
  const std::int64_t stages = 3136 * 212'992 + 3 * 372'506'624 + (3 + 5 + 2) * 218'365'952LL;
  CHECK(118'013'952 + stages + 2'048'000 == 4'089'184'256);
  CHECK(image_multiply_adds(catalog_model("resnet-50")) == 4'089'184'256);
  // ViT-B/16: 197 tokens x 12 layers x 12 h^2, attention 12 x 2 x 197^2 h, patches 196 x 768 h, classes 1000 h.
  const std::int64_t h = 768;
  CHECK(image_multiply_adds(catalog_model("vit-b-16")) ==
        197 * 12 * 12 * h * h + 12 * 2 * 197 * 197 * h + 196 * 768 * h + 1000 * h);
  // 17.58 G (Touvron et al. 2021, table 5: counted with norms and softmax), 17.56 and 61.55 G (torchvision).
  CHECK(static_cast<double>(image_multiply_adds(catalog_model("vit-b-16"))) == doctest::Approx(17.58e9).epsilon(0.002));
  CHECK(static_cast<double>(image_multiply_adds(catalog_model("vit-l-16"))) == doctest::Approx(61.55e9).epsilon(0.001));
  CHECK(forward_flops(catalog_model("resnet-50"), 1).count() == 2.0 * 4'089'184'256);
  CHECK(model_flops(catalog_model("resnet-50"), 1, 256).count() == 3 * 256 * 2.0 * 4'089'184'256);
}

TEST_CASE("a convolution is a product of the same multiply-adds in all three directions") {
  // 3 x 3 with stride 2, 128 to 128 channels, 56 to 28 pixels, 4 images: m n k = 4 x 28^2 x 128 x 128 x 9 each.
  const OperatorShape shape = shape_of(resnet({1}, 64), 4);
  const Convolution c{"c", 128, 128, 3, 2, 56};
  const Kernel forward = convolution_kernel(shape, c, ConvolutionPart::forward);
  CHECK(forward.m == 4 * 28 * 28);
  CHECK(forward.n == 128);
  CHECK(forward.k == 9 * 128);
  const Kernel input = convolution_kernel(shape, c, ConvolutionPart::input_gradient);
  CHECK(input.m == 4 * 56 * 56);
  CHECK(input.n == 128);
  CHECK(input.k == 9 * 128 / 4);
  const Kernel weight = convolution_kernel(shape, c, ConvolutionPart::weight_gradient);
  CHECK(weight.m == 9 * 128);
  CHECK(weight.n == 128);
  CHECK(weight.k == 4 * 28 * 28);
  for (const Kernel& k : {forward, input, weight}) {
    CHECK(k.flops.count() == 2.0 * static_cast<double>(k.m * k.n * k.k));
    CHECK(k.row_multiple == 128);
    // Two bytes: the input, the output and the weights once each; nothing is unfolded.
    CHECK(k.bytes.count() == 2 * (4 * 56 * 56 * 128 + 4 * 28 * 28 * 128 + 9 * 128 * 128));
  }
}

TEST_CASE("a 1 x 1 convolution with a stride reads only the pixels that it uses") {
  const OperatorShape shape = shape_of(resnet({1}, 64), 2);
  const Convolution c{"c", 256, 512, 1, 2, 56};
  const Kernel forward = convolution_kernel(shape, c, ConvolutionPart::forward);
  CHECK(forward.bytes.count() == 2 * (2 * 28 * 28 * 256 + 2 * 28 * 28 * 512 + 256 * 512));
  const Kernel input = convolution_kernel(shape, c, ConvolutionPart::input_gradient);
  CHECK(input.m == 2 * 28 * 28);  // the others' gradients are zeros, which are written all the same
  CHECK(input.bytes.count() == 2 * (2 * 56 * 56 * 256 + 2 * 28 * 28 * 512 + 256 * 512));
}

TEST_CASE("a bottleneck keeps the inputs of its convolutions and norms") {
  // Of p pixels and b images, with 4 w channels outside and w inside, in elements per pixel: the convolutions' inputs
  // 4 w, w, w, the norms' inputs w, w, 4 w: 12 w. With a shortcut from w channels: its norm's input is 4 w more and the
  // first convolution's w in place of 4 w. Statistics: 8 bytes a channel of each norm.
  const std::int64_t b = 4;
  const std::int64_t w = 64;
  const std::int64_t p = 56 * 56;
  const ModelSpec model = resnet({2}, w, 224);
  const std::vector<Bottleneck> sorts = bottleneck_sorts(model);
  const OperatorShape shape = shape_of(model, b);
  KernelPool pool;
  CHECK(bottleneck_block(pool, shape, sorts[1], Recompute::none).saved.count() == 2 * b * p * 12 * w + 8 * 6 * w);
  CHECK(bottleneck_block(pool, shape, sorts[0], Recompute::none).saved.count() ==
        2 * b * p * (12 - 3 + 4) * w + 8 * 10 * w);
  CHECK(bottleneck_block(pool, shape, sorts[1], Recompute::full).saved.count() == 2 * b * p * 4 * w);
}

TEST_CASE("batch norm and ReLU are passes over what they work on") {
  // Unfused, in passes over a norm's input: forward 1 + 2, ReLU 2; backward 2 + 3, ReLU 3. Fused the ReLU costs nothing
  // forward, and the sign of its output is read twice backward.
  const ModelSpec model = resnet({2}, 64, 224);
  OperatorShape shape = shape_of(model, 2);
  const std::int64_t pass = 2 * 2 * 56 * 56 * 64;
  const auto bytes_of = [&](const KernelPool& pool, const std::vector<Step>& steps) {
    std::int64_t sum = 0;
    for (const Step& step : steps) {
      if (step.kind != Step::Kind::kernel) continue;
      const Kernel& kernel = pool[step.kernel];
      if (kernel.name.rfind("reduce_norm", 0) == 0) sum += kernel.bytes.count();
    }
    return sum;
  };
  for (const bool fused : {false, true}) {
    CAPTURE(fused);
    shape.fused = fused;
    KernelPool pool;
    const Block block = bottleneck_block(pool, shape, bottleneck_sorts(model)[1], Recompute::none);
    CHECK(bytes_of(pool, block.forward) == (fused ? 3 : 5) * pass);
    CHECK(bytes_of(pool, block.backward) == (fused ? 7 : 8) * pass);
  }
}

TEST_CASE("the first layer of an image model makes no gradient of the image") {
  for (const ModelSpec& model : {vit(2, 64, 4), resnet({1, 1}, 8)}) {
    KernelPool pool;
    const Block block = image_embedding_block(pool, shape_of(model, 2));
    const double forward = flops_of(pool, block.forward, KernelKind::gemm);
    CHECK(forward > 0);
    CHECK(flops_of(pool, block.backward, KernelKind::gemm) == forward);
    CHECK(step_named(pool, block.backward, "stem.input_gradient") == nullptr);
    CHECK(step_named(pool, block.backward, "patches.input_gradient") == nullptr);
  }
}

TEST_CASE("blocks of image models have the model's parameters") {
  for (const char* name : {"resnet-50", "vit-b-16", "resnet-152-x3"}) {
    CAPTURE(name);
    const ModelSpec model = catalog_model(name);
    const OperatorShape shape = shape_of(model, 1);
    KernelPool pool;
    const auto elements = [](const Block& block) {
      std::int64_t sum = 0;
      for (const ParameterTensor& p : block.parameters) sum += p.elements;
      return sum;
    };
    std::int64_t sum = elements(image_embedding_block(pool, shape)) + elements(image_head_block(pool, shape));
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      if (model.kind == ModelKind::vit) {
        sum += elements(transformer_layer(pool, shape, Recompute::none));
      } else {
        const Bottleneck sizes = bottleneck_sorts(model)[bottleneck_sort(model, layer)];
        sum += elements(bottleneck_block(pool, shape, sizes, Recompute::none));
      }
    }
    CHECK(sum == parameters(model));
  }
}

TEST_CASE("attention over an image sees the whole of it") {
  // Twice a causal layer's attention FLOPs at the same length: 4 s^2 h per sequence and layer forward.
  const ModelSpec model = vit(1, 64, 4);  // 16 patches and a class token
  OperatorShape shape = shape_of(model, 3);
  KernelPool pool;
  const Block block = transformer_layer(pool, shape, Recompute::none);
  CHECK(flops_of(pool, block.forward, KernelKind::attention_forward) == 3 * 4.0 * 17 * 17 * 64);
  shape.attention = AttentionKind::plain;
  shape.fused = false;
  const Block plain = transformer_layer(pool, shape, Recompute::none);
  CHECK(step_named(pool, plain.forward, "attention.mask") == nullptr);
  CHECK(step_named(pool, plain.forward, "attention.scale") != nullptr);
}

TEST_CASE("image models that contradict themselves are refused") {
  ModelSpec model = vit(2, 64, 4, 30, 8);
  REQUIRE(check(model).size() == 1);
  CHECK(check(model)[0].key == "model.patch");
  CHECK(check(model)[0].note == "nearest valid image_size: 24, 32");
  model = resnet({2, 0}, 8);
  REQUIRE(check(model).size() == 1);
  CHECK(check(model)[0].key == "model.blocks[1]");
  model = resnet({}, 8);
  CHECK(check(model).size() == 1);
  model = resnet({2, 2}, 0);
  CHECK(check(model).size() == 1);
}
