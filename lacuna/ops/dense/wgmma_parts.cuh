// Products of 64 x 64 tiles with Hopper's `wgmma`, as the fused kernels use them.
//
// A tile of bf16 in shared memory is 64 rows of 128 bytes; the 16-byte piece c of row r lies at
// piece c ^ (r & 7), the hardware's 128-byte swizzle, so that no two rows meet in a bank. The same
// tile serves as W (rows are columns of the result) and as its transpose.
// Accumulators and register operands: fused_parts.cuh.
#pragma once

#include "lacuna/core/dtype.h"
#include "lacuna/ops/dense/fused_parts.cuh"
#include "lacuna/ops/dense/fused_work.cuh"

namespace lacuna::wgmma {

using namespace lacuna::cuda;

inline constexpr int kWidth = 64;     // H
inline constexpr int kTileRows = 64;  // of a warpgroup
inline constexpr int kTileBytes = 64 * 64 * 2;
inline constexpr int kWarpgroup = 128;  // threads

// Where a thread stands.
struct Place {
  int warpgroup = int(threadIdx.x) / kWarpgroup, warp = int(threadIdx.x) / 32 % 4,
      lane = int(threadIdx.x) % 32, t = lane % 4, q = lane / 4;
  int row = warp * 16 + q;  // the upper of its two rows in a tile
};

// The low word of a tile's descriptor holds its address. Made once, and moved by adding bytes / 16:
// the compiler would otherwise build it anew, in six instructions, for every product.
__device__ __forceinline__ uint32_t descriptor_low(uint32_t address) {
  return ((address & 0x3FFFF) >> 4) | 0x10000u;
}
__device__ __forceinline__ uint64_t descriptor(uint32_t low) {
  constexpr uint64_t kSwizzled128 = uint64_t(0x40000040u) << 32;  // groups of 8 rows, 1024 bytes
  return kSwizzled128 | low;
}
// Of a tile of 64-byte rows: piece c of row r lies at piece c ^ (r / 2 & 3).
__device__ __forceinline__ uint64_t descriptor64(uint32_t low) {
  constexpr uint64_t kSwizzled64 = uint64_t(0x80000020u) << 32;  // groups of 8 rows, 512 bytes
  return kSwizzled64 | low;
}
// Bytes from the start of such a tile to an element.
__device__ __forceinline__ int tile_place(int row, int column) {
  return row * 128 + (((column >> 3) ^ (row & 7)) << 4) + (column & 7) * 2;
}
__device__ __forceinline__ int tile_place64(int row, int column) {
  return row * 64 + (((column >> 3) ^ ((row >> 1) & 3)) << 4) + (column & 7) * 2;
}

#define LACUNA_D4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LACUNA_D16(d) LACUNA_D4(d, 0), LACUNA_D4(d, 4), LACUNA_D4(d, 8), LACUNA_D4(d, 12)
#define LACUNA_D20(d) LACUNA_D16(d), LACUNA_D4(d, 16)
#define LACUNA_D32(d) LACUNA_D20(d), LACUNA_D4(d, 20), LACUNA_D4(d, 24), LACUNA_D4(d, 28)
#define LACUNA_16_REGISTERS "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define LACUNA_20_REGISTERS LACUNA_16_REGISTERS ",%16,%17,%18,%19"
#define LACUNA_D16_REGISTERS "{" LACUNA_16_REGISTERS "}"
#define LACUNA_D20_REGISTERS "{" LACUNA_20_REGISTERS "}"
#define LACUNA_D32_REGISTERS \
  "{" LACUNA_20_REGISTERS ",%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"

__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ __forceinline__ void products_wait(float (&d)[32]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : LACUNA_D32(d)::"memory");
}

// Of several accumulators: after products_wait(), each must be named before it is read.
__device__ __forceinline__ void is_there(float (&d)[16]) {
  asm volatile("" : LACUNA_D16(d)::"memory");
}
__device__ __forceinline__ void is_there(float (&d)[20]) {
  asm volatile("" : LACUNA_D20(d)::"memory");
}
__device__ __forceinline__ void is_there(float (&d)[32]) {
  asm volatile("" : LACUNA_D32(d)::"memory");
}
template <class... Accumulators>
__device__ __forceinline__ void products_wait_all(Accumulators&... d) {
  products_wait();
  (is_there(d), ...);
}

