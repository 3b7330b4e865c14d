#include <array>

#include "workloads/sharding/strategy.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr double kMostBytes = 1ULL << 40;
constexpr double kMostElements = 1e12;

constexpr std::array kReplicatedOptions{
    OptionDoc{"bucket", "bytes", "25 MiB", 1, kMostBytes, "gradients reduced at a time (bucket_cap_mb)"},
    OptionDoc{"first_bucket", "bytes", "1 MiB", 1, kMostBytes, "the same for the first, so that it starts early"},
    OptionDoc{"bucket_elements", "integer", "0", 0, kMostElements,
              "bucket size in elements, in place of both (Megatron-LM); 0: by bytes"},
    OptionDoc{"overlap_gradient_reduction", "boolean", "true", 0, 0, "reduce beside the backward pass"},
    OptionDoc{"gradients_are_buckets", "boolean", "true", 0, 0,
              "gradients live in the buckets (gradient_as_bucket_view, Megatron-LM's buffer); false: copies"},
};

constexpr std::array kZero1Options{
    OptionDoc{"bucket_elements", "integer", "0", 0, kMostElements,
              "bucket size in elements; 0: max(40e6, 1e6 x replicas), as Megatron-LM"},
    OptionDoc{"overlap_gradient_reduction", "boolean", "true", 0, 0, "scatter gradients beside the backward pass"},
    OptionDoc{"overlap_parameter_gather", "boolean", "true", 0, 0, "gather parameters beside the forward pass"},
};

constexpr std::array kRows{
    ShardingRow{{"none", "every replica holds everything; gradients are all-reduced (DDP)", kReplicatedOptions},
                make_replicated,
                false},
    ShardingRow{{"zero1", "optimizer state split over replicas (ZeRO stage 1, Megatron's distributed optimizer)",
                 kZero1Options},
                make_zero1,
                true},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> sharding_rows() { return kPublicRows; }

const ShardingRow* find_sharding(std::string_view name) { return find_in(kRows, name); }

}  // namespace orrery
