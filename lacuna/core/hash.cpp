#include "lacuna/core/hash.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lacuna {

struct Hasher::State {
  XXH3_state_t xxh;
};

uint64_t hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
uint64_t hash64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }
std::string hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

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
