// An array whose elements lie in a file as they are, from a place on, at given strides.
#pragma once

#include "lacuna/recording/import/foreign.h"
#include "lacuna/store/zarr/read_at.h"

namespace lacuna {

class RawArray : public ForeignArray {
 public:
  struct Layout {
    uint64_t offset = 0;
    std::vector<uint64_t> strides = {};  // in elements; empty: C order
    bool is_big_endian = false;
  };
  // Throws Error for a file that is too short for it.
  RawArray(const fs::path& file, std::string name, std::string where, ElementType type, Shape shape,
           Layout layout);

  void read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out) override;
  void release() override { file_ = OpenFile(); }
  std::optional<FieldPlace> place(std::string& why) const override;

 private:
  void gather(uint64_t begin, uint64_t end, std::span<std::byte> out);

  fs::path path_;
  OpenFile file_;  // opened by the first read
  Layout layout_;
  bool is_contiguous_;
  std::vector<std::byte> piece_;
};

// The strides of C order, and of Fortran order.
std::vector<uint64_t> c_strides(const Shape& shape);
std::vector<uint64_t> fortran_strides(const Shape& shape);

}  // namespace lacuna
