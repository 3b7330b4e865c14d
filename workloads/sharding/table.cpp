#include <array>

#include "workloads/sharding/deepspeed.hpp"
#include "workloads/sharding/fsdp.hpp"
#include "workloads/sharding/strategy.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr double kMostBytes = 1ULL << 40;
constexpr double kMostElements = 1e12;
constexpr double kMostRanks = 1e6;

constexpr std::array kReplicatedOptions{
    OptionDoc{"bucket", "bytes", "25 MiB", 1, kMostBytes, "gradients reduced at a time (bucket_cap_mb)"},
    OptionDoc{"first_bucket", "bytes", "1 MiB", 1, kMostBytes, "the same for the first, so that it starts early"},
    OptionDoc{"bucket_elements", "integer", "0", 0, kMostElements,
              "bucket size in elements, in place of both (Megatron-LM); 0: by bytes"},
    OptionDoc{"overlap_gradient_reduction", "boolean", "true", 0, 0, "reduce beside the backward pass"},
    OptionDoc{"gradients_are_buckets", "boolean", "true", 0, 0,
              "gradients live in the buckets (gradient_as_bucket_view, Megatron-LM's buffer); false: copies"},
};

constexpr std::array kDistributedOptimizerOptions{
    OptionDoc{"bucket_elements", "integer", "0", 0, kMostElements,
              "bucket size in elements; 0: max(40e6, 1e6 x replicas), as Megatron-LM"},
    OptionDoc{"overlap_gradient_reduction", "boolean", "true", 0, 0, "scatter gradients beside the backward pass"},
    OptionDoc{"overlap_parameter_gather", "boolean", "true", 0, 0, "gather parameters beside the forward pass"},
};

constexpr OptionDoc kReduceBucket{
    "reduce_bucket_size", "integer", "500000000", 1, kMostElements, "elements of gradients reduced at a time"};
constexpr OptionDoc kContiguous{
    "contiguous_gradients", "boolean", "true", 0, 0, "gradients are copied into a buffer as they come"};
constexpr OptionDoc kReduceScatter{
    "reduce_scatter", "boolean", "true", 0, 0, "as DeepSpeed understands it; false: all-reduce"};

constexpr std::array<std::string_view, 3> kDevices{"none", "cpu", "nvme"};
constexpr OptionDoc kOffloadOptimizer{"offload_optimizer",
                                      "text",
                                      "none",
                                      0,
                                      0,
                                      "where optimizer state and its update are: none (the GPU), cpu, nvme (stage 3)",
                                      kDevices};

constexpr OptionDoc kGatherBucket{"allgather_bucket_size",
                                  "integer",
                                  "500000000",
                                  1,
                                  kMostElements,
                                  "elements of updated weights gathered at a time"};

constexpr std::array kBf16OptimizerOptions{kGatherBucket};

constexpr std::array kZero12Options{
    kOffloadOptimizer, kReduceBucket,
    kGatherBucket,     OptionDoc{"overlap_comm", "boolean", "false", 0, 0, "reduce beside the backward pass"},
    kContiguous,       kReduceScatter,
};

constexpr std::array kZero3Options{
    kOffloadOptimizer,
    OptionDoc{"offload_optimizer_pipeline_read", "boolean", "false", 0, 0,
              "nvme: the next sub-group is read during an update"},
    OptionDoc{"offload_optimizer_pipeline_write", "boolean", "false", 0, 0,
              "nvme: the last sub-group is written during an update"},
    OptionDoc{"offload_param", "text", "none", 0, 0, "where a rank's parts of the weights are: none, cpu, nvme",
              kDevices},
    OptionDoc{"offload_param_max_in_cpu", "integer", "1000000000", 0, kMostElements,
              "nvme: elements that stay in host memory"},
    OptionDoc{"sub_group_size", "integer", "1000000000", 1, kMostElements, "elements updated at a time"},
    kReduceBucket,
    OptionDoc{"overlap_comm", "boolean", "true", 0, 0, "gather and reduce beside compute"},
    kContiguous,
    kReduceScatter,
    OptionDoc{"stage3_prefetch_bucket_size", "integer", "50000000", 0, kMostElements,
              "elements gathered ahead of use; 0: none"},
    OptionDoc{"stage3_param_persistence_threshold", "integer", "100000", 0, kMostElements,
              "parameters of up to so many elements stay gathered"},
    OptionDoc{"stage3_max_live_parameters", "integer", "1000000000", 0, kMostElements,
              "gathered elements beyond which nothing is gathered ahead"},
    OptionDoc{"stage3_max_reuse_distance", "integer", "1000000000", 0, kMostElements,
              "elements of other parameters within which a reused one is kept"},
    OptionDoc{"zero_quantized_weights", "boolean", "false", 0, 0, "ZeRO++: weights travel in 8 bits"},
    OptionDoc{"zero_hpz_partition_size", "integer", "1", 1, kMostRanks,
              "ZeRO++: ranks over which a second copy of the weights is split for backward; 1: none"},
    OptionDoc{"zero_quantized_gradients", "boolean", "false", 0, 0,
              "ZeRO++: gradients travel in 4 bits, within nodes (of 8) and between them"},
    OptionDoc{"mics_shard_size", "integer", "-1", -1, kMostRanks, "MiCS: ranks over which all state is split; -1: all"},
};

