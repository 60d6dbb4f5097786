// An LMDB that is damaged: of a whole one (the first byte is even: the others are changes), or any
// bytes. LMDB itself meets them only in the child of LmdbRecords, which may die of them.
#include "lacuna/store/lmdb.h"
#include "fuzz/fuzz.h"
#include "lacuna/store/lmdb_records.h"

using namespace lacuna;

namespace {

std::string write_whole(const fs::path& directory) {
  fs::create_directory(directory);
  LmdbWriter writer(directory);
  const std::string small(50, 's'), large(5000, 'l');
  writer.begin(8, 8 * large.size());
  for (char key = '0'; key < '8'; ++key)
    writer.append(std::string(1, key), std::as_bytes(std::span(key == '3' ? large : small)));
  writer.commit();
  return read_text(directory / "data.mdb");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const fuzz::MemoryDirectory directory;
  static const std::string whole = write_whole(directory / "whole");
  fuzz::write_file(directory / "data.mdb", data[0] % 2 == 0
                                               ? fuzz::patched(whole, data + 1, size - 1)
                                               : fuzz::text_of(data + 1, size - 1));
  return fuzz::try_reading([&] {
    LmdbRecords records(directory.path());
    uint64_t count = 0;
    for (; records.next(); ++count) {
      fuzz::touch(std::as_bytes(std::span(records.key())));
      fuzz::touch(records.value());
    }
    LACUNA_ASSERT(count == records.entries());
  });
}
