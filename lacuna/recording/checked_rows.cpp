#include "lacuna/recording/checked_rows.h"

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/store/npy.h"
#include "lacuna/store/zarr/read_at.h"

namespace lacuna {
namespace {

uint64_t check_count(const Field& field) {
  return (field.rows() + field.check_rows - 1) / field.check_rows;
}

// Whether a .npy file that others wrote still says what it said.
bool says_the_same(const Field& field) {
  const Array found = read_npy(field.place.file);
  const DType dtype = field.dtype == DType::bf16 ? DType::u16 : field.dtype;
  return found.dtype() == dtype && found.shape()[0] == field.rows() &&
         found.bytes().size() == field.bytes();
}

}  // namespace

void check_header(const Field& field) {
  if (field.place.offset == 0 || field.place.file.extension() != ".npy") return;
  const Shape shape = field.packed ? Shape{field.rows(), field.row_bytes()} : field.shape;
  const std::string wanted = npy_header(npy_description(field.dtype), shape);
  std::string found(wanted.size(), '\0');
  if (wanted.size() == field.place.offset)
    OpenFile(field.place.file).read(0, std::as_writable_bytes(std::span(found)));
  if (found == wanted || (field.place.in_place && says_the_same(field))) return;
  throw Error(
      "{}: the header before the rows of field '{}' has changed since the recording was made; "
      "restore the file, or import the session again",
      field.place.file.string(), field.name);
}

CheckedRows::CheckedRows(const Field& field)
    : words_(fmt::format("{}: field '{}'", field.place.file.string(), field.name)),
      rows_(field.rows()),
      row_bytes_(field.row_bytes()),
      check_rows_(field.check_rows),
      checks_(read_npy(field.check_file)) {
  check_header(field);
  const uint64_t blocks = check_count(field);
  if (checks_.dtype() != DType::u32 || checks_.shape() != Shape{blocks})
    throw Error("{}: not u32 [{}], one a row of field '{}'; restore it or make it again",
                field.check_file.string(), blocks, field.name);
  is_checked_ = std::make_unique<std::atomic<uint64_t>[]>((blocks + 63) / 64);
}

void CheckedRows::check_block(uint64_t block, const std::byte* rows) {
  std::atomic<uint64_t>& word = is_checked_[block / 64];
  const uint64_t bit = uint64_t(1) << (block % 64);
  if (word.load(std::memory_order_relaxed) & bit) return;
  const uint64_t first = block * check_rows_;
  const uint64_t count = std::min(check_rows_, rows_ - first);
  if (uint32_t(hash64(std::span(rows, count * row_bytes_))) != checks_.as<uint32_t>()[block])
    throw Error(
        "{}: the bytes of row {} have changed since the recording was made; restore the file, or "
        "import the session again",
        words_,
        count == 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, first + count - 1));
  word.fetch_or(bit, std::memory_order_relaxed);
}

void CheckedRows::check(uint64_t first, uint64_t count, const std::byte* rows) {
  LACUNA_ASSERT(check_rows_ == 1 && first + count <= rows_);
  for (uint64_t r = 0; r < count; ++r) check_block(first + r, rows + r * row_bytes_);
}

void CheckedRows::check_mapped(uint64_t first, uint64_t count, const std::byte* field_rows) {
  LACUNA_ASSERT(first + count <= rows_);
  if (count == 0) return;
  for (uint64_t b = first / check_rows_; b <= (first + count - 1) / check_rows_; ++b)
    check_block(b, field_rows + b * check_rows_ * row_bytes_);
}

uint64_t CheckedRows::memory_bytes() const { return (checks_.size() + 63) / 64 * 8; }

void CheckedRows::forget() {
  for (uint64_t w = 0; w < (checks_.size() + 63) / 64; ++w)
    is_checked_[w].store(0, std::memory_order_relaxed);
}

Array read_checked(const Field& field) {
  const Array rows = field.map();
  CheckedRows(field).check_mapped(0, field.rows(), rows.bytes().data());
  return rows;
}

Array read_nan_rows(const Field& field) {
  if (field.nan_rows == 0) return {};
  const Array rows = read_npy(field.nan_file);
  if (rows.dtype() != DType::u8 || rows.shape() != Shape{field.rows()})
    throw Error("{}: not u8 [{}]; restore it or make it again", field.nan_file.string(),
                field.rows());
  const auto ones = rows.as<uint8_t>();
  const bool is_flags = std::all_of(ones.begin(), ones.end(), [](uint8_t one) { return one <= 1; });
  if (!is_flags || uint64_t(std::count(ones.begin(), ones.end(), uint8_t(1))) != field.nan_rows)
    throw Error("{}: its bytes have changed; restore it or make it again", field.nan_file.string());
  return rows;
}

}  // namespace lacuna
