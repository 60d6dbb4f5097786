// Masks of a screen's samples, made ahead of time and kept on disk: the rungs disk:u8, disk:bits,
// disk:bf16 and disk:positions.
//
//   const MaskStore store = MaskStore::open("masks", screen);
//   expand_masks(store.layout(), store.form(), store.record(sample), out);
//
// A directory of format "lacuna.store" (docs/formats.md):
//   manifest.json   what it is of (a screen), the rung, the samples, and the fingerprint of what
//                   the masks were made from
//   data.mdb        LMDB: key = sample number, 4 bytes, big endian; value = a header of 48 bytes
//                   and the record (ops/masks/masks.h)
//   pages.npy       checksums of the pages that LMDB finds values by (store_pages.h)
// prepare_masks.h writes one, verify_masks.h looks for damage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/ops/masks/masks.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

// What a mask store holds and what it was made from: the members of its manifest that matter.
struct MaskStoreContents {
  static constexpr const char* kFormat = "lacuna.store";
  static constexpr int kVersion = 1;
  static constexpr const char* kOf = "screen";  // the manifest's member "of": what it was made from
  static DirectoryFormat format();              // of these two, with the files of a store
  struct Section {
    std::string name;
    uint64_t count;
  };

  MaskForm form = MaskForm::u8;
  GeneReactionView view = GeneReactionView::gene;
  uint64_t begin = 0, end = 0;    // samples begin to end - 1
  std::vector<Section> sections;  // of a record
  Fingerprint fingerprint;        // genes, nodes, edges, rules and these samples

  // Of samples begin to end - 1 of a screen; throws Error where it has fewer.
  static MaskStoreContents of(const Screen& screen, const RemovalRules& rules, MaskForm form,
                              uint64_t begin, uint64_t end);
  Json to_json() const;  // members to put into a manifest
  // Throws Error naming the store where it is one of something else than a screen.
  static MaskStoreContents from_json(const Json& json, const fs::path& store);
  // Throws Error naming the part that differs, and the command that mends it, unless these are
  // masks of this screen. A screen with more samples is no difference.
  void check_made_for(const Screen& screen, const fs::path& store) const;
};

// "disk:u8" and back; the latter throws Error, listing the four.
std::string disk_rung(MaskForm form);
MaskForm form_of_disk_rung(std::string_view rung);
// `lacuna prepare SCREEN --rung ... --out STORE`, for messages: for all samples of the screen, or
// for those and the view that a store is to hold.
std::string prepare_command(const Screen& screen, MaskForm form, const fs::path& store);
std::string prepare_command(const Screen& screen, const MaskStoreContents& contents,
                            const fs::path& store);

// What stands before every record. LMDB places values of half a page or more 16 bytes behind the
// start of a page, so that the record behind these 48 is aligned to 64.
struct MaskHeader {
  uint32_t version = 1;
  uint32_t form = 0;
  uint64_t sample = 0;
  uint64_t xxh3 = 0;   // of the record
  uint64_t bytes = 0;  // of the record
  uint64_t zero[2] = {0, 0};

  bool operator==(const MaskHeader&) const = default;
};
static_assert(sizeof(MaskHeader) == 48);
// The key of a sample. Samples are numbered below 2^32.
std::string mask_key(uint64_t sample);

// A finished store, open for reading. Copies share it and are cheap; a view is valid as long as one
// of them lives. Any number of threads may use it.
class MaskStore {
 public:
  // Reads the manifest and the pages that LMDB finds values by against their checksums, not the
  // values. Throws Error that says what is wrong and which command mends it when the store is
  // unfinished, made for another graph, other rules or other samples, being written to, cut short,
  // or has a damaged manifest or tree. That it was made for this screen is told by the screen's
  // fingerprint, so the screen must be a checked one (Screen::open()).
  static MaskStore open(const fs::path& path, const Screen& screen);

  const fs::path& path() const;
  MaskForm form() const;
  const MaskLayout& layout() const;  // u8: what records expand to
  GeneReactionView view() const;     // of the rules that the masks follow
  // It holds the masks of samples begin() to end() - 1, by their numbers in the screen.
  uint64_t begin() const;
  uint64_t end() const;
  uint64_t bytes() const;  // on disk, of all files

  // A view of the mapped file, without a copy. The first time that a sample is asked for its record
  // is read against the checksum in its header. Throws Error, with the commands that look further
  // and mend it, when the sample is not in the store, or its header or record is not as written.
  std::span<const std::byte> record(uint64_t sample) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// Manifests of stores had a checksum of their own ("xxh3": of all members but "format", "version"
// and "files") before all manifests got one. Throws Error where it does not match; false where the
// manifest has neither.
bool check_store_manifest(const Directory& store);
// The directory of a finished store and what it holds; throws Error as MaskStore::open() does, but
// looks no further than the manifest and the files whose checksums it has (pages.npy).
Directory open_mask_directory(const fs::path& path, const Screen& screen,
                              MaskStoreContents& contents);

}  // namespace lacuna
