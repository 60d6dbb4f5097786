#include "lacuna/core/hash.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>

#include "lacuna/core/error.h"

namespace lacuna {

struct Hasher::State {
  XXH3_state_t xxh;
};

uint64_t hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
uint64_t hash64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }
std::string hex(uint64_t hash) { return fmt::format("{:016x}", hash); }
uint64_t hash_from_hex(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || error != std::errc() || rest != end)
    throw Error("'{}' is not a checksum of 16 hex digits; the file that holds it was damaged",
                text);
  return value;
}

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
void Hasher::add(std::string_view text) { add(std::as_bytes(std::span(text))); }
uint64_t Hasher::value() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace lacuna
