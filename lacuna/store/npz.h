// NumPy's .npz files, written as a stream: several arrays in one zip file, uncompressed, none of
// them ever whole in memory.
//
//   NpzWriter file("pairs.npz");
//   const size_t genes = file.add("genes", DType::u16, {pairs, 2});
//   const size_t predicted = file.add("predicted", DType::f32, {pairs});
//   for (...) { file.append<uint16_t>(genes, ...); file.append<float>(predicted, ...); }
//   file.close();
//
// A shape is stated when an array is added, so every array has its place in the file from then on
// and all can grow side by side. Elements start at a multiple of 64 bytes of the file. Sizes are
// 64-bit ("zip64"): a file may be as large as the disk. The same arrays give the same bytes.
//
// The file is written beside its place and renamed by close() (AtomicFile): a reader sees all of
// it or nothing. Without close() nothing is left.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/system/file.h"

namespace lacuna {

class NpzWriter {
 public:
  explicit NpzWriter(const fs::path& path);  // throws Error when it cannot be created
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  // Announces an array; the number is for append().
  size_t add(const std::string& name, DType dtype, const Shape& shape);
  // A whole array at once: of numbers, and of texts (in NumPy an array of str). Throws Error for a
  // text that is not UTF-8.
  void add(const std::string& name, const Array& array);
  void add(const std::string& name, std::span<const std::string> texts);

  // The next elements of an array, in order.
  template <class T>
  void append(size_t array, std::span<const T> elements) {
    append(array, dtype_of<T>, std::as_bytes(elements));
  }
  // Every array must have got all of its elements. Flushes to the disk.
  void close();

 private:
  struct Member;
  size_t add(const std::string& name, std::string_view description, uint64_t item_bytes,
             const Shape& shape);
  void append(size_t array, DType dtype, std::span<const std::byte> bytes);
  void append_bytes(Member& member, std::string_view bytes);
  void flush(Member& member);
  void write(uint64_t place, std::string_view bytes);

  AtomicFile file_;
  int fd_ = -1;
  uint64_t end_ = 0;  // of the members so far
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace lacuna
