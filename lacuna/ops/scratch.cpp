#include "lacuna/ops/scratch.h"

#include <sys/mman.h>

#include <new>

namespace lacuna {

std::byte* allocate_scratch(size_t bytes) {
  constexpr size_t kLine = 64, kHugePage = size_t(2) << 20;
  const size_t alignment = bytes >= kHugePage / 4 ? kHugePage : kLine;
  const size_t size = (bytes + alignment - 1) / alignment * alignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(alignment, size > 0 ? size : kLine));
  if (data == nullptr) throw std::bad_alloc();
  // Where huge pages are refused the memory is the same, only slower.
  if (alignment == kHugePage) (void)::madvise(data, size, MADV_HUGEPAGE);
  return data;
}

}  // namespace lacuna
