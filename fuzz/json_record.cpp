// One record of an LMDB of JSON records, plain or compressed.
#include "lacuna/screen/import/json_record.h"

#include "fuzz/fuzz.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static JsonRecordReader reader;
  JsonRecord record;
  return fuzz::try_reading([&] { reader.read(std::as_bytes(std::span(data, size)), record); });
}
