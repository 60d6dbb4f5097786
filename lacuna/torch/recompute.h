// Less memory for more time: a function whose inner results are not kept for the backward pass, but
// computed again there.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lacuna {

// f(x), with gradients to x and to every parameter that f uses. f must give the same result when it
// is called again (no dropout inside). Parameters get their gradients by accumulation, so this is
// for backward(), not for autograd::grad(). Where no gradient is wanted it is just f(x).
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& f, const at::Tensor& x);

// The same on the CPU for an f that takes each row by itself, y [G, rows, H] -> [rows, H], in
// blocks of so many rows, the last filled up with zeros: a row's result depends neither on how many
// rows there are nor, without gradients, on how many threads.
at::Tensor recompute_rows(const std::function<at::Tensor(const at::Tensor&)>& f,
                          const at::Tensor& y, int64_t rows);

}  // namespace lacuna
