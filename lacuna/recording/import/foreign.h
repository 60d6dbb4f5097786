// Arrays as others keep them, read as streams of rows: .npy files, raw maps, torch files, HDF5,
// Zarr. Whoever imports sees arrays with names, and nothing of how they are stored.
//
//   ForeignSource source = open_foreign("session1.h5", {});
//   for (auto& array : source.arrays) array->read_rows(0, 100, out);
//
// The name of an array is its path in the source, parts joined by '/': "stim" of a file with one
// segment, "gratings/stim" of one with several. A folder is a source too: its files are arrays
// (.npy, .dat) or parts with arrays in them (.dset, .pt, .h5, .zarr, folders).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lacuna/core/text/json.h"
#include "lacuna/recording/recording.h"
#include "lacuna/store/zarr/element_type.h"

namespace lacuna {

class ForeignArray {
 public:
  ForeignArray(std::string name, std::string where, ElementType type, Shape shape);
  virtual ~ForeignArray() = default;

  std::string name;   // "gratings/stim"
  std::string where;  // for messages: "session1.h5: /gratings/stim"
  ElementType type;
  Shape shape;  // [T, ...], at least one dimension

  uint64_t rows() const { return shape[0]; }
  uint64_t row_elements() const;
  uint64_t row_bytes() const { return row_elements() * item_size(type); }
  // Blocks of a multiple of so many rows are read without unpacking anything twice.
  virtual uint64_t rows_together() const { return 1; }
  // (end - begin) rows in C order, little endian, of `type`. Cheapest in order. Throws Error that
  // names file and place.
  virtual void read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out) = 0;
  // Closes what reading has opened: a recording has thousands of arrays.
  virtual void release() {}
  // Where its bytes lie as they are to be used. Where they do not, `why` gets the reason: "its rows
  // lie in chunks".
  virtual std::optional<FieldPlace> place(std::string& why) const = 0;
};

struct ForeignSource {
  std::vector<std::unique_ptr<ForeignArray>> arrays;
  std::vector<std::string> skipped;  // "label: text is no array of numbers"
  // Arrays of numbers that cannot be read, and why. An import that does not leave them out stops
  // with these words.
  struct Unreadable {
    std::string name, why;
  };
  std::vector<Unreadable> unreadable;
  Json metadata = Json::object();  // what was stored beside the arrays: numbers, texts, lists
  std::map<std::string, Json> groups = {};  // the same of groups inside: "m1", "m1/gratings"

  // Of the groups that an array lies in, outermost first: an inner one says more than an outer one.
  Json metadata_of(const std::string& array) const;
};

struct ForeignOptions {
  std::string group;   // of HDF5 and Zarr, or a key of a torch file: "a/b"; empty: all
  std::string python;  // where one is needed; empty: LACUNA_PYTHON, else python3
};

// Throws Error that names the file and what is wrong with it: a kind of file that is not known, a
// codec or filter that is not read, a file cut short.
ForeignSource open_foreign(const fs::path& path, const ForeignOptions& options);

}  // namespace lacuna
