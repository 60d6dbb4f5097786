// The rows of a cone out of those of every sample: in layers behind the first the sums of all rows
// take less time (ops/slab) than a listed row's sums by itself would, and what follows them then
// works on the listed rows alone.
//
// Copies, 16 bytes a lane. Back, a row that is the wild type's gets zeros: what it says about the
// sums has been added to the wild type's row already.
#include "lacuna/ops/cone/cone_rows.cuh"

namespace lacuna {
namespace {

using namespace cuda;

// Block (part, type): all [T, N, B + 1, H] -> rows [T, N + C, H]
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    take_kernel(Cone cone, int width, const Real* all, Real* rows) {
  const int t = int(blockIdx.y), pieces = width / VEC, samples = cone.batch + 1;
  const int64_t count = int64_t(cone.used[t]) * pieces;
  const Real* from = all + int64_t(t) * cone.nodes * samples * width;
  Real* to = rows + t * cone.rows() * width;
  for (int64_t i = int64_t(blockIdx.x) * kConeThreads + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * kConeThreads) {
    const int row = int(i / pieces), column = int(i % pieces) * VEC;
    int64_t source = int64_t(row) * samples + cone.batch;  // of the wild type
    if (row >= cone.nodes) {
      const int at = cone.row[t * cone.capacity + row - cone.nodes];
      source = at + at / cone.batch;  // a gene has one sample more
    }
    Pack<Real, VEC> pack;
    pack.load(from + source * width + column);
    pack.store(to + int64_t(row) * width + column);
  }
}

// Block (part, type): grad_rows [T, N + C, H] -> grad_all [T, N, B + 1, H]
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    put_back_kernel(Cone cone, int width, const Real* grad_rows, Real* grad_all) {
  const int t = int(blockIdx.y), pieces = width / VEC, samples = cone.batch + 1;
  const int64_t count = int64_t(cone.nodes) * samples * pieces;
  const Real* from = grad_rows + t * cone.rows() * width;
  Real* to = grad_all + int64_t(t) * cone.nodes * samples * width;
  for (int64_t i = int64_t(blockIdx.x) * kConeThreads + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * kConeThreads) {
    const int64_t row = i / pieces;
    const int column = int(i % pieces) * VEC, n = int(row / samples), b = int(row % samples);
    const int place = b < cone.batch ? cone.places(t, n)[b] : 0;
    Pack<Real, VEC> pack;  // zeros
    if (b == cone.batch)
      pack.load(from + int64_t(n) * width + column);
    else if (place > 0)
      pack.load(from + int64_t(cone.nodes + place - 1) * width + column);
    pack.store(to + row * width + column);
  }
}

}  // namespace

template <class Real>
void cone_take_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width, const Real* all,
                    Real* rows, const CudaLaunch& launch) {
  if (shape.nodes == 0) return;
  with_vector<Real>(width, {all, rows}, [&](auto vec) {
    take_kernel<Real, vec.value>
        <<<copy_grid(shape.rows() * width / vec.value, shape.types), kConeThreads, 0,
           stream_of(launch)>>>(Cone(shape, lists), int(width), all, rows);
  });
  check_launch("cone_take");
}

template <class Real>
void cone_take_backward_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width,
                             const Real* grad_rows, Real* grad_all, const CudaLaunch& launch) {
  if (shape.nodes == 0) return;
  with_vector<Real>(width, {grad_rows, grad_all}, [&](auto vec) {
    put_back_kernel<Real, vec.value>
        <<<copy_grid(shape.nodes * (shape.batch + 1) * width / vec.value, shape.types),
           kConeThreads, 0, stream_of(launch)>>>(Cone(shape, lists), int(width), grad_rows,
                                                 grad_all);
  });
  check_launch("cone_take backward");
}

#define LACUNA_INSTANTIATE(Real)                                                               \
  template void cone_take_cuda<Real>(const ConeShape&, const ConeLists&, int64_t, const Real*, \
                                     Real*, const CudaLaunch&);                                \
  template void cone_take_backward_cuda<Real>(const ConeShape&, const ConeLists&, int64_t,     \
                                              const Real*, Real*, const CudaLaunch&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
