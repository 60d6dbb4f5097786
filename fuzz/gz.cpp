// A compressed table.
#include "fuzz/fuzz.h"
#include "lacuna/screen/import/table.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryFile file;
  file.write(fuzz::text_of(data, size));
  return fuzz::try_reading([&] {
    TableReader table({file.path(), '\t'});
    for (uint64_t row = 0; row < 10000 && table.next(); ++row) table.where();
  });
}
