#include "sim/study/curriculum.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "sim/base/check.hpp"
#include "sim/results/quantities.hpp"

namespace orrery {

void add_curriculum(Summary& summary, const std::vector<CurriculumStage>& stages, const std::vector<Summary>& steps) {
  ORRERY_CHECK(stages.size() == steps.size() + 1, "every part but the last has a summary of its own", stages.size());
  constexpr double kSecondsPerHour = 3600;
  double before = 0;
  double seconds = 0;  // of a mean step
  double tokens = 0;
  std::vector<std::string> remarks;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Summary& of_part = i < steps.size() ? steps[i] : summary;
    const double share = stages[i].until - before;
    seconds += share * of_part.step.time_s;
    tokens += share * static_cast<double>(of_part.step.tokens);
    remarks.push_back(fmt::format(
        "curriculum, {} to {} of steps: {} tokens a sequence, {} a step, peak {}{}", human_percent(before),
        human_percent(stages[i].until), with_separators(stages[i].sequence_length), human_seconds(of_part.step.time_s),
        human_memory(of_part.memory.peak_bytes), of_part.memory.fits.value_or(true) ? "" : ", does not fit"));
    before = stages[i].until;
  }
  remarks.push_back(fmt::format("curriculum, all steps: {} and {} tokens a step in the mean, {} tokens/s",
                                human_seconds(seconds), human_count(tokens), human_count(tokens / seconds)));
  summary.remarks.insert(summary.remarks.end(), remarks.begin(), remarks.end());
  if (!summary.training) return;
  summary.training->steps = static_cast<std::int64_t>(std::ceil(summary.training->tokens / tokens));
  summary.training->time_s = static_cast<double>(summary.training->steps) * seconds;
  summary.training->gpu_hours = summary.training->time_s * static_cast<double>(summary.cluster.gpus) / kSecondsPerHour;
}

}  // namespace orrery
