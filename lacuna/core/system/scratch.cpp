#include "lacuna/core/system/scratch.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace lacuna {

namespace {
constexpr size_t kLine = 64, kHugePage = size_t(2) << 20;
}

std::byte* allocate_scratch(size_t bytes) {
  const size_t alignment = bytes >= kHugePage / 4 ? kHugePage : kLine;
  const size_t size = (bytes + alignment - 1) / alignment * alignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(alignment, size > 0 ? size : kLine));
  if (data == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) ask_for_huge_pages(data, size);
  return data;
}

void ask_for_huge_pages(void* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data), end = begin + bytes;
  const uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = end / kHugePage * kHugePage;
  // Where the system refuses, the memory is the same, only slower.
  if (first < last) (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace lacuna
