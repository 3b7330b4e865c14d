// Numbers as people read them, with three to four digits and a unit that suits their size. For text only: files for
// machines carry SI units and full precision.
#pragma once

#include <cstdint>
#include <string>

namespace orrery {

// "1,048,576"
[[nodiscard]] std::string with_separators(std::int64_t value);

// "83.2 us", "412 ms", "32.1 s", "14.5 min", "7.25 h", "35.4 days". Negative values keep their sign.
[[nodiscard]] std::string human_seconds(double seconds);

// Memory, in powers of two: "512 B", "61.2 GiB".
[[nodiscard]] std::string human_memory(std::int64_t bytes);

// Traffic, in powers of ten: "512 B", "3.07 TB".
[[nodiscard]] std::string human_traffic(std::int64_t bytes);

// "950", "3.15 million", "175 billion", "1.2 trillion"
[[nodiscard]] std::string human_count(double count);

// "44.9 %"
[[nodiscard]] std::string human_percent(double fraction);

}  // namespace orrery
