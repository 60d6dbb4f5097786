// Throwing Error from .cu files: nvcc's front end does not take the formatting library that
// core/error.h brings.
#pragma once

#include <cstdint>
#include <string>

namespace lacuna {

[[noreturn]] void throw_error(const std::string& message);
// "what: CUDA's words"
[[noreturn]] void throw_cuda_error(const char* what, const char* words);

}  // namespace lacuna
