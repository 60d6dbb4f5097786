// Working memory of an operator: aligned to cache lines, not cleared, given back at the end of the
// call.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace lacuna {

// Large pieces ask for huge pages: a slab is read in random order, and 4 KB pages cost a table walk
// a row.
std::byte* allocate_scratch(size_t bytes);

// Asks the system for huge pages behind [data, data + bytes), where it can still choose; nothing
// else changes. A large result that is written for the first time costs one page fault in 512, and
// its scattered rows fewer table walks.
void ask_for_huge_pages(void* data, size_t bytes);

template <class T>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(size_t count)
      : data_(reinterpret_cast<T*>(allocate_scratch(count * sizeof(T)))) {}
  T* get() const { return data_.get(); }
  T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
};

}  // namespace lacuna
