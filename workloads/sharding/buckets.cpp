#include "workloads/sharding/buckets.hpp"

#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

std::vector<Bucket> gradient_buckets(const Stage& stage, std::int64_t first_limit, std::int64_t limit) {
  std::vector<Bucket> buckets;
  Bucket of_sort[2];  // dense, experts
  const auto close_bucket = [&](Bucket& open) {
    if (!open.parameters.empty()) buckets.push_back(std::exchange(open, {}));
  };
  for (std::size_t i = stage.parameters.size(); i-- > 0;) {
    if (!stage.parameters[i].trained) continue;
    Bucket& open = of_sort[stage.parameters[i].expert ? 1 : 0];
    const auto close = [&] { close_bucket(open); };
    if (!open.parameters.empty() && stage.chunk_of_parameter[i] != stage.chunk_of_parameter[open.parameters.back()]) {
      close();
    }
    open.parameters.push_back(i);
    open.elements += stage.parameters[i].elements;
    if (open.elements >= (buckets.empty() ? first_limit : limit)) close();
  }
  for (Bucket& open : of_sort) close_bucket(open);
  return buckets;
}

BucketTracker::BucketTracker(std::vector<Bucket> buckets, std::size_t parameters)
    : buckets_(std::move(buckets)), bucket_of_(parameters, 0) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const std::size_t p : buckets_[b].parameters) bucket_of_[p] = b;
    missing_.push_back(buckets_[b].parameters.size());
  }
}

bool BucketTracker::complete(std::size_t parameter) {
  std::size_t& missing = missing_[bucket_of_[parameter]];
  ORRERY_CHECK(missing > 0, "a gradient is complete once", parameter);
  return --missing == 0;
}

}  // namespace orrery
