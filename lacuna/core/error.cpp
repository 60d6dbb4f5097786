#include "lacuna/core/error.h"

#include <cerrno>
#include <cstring>

namespace lacuna {

void throw_errno(const std::string& path, const char* what) {
  throw Error("{}: {}: {}", path, what, std::strerror(errno));
}

void assertion_failed(const char* expression, const char* file, int line) {
  throw std::logic_error(fmt::format("internal contradiction: {} is false at {}:{}; please report",
                                     expression, file, line));
}

}  // namespace lacuna