constexpr std::array<std::string_view, 5> kFsdpStrategies{"full-shard", "shard-grad-op", "no-shard", "hybrid-shard",
                                                          "hybrid-shard-zero2"};
constexpr std::array<std::string_view, 3> kWraps{"block", "module", "size"};
constexpr std::array<std::string_view, 3> kPrefetches{"pre", "post", "none"};
constexpr std::array<std::string_view, 4> kTypes{"auto", "fp32", "bf16", "fp16"};

constexpr std::array kFsdpOptions{
    OptionDoc{"version", "integer", "2", 1, 2, "1: FullyShardedDataParallel (flat parameters); 2: fully_shard"},
    OptionDoc{"strategy", "text", "full-shard", 0, 0,
              "full-shard, shard-grad-op (weights stay until backward), no-shard, hybrid-shard, hybrid-shard-zero2",
              kFsdpStrategies},
    OptionDoc{"shard_size", "integer", "0", 0, kMostRanks,
              "hybrid: ranks over which state is split; 0: 8, or all where there are fewer"},
    OptionDoc{"wrap", "text", "block", 0, 0, "what is gathered at a time: block, module (attention, MLP) or size",
              kWraps},
    OptionDoc{"min_elements", "integer", "100000000", 1, kMostElements, "wrap size: least elements of a unit"},
    OptionDoc{"forward_prefetch", "boolean", "false", 0, 0, "gather the next unit before a unit's forward pass"},
    OptionDoc{"backward_prefetch", "text", "pre", 0, 0,
              "gather the next unit before (pre) or after (post) a unit's backward pass, or when it is needed (none)",
              kPrefetches},
    OptionDoc{"limit_all_gathers", "boolean", "true", 0, 0,
              "version 1: the host waits before it gathers further ahead"},
    OptionDoc{"inflight_all_gathers", "integer", "2", 1, 1000, "how far that is, in units (a constant of PyTorch)"},
    OptionDoc{"reshard_after_forward", "boolean or integer", "true", 1, kMostRanks,
              "give weights up after forward; a number: keep them split over so many ranks (version 2)"},
    OptionDoc{"param_dtype", "text", "auto", 0, 0, "of gathered weights and gradients; auto: as training.precision",
              kTypes},
    OptionDoc{"reduce_dtype", "text", "auto", 0, 0, "that gradients are reduced in; auto: as param_dtype", kTypes},
    OptionDoc{"no_sync", "boolean", "false", 0, 0, "reduce with the last micro-batch only; false: with each"},
    OptionDoc{"cpu_offload", "boolean", "false", 0, 0,
              "weights, gradients and state in host memory, updated by the CPUs (CPUOffload, CPUOffloadPolicy)"},
    OptionDoc{"float8_all_gather", "boolean", "false", 0, 0, "version 2: linear layers' weights travel in 8 bits"},
};

constexpr std::array kRows{
    ShardingRow{.row = {"none", "every replica holds everything; gradients are all-reduced (DDP)", kReplicatedOptions},
                .make = make_replicated,
                .backward_halves = true},
    ShardingRow{.row = {"distributed-optimizer", "optimizer state split over replicas, as Megatron-LM does it",
                        kDistributedOptimizerOptions},
                .make = make_distributed_optimizer,
                .needs_world = true,
                .backward_halves = true},
    ShardingRow{.row = {"bf16-optimizer",
                        "optimizer state split over replicas, gradients added up in fp32 (DeepSpeed stage 0 with bf16)",
                        kBf16OptimizerOptions},
                .make = make_bf16_optimizer,
                .check = check_bf16_optimizer,
                .adapt = adapt_bf16_optimizer,
                .backward_halves = true},
    ShardingRow{{"zero1", "optimizer state split over replicas (DeepSpeed ZeRO stage 1)", kZero12Options},
                make_zero12,
                true,
                check_zero,
                adapt_zero,
                zero_runs,
                2},
    ShardingRow{{"zero2", "optimizer state and gradients split over replicas (DeepSpeed ZeRO stage 2)", kZero12Options},
                make_zero12,
                true,
                check_zero,
                adapt_zero,
                zero_runs,
                4},
    ShardingRow{
        {"zero3", "weights, gradients and optimizer state split over replicas (DeepSpeed ZeRO stage 3, ZeRO++, MiCS)",
         kZero3Options},
        make_zero3,
        true,
        check_zero,
        adapt_zero,
        zero_runs,
        30},
    ShardingRow{{"fsdp", "weights, gradients and optimizer state split over replicas (PyTorch FSDP)", kFsdpOptions},
                make_fsdp,
                true,
                check_fsdp,
                adapt_fsdp,
                fsdp_runs,
                10,
                true},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> sharding_rows() { return kPublicRows; }

const ShardingRow* find_sharding(std::string_view name) { return find_in(kRows, name); }

}  // namespace orrery
