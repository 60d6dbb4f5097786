// Checksums of the pages that LMDB finds values by.
//
// LMDB keeps none, and a damaged page of its tree can crash whoever reads it. Large values lie in
// pages of their own and bring their own checksums; all other pages of data.mdb (the two first, the
// tree, the list of free ones) are few, about one in a hundred thousand at yeast size in u8. Their
// checksums are kept in pages.npy, so that damage is seen before LMDB meets it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/store/directory.h"

namespace lacuna {

class StorePages {
 public:
  static constexpr const char* kData = "data.mdb";
  static constexpr const char* kFile = "pages.npy";

  // Of the LMDB in a directory, by walking through it; it must be whole. Where values are small
  // every page is one of the tree, and all of the file is read: it looks at the stop flag
  // (core/system/stop.h) meanwhile.
  static StorePages measure(const fs::path& directory);
  // As a finished store has them written down.
  static StorePages of(const Directory& store);

  // pages.npy: [P, 2] u64, page number and XXH3 of the page.
  Array array() const;
  Json to_json() const;                                // the manifest's member "lmdb"
  uint64_t file_bytes() const { return file_bytes_; }  // of data.mdb
  uint64_t page_bytes() const { return page_bytes_; }
  uint64_t size() const { return sums_.size() / 2; }

  // One line for each thing that is not as written down: the size of data.mdb, or pages.
  std::vector<std::string> faults() const;
  // Throws Error with the first of them.
  void check() const;

 private:
  fs::path data_;
  uint64_t file_bytes_ = 0, page_bytes_ = 0;
  std::vector<uint64_t> sums_;  // [P, 2], pages ascending
};

}  // namespace lacuna
