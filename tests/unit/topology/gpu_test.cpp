#include "topology/gpu.hpp"

#include <doctest/doctest.h>

using namespace orrery;

TEST_CASE("a GPU takes the figures of another attention library if it has them, and keeps its own otherwise") {
  KernelConstants own;
  own.attention_library = "cudnn";
  own.attention_forward_rate = 0.6;
  own.attention_libraries = {{"flash-2", 0.4, 0.3, 20, 90, 1.5, 0.25}};

  KernelConstants changed = own;
  CHECK(changed.use_attention_library("flash-2"));
  CHECK(changed.attention_library == "flash-2");
  CHECK(changed.attention_forward_rate == 0.4);
  CHECK(changed.attention_backward_rate == 0.3);
  CHECK(changed.attention_head_overhead == 20);
  CHECK(changed.attention_depth_overhead == 90);
  CHECK(changed.attention_forward_tail == 1.5);
  CHECK(changed.attention_backward_tail == 0.25);

  for (const char* same : {"auto", "cudnn"}) {
    KernelConstants kept = own;
    CHECK(kept.use_attention_library(same));
    CHECK(kept == own);
  }
  KernelConstants unknown = own;
  CHECK_FALSE(unknown.use_attention_library("flash-3"));
  CHECK(unknown == own);
}
