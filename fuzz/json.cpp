// JSON text, and the seals of text files. What is sealed is intact, and not when a byte changes.
#include "lacuna/core/text/json.h"

#include "fuzz/fuzz.h"
#include "lacuna/core/seal.h"

using namespace lacuna;

namespace {

void expect_seal(const std::string& text, Seal (*seal_of)(std::string_view), size_t place) {
  LACUNA_ASSERT(seal_of(text) == Seal::intact);
  std::string damaged = text;
  damaged[place % text.size()] ^= 1;
  LACUNA_ASSERT(seal_of(damaged) == Seal::broken);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  seal_of_json(text);
  seal_of_json_line(text);
  seal_of_yaml(text);
  expect_seal(sealed_yaml(std::string(text)), seal_of_yaml, size * 7);
  return fuzz::try_reading([&] {
    const Json json = parse_json(text, "text");
    if (!json.is_object() || json.empty() || json.contains("checksum")) return;
    expect_seal(sealed_json(json), seal_of_json, size * 7);
    expect_seal(sealed_json_line(json), seal_of_json_line, size * 7);
  });
}
