#include "lacuna/core/dtype.h"

#include <array>
#include <string>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

struct Info {
  std::string_view name;
  uint64_t size;
};
constexpr std::array<Info, 9> kInfo = {{{"u8", 1},
                                        {"u16", 2},
                                        {"u32", 4},
                                        {"u64", 8},
                                        {"i32", 4},
                                        {"i64", 8},
                                        {"bf16", 2},
                                        {"f32", 4},
                                        {"f64", 8}}};

}  // namespace

uint64_t item_size(DType dtype) { return kInfo.at(size_t(dtype)).size; }

std::string_view name(DType dtype) { return kInfo.at(size_t(dtype)).name; }

DType dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i)
    if (kInfo[i].name == name) return DType(i);
  throw Error("unknown dtype '{}'; this version knows u8, u16, u32, u64, i32, i64, bf16, f32, f64",
              name);
}

DType smallest_index_type(uint64_t node_count) {
  if (node_count <= 1u << 8) return DType::u8;
  if (node_count <= 1u << 16) return DType::u16;
  if (node_count <= uint64_t(1) << 32) return DType::u32;
  throw Error("{} nodes do not fit 32-bit indices; split the graph", node_count);
}

}  // namespace lacuna
