#include "lacuna/torch/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lacuna/core/system/stop.h"

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

}  // namespace

at::Tensor recompute(const Body& f, const at::Tensor& x) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return f(x);
  return Recompute::apply(x, f);
}

}  // namespace lacuna
