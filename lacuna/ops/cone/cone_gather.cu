// The rows of every type side by side, for merges that are no sum (cone_gather() of cone.h).
//
// Forward a row of `either` has a pointer into each type, to its own row or to the wild type's, and
// is copied, 16 bytes a lane. Back a block takes a gene: groups of lanes take a type each, copy
// what is the type's own, and add what is the wild type's in the order of the samples.
#include "lacuna/ops/cone/cone_rows.cuh"

namespace lacuna {
namespace {

using namespace cuda;

// Block (part, type): out [T, N + D, H]
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    gather_kernel(Cone cone, Cone either, int width, const Real* y, Real* out) {
  const int t = int(blockIdx.y), pieces = width / VEC;
  const int64_t count = int64_t(*either.used) * pieces;
  const Real* from = y + t * cone.rows() * width;
  Real* to = out + t * either.rows() * width;
  for (int64_t i = int64_t(blockIdx.x) * kConeThreads + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * kConeThreads) {
    const int row = int(i / pieces), column = int(i % pieces) * VEC;
    int64_t source = row;  // of the wild type
    if (row >= cone.nodes) {
      const int at = either.row[row - cone.nodes];
      const int place = cone.place[int64_t(t) * cone.nodes * cone.batch + at];
      source = place > 0 ? cone.nodes + place - 1 : at / cone.batch;
    }
    Pack<Real, VEC> pack;
    pack.load(from + source * width + column);
    pack.store(to + int64_t(row) * width + column);
  }
}

// Block = a node.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    gather_backward_kernel(Cone cone, Cone either, int width, const Real* grad_out, Real* grad_y) {
  const int n = int(blockIdx.x);
  const int32_t* differs = either.places(0, n);
  for (int first = 0; first < width; first += 32 * VEC) {
    RowGroup<Real, VEC> me(min(width - first, 32 * VEC));
    for (int t = me.group; t < cone.types && me.active; t += me.groups) {
      const Real* from = grad_out + t * either.rows() * width + first + me.column;
      Real* to = grad_y + t * cone.rows() * width + first + me.column;
      const int32_t* place = cone.places(t, n);
      Wide<Real> sum[VEC] = {};
      add_row(sum, from + int64_t(n) * width);
      for (int b = 0; b < cone.batch; ++b) {
        if (differs[b] <= 0) continue;
        const Real* row = from + int64_t(cone.nodes + differs[b] - 1) * width;
        if (place[b] <= 0) {
          add_row(sum, row);
          continue;
        }
        Pack<Real, VEC> own;
        own.load(row);
        own.store(to + int64_t(cone.nodes + place[b] - 1) * width);
      }
      store_row(to + int64_t(n) * width, sum);
    }
  }
}

ConeShape either_shape(const ConeShape& shape, int64_t rows) {
  return {shape.nodes, 1, shape.batch, rows};
}

}  // namespace

template <class Real>
void cone_gather_cuda(const ConeShape& shape, const ConeLists& lists, const ConeLists& either,
                      int64_t either_rows, int64_t width, const Real* y, Real* out,
                      const CudaLaunch& launch) {
  if (shape.nodes == 0) return;
  const Cone together(either_shape(shape, either_rows), either);
  with_vector<Real>(width, {y, out}, [&](auto vec) {
    gather_kernel<Real, vec.value>
        <<<copy_grid((shape.nodes + either_rows) * width / vec.value, shape.types), kConeThreads, 0,
           stream_of(launch)>>>(Cone(shape, lists), together, int(width), y, out);
  });
  check_launch("cone_gather");
}

template <class Real>
void cone_gather_backward_cuda(const ConeShape& shape, const ConeLists& lists,
                               const ConeLists& either, int64_t either_rows, int64_t width,
                               const Real* grad_out, Real* grad_y, const CudaLaunch& launch) {
  if (shape.nodes == 0) return;
  const Cone together(either_shape(shape, either_rows), either);
  with_vector<Real>(width, {grad_out, grad_y}, [&](auto vec) {
    gather_backward_kernel<Real, vec.value>
        <<<uint32_t(shape.nodes), kConeThreads, 0, stream_of(launch)>>>(
            Cone(shape, lists), together, int(width), grad_out, grad_y);
  });
  check_launch("cone_gather backward");
}

#define LACUNA_INSTANTIATE(Real)                                                                 \
  template void cone_gather_cuda<Real>(const ConeShape&, const ConeLists&, const ConeLists&,     \
                                       int64_t, int64_t, const Real*, Real*, const CudaLaunch&); \
  template void cone_gather_backward_cuda<Real>(const ConeShape&, const ConeLists&,              \
                                                const ConeLists&, int64_t, int64_t, const Real*, \
                                                Real*, const CudaLaunch&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
