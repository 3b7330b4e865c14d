// What a kind of peer is reported under.
#pragma once

#include <string_view>

namespace orrery {

// "pipeline_next" and "pipeline_previous" are both "pipeline".
[[nodiscard]] constexpr std::string_view direction_dropped(std::string_view peer_kind) {
  for (const std::string_view suffix : {std::string_view("_next"), std::string_view("_previous")}) {
    if (peer_kind.ends_with(suffix)) return peer_kind.substr(0, peer_kind.size() - suffix.size());
  }
  return peer_kind;
}

}  // namespace orrery
