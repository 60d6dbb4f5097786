// torch.ops.lacuna.cast: ops/cast/cast.h on tensors.
#include "lacuna/ops/cast/cast.h"

#include <ATen/Parallel.h>
#include <torch/library.h>

#include "lacuna/torch/common.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/cast/cast_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna::torch_ops {
namespace {

TORCH_LIBRARY_FRAGMENT(lacuna, m) {
  // u8 to f32 or bf16: x * scale + shift
  m.def("cast(Tensor x, float scale, float shift, ScalarType dtype) -> Tensor");
}

Tensor cast_meta(const Tensor& x, double, double, at::ScalarType dtype) {
  check_dtype("x", x, at::kByte);
  if (dtype != at::kFloat && dtype != at::kBFloat16)
    throw Error("dtype is {}, but Float or BFloat16 is needed", c10::toString(dtype));
  return at::empty_symint(x.sym_sizes(), x.options().dtype(dtype));
}

#if LACUNA_HAVE_CUDA
Tensor cast_on_cuda(const Tensor& x, double scale, double shift, at::ScalarType dtype) {
  const Tensor out = cast_meta(x, scale, shift, dtype);
  const Tensor x_ = x.contiguous();
  Launch launch(x.device());
  const auto run = [&]<class Real>(Real) {
    cast_cuda<Real>(data<uint8_t>(x_), x_.numel(), float(scale), float(shift),
                    mutable_data<Real>(out), launch.stream());
  };
  dtype == at::kFloat ? run(float()) : run(BFloat16());
  return out;
}
#endif

Tensor cast_cpu(const Tensor& x, double scale, double shift, at::ScalarType dtype) {
  const Tensor out = cast_meta(x, scale, shift, dtype);
  const Tensor x_ = x.contiguous();
  const auto run = [&]<class Real>(Real) {
    lacuna::cast<Real>(data<uint8_t>(x_), x_.numel(), float(scale), float(shift),
                       mutable_data<Real>(out), at::get_num_threads());
  };
  dtype == at::kFloat ? run(float()) : run(BFloat16());
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(lacuna, CPU, m) { m.impl("cast", cast_cpu); }
#if LACUNA_HAVE_CUDA
TORCH_LIBRARY_IMPL(lacuna, CUDA, m) { m.impl("cast", cast_on_cuda); }
#endif
TORCH_LIBRARY_IMPL(lacuna, Meta, m) { m.impl("cast", cast_meta); }

}  // namespace lacuna::torch_ops
