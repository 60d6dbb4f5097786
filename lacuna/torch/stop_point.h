// Places inside a model's step where it can be stopped.
#pragma once

#include <ATen/core/Tensor.h>

namespace lacuna {

// Looks at the stop flag (core/system/stop.h) now, and once more when the gradient of x comes by in
// the backward pass; throws Stopped. For results of work that takes a part of a second on the CPU.
// On a GPU, whose work runs behind the host's, the backward pass does not look.
void stop_point(const at::Tensor& x);

}  // namespace lacuna