// d = a B, or d += a B: 64 x 16 from registers times 16 x 64 of a tile, as it stands
// (transposed = 1) or with its rows as columns (0).
template <int transposed>
__device__ __forceinline__ void multiply(float (&d)[32], const uint32_t* a, uint64_t tile,
                                         int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LACUNA_D32_REGISTERS
      ", {%32,%33,%34,%35}, %36, p, 1, 1, %38;\n}"
      : LACUNA_D32(d)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "r"(adds), "n"(transposed));
}
// The same with 32 columns of the result.
template <int transposed>
__device__ __forceinline__ void multiply(float (&d)[16], const uint32_t* a, uint64_t tile) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " LACUNA_D16_REGISTERS
               ", {%16,%17,%18,%19}, %20, 1, 1, 1, %21;"
               : LACUNA_D16(d)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "n"(transposed));
}
// d += A B or, for 40 columns, d = A B or d += A B: both from shared memory, the rows of B are
// columns of the result; or with transposed = 1, d += A^T B (see multiply_columns).
template <int transposed = 0>
__device__ __forceinline__ void multiply_tiles(float (&d)[16], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " LACUNA_D16_REGISTERS
               ", %16, %17, 1, 1, 1, %18, %18;"
               : LACUNA_D16(d)
               : "l"(a), "l"(b), "n"(transposed));
}
template <int transposed = 0>
__device__ __forceinline__ void multiply_tiles(float (&d)[20], uint64_t a, uint64_t b,
                                               int adds = 1) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %22, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n40k16.f32.bf16.bf16 " LACUNA_D20_REGISTERS
      ", %20, %21, p, 1, 1, %23, %23;\n}"
      : LACUNA_D20(d)
      : "l"(a), "l"(b), "r"(adds), "n"(transposed));
}
// d += A^T B over 16 rows of two tiles: a step of a weight's gradient.
__device__ __forceinline__ void multiply_columns(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LACUNA_D32_REGISTERS
               ", %32, %33, 1, 1, 1, 1, 1;"
               : LACUNA_D32(d)
               : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_columns(float (&d)[20], uint64_t a, uint64_t b) {
  multiply_tiles<1>(d, a, b);
}
__device__ __forceinline__ void multiply_columns(float (&d)[16], uint64_t a, uint64_t b) {
  multiply_tiles<1>(d, a, b);
}
// d += A^T B, B 16 x 8.
__device__ __forceinline__ void multiply_columns_by_8(float (&d)[4], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 1, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
}

// Starts d += a W (W's rows are columns of the result) for a d that holds the bias;
// products_wait(d) ends it.
__device__ __forceinline__ void start_linear(float (&d)[32], const uint32_t* a, uint32_t tile_low) {
  products_begin();
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply<0>(d, a + 4 * k, descriptor(tile_low + k * 2), 1);
  products_commit();
}
// Starts d = a W^T, the way back through the same tile.
__device__ __forceinline__ void start_linear_back(float (&d)[32], const uint32_t* a,
                                                  uint32_t tile_low) {
  products_begin();
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply<1>(d, a + 4 * k, descriptor(tile_low + k * 128), k);
  products_commit();
}

// Biases start in the accumulator: no addition later. They lie as {b0, b1, b0, b1} for every pair
// of columns; bias: this lane's first.
template <int n>
__device__ __forceinline__ void load_bias(float (&d)[n], uint32_t bias) {
#pragma unroll
  for (int j = 0; j < n / 4; ++j) {
    const float4 v = load_shared4(bias + j * 64);
    d[4 * j] = v.x, d[4 * j + 1] = v.y, d[4 * j + 2] = v.z, d[4 * j + 3] = v.w;
  }
}

// ---- tiles in shared memory <-> register operands; address: of this warp's 16 rows. 32 of the 64
// columns at a time.
__device__ __forceinline__ uint32_t piece_address(uint32_t address, int lane, int half, int k) {
  const int row = lane & 15, piece = 4 * half + 2 * k + (lane >> 4);
  return address + row * 128 + ((piece ^ (row & 7)) << 4);
}
__device__ __forceinline__ void store_half(uint32_t address, int lane, int half,
                                           const uint32_t* a) {
#pragma unroll
  for (int k = 0; k < 2; ++k)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                     piece_address(address, lane, half, k)),
                 "r"(a[4 * k]), "r"(a[4 * k + 1]), "r"(a[4 * k + 2]), "r"(a[4 * k + 3])
                 : "memory");
}
__device__ __forceinline__ void load_half(uint32_t address, int lane, int half, uint32_t* a) {
#pragma unroll
  for (int k = 0; k < 2; ++k)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[4 * k]), "=r"(a[4 * k + 1]), "=r"(a[4 * k + 2]), "=r"(a[4 * k + 3])
                 : "r"(piece_address(address, lane, half, k))
                 : "memory");
}
__device__ __forceinline__ void store_tile(uint32_t address, int lane, const uint32_t (&a)[16]) {
  store_half(address, lane, 0, a);
  store_half(address, lane, 1, a + 8);
}

// A tile's rows as they lie in memory (load_rows) into shared or device memory; `to`: of the tile.
__device__ __forceinline__ uint32_t row_place(const Place& me, int below, int half) {
  return (me.row + 8 * below) * 128 + (((4 * half + me.t) ^ (me.row & 7)) << 4);
}

}  // namespace lacuna::wgmma
