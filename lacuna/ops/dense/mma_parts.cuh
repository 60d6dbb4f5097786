// Products with `mma.sync.m16n8k16` (bf16, sums in f32), `ldmatrix` and `cp.async`: what every GPU
// from compute capability 8.0 on has.
//
// A tile of bf16 in shared memory has rows of 2 H bytes; the 16-byte piece c of row r lies at piece
// c ^ turn(r), so that no two of 8 rows meet in a bank. Tiles start at multiples of 128 bytes.
// Accumulators and register operands: fused_parts.cuh. A warp works on 16 rows of them alone.
#pragma once

#include "lacuna/ops/dense/fused_parts.cuh"

namespace lacuna::mma {

using namespace lacuna::cuda;

template <int kWidth>
__device__ __forceinline__ int turn(int row) {
  static_assert(kWidth == 32 || kWidth == 64 || kWidth == 128,
                "say how the pieces of such rows are to be turned: 8 rows must meet in no bank");
  return kWidth == 32 ? (row >> 1) & 3 : row & 7;  // two rows of width 32 share 128 bytes
}
template <int kWidth>
__device__ __forceinline__ uint32_t place_in_tile(int row, int piece) {
  return uint32_t(row * 2 * kWidth + ((piece ^ turn<kWidth>(row)) << 4));
}
// The same inside its row for piece even + odd, where `even` is a constant and odd 0 or 1: the part
// that turns is kept apart from the part that an address takes as an offset.
__device__ __forceinline__ uint32_t turned_piece(int even, int odd, int turned) {
  return uint32_t(((((even & 7) + odd) ^ turned) << 4) + (even >> 3) * 128);
}

// ---- copies from device to shared memory, 16 bytes a thread; they complete in groups
__device__ __forceinline__ void copy_16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_16_or_zero(uint32_t to, const void* from, bool copies) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(copies ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most kPending groups of this thread are under way.
template <int kPending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- products
// Four 8 x 8 matrices; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
// d += a b, 16 x 16 times 16 x 8.
__device__ __forceinline__ void multiply(float* d, const uint32_t* a, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d = a b + c, both rows of c alike.
__device__ __forceinline__ void multiply_from(float* d, const uint32_t* a, uint32_t b0, uint32_t b1,
                                              float c0, float c1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%11,%10,%11};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1));
}

// d += a W; row n of the tile holds the weights of output n.
template <int kWidth>
__device__ __forceinline__ void linear(float (&d)[kWidth / 2], const uint32_t (&a)[kWidth / 4],
                                       uint32_t tile, int lane) {
  // Matrices: outputs 0-7 with inputs 0-7 and 8-15, outputs 8-15 with the same.
  const int row = ((lane >> 4) << 3) + (lane & 7), odd = (lane >> 3) & 1;
  const uint32_t from = tile + uint32_t(row * 2 * kWidth);
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    const uint32_t at = from + turned_piece(2 * k, odd, turn<kWidth>(row));
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      uint32_t b[4];
      load_matrices(b, at + uint32_t(n * 16 * 2 * kWidth));
      multiply(d + 8 * n, a + 4 * k, b[0], b[1]);
      multiply(d + 8 * n + 4, a + 4 * k, b[2], b[3]);
    }
  }
}
// d += a W^T, the way back through the same tile.
template <int kWidth>
__device__ __forceinline__ void linear_back(float (&d)[kWidth / 2], const uint32_t (&a)[kWidth / 4],
                                            uint32_t tile, int lane) {
  // Matrices: outputs 0-7 and 8-15 with inputs 0-7, then both with inputs 8-15.
  const int row = lane & 15, odd = lane >> 4;
  const uint32_t from = tile + uint32_t(row * 2 * kWidth);
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k)
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      uint32_t b[4];
      load_transposed(
          b, from + turned_piece(2 * n, odd, turn<kWidth>(row)) + uint32_t(k * 16 * 2 * kWidth));
      multiply(d + 8 * n, a + 4 * k, b[0], b[1]);
      multiply(d + 8 * n + 4, a + 4 * k, b[2], b[3]);
    }
}

// d += A^T Z over kRows rows of two tiles, for kIn columns of A from in_at on and kOut of Z from
// out_at on: a step of a weight's gradient. With kBias: bias += the sums of Z's columns.
template <int kWidth, int kRows, int kIn, int kOut>
__device__ __forceinline__ void multiply_columns(float (&d)[kIn / 16][kOut / 8][4],
                                                 float (&bias)[kOut / 8][4], bool with_bias,
                                                 uint32_t a_tile, int in_at, uint32_t z_tile,
                                                 int out_at, int lane) {
  constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
  // Matrices of A: rows 0-7 of columns 0-7 and 8-15, rows 8-15 of the same; of Z as in linear_back.
  const int a_row = (lane & 7) + ((lane >> 4) << 3), a_odd = (lane >> 3) & 1;
  const int z_row = lane & 15, z_odd = lane >> 4;
#pragma unroll
  for (int k = 0; k < kRows; k += 16) {
    uint32_t a[kIn / 16][4];
#pragma unroll
    for (int m = 0; m < kIn / 16; ++m)
      load_transposed(a[m], a_tile + place_in_tile<kWidth>(k + a_row, in_at / 8 + 2 * m + a_odd));
#pragma unroll
    for (int n = 0; n < kOut / 16; ++n) {
      uint32_t b[4];
      load_transposed(b, z_tile + place_in_tile<kWidth>(k + z_row, out_at / 8 + 2 * n + z_odd));
#pragma unroll
      for (int m = 0; m < kIn / 16; ++m) {
        multiply(d[m][2 * n], a[m], b[0], b[1]);
        multiply(d[m][2 * n + 1], a[m], b[2], b[3]);
      }
      if (with_bias) {  // every row of ones Z is the sum
        multiply(bias[2 * n], kOnes, b[0], b[1]);
        multiply(bias[2 * n + 1], kOnes, b[2], b[3]);
      }
    }
  }
}

}  // namespace lacuna::mma
