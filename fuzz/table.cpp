// A table; the first byte says what stands between its cells, and how it is read. Compressed
// ones are targets of gz.
#include "lacuna/screen/import/table.h"

#include "fuzz/fuzz.h"
#include "lacuna/screen/import/spreadsheet_date.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const fuzz::MemoryFile file;
  file.write(fuzz::text_of(data + 1, size - 1));
  constexpr char kSeparators[] = {',', '\t', ';', ' '};
  return fuzz::try_reading([&] {
    TableSource source = {file.path(), kSeparators[data[0] % 4]};
    source.header = (data[0] & 4) == 0;
    source.decimal = (data[0] & 8) == 0 ? '.' : ',';
    source.row_names = (data[0] & 16) != 0;
    TableReader table(source);
    while (table.next())
      for (const std::string_view cell : table.cells()) {
        parse_number(cell, table.decimal());
        name_before_date(trimmed(cell));
      }
  });
}
