// Rows that are compared with their checksums the first time they are read, so that a start reads
// nothing and a changed byte is never silent.
//
//   CheckedRows checked(field);
//   checked.check(t, 33, bytes);   // as they were read; throws Error naming file and row
//
// Later reads of the same rows cost one bit test a row. Safe to call from many threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "lacuna/recording/recording.h"

namespace lacuna {

class CheckedRows {
 public:
  // Maps the field's check file (4 bytes a row, or a block of small rows). Throws Error for one of
  // another length (one that has changed shows as a row that has), and for a .npy file whose header
  // does not say what the manifest says.
  explicit CheckedRows(const Field& field);

  // Rows first .. first + count - 1, as somebody has read them to `rows`. Only for fields of
  // check_rows == 1: stimuli, and rows of 512 bytes or more.
  void check(uint64_t first, uint64_t count, const std::byte* rows);
  // The same of any field, in a map of all its rows (Field::map()): whole blocks are compared.
  void check_mapped(uint64_t first, uint64_t count, const std::byte* field_rows);

  uint64_t memory_bytes() const;  // held by this object
  void forget();                  // compares all again; not while others check

 private:
  void check_block(uint64_t block, const std::byte* rows);

  std::string words_;  // "FILE: field 'stim'"
  uint64_t rows_, row_bytes_, check_rows_;
  Array checks_;                                         // u32 [blocks]
  std::unique_ptr<std::atomic<uint64_t>[]> is_checked_;  // bits
};

// The bytes before the rows in a .npy file. Throws Error where they are not those that were
// written; of a file of others, in place, where it no longer says dtype and rows of the field.
void check_header(const Field& field);
// All rows of a field, mapped as stored and compared. For small fields, and for who reads all.
Array read_checked(const Field& field);
// The rows that are not finite: u8 [T]; empty where there are none.
Array read_nan_rows(const Field& field);

}  // namespace lacuna
