#include <algorithm>
#include <string>

#include "lacuna/ops/cuda/cuda_device.cuh"
#include "lacuna/ops/masks/masks_cuda.h"

namespace lacuna {
namespace {

using namespace cuda;

constexpr int kMaxSections = 96;
constexpr int kThreads = 256;
constexpr uint32_t kPart = 32 * 1024;   // bytes of a record that a block writes
constexpr int64_t kMostBlocks = 65535;  // along y

struct Sections {
  int count;
  uint64_t stride;
  uint32_t offset[kMaxSections], bytes[kMaxSections];
};

// Sixteen bytes at `at`: ones inside a section, zeros in the gap behind it.
__device__ uint4 piece_of(const Sections& s, int section, uint32_t at) {
  const uint32_t end = s.offset[section] + s.bytes[section];
  if (at + 16 <= end) return make_uint4(0x01010101, 0x01010101, 0x01010101, 0x01010101);
  uint32_t word[4];
  for (int i = 0; i < 4; ++i) {
    word[i] = 0;
    for (int k = 0; k < 4; ++k) word[i] |= (at + 4 * i + k < end ? 1u : 0u) << (8 * k);
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

// First place of a gene's list that is not below `value`.
__device__ uint32_t lower_bound(const uint32_t* place, uint32_t low, uint32_t high,
                                uint32_t value) {
  while (low < high) {
    const uint32_t mid = low + (high - low) / 2;
    if (place[mid] < value) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

// A block's part of sample b's record: as if nothing were removed, then without what is.
__device__ void write_part(const Sections& s, const CudaMaskTable& table,
                           const CudaRemoved& removed, int64_t b, uint8_t* record, int32_t* error) {
  const uint32_t begin = blockIdx.x * kPart;
  const uint32_t end = uint32_t(min(uint64_t(begin) + kPart, s.stride));
  int section = 0;
  for (uint32_t at = begin + threadIdx.x * 16; at < end; at += kThreads * 16) {
    while (section + 1 < s.count && s.offset[section + 1] <= at) ++section;
    *reinterpret_cast<uint4*>(record + at) =
        s.count > 0 ? piece_of(s, section, at) : make_uint4(0, 0, 0, 0);
  }
  const int64_t first = removed.ptr[b], last = removed.ptr[b + 1];
  if (first < 0 || last < first || last > removed.capacity || (b == 0 && first != 0)) {
    if (error != nullptr && threadIdx.x == 0) atomicOr(error, kBadRemovedPtr);
    return;
  }
  __syncthreads();
  for (int64_t i = first; i < last; ++i) {
    const int32_t gene = removed.index[i];
    if (gene < 0 || uint32_t(gene) >= table.genes) {
      if (error != nullptr && threadIdx.x == 0) atomicOr(error, kBadRemovedIndex);
      continue;
    }
    const uint32_t from = lower_bound(table.place, table.ptr[gene], table.ptr[gene + 1], begin);
    for (uint32_t k = from + threadIdx.x; k < table.ptr[gene + 1] && table.place[k] < end;
         k += kThreads) {
      record[table.place[k]] = 0;
    }
  }
}

// Block (part, sample), and every gridDim.y-th sample from there.
__global__ void __launch_bounds__(kThreads)
    masks_kernel(const __grid_constant__ Sections s, CudaMaskTable table, CudaRemoved removed,
                 uint8_t* records, int32_t* error) {
  for (int64_t b = blockIdx.y; b < removed.batch; b += gridDim.y) {
    write_part(s, table, removed, b, records + b * s.stride, error);
  }
}

}  // namespace

void write_masks_cuda(const MaskLayout& layout, const CudaMaskTable& table,
                      const CudaRemoved& removed, uint8_t* records, int32_t* error,
                      CudaStream stream) {
  if (layout.form() != MaskForm::u8) throw_error("layout: masks are made in form u8");
  if (layout.sections().size() > kMaxSections) {
    throw_error("layout: has " + std::to_string(layout.sections().size()) + " sections, at most " +
                std::to_string(kMaxSections) + " are supported");
  }
  if (layout.stride() >= (uint64_t(1) << 32)) throw_error("layout: a record is 4 GB or more");
  if (removed.batch == 0 || layout.stride() == 0) return;
  Sections s = {};
  s.stride = layout.stride();
  for (const auto& section : layout.sections()) {
    s.offset[s.count] = uint32_t(section.offset);
    s.bytes[s.count++] = uint32_t(section.bytes);
  }
  const dim3 grid(uint32_t(divide_up(int64_t(layout.stride()), kPart)),
                  uint32_t(std::min(removed.batch, kMostBlocks)));
  masks_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(s, table, removed, records,
                                                                         error);
  check_launch("masks");
}

}  // namespace lacuna
