#include "lacuna/torch/windows.h"

#include <ATen/ATen.h>

#include "lacuna/torch/common.h"
#if LACUNA_HAVE_CUDA
#include "lacuna/ops/cast/windows_cuda.h"
#include "lacuna/torch/cuda.h"
#endif

namespace lacuna {

at::Tensor gather_windows(const at::Tensor& movie, const at::Tensor& newest,
                          [[maybe_unused]] int64_t lags, [[maybe_unused]] int64_t step,
                          at::ScalarType dtype) {
  using namespace torch_ops;
  check_dtype("movie", movie, at::kByte);
  check_dim("movie", movie, 3, "[rows, Y, X]");
  check_dtype("newest", newest, at::kLong);
  check_dim("newest", newest, 1, "[B]");
  check_device("newest", newest, movie.device(), "movie");
  if (!movie.is_cuda())
    throw Error("movie is on {}, but windows are gathered on a GPU", text(movie.device()));
  if (dtype != at::kFloat && dtype != at::kBFloat16)
    throw Error("dtype is {}, but Float or BFloat16 is needed", c10::toString(dtype));
#if LACUNA_HAVE_CUDA
  const Tensor from = movie.contiguous(), rows = newest.contiguous();
  const Tensor out =
      at::empty({rows.numel(), lags, movie.size(1), movie.size(2)}, movie.options().dtype(dtype));
  const WindowsShape shape = {movie.size(0), movie.size(1) * movie.size(2), rows.numel(), lags,
                              step};
  const Launch launch(movie.device());
  const auto run = [&]<class Real>(Real) {
    gather_windows_cuda(shape, data<uint8_t>(from), data<int64_t>(rows), mutable_data<Real>(out),
                        launch.stream());
  };
  dtype == at::kFloat ? run(float()) : run(BFloat16());
  return out;
#else
  throw Error("this build has no CUDA, but movie is on {}", text(movie.device()));
#endif
}

}  // namespace lacuna
