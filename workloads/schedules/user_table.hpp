// A user's own schedule: a CSV file as PyTorch's pipeline runtime reads and writes it (torch/distributed/pipelining/
// schedules.py, _PipelineScheduleRuntime._load_csv with format "compute_only"; TorchTitan's option
// pipeline_parallel_schedule_csv). One row per stage, in their order; one cell per slot, in theirs:
//
//   0F0,0F1,,,0B0,,0B1        virtual stage, pass, micro-batch; F forward, B backward, I and W its halves
//   ,1F0,1B0,1F1,1B1          (gradients of inputs, of weights); an empty cell is idle time and says nothing
//
// PyTorch's pairs, (0F1;3B0)OVERLAP_F_B, are their passes one after the other, as in dualpipe.cpp. Which stage holds
// which virtual stage is what the rows say. Tables with communication in them (format "compute_comms") are refused:
// what is sent when follows from the order of passes.
#pragma once

#include <cstdint>

#include "sim/base/problem.hpp"
#include "workloads/plan.hpp"
#include "workloads/schedules/schedule.hpp"

namespace orrery {

// All that is wrong with the table, for so many stages and micro-batches, each problem with its place in the file:
// cells that say nothing, rows that do not fit, and what check_schedule finds. O(cells x stages).
[[nodiscard]] Result<Schedule> read_user_table(const FileText& file, std::int64_t stages, std::int64_t micro_batches);

// Model chunks per stage that the table speaks of, at least 1.
[[nodiscard]] std::int64_t user_table_chunks(const FileText& file, std::int64_t stages);

}  // namespace orrery
