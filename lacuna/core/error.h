// The two ways things go wrong.
//
// The user's mistake, or the world's:
//   throw Error("sample {} removes gene index {}, but the screen has {} genes", ...);
// Ours:
//   LACUNA_ASSERT(ptr.back() == removed.size());
//
// An Error's message is one line that names the culprit and says what to do, whatever a culprit's
// name holds (core/text/printable.h); the program prints it after "error: " and exits with 1. A
// UsageError is a call that could never have worked (exit 2).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "lacuna/core/text/printable.h"

namespace lacuna {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(printable(message)) {}
  template <class First, class... Rest>
  Error(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest)
      : std::runtime_error(printable(
            fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...))) {}
};

class UsageError : public Error {
 public:
  using Error::Error;
};

// "path: what failed: the system's words", from errno.
[[noreturn]] void throw_errno(const std::string& path, const char* what);

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace lacuna

#define LACUNA_ASSERT(condition) \
  ((condition) ? void(0) : ::lacuna::assertion_failed(#condition, __FILE__, __LINE__))
