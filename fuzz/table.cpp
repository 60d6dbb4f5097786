// A table; the first byte says what stands between its cells. Compressed ones are targets of gz.
#include "lacuna/screen/import/table.h"

#include "fuzz/fuzz.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const fuzz::MemoryFile file;
  file.write(fuzz::text_of(data + 1, size - 1));
  constexpr char kSeparators[] = {',', '\t', ';', ' '};
  return fuzz::try_reading([&] {
    TableReader table({file.path(), kSeparators[data[0] % 4]});
    while (table.next())
      for (const std::string_view cell : table.cells()) {
        parse_number(cell);
        trimmed(cell);
      }
  });
}
