// Working memory of an operator: aligned to cache lines, not cleared, given back at the end of the
// call.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace lacuna {

// Large pieces ask for huge pages: rows are read in random order, and each in a 4 KB page of its
// own would cost a table walk.
std::byte* allocate_scratch(size_t bytes);

// Asks the system for huge pages in [data, data + bytes), where none are in use yet; no byte
// changes. A large result that is written for the first time then costs a 512th of the page faults,
// and its scattered rows fewer table walks.
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
