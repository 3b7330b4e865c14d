// Checks against our own mistakes. A failed check prints the condition, the reason and the values, and aborts: it is
// never reachable from input. Mistakes of users are Problems (problem.hpp), which are collected and reported.
#pragma once

#include <fmt/core.h>

#include <string>

namespace orrery::detail {

// Prints the failure to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& details);

template <class... Values>
[[noreturn]] void check_failed_with(const char* file, int line, const char* condition, const char* reason,
                                    const Values&... values) {
  std::string details = reason;
  ((details += fmt::format(" [{}]", values)), ...);
  check_failed(file, line, condition, details);
}

}  // namespace orrery::detail

// ORRERY_CHECK(condition, "why it must hold", values to print...): stays on in release builds, so keep it cheap.
#define ORRERY_CHECK(condition, ...)                   \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::orrery::detail::check_failed_with(__FILE__, __LINE__, #condition, __VA_ARGS__))

// The same for checks that cost more than a few instructions: off when NDEBUG is defined.
#ifdef NDEBUG
#define ORRERY_DCHECK(condition, ...) static_cast<void>(0)
#else
#define ORRERY_DCHECK(condition, ...) ORRERY_CHECK(condition, __VA_ARGS__)
#endif
