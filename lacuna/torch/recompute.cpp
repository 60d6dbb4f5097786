#include "lacuna/torch/recompute.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/threads.h"

namespace lacuna {
namespace {

using Body = std::function<at::Tensor(const at::Tensor&)>;

struct BodyHolder : torch::CustomClassHolder {
  explicit BodyHolder(Body f) : body(std::move(f)) {}
  Body body;
};

struct Recompute : torch::autograd::Function<Recompute> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const Body& body) {
    context->save_for_backward({x});
    context->saved_data["body"] = c10::IValue::make_capsule(c10::make_intrusive<BodyHolder>(body));
    const at::NoGradGuard guard;
    throw_if_stopped();
    return body(x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    throw_if_stopped();
    const auto holder = context->saved_data["body"].toCapsule();
    const auto& body = static_cast<const BodyHolder*>(holder.get())->body;
    const at::AutoGradMode enabled(true);
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    torch::autograd::backward({body(x)}, {grads[0]});
    return {x.grad(), at::Tensor()};
  }
};

// Products of BLAS cut long sums at other places for other numbers of threads. So each block of
// rows is computed by one thread, and the blocks by many.
struct OneTorchThread {
  int before = at::get_num_threads();
  OneTorchThread() { at::set_num_threads(1); }
  ~OneTorchThread() { at::set_num_threads(before); }
};

struct RecomputeRows : torch::autograd::Function<RecomputeRows> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& y,
                            const Body& body, int64_t rows) {
    context->save_for_backward({y});
    context->saved_data["body"] = c10::IValue::make_capsule(c10::make_intrusive<BodyHolder>(body));
    context->saved_data["rows"] = rows;
    return by_row_blocks(body, y, rows);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto holder = context->saved_data["body"].toCapsule();
    const auto& body = static_cast<const BodyHolder*>(holder.get())->body;
    const at::AutoGradMode enabled(true);
    const auto y = context->get_saved_variables()[0];
    const int64_t rows = context->saved_data["rows"].toInt();
    const auto grad_y = at::empty_like(y);
    for (int64_t first = 0; first < y.size(1); first += rows) {
      throw_if_stopped();
      const int64_t count = std::min(rows, y.size(1) - first);
      const auto part = y.narrow(1, first, count).detach().requires_grad_();
      torch::autograd::backward({body(part)}, {grads[0].narrow(0, first, count)});
      grad_y.narrow(1, first, count).copy_(part.grad());
    }
    return {grad_y, at::Tensor(), at::Tensor()};
  }

  static at::Tensor by_row_blocks(const Body& body, const at::Tensor& y, int64_t rows) {
    const at::NoGradGuard guard;
    const at::Tensor out = at::empty({y.size(1), y.size(2)}, y.options());
    const OneTorchThread alone;
    const at::ThreadLocalState state;
    parallel_for(uint64_t((y.size(1) + rows - 1) / rows), alone.before, [&](uint64_t i) {
      const at::ThreadLocalStateGuard same(state);
      at::set_num_threads(1);  // a setting of each thread
      const int64_t first = int64_t(i) * rows, count = std::min(rows, y.size(1) - first);
      at::Tensor block = y.narrow(1, first, count);
      if (count < rows) block = at::constant_pad_nd(block, {0, 0, 0, rows - count});
      out.narrow(0, first, count).copy_(body(block).narrow(0, 0, count));
    });
    return out;
  }
};

}  // namespace

at::Tensor recompute_rows(const Body& f, const at::Tensor& y, int64_t rows) {
  if (!at::GradMode::is_enabled()) return RecomputeRows::by_row_blocks(f, y, rows);
  return y.requires_grad() ? RecomputeRows::apply(y, f, rows) : f(y);
}

at::Tensor recompute(const Body& f, const at::Tensor& x) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return f(x);
  return Recompute::apply(x, f);
}

}  // namespace lacuna
