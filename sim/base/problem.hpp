// Mistakes of users: what is wrong, where, and the nearest thing that would be right. Problems are values; code that
// finds one goes on and collects the rest, so that a file's problems are all shown at once.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/check.hpp"

namespace orrery {

// A place in a text file. Lines and columns count from 1; 0 means unknown.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;

  friend bool operator==(const SourceLocation&, const SourceLocation&) = default;
};

// One mistake. `key` is the dotted scenario key it is about ("parallelism.tensor"); layers that do not know files name
// the key, and the scenario loader turns it into a location.
struct Problem {
  std::string key;
  std::string message;     // lower case, no full stop, with the value found
  std::string note;        // what would be right: "nearest valid: 4, 6"; empty where there is nothing to say
  SourceLocation where{};  // filled in by whoever knows the file
};

using Problems = std::vector<Problem>;

// "scenarios/a.yaml:14:9: error: tensor degree 5 does not divide 96 attention heads\n  note: nearest valid: 4, 6".
// Leaves out what is unknown. No trailing newline.
[[nodiscard]] std::string to_string(const Problem& problem);

// One problem per line, in the order of their locations.
[[nodiscard]] std::string to_string(const Problems& problems);

// A value, or the (one or more) problems that kept it from being made.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor): a value is a good result
  Result(Problems problems) : state_(std::move(problems)) {  // NOLINT(google-explicit-constructor)
    ORRERY_CHECK(!std::get<Problems>(state_).empty(), "a failed result names at least one problem");
  }
  Result(Problem problem) : Result(Problems{std::move(problem)}) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] const T& value() const& { return *checked(std::get_if<T>(&state_)); }
  [[nodiscard]] T& value() & { return *checked(std::get_if<T>(&state_)); }
  [[nodiscard]] T&& value() && { return std::move(*checked(std::get_if<T>(&state_))); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  // The problems of a failed result; empty for a good one.
  [[nodiscard]] Problems problems() const {
    const auto* found = std::get_if<Problems>(&state_);
    return found == nullptr ? Problems{} : *found;
  }

 private:
  template <class Pointer>
  static Pointer checked(Pointer pointer) {
    ORRERY_CHECK(pointer != nullptr, "the value of a failed result was asked for");
    return pointer;
  }

  std::variant<T, Problems> state_;
};

}  // namespace orrery
