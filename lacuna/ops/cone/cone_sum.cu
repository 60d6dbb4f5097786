// The types of a cone's rows added up and put back into place, and the way back (cone.h).
#include "lacuna/ops/cone/cone_rows.cuh"

namespace lacuna {
namespace {

using namespace cuda;

// ---- the types added up, and back into place
// Block = a node; its wild type's sum is kept for the samples that differ in no type.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    cone_sum_kernel(Cone cone, int width, double share, const Real* y, Real* out) {
  const int n = int(blockIdx.x);
  for (int first = 0; first < width; first += 32 * VEC) {
    RowGroup<Real, VEC> me(min(width - first, 32 * VEC));
    const Real* rows = y + first + me.column;
    Real* to = out + int64_t(n) * (cone.batch + 1) * width + first + me.column;
    Wide<Real> shared[VEC] = {};
    for (int t = 0; t < cone.types && me.active; ++t)
      add_row(shared, rows + (t * cone.rows() + n) * width);
#pragma unroll
    for (int k = 0; k < VEC; ++k) shared[k] *= Wide<Real>(share);
    for (int b = me.group; b <= cone.batch && me.active; b += me.groups) {
      int differs = 0;
      for (int t = 0; t < cone.types && b < cone.batch; ++t) differs |= cone.places(t, n)[b];
      if (differs == 0) {
        store_row(to + int64_t(b) * width, shared);
        continue;
      }
      Wide<Real> sum[VEC] = {};
      for (int t = 0; t < cone.types && differs > 0; ++t) {
        const int place = cone.places(t, n)[b];
        add_row(sum, rows + (t * cone.rows() + (place > 0 ? cone.nodes + place - 1 : n)) * width);
      }
#pragma unroll
      for (int k = 0; k < VEC; ++k) sum[k] *= Wide<Real>(share);
      store_row(to + int64_t(b) * width, sum);
    }
  }
}

// Block = a node; a group takes a type after another.
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    cone_sum_backward_kernel(Cone cone, int width, double share, const Real* grad_out,
                             Real* grad_y) {
  const int n = int(blockIdx.x);
  for (int first = 0; first < width; first += 32 * VEC) {
    RowGroup<Real, VEC> me(min(width - first, 32 * VEC));
    const Real* from = grad_out + int64_t(n) * (cone.batch + 1) * width + first + me.column;
    for (int t = me.group; t < cone.types && me.active; t += me.groups) {
      Real* rows = grad_y + t * cone.rows() * width + first + me.column;
      const int32_t* place = cone.places(t, n);
      Wide<Real> sum[VEC] = {};
      for (int b = 0; b <= cone.batch; ++b) {
        const int at = b < cone.batch ? place[b] : 0;
        if (at < 0) continue;
        if (at == 0) {
          add_row(sum, from + int64_t(b) * width);
          continue;
        }
        Wide<Real> own[VEC] = {};
        add_row(own, from + int64_t(b) * width);
#pragma unroll
        for (int k = 0; k < VEC; ++k) own[k] *= Wide<Real>(share);
        store_row(rows + int64_t(cone.nodes + at - 1) * width, own);
      }
#pragma unroll
      for (int k = 0; k < VEC; ++k) sum[k] *= Wide<Real>(share);
      store_row(rows + int64_t(n) * width, sum);
    }
  }
}

// Block (part, type): zeros behind the rows in use of rows [T, count, H].
template <class Real, int VEC>
__global__ void __launch_bounds__(kConeThreads)
    clear_kernel(int64_t count, int width, const int32_t* used, bool one_for_all, Real* rows) {
  const int64_t end = count * width;
  Real* of_type = rows + blockIdx.y * end;
  const Pack<Real, VEC> nothing;
  for (int64_t i = int64_t(used[one_for_all ? 0 : blockIdx.y]) * width +
                   (int64_t(blockIdx.x) * kConeThreads + threadIdx.x) * VEC;
       i < end; i += int64_t(gridDim.x) * kConeThreads * VEC)
    nothing.store(of_type + i);
}

}  // namespace

template <class Real>
void cone_clear_cuda(int64_t types, int64_t count, int64_t width, const int32_t* used,
                     bool one_for_all, Real* rows, const CudaLaunch& launch) {
  with_vector<Real>(width, {rows}, [&](auto vec) {
    clear_kernel<Real, vec.value>
        <<<copy_grid(count * width / vec.value, types), kConeThreads, 0, stream_of(launch)>>>(
            count, int(width), used, one_for_all, rows);
  });
  check_launch("cone_clear");
}

template <class Real>
void cone_sum_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width, double share,
                   const Real* y, Real* out, const CudaLaunch& launch) {
  with_vector<Real>(width, {y, out}, [&](auto vec) {
    cone_sum_kernel<Real, vec.value><<<uint32_t(shape.nodes), kConeThreads, 0, stream_of(launch)>>>(
        Cone(shape, lists), int(width), share, y, out);
  });
  check_launch("cone_sum");
}

template <class Real>
void cone_sum_backward_cuda(const ConeShape& shape, const ConeLists& lists, int64_t width,
                            double share, const Real* grad_out, Real* grad_y,
                            const CudaLaunch& launch) {
  const auto stream = stream_of(launch);
  const Cone cone(shape, lists);
  with_vector<Real>(width, {grad_out, grad_y}, [&](auto vec) {
    cone_sum_backward_kernel<Real, vec.value><<<uint32_t(shape.nodes), kConeThreads, 0, stream>>>(
        cone, int(width), share, grad_out, grad_y);
  });
  check_launch("cone_sum backward");
}

#define LACUNA_INSTANTIATE(Real)                                                                  \
  template void cone_clear_cuda<Real>(int64_t, int64_t, int64_t, const int32_t*, bool, Real*,     \
                                      const CudaLaunch&);                                         \
  template void cone_sum_cuda<Real>(const ConeShape&, const ConeLists&, int64_t, double,          \
                                    const Real*, Real*, const CudaLaunch&);                       \
  template void cone_sum_backward_cuda<Real>(const ConeShape&, const ConeLists&, int64_t, double, \
                                             const Real*, Real*, const CudaLaunch&);
LACUNA_INSTANTIATE(float)
LACUNA_INSTANTIATE(BFloat16)
LACUNA_INSTANTIATE(double)
#undef LACUNA_INSTANTIATE

}  // namespace lacuna
