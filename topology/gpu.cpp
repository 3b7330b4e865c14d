#include "topology/gpu.hpp"

#include <algorithm>

namespace orrery {

bool KernelConstants::use_attention_library(std::string_view library) {
  if (library == "auto" || library == attention_library) return true;
  const auto found = std::find_if(attention_libraries.begin(), attention_libraries.end(),
                                  [&](const AttentionLibrary& other) { return other.name == library; });
  if (found == attention_libraries.end()) return false;
  attention_library = found->name;
  attention_forward_rate = found->forward_rate;
  attention_backward_rate = found->backward_rate;
  attention_head_overhead = found->head_overhead;
  attention_depth_overhead = found->depth_overhead;
  attention_forward_tail = found->forward_tail;
  attention_backward_tail = found->backward_tail;
  return true;
}

}  // namespace orrery
