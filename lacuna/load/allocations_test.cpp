// Counts every allocation of this test program, so that other tests can show that there are none.
// In a file of its own: where the compiler sees into operator new, it takes its malloc() for a
// mistake.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace {
std::atomic<uint64_t> count = 0;
}

// AddressSanitizer brings its own operator new, and takes a second one for a mistake.
#ifndef __SANITIZE_ADDRESS__
void* operator new(size_t size) {
  ++count;
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace lacuna {

uint64_t allocations();
uint64_t allocations() { return count; }

bool counts_allocations();
bool counts_allocations() {
#ifdef __SANITIZE_ADDRESS__
  return false;
#else
  return true;
#endif
}

namespace {

TEST(Allocations, AreCounted) {
  if (!counts_allocations()) GTEST_SKIP() << "AddressSanitizer has its own operator new";
  const uint64_t before = allocations();
  std::vector<int> values(1);
  values.resize(values.capacity() + 1);
  EXPECT_EQ(allocations() - before, 2u);
}

}  // namespace
}  // namespace lacuna
