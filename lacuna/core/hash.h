// Checksums and fingerprints: XXH3, 64 bits, written as 16 hex digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lacuna {

uint64_t hash64(std::span<const std::byte> bytes);
uint64_t hash64(std::string_view text);
std::string hex(uint64_t hash);                 // "00c0ffee00c0ffee"
uint64_t hash_from_hex(std::string_view text);  // throws Error unless it is 16 hex digits

// The same hash, of pieces that arrive one after another.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lacuna
