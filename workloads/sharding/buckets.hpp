// Gradients of what is trained travel in buckets, filled in the reverse of the parameters' order, which is about the
// order in which the backward pass completes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/emit/stage.hpp"

namespace orrery {

struct Bucket {
  std::vector<std::size_t> parameters;  // indices into the stage's list
  std::int64_t elements = 0;
};

// A bucket is closed by the parameter that brings it to its limit (the limit may be passed by that parameter), as both
// PyTorch (compute_bucket_assignment_by_size in reducer.cpp) and Megatron-LM (param_and_grad_buffer.py) do it. The
// first bucket has a limit of its own. Limits are in elements; buckets never span model chunks, nor experts and others.
[[nodiscard]] std::vector<Bucket> gradient_buckets(const Stage& stage, std::int64_t first_limit, std::int64_t limit);

// Counts down what is missing from each bucket.
class BucketTracker {
 public:
  BucketTracker(std::vector<Bucket> buckets, std::size_t parameters);

  [[nodiscard]] std::span<const Bucket> buckets() const { return buckets_; }
  [[nodiscard]] std::size_t bucket_of(std::size_t parameter) const { return bucket_of_[parameter]; }
  // Notes a complete gradient; true when it completes its bucket.
  bool complete(std::size_t parameter);

 private:
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::size_t> missing_;
};

}  // namespace orrery
